// Allocation observer: it is notified of every allocation and free, and can be set and removed at any time.
#include <doctest/doctest.h>

#include <map>
#include <support/sanitized.hpp>
#include <thread>
#include <tinytorch/core/allocator.hpp>
#include <vector>

namespace tt = tinytorch;

namespace {

struct Ledger final : tt::AllocationObserver {
  std::map<const void*, size_t> live;
  size_t events = 0, unknown = 0, doubled = 0;
  void allocated(tt::Device device, const void* block, size_t bytes) override {
    CHECK(device.is_cpu());
    doubled += !live.emplace(block, bytes).second;
    ++events;
  }
  void freed(tt::Device, const void* block, size_t bytes) noexcept override {
    const auto found = live.find(block);
    if (found == live.end() || found->second != bytes) ++unknown;
    if (found != live.end()) live.erase(found);
    ++events;
  }
};

}  // namespace

TEST_CASE("an observer gets each block with the requested number of bytes") {
  auto& host = tt::HostAllocator::instance();
  Ledger ledger;
  CHECK(tt::observe_allocations(&ledger) == nullptr);
  void* const a = host.allocate(100);
  void* const b = host.allocate(0);
  CHECK(ledger.live == std::map<const void*, size_t>{{a, 100}, {b, 0}});
  host.deallocate(a, 100);
  host.deallocate(nullptr, 5);
  CHECK(ledger.live.size() == 1);
  host.deallocate(b, 0);
  CHECK(ledger.events == 4);
  CHECK(tt::observe_allocations(nullptr) == &ledger);
  host.deallocate(host.allocate(8), 8);
  CHECK(ledger.events == 4);
}

// Skipped with AddressSanitizer, which ends the program instead of refusing the memory.
TEST_CASE("a failed allocation is not reported to the observer" * doctest::skip(test::kSanitized)) {
  Ledger ledger;
  tt::observe_allocations(&ledger);
  CHECK_THROWS_AS(tt::HostAllocator::instance().allocate(size_t{1} << 60), tt::Error);
  tt::observe_allocations(nullptr);
  CHECK(ledger.events == 0);
}

TEST_CASE("threads allocate while observers are set and removed: each event is reported once") {
  auto& host = tt::HostAllocator::instance();
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&host, &stop, t] {
      for (size_t i = 0; !stop; ++i) {
        const size_t bytes = 64 + (i * 97 + static_cast<size_t>(t) * 31) % 4000;
        host.deallocate(host.allocate(bytes), bytes);
      }
    });
  }
  size_t events = 0, unknown = 0, doubled = 0;
  for (int round = 0; round < 200; ++round) {
    Ledger ledger;  // is destroyed while the other threads go on
    tt::observe_allocations(&ledger);
    if (round % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    tt::observe_allocations(nullptr);
    events += ledger.events;
    unknown += ledger.unknown;
    doubled += ledger.doubled;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  CHECK(events > 0);
  CHECK(doubled == 0);
  CHECK(unknown <= 200 * 3);  // blocks allocated before it was set: one per thread and round
}
