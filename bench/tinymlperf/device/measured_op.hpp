// One op on a GPU, once, and how long it took: on fresh addresses, with cold caches, on inputs that came just
// now.
//
//   1  the inputs are copied to a place that no earlier query used; output, scratch memory and the space
//   between are
//      filled with marks
//   2  the program is loaded anew and runs once on zeros, elsewhere: what a first run costs is not the op's
//   3  the L2 cache is filled with something else
//   4  a kernel of the judge's turns for 20 us, which says how fast the clock is, and covers the way to the
//   launches 5  an event, the op, an event 6  the output is copied away; the op runs on the zeros again, so
//   that whatever it owes is written 7  an output that is another one now, inputs that changed and marks that
//   are gone are told
// The time is the stream's own; a host's clock on either side says whether it can be true.
#pragma once

#include <chrono>
#include <optional>
#include <random>
#include <tinymlperf/device/architecture.hpp>
#include <tinymlperf/device/program.hpp>
#include <tinytorch/profiling/timer.hpp>

namespace tinymlperf::device {

namespace cuda = tinytorch::backend::cuda;

// What an answer says beside the output: f64 [3], in this order.
struct Report {
  double seconds = 0;       // between the events
  double host_seconds = 0;  // from before the turning kernel to after the op
  double clock = 0;         // of the multiprocessors, in cycles per second
};

struct MeasuredOutput {
  std::vector<std::byte> bytes;
  Report report;
  std::string complaint;  // what the op did that no op may; empty: nothing
};

namespace detail {

// Cycles and nanoseconds of one thread that turns for about 20 us.
inline const SourceFile& clock_source() {
  static const SourceFile source{"clock.cu", R"(
__device__ unsigned long long nanoseconds() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
__global__ void turn(double* out) {
  unsigned long long start = nanoseconds();
  while (nanoseconds() == start) {}  // it may tick slowly: from one tick
  start = nanoseconds();
  const long long from = clock64();
  unsigned long long now = start;
  while (now - start < 20000) now = nanoseconds();
  out[0] = static_cast<double>(clock64() - from);
  out[1] = static_cast<double>(now - start);
}
)"};
  return source;
}

class DeviceClock {
 public:
  explicit DeviceClock(const std::string& architecture)
      : module_(compile(clock_source(), {}, {"turn"}, architecture)),
        out_(static_cast<double*>(cuda::allocate(2 * sizeof(double), 0))) {}
  ~DeviceClock() { cuda::deallocate(out_, 2 * sizeof(double), 0); }
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;
  void turn() {
    const Value argument = Value::of(Argument::Kind::pointer, out_);
    module_.launch("turn", {}, std::span(&argument, 1));
  }
  // The clock rate of the GPU during the last turn; 0 if it is not known.
  double cycles_per_second() const {
    double both[2];
    cuda::copy_bytes(both, tinytorch::cpu, out_, tinytorch::cuda, sizeof both);
    return both[1] > 0 ? both[0] / both[1] * 1e9 : 0;
  }

 private:
  DeviceModule module_;
  double* out_;
};

// Pieces of one block of memory; each begins at a place that nobody can foresee.
class Places {
 public:
  static constexpr size_t kBytes = size_t{2} << 30,
                          kMark = 4096;  // bytes of marks before and after each piece
  static constexpr int kMarkByte = 0xA5;

  Places() : block_(static_cast<char*>(cuda::allocate(kBytes, 0))) {}
  ~Places() { cuda::deallocate(block_, kBytes, 0); }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  void start() {
    at_ = random_() % (size_t{64} << 20) / 512 * 512;
    begin_ = at_;
    pieces_.clear();
  }
  char* take(size_t bytes) {
    at_ += kMark + random_() % 64 * 512;
    if (at_ + bytes + 2 * kMark > kBytes)
      throw std::invalid_argument("the op needs more than 2 GiB of memory");
    char* const piece = block_ + at_;
    pieces_.push_back({at_, bytes});
    at_ += (bytes + 511) / 512 * 512 + kMark;
    return piece;
  }
  // All that was taken, and all between.
  void mark() { cuda::fill_bytes(block_ + begin_, kMarkByte, at_ - begin_, 0); }
  bool marks_stand() const {
    std::vector<unsigned char> found(kMark);
    for (const Piece& p : pieces_)
      for (const size_t at : {p.at - kMark, p.at + p.bytes}) {
        cuda::copy_bytes(found.data(), tinytorch::cpu, block_ + at, tinytorch::cuda, kMark);
        if (std::ranges::any_of(found, [](unsigned char c) { return c != kMarkByte; })) return false;
      }
    return true;
  }

