// Device allocator: reuse in stream order, statistics, exhaustion of memory, and no caching.
#include <cstdint>
#include <memory>
#include <random>
#include <support/device.hpp>
#include <support/errors.hpp>
#include <thread>

namespace cuda = tinytorch::backend::cuda;
using test::CachingScope;
using test::DeviceBytes;
using test::needs_devices;

namespace {
constexpr size_t kMiB = size_t{1} << 20;
cuda::MemoryStats stats() { return cuda::memory_stats(0); }
}  // namespace

TEST_CASE("blocks are aligned, do not overlap, and are writable to their end" * needs_devices()) {
  for (const bool caching : {true, false}) {
    CAPTURE(caching);
    const CachingScope scope(caching);
    std::vector<std::unique_ptr<DeviceBytes>> blocks;
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{511}, size_t{512}, size_t{513}, size_t{70'000},
                               kMiB - 1, kMiB, kMiB + 1, 5 * kMiB + 3}) {
      for (int copy = 0; copy < 2; ++copy) {
        blocks.push_back(std::make_unique<DeviceBytes>(bytes));
        CHECK(reinterpret_cast<uintptr_t>(blocks.back()->data()) % 256 == 0);
        blocks.back()->fill(static_cast<int>(blocks.size()));
      }
    }
    for (size_t k = 0; k < blocks.size(); ++k) CHECK(blocks[k]->holds(static_cast<int>(k + 1)));
  }
}

TEST_CASE("current and peak count requested bytes in use, reserved counts bytes allocated from the device" *
          needs_devices()) {
  const CachingScope scope;
  cuda::release_cached(0);
  const auto before = stats();
  cuda::reset_peak(0);
  CHECK(stats().peak == before.current);
  CHECK(stats().peak_reserved == before.reserved);
  {
    const DeviceBytes a(1000), b(5 * kMiB);
    const auto in_use = stats();
    CHECK(in_use.current == before.current + 1000 + 5 * kMiB);
    CHECK(in_use.allocations == before.allocations + 2);
    CHECK(in_use.reserved == before.reserved + 2 * kMiB + 6 * kMiB);
    CHECK(in_use.device_calls == before.device_calls + 2);
  }
  const auto after = stats();
  CHECK(after.current == before.current);
  CHECK(after.peak == before.current + 1000 + 5 * kMiB);
  CHECK(after.reserved == before.reserved + 8 * kMiB);
  CHECK(after.cached == before.cached + 8 * kMiB);
  CHECK(after.largest_free == 6 * kMiB);
  CHECK(after.fragmentation() == doctest::Approx(0.25));
  cuda::release_cached(0);
  CHECK(stats().reserved == before.reserved);
  CHECK(stats().cached == 0);
  CHECK(stats().fragmentation() == 0);
  CHECK(stats().peak_reserved == before.reserved + 8 * kMiB);
}

TEST_CASE("the device's free memory follows reserved and released bytes" * needs_devices()) {
  const CachingScope scope;
  cuda::release_cached(0);
  const size_t free = cuda::device_memory(0).free;
  if (free < 100 * kMiB) return;
  {
    const DeviceBytes block(64 * kMiB);
    CHECK(cuda::device_memory(0).free + 60 * kMiB <= free);
  }
  const size_t cached = cuda::device_memory(0).free;
  cuda::release_cached(0);
  CHECK(cuda::device_memory(0).free >= cached + 60 * kMiB);
}

TEST_CASE("the next request of the same stream reuses a freed block at once, another stream does not" *
          needs_devices()) {
  const CachingScope scope;
  const cuda::Stream other;
  void* const a = cuda::allocate(3 * kMiB, 0);
  cuda::deallocate(a, 3 * kMiB, 0);
  {
    const cuda::StreamGuard guard(other);
    void* const b = cuda::allocate(3 * kMiB, 0);
    CHECK(b != a);
    cuda::deallocate(b, 3 * kMiB, 0);
  }
  void* const c = cuda::allocate(3 * kMiB - 100, 0);
  CHECK(c == a);
  cuda::deallocate(c, 3 * kMiB - 100, 0);
}

TEST_CASE("reuse keeps stream order: the new owner writes after the old one" * needs_devices()) {
  const CachingScope scope;
  const DeviceBytes result(2 * kMiB);
  for (int round = 0; round < 20; ++round) {
    DeviceBytes a(2 * kMiB);
    a.fill(round);
    result.copy_from(a);
    const auto* const at = a.data();
    a.free();
    const DeviceBytes b(2 * kMiB);
    CHECK(b.data() == at);
    b.fill(99);
    CHECK(result.holds(round));
  }
}

TEST_CASE("a freed block that another stream uses is not reused before that stream is done" *
          needs_devices()) {
  const CachingScope scope;
  cuda::release_cached(0);
  const size_t bytes = TINYTORCH_CUDA_SIM ? 4 * kMiB : 256 * kMiB;
  const cuda::Stream other;
  DeviceBytes a(bytes);
  const DeviceBytes copy(bytes);
  const unsigned char* const at = a.data();
  a.fill(5);
  cuda::synchronize();
  {
    const cuda::StreamGuard guard(other);
    for (int k = 0; k < 40; ++k) copy.fill(k);
    copy.copy_from(a);
  }
  cuda::record_stream(a.data(), 0, other.handle());
  a.free();
  {
    const DeviceBytes b(bytes);
    if (!other.is_idle()) CHECK(b.data() != at);  // the stream is still busy, so it was busy for b
    b.fill(6);
    other.synchronize();
    CHECK(copy.holds(5));
    const DeviceBytes c(bytes);
    CHECK((b.data() == at || c.data() == at));  // the stream is done, so the block is reused
  }
  cuda::release_cached(0);
}

