#include <tinytorch/backend/kv_view.hpp>

#include <support/check.hpp>

using namespace course;
using backend::KvRun;
using backend::KvView;

namespace {

// The slots of tokens 0, 1, ... of a ring, found by writing them one after another.
std::vector<int64_t> slots_by_writing(int64_t sinks, int64_t ring, int64_t tokens) {
  std::vector<int64_t> slots;
  int64_t next = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    slots.push_back(next);
    if (++next == sinks + ring) next = sinks;
  }
  return slots;
}
KvView ring_view(int64_t sinks, int64_t ring) {
  KvView kv;
  kv.batch = 3, kv.groups = 2, kv.head_size = 4, kv.page = sinks + ring + 3, kv.sinks = sinks, kv.ring = ring;
  return kv;
}
std::string ring_text(int64_t sinks, int64_t ring) {
  return "a ring of " + shown(sinks) + " sinks and " + shown(ring) + " slots: ";
}

// A pool whose pages are given to the sequences in a random order.
struct Pages {
  KvView kv;
  std::vector<int32_t> table;
  Pages(int64_t sequences, int64_t width, int64_t page, int64_t groups) {
    for (int64_t i = 0; i < sequences * width; ++i) table.push_back(static_cast<int32_t>(i) + 2);
    std::shuffle(table.begin(), table.end(), random_source());
    kv.batch = sequences, kv.groups = groups, kv.head_size = 3, kv.page = page;
    kv.table = table.data(), kv.table_width = width;
  }
  int64_t page_of(int64_t b, int64_t token) const {
    return table[static_cast<size_t>(b * kv.table_width + token / kv.page)];
  }
};

void expect_run(const std::string& what, const KvRun& got, int64_t page, int64_t row, int64_t count) {
  expect_equal(what + ": page", got.page, page);
  expect_equal(what + ": row", got.row, row);
  expect_equal(what + ": tokens", got.count, count);
}

}  // namespace

TEST_CASE("9.4 one piece: token t lies in row t of the sequence's page") {
  KvView kv;
  kv.batch = 3, kv.groups = 1, kv.head_size = 2, kv.page = 50;
  for (const int64_t b : {0, 2}) {
    for (const int64_t t : {0, 1, 49}) {
      expect_equal("slot of token " + shown(t), kv.slot(t), t);
      expect_run("run from token " + shown(t) + " to 50 of sequence " + shown(b), kv.run(b, t, 50), b, t,
                 50 - t);
    }
  }
  expect_equal("tokens that are skipped of 40", kv.skipped(40), int64_t{0});
  expect_equal("number 7 of 40 held tokens", kv.token_of(7, 40), int64_t{7});
}

TEST_CASE("9.4 a ring: the sinks keep their slots, later tokens share the others in turn") {
  for (const auto& [sinks, ring] : {std::pair<int64_t, int64_t>{0, 1}, {0, 5}, {1, 1}, {4, 8}, {3, 7}}) {
    const KvView kv = ring_view(sinks, ring);
    const std::vector<int64_t> slots = slots_by_writing(sinks, ring, 50);
    for (int64_t t = 0; t < 50; ++t)
      expect_equal(ring_text(sinks, ring) + "slot of token " + shown(t), kv.slot(t),
                   slots[static_cast<size_t>(t)]);
  }
}

TEST_CASE("9.4 10,000 tokens take the memory of a ring, and the sinks survive") {
  const KvView kv = ring_view(4, 60);
  std::vector<int64_t> token_in(64, -1);
  for (int64_t t = 0; t < 10000; ++t) {
    const int64_t slot = kv.slot(t);
    if (slot < 0 || slot >= 64) expect("slot of token " + shown(t) + ": " + shown(slot) + " of 64", false);
    token_in[static_cast<size_t>(slot)] = t;
  }
  std::sort(token_in.begin(), token_in.end());
  for (int64_t i = 0; i < 64; ++i)
    expect_equal("token number " + shown(i) + " of the 64 that are left of 10,000",
                 token_in[static_cast<size_t>(i)], i < 4 ? i : 10000 - 64 + i);
}