 private:
  struct Piece {
    size_t at, bytes;
  };
  char* block_;
  size_t at_ = 0, begin_ = 0;
  std::vector<Piece> pieces_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace detail

// Audit A5: the bytes of an output as it was given, and after a later launch. Empty: they are the same.
inline std::string late_change(std::span<const std::byte> given, std::span<const std::byte> later) {
  const auto changed = std::ranges::mismatch(given, later).in1 - given.begin();
  if (changed == std::ssize(given)) return "";
  return "audit A5, output fingerprint: byte " + std::to_string(changed) +
         " of its output changed after it was given";
}

class OpRunner {
 public:
  explicit OpRunner(Program& program)
      : program_(program), clock_(architecture_of(cuda::properties(0))), flush_(tinytorch::cuda) {}

  MeasuredOutput operator()(const std::string& op, std::span<const channel::Tensor> in, const Shape& out) {
    const size_t out_bytes = 4 * static_cast<size_t>(elements(out));
    places_.start();
    Buffers real = buffers_of(op, in, out), zeros = buffers_of(op, in, out);
    places_.mark();
    for (size_t i = 0; i < in.size(); ++i) {
      cuda::copy_bytes(real.in[i], tinytorch::cuda, in[i].bytes.data(), tinytorch::cpu, in[i].bytes.size());
      cuda::fill_bytes(zeros.in[i], 0, in[i].bytes.size(), 0);
    }
    for (void* place : {real.out, zeros.out}) cuda::fill_bytes(place, 0xFF, out_bytes, 0);  // NaN
    program_.load(op);
    program_.queue(op, zeros);
    flush_();
    cuda::synchronize();
    MeasuredOutput result{std::vector<std::byte>(out_bytes), timed(op, real), ""};
    cuda::copy_bytes(result.bytes.data(), tinytorch::cpu, real.out, tinytorch::cuda, out_bytes);
    program_.queue(op, zeros);
    cuda::synchronize();
    std::vector<std::byte> later(out_bytes);
    cuda::copy_bytes(later.data(), tinytorch::cpu, real.out, tinytorch::cuda, out_bytes);
    result.complaint = late_change(result.bytes, later);
    if (result.complaint.empty()) result.complaint = complaint_of(real, in);
    return result;
  }

 private:
  static int64_t elements(const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }
  Buffers buffers_of(const std::string& op, std::span<const channel::Tensor> in, const Shape& out) {
    Buffers b;
    b.shapes.out = out;
    for (const channel::Tensor& t : in) {
      b.shapes.in.push_back(t.shape), b.types.push_back(t.dtype);
      b.in.push_back(places_.take(t.bytes.size()));
    }
    b.out = places_.take(4 * static_cast<size_t>(elements(out)));
    b.workspace = places_.take(static_cast<size_t>(program_.workspace(op, b.shapes)));
    return b;
  }
  Report timed(const std::string& op, const Buffers& buffers) {
    using HostClock = std::chrono::steady_clock;
    const auto begin = HostClock::now();
    clock_.turn();
    begin_.record();
    program_.queue(op, buffers);
    end_.record();
    end_.synchronize();
    const std::chrono::duration<double> host = HostClock::now() - begin;
    return {1e-3 * end_.milliseconds_since(begin_), host.count(), clock_.cycles_per_second()};
  }
  std::string complaint_of(const Buffers& b, std::span<const channel::Tensor> in) const {
    std::vector<std::byte> now;
    for (size_t i = 0; i < in.size(); ++i) {
      now.resize(in[i].bytes.size());
      cuda::copy_bytes(now.data(), tinytorch::cpu, b.in[i], tinytorch::cuda, now.size());
      if (!std::ranges::equal(now, in[i].bytes)) return "it changed its input in" + std::to_string(i);
    }
    return places_.marks_stand() ? "" : "it wrote beside its output and its workspace";
  }

  Program& program_;
  detail::Places places_;
  detail::DeviceClock clock_;
  tinytorch::profiling::CacheFlush flush_;
  cuda::Event begin_, end_;
};

}  // namespace tinymlperf::device
