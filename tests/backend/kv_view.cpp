#include <tinytorch/backend/kv_view.hpp>

#include <doctest/doctest.h>

#include <set>
#include <utility>
#include <vector>

using namespace tinytorch;
using backend::KvRun;
using backend::KvView;

namespace {

// Walks [0, end) by runs, and returns the place of each token: {page, row}.
std::vector<std::pair<int64_t, int64_t>> places(const KvView& kv, int64_t b, int64_t end) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (int64_t t = 0; t < end;) {
    const KvRun run = kv.run(b, t, end);
    REQUIRE(run.count > 0);
    for (int64_t i = 0; i < run.count; ++i) out.emplace_back(run.page, run.row + i);
    t += run.count;
  }
  CHECK(std::ssize(out) == end);
  return out;
}

}  // namespace

TEST_CASE("a contiguous cache is one run, in the page of the sequence") {
  KvView kv;
  kv.batch = 3, kv.groups = 2, kv.head_size = 4, kv.page = 100;
  const KvRun run = kv.run(2, 7, 60);
  CHECK(run.page == 2);
  CHECK(run.row == 7);
  CHECK(run.count == 53);
  CHECK(kv.row_of(run, 1) == (2 * 2 + 1) * 100 + 7);
}

TEST_CASE("pages follow the table of the sequence, and a run ends with its page") {
  const std::vector<int32_t> table{5, 2, 9, 0, 7, 1};  // two sequences of three pages
  KvView kv;
  kv.batch = 2, kv.groups = 1, kv.head_size = 4, kv.page = 16, kv.table = table.data(), kv.table_width = 3;
  const auto at = places(kv, 1, 40);
  for (int64_t t = 0; t < 40; ++t) {
    CHECK(at[static_cast<size_t>(t)] ==
          std::pair<int64_t, int64_t>(table[static_cast<size_t>(3 + t / 16)], t % 16));
  }
  CHECK(kv.run(1, 10, 40).count == 6);
  CHECK(kv.run(1, 16, 20).count == 4);
}

TEST_CASE("a ring keeps the sinks and the last tokens, each in a slot of its own") {
  for (const auto& [sinks, ring] : {std::pair{0, 1}, {0, 7}, {4, 5}, {3, 1}}) {
    KvView kv;
    kv.batch = 1, kv.groups = 1, kv.head_size = 1, kv.page = sinks + ring, kv.sinks = sinks, kv.ring = ring;
    for (int64_t length = 1; length < 40; ++length) {
      const auto at = places(kv, 0, length);
      std::set<int64_t> slots;
      int64_t kept = 0;
      for (int64_t t = 0; t < length; ++t) {
        if (t >= sinks && t < sinks + kv.skipped(length)) continue;
        CHECK(kv.token_of(kept, length) == t);
        slots.insert(at[static_cast<size_t>(t)].second);
        ++kept;
      }
      CHECK(kept == std::min<int64_t>(length, sinks + ring));
      CHECK(std::ssize(slots) == kept);
      CHECK(*slots.rbegin() < sinks + ring);
      CHECK(kv.held(length) == kept);
    }
  }
}
