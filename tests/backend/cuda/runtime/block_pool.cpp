// Bookkeeping of the device allocator, with a source of segments that are only numbers: blocks do not
// overlap, all addresses are aligned, freed neighbours are merged, and free segments can be released.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <random>
#include <tinytorch/backend/cuda/runtime/block_pool.hpp>
#include <vector>

namespace cuda = tinytorch::backend::cuda;
using cuda::Block;

namespace {

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

// Hands out address ranges with gaps between them, up to a limit.
struct Ledger {
  std::map<uintptr_t, size_t> segments;
  uintptr_t next = 4096 * kKiB;
  size_t held = 0, limit = SIZE_MAX, acquired = 0, released = 0, faults = 0;
};
struct CountedSource {
  Ledger* ledger;
  void* acquire(size_t bytes) {
    if (bytes > ledger->limit - ledger->held) return nullptr;
    const uintptr_t at = ledger->next;
    ledger->next += bytes + 64 * kKiB;
    ledger->segments[at] = bytes;
    ledger->held += bytes;
    ledger->acquired += 1;
    return reinterpret_cast<void*>(at);
  }
  void release(void* address, size_t bytes) {
    const auto found = ledger->segments.find(reinterpret_cast<uintptr_t>(address));
    if (found == ledger->segments.end() || found->second != bytes) {
      ledger->faults += 1;  // not a segment, or only a part of one
      return;
    }
    ledger->segments.erase(found);
    ledger->held -= bytes;
    ledger->released += 1;
  }
};
using Pool = cuda::BlockPool<CountedSource>;

uintptr_t start(const Block* b) { return reinterpret_cast<uintptr_t>(b->address); }
Block* obtain(Pool& pool, size_t bytes) {
  Block* const block = pool.take(bytes);
  return block ? block : pool.grow(bytes);
}

}  // namespace

TEST_CASE("small requests share one segment and start at multiples of 512") {
  Ledger ledger;
  Pool pool(CountedSource{&ledger});
  CHECK(pool.take(1) == nullptr);
  Block* const a = obtain(pool, 1);
  Block* const b = obtain(pool, 513);
  Block* const c = obtain(pool, 0);
  CHECK(ledger.acquired == 1);
  CHECK(pool.reserved() == 2 * kMiB);
  CHECK(a->size == 512);
  CHECK(b->size == 1024);
  CHECK(c->size == 512);
  CHECK(start(b) == start(a) + 512);
  CHECK(start(c) == start(b) + 1024);
  CHECK(pool.cached() == 2 * kMiB - 2048);
  for (Block* block : {b, a, c}) pool.put(block);
  CHECK(pool.cached() == 2 * kMiB);
  CHECK(pool.largest_free() == 2 * kMiB);
}