TEST_CASE("9.4 the tokens that a ring still holds are numbered without a gap") {
  for (const auto& [sinks, ring] : {std::pair<int64_t, int64_t>{0, 3}, {2, 1}, {4, 6}}) {
    const KvView kv = ring_view(sinks, ring);
    for (int64_t length = 0; length < 30; ++length) {
      const std::vector<int64_t> slots = slots_by_writing(sinks, ring, length);
      std::map<int64_t, int64_t> last;  // the token of each slot
      for (int64_t t = 0; t < length; ++t) last[slots[static_cast<size_t>(t)]] = t;
      std::set<int64_t> tokens;
      for (const auto& [slot, token] : last) tokens.insert(token);
      const std::string text = ring_text(sinks, ring) + shown(length) + " tokens: ";
      expect_equal(text + "overwritten", kv.skipped(length), length - std::ssize(tokens));
      int64_t number = 0;
      for (const int64_t token : tokens) {
        expect_equal(text + "token of number " + shown(number), kv.token_of(number, length), token);
        ++number;
      }
    }
  }
}

TEST_CASE("9.4 a run of a ring ends where memory or order is interrupted") {
  for (const auto& [sinks, ring] : {std::pair<int64_t, int64_t>{0, 5}, {3, 4}, {2, 9}}) {
    const KvView kv = ring_view(sinks, ring);
    const std::vector<int64_t> slots = slots_by_writing(sinks, ring, 40);
    for (int64_t t = 0; t < 40; ++t) {
      for (int64_t end = t + 1; end <= 40; ++end) {
        const KvRun run = kv.run(1, t, end);
        const std::string text =
            ring_text(sinks, ring) + "run from token " + shown(t) + " to " + shown(end) + ": ";
        expect_equal(text + "page", run.page, int64_t{1});
        expect_equal(text + "row", run.row, slots[static_cast<size_t>(t)]);
        int64_t longest = 1;
        while (t + longest < end && slots[static_cast<size_t>(t + longest)] == run.row + longest) ++longest;
        const bool at_sinks = t < sinks && t + run.count == sinks;  // it may end behind the sinks
        expect(text + shown(longest) + " tokens follow one another in memory, got " + shown(run.count),
               run.count == longest || at_sinks);
      }
    }
  }
}

TEST_CASE("9.4 pages: a table per sequence says where the tokens lie") {
  for (const int64_t page : {1, 2, 16}) {
    const Pages p(3, 5, page, 2);
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t t = 0; t < 5 * page; ++t) {
        expect_equal("slot of token " + shown(t), p.kv.slot(t), t);
        expect_run("pages of " + shown(page) + " tokens, sequence " + shown(b) + ", token " + shown(t),
                   p.kv.run(b, t, t + 1), p.page_of(b, t), t % page, 1);
      }
    }
  }
}

TEST_CASE("9.4 a run ends with its page, and never goes beyond the end that is asked for") {
  const Pages p(2, 4, 6, 1);
  for (int64_t t = 0; t < 24; ++t) {
    for (int64_t end = t + 1; end <= 24; ++end) {
      int64_t count = 1;
      while (t + count < end && (t + count) % 6 != 0) ++count;
      expect_run("pages of 6 tokens, run from token " + shown(t) + " to " + shown(end), p.kv.run(1, t, end),
                 p.page_of(1, t), t % 6, count);
    }
  }
}

TEST_CASE("9.4 the rows of a head are together in a page, and no two tokens share a row") {
  const Pages p(2, 3, 4, 3);
  const KvView& kv = p.kv;
  std::set<int64_t> rows;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t g = 0; g < 3; ++g) {
      for (int64_t t = 0; t < 12; ++t) {
        const int64_t row = kv.row_of(kv.run(b, t, t + 1), g);
        expect_equal("row of token " + shown(t) + ", head " + shown(g) + ", page " + shown(p.page_of(b, t)) +
                         ", 3 heads, pages of 4 tokens",
                     row, (p.page_of(b, t) * 3 + g) * 4 + t % 4);
        rows.insert(row);
      }
    }
  }
  expect_equal("different rows of 2 * 3 * 12 keys", std::ssize(rows), int64_t{72});
}
