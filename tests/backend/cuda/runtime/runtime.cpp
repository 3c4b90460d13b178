// Devices, streams, events, copies, pinned memory and error messages.
#include <cstring>
#include <support/device.hpp>
#include <support/errors.hpp>
#include <thread>

namespace tt = tinytorch;
namespace cuda = tinytorch::backend::cuda;
using test::DeviceBytes;
using test::needs_devices;

namespace {

// Keeps the current stream busy for some milliseconds.
struct BusyWork {
  DeviceBytes block{TINYTORCH_CUDA_SIM ? size_t{1} << 16 : size_t{1} << 28};
  void queue(int times) const {
    for (int k = 0; k < times; ++k) block.fill(k);
  }
};

std::vector<unsigned char> pattern(size_t bytes, unsigned seed) {
  std::vector<unsigned char> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<unsigned char>((i * 131 + i / 251 + seed) % 253);
  return out;
}

}  // namespace

TEST_CASE("queries work with and without a device") {
  CHECK(cuda::is_available() == (cuda::device_count() > 0));
  if (!cuda::is_built()) CHECK(cuda::device_count() == 0);
  CHECK(!cuda::is_capturing());
}

TEST_CASE("properties of the device" * needs_devices()) {
  const cuda::DeviceProperties& p = cuda::properties(0);
  CHECK(!p.name.empty());
  CHECK(p.major >= 7);
  CHECK(p.multiprocessors > 0);
  CHECK(p.threads_per_multiprocessor >= 1024);
  CHECK(p.shared_per_block >= 48 * 1024);
  CHECK(p.shared_per_block_optin >= p.shared_per_block);
  CHECK(p.shared_per_multiprocessor >= p.shared_per_block_optin);
  CHECK(&cuda::properties(0) == &p);
  const cuda::DeviceMemory memory = cuda::device_memory(0);
  CHECK(memory.free <= memory.total);
  CHECK(memory.total > 0);
  CHECK(cuda::driver_version() >= 11000);
  CHECK(cuda::runtime_version() >= 11000);
}

TEST_CASE("the error for a missing device names it and the number of devices" * needs_devices()) {
  const int count = cuda::device_count();
  const std::string wrong = "TT-CUDA-04: cuda:" + std::to_string(count) +
                            ": there is no such device\n  hint: this machine has " + std::to_string(count) +
                            (count == 1 ? " device" : " devices") + ", numbered from 0";
  errors::check_error(wrong, [&] { cuda::set_device(count); });
  errors::check_error(wrong, [&] { cuda::allocate(16, count); });
  errors::check_error(wrong, [&] { cuda::properties(count); });
  errors::check_error(wrong, [&] { const cuda::Stream stream(count); });
  errors::check_error(wrong, [&] { const cuda::DeviceGuard guard(count); });
  test::expect_error("TT-CUDA-04", "cuda:-1: there is no such device", [] { cuda::allocate(16, -1); });
  CHECK(cuda::current_device() == 0);
}

TEST_CASE("DeviceGuard changes the device of its thread for its scope" * needs_devices(2)) {
  CHECK(cuda::current_device() == 0);
  {
    const cuda::DeviceGuard guard(1);
    CHECK(cuda::current_device() == 1);
    std::thread([] { CHECK(cuda::current_device() == 0); }).join();
    {
      const cuda::DeviceGuard inner(0);
      CHECK(cuda::current_device() == 0);
    }
    CHECK(cuda::current_device() == 1);
  }
  CHECK(cuda::current_device() == 0);
}

TEST_CASE("each thread has its own current stream, at first the default stream" * needs_devices()) {
  CHECK(cuda::current_stream() == nullptr);
  const cuda::Stream a, b(0, -1);
  CHECK(a.handle() != nullptr);
  CHECK(a.handle() != b.handle());
  {
    const cuda::StreamGuard guard(a);
    CHECK(cuda::current_stream() == a.handle());
    CHECK(cuda::current_stream(0) == a.handle());
    std::thread([] { CHECK(cuda::current_stream() == nullptr); }).join();
    {
      const cuda::StreamGuard inner(b);
      CHECK(cuda::current_stream() == b.handle());
    }
    CHECK(cuda::current_stream() == a.handle());
  }
  CHECK(cuda::current_stream() == nullptr);
}

TEST_CASE("StreamGuard for another device does not change the current stream of this device" *
          needs_devices(2)) {
  const cuda::Stream here(0), there(1);
  const cuda::StreamGuard first(here);
  {
    const cuda::StreamGuard second(there);
    CHECK(cuda::current_device() == 1);
    CHECK(cuda::current_stream() == there.handle());
    CHECK(cuda::current_stream(0) == here.handle());
  }
  CHECK(cuda::current_device() == 0);
  CHECK(cuda::current_stream(1) == nullptr);
}