TEST_CASE("the next request of the same size takes a freed block") {
  Ledger ledger;
  Pool pool(CountedSource{&ledger});
  Block* const a = obtain(pool, 10'000);
  Block* const fence = obtain(pool, 512);
  const uintptr_t at = start(a);
  pool.put(a);
  Block* const again = obtain(pool, 9'900);
  CHECK(start(again) == at);
  CHECK(ledger.acquired == 1);
  pool.put(again);
  pool.put(fence);
}

TEST_CASE("best fit takes the smallest free block that is large enough") {
  Ledger ledger;
  Pool pool(CountedSource{&ledger});
  std::vector<Block*> blocks;
  for (const size_t kib : {64u, 1u, 16u, 1u, 32u, 1u}) blocks.push_back(obtain(pool, kib * kKiB));
  const uintptr_t hole16 = start(blocks[2]), hole32 = start(blocks[4]);
  for (const size_t k : {0u, 2u, 4u}) pool.put(blocks[k]);
  Block* const a = pool.take(15 * kKiB);
  CHECK(start(a) == hole16);
  Block* const b = pool.take(15 * kKiB);
  CHECK(start(b) == hole32);
  CHECK(b->size == 15 * kKiB);
  CHECK(b->next->size == 17 * kKiB);  // the remainder of the free block
  CHECK(!b->next->in_use);
  for (Block* block : {a, b, blocks[1], blocks[3], blocks[5]}) pool.put(block);
  CHECK(pool.largest_free() == 2 * kMiB);
}

TEST_CASE("small and large requests do not use each other's segments") {
  Ledger ledger;
  Pool pool(CountedSource{&ledger});
  Block* const limit = obtain(pool, kMiB);
  CHECK(pool.reserved() == 2 * kMiB);
  CHECK(!limit->large);
  Block* const over = obtain(pool, kMiB + 1);
  CHECK(over->large);
  CHECK(pool.reserved() == 4 * kMiB);
  CHECK(over->size == 2 * kMiB);  // the remainder is less than 1 MiB, so it is not split off
  pool.put(over);
  Block* const other = obtain(pool, 600 * kKiB);
  CHECK(start(other) == start(limit) + kMiB);
  CHECK(pool.reserved() == 4 * kMiB);
  pool.put(limit);
  Block* const again = pool.take(kMiB + 512);  // the large block, not the free block of 1 MiB
  REQUIRE(again != nullptr);
  CHECK(again->large);
  CHECK(ledger.acquired == 2);
  pool.put(again);
  pool.put(other);
}

TEST_CASE("large segments are multiples of 2 MiB and are split if the remainder is large enough") {
  Ledger ledger;
  Pool pool(CountedSource{&ledger});
  Block* const big = obtain(pool, 100 * kMiB + 1);
  CHECK(pool.reserved() == 102 * kMiB);
  CHECK(big->size == 100 * kMiB + 512);
  CHECK(pool.cached() == 2 * kMiB - 512);
  pool.put(big);
  Block* const a = pool.take(60 * kMiB);
  Block* const b = pool.take(40 * kMiB);
  Block* const c = pool.take(2 * kMiB);
  REQUIRE(c != nullptr);
  CHECK(pool.cached() == 0);
  CHECK(pool.take(2 * kMiB) == nullptr);
  pool.put(a);
  pool.put(c);
  CHECK(pool.largest_free() == 60 * kMiB);
  pool.put(b);  // between the other two: all three are merged
  CHECK(pool.largest_free() == 102 * kMiB);
  CHECK(pool.release_unused() == 102 * kMiB);
  CHECK(pool.reserved() == 0);
  CHECK(ledger.held == 0);
}

TEST_CASE("a segment with one block in use is kept, the other segments are released") {
  Ledger ledger;
  Pool pool(CountedSource{&ledger});
  Block* const a = obtain(pool, 10 * kMiB);
  Block* const b = obtain(pool, 6 * kMiB);
  Block* const small = obtain(pool, 100);
  pool.put(a);
  CHECK(pool.release_unused() == 10 * kMiB);
  CHECK(pool.reserved() == 8 * kMiB);
  CHECK(ledger.segments.size() == 2);
  pool.put(b);
  pool.put(small);
  CHECK(pool.release_unused() == 8 * kMiB);
  CHECK(ledger.segments.empty());
  CHECK(ledger.faults == 0);
}

TEST_CASE("an exhausted source gives null and changes nothing") {
  Ledger ledger;
  ledger.limit = 8 * kMiB;
  Pool pool(CountedSource{&ledger});
  Block* const a = obtain(pool, 5 * kMiB);
  REQUIRE(a != nullptr);
  CHECK(pool.reserved() == 6 * kMiB);
  CHECK(pool.grow(3 * kMiB) == nullptr);
  CHECK(pool.reserved() == 6 * kMiB);
  CHECK(pool.cached() == kMiB);
  Block* const b = obtain(pool, 100);
  REQUIRE(b != nullptr);
  CHECK(pool.grow(100) == nullptr);
  pool.put(a);
  pool.put(b);
}

TEST_CASE("any order of requests and frees: disjoint, aligned, inside segments, and merged at the end") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    Ledger ledger;
    ledger.limit = seed % 3 == 0 ? 64 * kMiB : SIZE_MAX;
    Pool pool(CountedSource{&ledger});
    std::map<uintptr_t, std::pair<Block*, size_t>> live;  // by address
    size_t in_use = 0, overlaps = 0, unaligned = 0, outside = 0, too_small = 0, miscounted = 0;
    for (int step = 0; step < 1500; ++step) {
      const bool ask = live.empty() || random() % 100 < (step % 500 < 300 ? 60 : 35);
      if (ask) {
        const size_t scale = size_t{1} << (random() % 24);
        const size_t bytes = random() % (2 * scale);
        Block* const block = obtain(pool, bytes);
        if (!block) {
          CHECK(ledger.limit != SIZE_MAX);
          continue;
        }
        const uintptr_t at = start(block);
        unaligned += at % 512 != 0 || block->size % 512 != 0;
        too_small += block->size < bytes;
        const auto after = live.lower_bound(at);
        if (after != live.end()) overlaps += after->first < at + block->size;
        if (after != live.begin()) {
          const auto& before = std::prev(after)->second;
          overlaps += start(before.first) + before.first->size > at;
        }
        const auto segment = std::prev(ledger.segments.upper_bound(at));
        outside += at + block->size > segment->first + segment->second;
        live[at] = {block, block->size};
        in_use += block->size;
      } else {
        auto chosen = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        too_small += chosen->second.first->size != chosen->second.second;  // must not change while in use
        in_use -= chosen->second.second;
        pool.put(chosen->second.first);
        live.erase(chosen);
      }
      if (random() % 200 == 0) pool.release_unused();
      miscounted += pool.reserved() != ledger.held || pool.reserved() != in_use + pool.cached();
      miscounted += pool.largest_free() > pool.cached();
    }
    CAPTURE(seed);
    CHECK(overlaps == 0);
    CHECK(unaligned == 0);
    CHECK(outside == 0);
    CHECK(too_small == 0);
    CHECK(miscounted == 0);
    for (const auto& [at, entry] : live) pool.put(entry.first);
    CHECK(pool.cached() == pool.reserved());
    pool.release_unused();
    CHECK(pool.reserved() == 0);
    CHECK(ledger.segments.empty());
    CHECK(ledger.acquired == ledger.released);
    CHECK(ledger.faults == 0);
  }
}

TEST_CASE("repeated requests call the source only the first time") {
  Ledger ledger;
  Pool pool(CountedSource{&ledger});
  const std::vector<size_t> step{40, 3 * kMiB, 700 * kKiB, 17 * kMiB, 5'000, 9 * kMiB, 3 * kMiB, 100 * kKiB};
  size_t after_first = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<Block*> blocks;
    for (const size_t bytes : step) blocks.push_back(obtain(pool, bytes));
    for (size_t k = 0; k < blocks.size(); k += 2) pool.put(blocks[k]);
    for (size_t k = 1; k < blocks.size(); k += 2) pool.put(blocks[k]);
    if (round == 0) after_first = ledger.acquired;
  }
  CHECK(ledger.acquired == after_first);
}