TEST_CASE("blocks in use on other streams do not prevent the release of the cache" * needs_devices()) {
  const CachingScope scope;
  cuda::release_cached(0);
  const size_t before = stats().reserved;
  const cuda::Stream other;
  DeviceBytes a(4 * kMiB);
  {
    const cuda::StreamGuard guard(other);
    a.fill(1);
  }
  cuda::record_stream(a.data(), 0, other.handle());
  a.free();
  cuda::release_cached(0);
  CHECK(stats().reserved == before);
}

TEST_CASE("a repeated step calls the driver only the first time" * needs_devices()) {
  const CachingScope scope;
  size_t calls = 0, reserved = 0;
  for (int step = 0; step < 1000; ++step) {
    DeviceBytes a(700'000), b(3 * kMiB), c(40);
    a.free();
    DeviceBytes d(12 * kMiB), e(650'000);
    b.free();
    const DeviceBytes f(2 * kMiB + 100);
    if (step == 1) calls = stats().device_calls, reserved = stats().reserved;
  }
  CHECK(stats().device_calls == calls);
  CHECK(stats().reserved == reserved);
}

TEST_CASE("if the device is full, cached memory is released before an error is thrown" * needs_devices()) {
  const CachingScope scope;
  cuda::release_cached(0);
  const size_t free = cuda::device_memory(0).free;
  if (TINYTORCH_CUDA_SIM && free > 1024 * kMiB) return;  // the emulator would take it from host memory
  const size_t most = free / 10 * 6;
  for (int k = 0; k < 3; ++k) {
    const DeviceBytes large(most + static_cast<size_t>(k) * 4 * kMiB);  // the last one's block is too small
    CHECK(stats().reserved >= most);
  }
  const size_t held = free / 10 * 5;
  const DeviceBytes live(held);
  const auto before = stats();
  const auto t = errors::thrown_by([&] { cuda::allocate(most, 0); });
  INFO(t.text);
  CHECK(t.code == "TT-MEM-02");
  CHECK(t.file == __FILE__);
  for (const char* part :
       {"out of memory on cuda:0: ", " requested\n  tensors hold ",
        " reserved from the device; the cache holds ", ", its largest block ", "\n  the device has ",
        " free of ", "; others hold ", "\n  hint: use a smaller batch, bf16, or no_grad()"}) {
    CAPTURE(part);
    CHECK(t.text.find(part) != std::string::npos);
  }
  CHECK(stats().current == before.current);
  CHECK(stats().allocations == before.allocations);
  CHECK(stats().peak == before.peak);
  const DeviceBytes small(1000);  // the allocator still works after the error
  small.fill(3);
  CHECK(small.holds(3));
}

TEST_CASE("without caching every block is allocated by the driver and freed at once" * needs_devices()) {
  cuda::release_cached(0);
  const CachingScope scope(false);
  const auto before = stats();
  {
    DeviceBytes a(1000), b(3 * kMiB);
    a.fill(1);
    b.fill(2);
    CHECK(stats().reserved == before.reserved + 1000 + 3 * kMiB);
    CHECK(stats().device_calls == before.device_calls + 2);
    CHECK(a.holds(1));
    CHECK(b.holds(2));
    const CachingScope now_on(true);  // a block is freed in the way that it was allocated
    a.free();
    const DeviceBytes c(1000);
    CHECK(c.data() != a.data());
  }
  CHECK(stats().current == before.current);
  cuda::release_cached(0);
  CHECK(stats().reserved == before.reserved);
}

TEST_CASE("each device has its own memory" * needs_devices(2)) {
  const CachingScope scope;
  const auto zero = cuda::memory_stats(0), one = cuda::memory_stats(1);
  const DeviceBytes a(12'345, 1);
  CHECK(cuda::memory_stats(0).current == zero.current);
  CHECK(cuda::memory_stats(1).current == one.current + 12'345);
  CHECK(cuda::current_device() == 0);
  a.fill(8);
  CHECK(a.holds(8));
}

TEST_CASE("threads share the allocator" * needs_devices()) {
  const CachingScope scope;
  const size_t before = stats().current;
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      const cuda::Stream stream;
      const cuda::StreamGuard guard(stream);
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 100; ++i) {
        const DeviceBytes a(random() % 3000), b(random() % 100'000);
        a.fill(static_cast<int>(t));
        b.fill(static_cast<int>(t + 100));
        wrong[t] += !a.holds(static_cast<int>(t)) + !b.holds(static_cast<int>(t + 100));
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(wrong == std::vector<int>(4));
  CHECK(stats().current == before);
}

TEST_CASE("freeing a null pointer is allowed" * needs_devices()) {
  const size_t before = stats().current;
  cuda::deallocate(nullptr, 10, 0);
  CHECK(stats().current == before);
}