TEST_CASE("native streams are reused, and a Stream can be moved" * needs_devices()) {
  cuda::StreamHandle* first = nullptr;
  {
    cuda::Stream a;
    first = a.handle();
    cuda::Stream b(std::move(a));
    CHECK(a.handle() == nullptr);
    CHECK(b.handle() == first);
    cuda::Stream c;
    CHECK(c.handle() != first);
    c = std::move(b);
    CHECK(c.handle() == first);
  }
  const cuda::Stream d, e;
  CHECK((d.handle() == first || e.handle() == first));
}

TEST_CASE("work runs in stream order" * needs_devices()) {
  const DeviceBytes a(100'003), b(100'003);
  a.fill(1);
  b.copy_from(a);
  a.fill(2);
  CHECK(a.holds(2));
  CHECK(b.holds(1));
  cuda::fill_bytes(b.data() + 7, 9, 5, 0);
  const auto got = b.read();
  for (size_t i = 0; i < 20; ++i) CHECK(got[i] == (i >= 7 && i < 12 ? 9 : 1));
}

TEST_CASE("copies from the CPU use the bytes at the time of the call" * needs_devices()) {
  const BusyWork busy;
  const size_t staged = size_t{1} << 20;  // the largest copy that is staged in pinned memory
  for (const size_t bytes : {size_t{1}, size_t{4097}, staged - 1, staged, staged + 1, 3 * staged + 13}) {
    CAPTURE(bytes);
    const DeviceBytes block(bytes);
    const auto expected = pattern(bytes, 5);
    auto source = expected;
    busy.queue(3);
    cuda::copy_bytes(block.data(), test::on_cuda(0), source.data(), tt::cpu, bytes);
    std::memset(source.data(), 0xAB, bytes);
    CHECK(block.read() == expected);
  }
  const DeviceBytes first(5000), second(5000);  // both copies are queued behind other work
  busy.queue(20);
  cuda::copy_bytes(first.data(), test::on_cuda(0), pattern(5000, 1).data(), tt::cpu, 5000);
  cuda::copy_bytes(second.data(), test::on_cuda(0), pattern(5000, 2).data(), tt::cpu, 5000);
  CHECK(first.read() == pattern(5000, 1));
  CHECK(second.read() == pattern(5000, 2));
  std::vector<unsigned char> target(10);
  cuda::copy_bytes(target.data(), tt::cpu, pattern(10, 1).data(), tt::cpu, 10);
  CHECK(target == pattern(10, 1));
  cuda::copy_bytes(nullptr, tt::cpu, nullptr, test::on_cuda(0), 0);  // nothing to do
}

TEST_CASE("an event makes one stream wait for another" * needs_devices()) {
  const BusyWork busy;
  const DeviceBytes a(5000), b(5000);
  a.fill(0);
  b.fill(0);
  cuda::synchronize();
  const cuda::Stream producer, consumer;
  cuda::Event ready(false);
  {
    const cuda::StreamGuard guard(producer);
    busy.queue(20);
    a.fill(7);
    ready.record();
  }
  consumer.wait(ready);
  {
    const cuda::StreamGuard guard(consumer);
    b.copy_from(a);
    CHECK(b.holds(7));
  }
  b.fill(8);
  cuda::Event filled(false);
  filled.record();
  {
    const cuda::StreamGuard guard(consumer);
    filled.wait();
    a.copy_from(b);
    CHECK(a.holds(8));
  }
  CHECK(ready.is_reached());
  producer.synchronize();
  CHECK(producer.is_idle());
}

TEST_CASE("events measure time if they are made with timing" * needs_devices()) {
  const BusyWork busy;
  cuda::Event start, middle, end;
  start.record();
  busy.queue(2);
  middle.record();
  busy.queue(20);
  end.record();
  end.synchronize();
  CHECK(end.is_reached());
  const double first = middle.milliseconds_since(start), second = end.milliseconds_since(middle);
  CHECK(first >= 0);
  CHECK(second > 0);
  if (!TINYTORCH_CUDA_SIM) CHECK(second > first);
  CHECK(end.milliseconds_since(start) == doctest::Approx(first + second).epsilon(0.05));
  const cuda::Event untimed(false);
  test::expect_error("TT-CUDA-03", "made without timing", [&] { end.milliseconds_since(untimed); });
}

