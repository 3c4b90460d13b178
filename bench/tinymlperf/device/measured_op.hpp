// Runs an op on a GPU once and measures its time: at random addresses, with cold caches, on new inputs.
//
//   1  Copy the inputs to random addresses. Fill the output with NaN, all other memory with guard bytes.
//   2  Load the program again and run it elsewhere, on zeros and the same integers (indices, lengths,
//      tables), so that the cost of a first run is not measured. Packed weights are others, too: whoever
//      decodes them here and keeps the result has that of another weight.
//   3  Flush the L2 cache.
//   4  Run a kernel that spins for 20 us. It measures the clock rate and hides the latency of the launches.
//   5  Record an event, run the op, record an event.
//   6  Copy the output. Run the op on the zeros again, which would execute writes that it deferred.
//   7  Report an output that differs from that of step 6, inputs that changed, and overwritten guard bytes.
// The time is that between the events. The host's clock around them says whether it is plausible (audit A10).
#pragma once

#include <chrono>
#include <optional>
#include <random>
#include <tinymlperf/device/architecture.hpp>
#include <tinymlperf/device/program.hpp>
#include <tinymlperf/ops/sizes.hpp>
#include <tinymlperf/ops/tasks.hpp>
#include <tinytorch/core/shape.hpp>
#include <tinytorch/profiling/timer.hpp>

namespace tinymlperf::device {

namespace cuda = tinytorch::backend::cuda;

// The times in an answer: f64 [3], in this order.
struct Report {
  double seconds = 0;       // between the events
  double host_seconds = 0;  // host clock, from before the spinning kernel to after the op
  double clock = 0;         // clock rate of the multiprocessors in cycles per second, 0: unknown
};

struct MeasuredOutput {
  std::vector<std::byte> bytes;
  Report report;
  std::string complaint;  // what the op did wrong; empty if nothing
};

namespace detail {

// A kernel of one thread that spins for about 20 us and writes the elapsed cycles and nanoseconds.
inline const SourceFile& clock_source() {
  static const SourceFile source{"clock.cu", R"(
__device__ unsigned long long nanoseconds() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
__global__ void spin(double* out) {
  unsigned long long start = nanoseconds();
  while (nanoseconds() == start) {}  // the timer may tick slowly, so begin at a tick
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
      : module_(compile(clock_source(), {}, {"spin"}, architecture)),
        out_(static_cast<double*>(cuda::allocate(2 * sizeof(double), 0))) {}
  ~DeviceClock() { cuda::deallocate(out_, 2 * sizeof(double), 0); }
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;
  void spin() {
    const Value argument = Value::of(Argument::Kind::pointer, out_);
    module_.launch("spin", {}, std::span(&argument, 1));
  }
  // The clock rate of the GPU during the last spin(); 0 if it is not known.
  double cycles_per_second() const {
    double both[2];
    cuda::copy_bytes(both, tinytorch::cpu, out_, tinytorch::cuda, sizeof both);
    return both[1] > 0 ? both[0] / both[1] * 1e9 : 0;
  }

 private:
  DeviceModule module_;
  double* out_;
};

// An arena in one block of memory. Its pieces have random offsets and guard bytes before and after them.
class GuardedArena {
 public:
  static constexpr size_t kGuard = 4096;  // guard bytes before and after each piece
  static constexpr int kGuardByte = 0xA5;
  static constexpr size_t kStarts = size_t{64} << 20, kSteps = 64, kStep = 512;  // of the random offsets

  // The most bytes that start() and one take(b) for each b of `pieces` use.
  static size_t bytes_for(std::span<const size_t> pieces) {
    size_t all = kStarts + 2 * kGuard;
    for (const size_t bytes : pieces) all += 2 * kGuard + kSteps * kStep + tinytorch::round_up(bytes, kStep);
    return all;
  }

  explicit GuardedArena(size_t bytes) : bytes_(bytes), block_(static_cast<char*>(cuda::allocate(bytes, 0))) {}
  ~GuardedArena() { cuda::deallocate(block_, bytes_, 0); }
  GuardedArena(const GuardedArena&) = delete;
  GuardedArena& operator=(const GuardedArena&) = delete;

  void start() {
    at_ = random_() % kStarts / kStep * kStep;
    begin_ = at_;
    pieces_.clear();
  }
  char* take(size_t bytes) {
    at_ += kGuard + random_() % kSteps * kStep;
    if (at_ + bytes + 2 * kGuard > bytes_)
      throw std::invalid_argument("the op needs more memory than the tasks and the largest workspace");
    char* const piece = block_ + at_;
    pieces_.push_back({at_, bytes});
    at_ += tinytorch::round_up(bytes, kStep) + kGuard;
    return piece;
  }
  // Fills all pieces and the space between them.
  void fill_with_guard_bytes() { cuda::fill_bytes(block_ + begin_, kGuardByte, at_ - begin_, 0); }
  bool guards_are_intact() const {
    std::vector<unsigned char> found(kGuard);
    for (const Piece& p : pieces_)
      for (const size_t at : {p.at - kGuard, p.at + p.bytes}) {
        cuda::copy_bytes(found.data(), tinytorch::cpu, block_ + at, tinytorch::cuda, kGuard);
        if (std::ranges::any_of(found, [](unsigned char c) { return c != kGuardByte; })) return false;
      }
    return true;
  }

 private:
  struct Piece {
    size_t at, bytes;
  };
  size_t bytes_;
  char* block_;
  size_t at_ = 0, begin_ = 0;
  std::vector<Piece> pieces_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace detail

// Fills an input of a run that is not measured, which has the size of `in`: zeros, or the same integers that
// say where numbers are. Packed bytes are `packed`.
inline void fill_idle(void* to, const channel::Tensor& in, uint8_t packed) {
  if (in.dtype == channel::DType::i32 || in.dtype == channel::DType::i64)
    return cuda::copy_bytes(to, tinytorch::cuda, in.bytes.data(), tinytorch::cpu, in.bytes.size());
  cuda::fill_bytes(to, in.dtype == channel::DType::u8 ? packed : 0, in.bytes.size(), 0);
}

// Audit A5: compares the bytes of an output when it was given with those after a later launch. Returns an
// empty text if they are the same.
inline std::string late_change(std::span<const std::byte> given, std::span<const std::byte> later) {
  const auto changed = std::ranges::mismatch(given, later).in1 - given.begin();
  if (changed == std::ssize(given)) return "";
  return "audit A5, output fingerprint: byte " + std::to_string(changed) +
         " of the output changed after it was given";
}

// The sizes of the pieces that OpRunner takes for an op: inputs, output and the largest workspace, twice.
inline std::vector<size_t> pieces_of(const judge::kernels::KernelTask& task, const Shape& sides) {
  std::vector<size_t> out;
  for (int i = 0; i < 2; ++i) {
    for (const judge::kernels::Operand& o : task.operands(sides))
      out.push_back(judge::kernels::bytes_of_operand(o));
    out.push_back(judge::kernels::output_bytes(task, sides));
    out.push_back(static_cast<size_t>(limits::kWorkspaceBytes));
  }
  return out;
}
// The memory in which every op of every shape fits.
inline size_t arena_bytes(const std::vector<judge::kernels::KernelTask>& tasks) {
  size_t most = 0;
  for (const judge::kernels::KernelTask& task : tasks)
    for (const Shape& sides : judge::kernels::largest_shapes(task))
      most = std::max(most, detail::GuardedArena::bytes_for(pieces_of(task, sides)));
  return most;
}

class OpRunner {
 public:
  explicit OpRunner(Program& program)
      : program_(program),
        arena_(arena_bytes(judge::kernels::tasks())),
        clock_(architecture_of(cuda::properties(0))),
        flush_(tinytorch::cuda) {}

  MeasuredOutput operator()(const std::string& op, std::span<const channel::Tensor> in, const Shape& out,
                            channel::DType result_type) {
    const size_t out_bytes = channel::bytes_of_one(result_type) * static_cast<size_t>(elements(out));
    arena_.start();
    Buffers real = buffers_of(op, in, out, result_type), zeros = buffers_of(op, in, out, result_type);
    arena_.fill_with_guard_bytes();
    for (size_t i = 0; i < in.size(); ++i) {
      cuda::copy_bytes(real.in[i], tinytorch::cuda, in[i].bytes.data(), tinytorch::cpu, in[i].bytes.size());
      fill_idle(zeros.in[i], in[i], judge::kernels::task_named(op).idle_byte);
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
  Buffers buffers_of(const std::string& op, std::span<const channel::Tensor> in, const Shape& out,
                     channel::DType result) {
    Buffers b;
    b.shapes.out = out, b.result = result;
    for (const channel::Tensor& t : in) {
      b.shapes.in.push_back(t.shape), b.types.push_back(t.dtype);
      b.in.push_back(arena_.take(t.bytes.size()));
    }
    b.out = arena_.take(channel::bytes_of_one(result) * static_cast<size_t>(elements(out)));
    b.workspace = arena_.take(static_cast<size_t>(program_.workspace(op, b.shapes)));
    return b;
  }
  Report timed(const std::string& op, const Buffers& buffers) {
    using HostClock = std::chrono::steady_clock;
    const auto begin = HostClock::now();
    clock_.spin();
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
      if (!std::ranges::equal(now, in[i].bytes)) return "the op changed its input in" + std::to_string(i);
    }
    return arena_.guards_are_intact() ? "" : "the op wrote outside of its output and its workspace";
  }

  Program& program_;
  detail::GuardedArena arena_;
  detail::DeviceClock clock_;
  tinytorch::profiling::CacheFlush flush_;
  cuda::Event begin_, end_;
};

}  // namespace tinymlperf::device