TEST_CASE("copies between devices wait for both sides" * needs_devices(2)) {
  const BusyWork busy;
  const DeviceBytes here(300'000, 0), there(300'000, 1), back(300'000, 0);
  busy.queue(10);
  here.fill(3);
  there.fill(9);
  there.copy_from(here);
  back.copy_from(there);
  here.fill(4);
  there.fill(5);
  CHECK(back.holds(3));
  CHECK(there.holds(5));
  CHECK(here.holds(4));
  CHECK(cuda::current_device() == 0);
}

TEST_CASE("is_pinned finds pinned memory by address, and pinned_stats counts it" * needs_devices()) {
  const auto before = cuda::pinned_stats();
  auto* const block = static_cast<char*>(cuda::allocate_pinned(5000));
  CHECK(cuda::is_pinned(block));
  CHECK(cuda::is_pinned(block + 4999));
  CHECK(!cuda::is_pinned(block + 5000));
  CHECK(!cuda::is_pinned(block - 1));
  int local = 0;
  CHECK(!cuda::is_pinned(&local));
  CHECK(cuda::pinned_stats().current == before.current + 5000);
  CHECK(cuda::pinned_stats().allocations == before.allocations + 1);
  cuda::deallocate_pinned(block);
  CHECK(!cuda::is_pinned(block));
  CHECK(cuda::pinned_stats().current == before.current);
  void* const again = cuda::allocate_pinned(8000);
  CHECK(again == block);
  cuda::deallocate_pinned(again);
  cuda::release_pinned();
  CHECK(cuda::pinned_stats().cached == 0);
  cuda::deallocate_pinned(nullptr);
}

TEST_CASE("asynchronous copies need pinned memory, which is not reused before they are done" *
          needs_devices()) {
  const BusyWork busy;
  const size_t bytes = 70'001;
  const DeviceBytes device(bytes);
  const auto expected = pattern(bytes, 11);
  auto* const source = static_cast<unsigned char*>(cuda::allocate_pinned(bytes));
  std::memcpy(source, expected.data(), bytes);
  busy.queue(30);
  cuda::copy_bytes_async(device.data(), test::on_cuda(0), source, tt::cpu, bytes);
  cuda::deallocate_pinned(source);
  auto* const target = static_cast<unsigned char*>(cuda::allocate_pinned(bytes));
  std::memset(target, 0xCD, bytes);  // would destroy the copied bytes if the memory were shared
  CHECK(device.read() == expected);
  cuda::copy_bytes_async(target, tt::cpu, device.data(), test::on_cuda(0), bytes);
  cuda::synchronize();
  CHECK(std::memcmp(target, expected.data(), bytes) == 0);
  cuda::deallocate_pinned(target);
  std::vector<unsigned char> pageable(bytes);
  errors::check_error(
      "TT-CUDA-03: copy_bytes_async: the memory on the CPU is not pinned\n  hint: take it from "
      "allocate_pinned(), or use copy_bytes()",
      [&] { cuda::copy_bytes_async(pageable.data(), tt::cpu, device.data(), test::on_cuda(0), bytes); });
}

TEST_CASE("a CUDA error has its name and the last eight launches" * needs_devices()) {
  // void tinytorch::with_cuda::backend::cuda::row_kernel<float, (tinytorch::with_cuda::Fn)3>(float*, long)
  const char* const row_kernel = "_ZN9tinytorch9with_cuda7backend4cudaL10row_kernelIfLNS0_2FnE3EEEvPT_l";
  for (const char* name : {"kernel0", "kernel1", "kernel2", "kernel3", "kernel4", "kernel5", row_kernel,
                           "_ZN9tinytorch12_GLOBAL__N_17kernel7EPfl", "kernel8"}) {
    cuda::note_launch(name);
  }
  const auto t = errors::thrown_by([] { cuda::fill_bytes(nullptr, 0, 16, 0); });
  INFO(t.text);
  CHECK(t.code == "TT-CUDA-03");
  CHECK(t.text.find("filling device memory: ") != std::string::npos);
  CHECK(t.text.find("(cudaErrorInvalidValue)") != std::string::npos);
  CHECK(t.text.find("newest first: kernel8, tinytorch::(anonymous namespace)::kernel7, row_kernel<float, "
                    "(tinytorch::with_cuda::Fn)3>, kernel5, kernel4, kernel3, kernel2, kernel1") !=
        std::string::npos);
  CHECK(t.text.find("kernel0") == std::string::npos);
  CHECK(t.file == __FILE__);
  cuda::synchronize();  // the error was not fatal
  const DeviceBytes block(100);
  block.fill(1);
  CHECK(block.holds(1));
}

TEST_CASE("ranges are off by default" * needs_devices()) {
  CHECK(!cuda::ranges_shown());
  { const cuda::RangeGuard range("not shown"); }
  cuda::show_ranges(true);
  CHECK(cuda::ranges_shown());
  {
    const cuda::RangeGuard outer("outer");
    const cuda::RangeGuard inner("inner");
  }
  cuda::show_ranges(false);
}
