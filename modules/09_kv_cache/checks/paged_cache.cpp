#include <tinytorch/kv_cache/contiguous.hpp>
#include <tinytorch/kv_cache/paged.hpp>

#include "conversation.hpp"

using namespace course;

namespace {

// A paged cache whose memory is NaN until a token is written. A step that reads a free page, or a row behind
// the last token, gives NaN.
class PoisonedCache : public PagedCache {
 public:
  PoisonedCache(const KvShape& shape, int64_t sequences, int64_t pages, int64_t page, DType dtype = f64,
                int64_t capacity = 400)
      : PagedCache(shape, {.sequences = sequences, .capacity = capacity, .device = cpu, .dtype = dtype},
                   {.pages = pages, .page = page}) {
    for (const KvMemory& m : layers_) {
      for (Tensor plane : {m.keys, m.values}) plane.fill_(NAN);
    }
  }
};

// Free and held pages, the holders of each, and the length of each table.
void expect_pages(const PagedCache& cache) {
  std::map<int32_t, int64_t> holders;
  for (int64_t b = 0; b < cache.sequences(); ++b) {
    expect_equal(
        "pages of a sequence of " + shown(cache.length(b)) + " tokens, " + shown(cache.page()) + " a page",
        std::ssize(cache.table(b)), (cache.length(b) + cache.page() - 1) / cache.page());
    for (const int32_t page : cache.table(b)) ++holders[page];
  }
  expect_equal("held pages: those that the tables name", cache.pool().held(), std::ssize(holders));
  expect_equal("free + held", cache.pool().free() + cache.pool().held(), cache.pool().total());
  for (const auto& [page, count] : holders)
    expect_equal("sequences that hold page " + shown(page), cache.pool().holders(page), count);
}
std::vector<int32_t> table_of(const PagedCache& cache, int64_t sequence) {
  const auto table = cache.table(sequence);
  return {table.begin(), table.end()};
}

}  // namespace

TEST_CASE("9.7 a sequence takes a page when it needs one") {
  for (const int64_t page : {1, 4, 16}) {
    PoisonedCache cache({1, 1, 2}, 3, 60, page);
    Conversation c(cache, 1);
    expect_equal("held pages of an empty cache", cache.pool().held(), int64_t{0});
    for (const std::vector<int64_t>& counts :
         {std::vector<int64_t>{4, 0, 1}, {1, 3, 0}, {0, 12, 1}, {9, 1, 1}}) {
      c.step(counts);
      expect_pages(cache);
    }
  }
}

TEST_CASE("9.7 attention is that of the definition, wherever the pages lie") {
  for (const int64_t page : {1, 3, 16, 64}) {
    PoisonedCache cache({2, 2, 3}, 3, 200, page);
    Conversation c(cache, 4);
    c.step({5, 20, 1});
    for (int i = 0; i < 12; ++i) c.step({1, i % 2, 2});
    c.truncate(1, 7), c.truncate(0, 0);
    c.step({18, 3, 0});
    c.step({1, 1, 1});
    expect_pages(cache);
  }
}

TEST_CASE("9.7 the same bits as in one piece") {
  for (const int64_t page : {1, 16, 64}) {
    PoisonedCache paged({1, 2, 8}, 2, 300, page, f32);
    ContiguousCache piece({1, 2, 8}, {.sequences = 2, .capacity = 400, .device = cpu, .dtype = f32});
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{70, 3}, {1, 1}, {1, 40}, {1, 1}}) {
      const auto rows = counts[0] + counts[1];
      const auto random = [&](int64_t heads) {
        const Shape shape{1, heads, rows, 8};
        return from_data(Values::random(f32, shape).numbers(), shape).to(f32);
      };
      const Tensor q = random(4), k = random(2), v = random(2);
      paged.begin(counts), piece.begin(counts);
      const Tensor a = paged.attend(0, q, k, v, {.causal = true}),
                   b = piece.attend(0, q, k, v, {.causal = true});
      expect("pages of " + shown(page) + " tokens: the bits of a cache in one piece",
             a.to_vector<double>() == b.to_vector<double>());
    }
  }
}

TEST_CASE("9.7 truncate gives back the pages without a token") {
  PoisonedCache cache({1, 1, 2}, 2, 20, 4);
  Conversation c(cache, 1);
  c.step({11, 5});
  for (const int64_t length : {9, 8, 7, 4, 1, 0}) {
    c.truncate(0, length);
    expect_pages(cache);
  }
  c.step({6, 1});
  cache.clear();
  expect_equal("free pages after clear()", cache.pool().free(), int64_t{20});
}

TEST_CASE("9.7 a fork shares all pages and copies nothing") {
  PoisonedCache cache({1, 1, 2}, 3, 20, 4);
  Conversation c(cache, 1);
  c.step({10, 0, 2});
  const int64_t held = cache.pool().held();
  const double bytes = bytes_of([&] { cache.fork(0, 1); });
  c.copied(0, 1);
  c.expect_lengths();
  expect_equal("held pages after a fork", cache.pool().held(), held);
  expect_equal("bytes that a fork moves", bytes, 0.0);
  expect("the fork has the same table", table_of(cache, 1) == table_of(cache, 0));
  expect_pages(cache);
  expect_throws("TT-KV-03", "a fork into a sequence that has tokens", [&] { cache.fork(0, 2); });
  expect_pages(cache);
}

TEST_CASE("9.7 the first write to a shared page copies this page alone") {
  PoisonedCache cache({2, 1, 2}, 3, 30, 4);
  Conversation c(cache, 2);
  c.step({10, 0, 1});
  cache.fork(0, 1), c.copied(0, 1);
  const std::vector<int32_t> before = table_of(cache, 0);
  const int64_t held = cache.pool().held();
  c.step({0, 1, 0});  // token 10 of sequence 1 goes to the third page, which has tokens 8 and 9
  expect_equal("held pages: one copy more", cache.pool().held(), held + 1);
  expect("sequence 0 keeps its pages", table_of(cache, 0) == before);
  expect_equal("the first page of sequence 1", cache.table(1)[0], before[0]);
  expect_equal("its second page", cache.table(1)[1], before[1]);
  expect("its third page is a copy", cache.table(1)[2] != before[2]);
  c.step({1, 1, 0});
  expect("the last holder of a page writes in place", table_of(cache, 0) == before);
  c.step({5, 3, 1});
  expect_pages(cache);
}

TEST_CASE("9.7 behind a full page nothing is copied; behind a truncation a shared page is") {
  PoisonedCache cache({1, 1, 2}, 2, 30, 4);
  Conversation c(cache, 1);
  c.step({8, 0});
  cache.fork(0, 1), c.copied(0, 1);
  c.step({1, 1});
  expect_equal("2 shared pages of 4 tokens, and a new one for each: held", cache.pool().held(), int64_t{4});
  c.truncate(1, 2);
  c.step({0, 4});  // tokens 2 and 3 go to a copy of the first page
  expect_pages(cache);
  c.step({1, 1});
  expect_equal("5 pages are held", cache.pool().held(), int64_t{5});
}

TEST_CASE("9.7 a step for which the pages do not suffice changes nothing") {
  PoisonedCache cache({1, 1, 2}, 2, 5, 4);
  Conversation c(cache, 1);
  c.step({9, 4});
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{8, 0}, {4, 5}, {0, 9}}) {
    expect_throws("TT-KV-06", "more pages than are free", [&] { cache.begin(counts); });
    c.expect_lengths();
    expect_pages(cache);
    expect_equal("free pages after the refusal", cache.pool().free(), int64_t{1});
  }
  c.step({3, 4});
  expect_pages(cache);
}

TEST_CASE("9.7 random steps, forks and truncations") {
  constexpr int64_t kSequences = 4;
  PoisonedCache cache({1, 1, 1}, kSequences, 40, 3);
  Conversation c(cache, 1);
  for (int i = 0; i < 400; ++i) {
    const auto b = static_cast<int64_t>(uniform(0, kSequences)),
               to = static_cast<int64_t>(uniform(0, kSequences));
    const auto action = static_cast<int>(uniform(0, 4));
    if (action == 0) {
      c.truncate(b, static_cast<int64_t>(uniform(0, static_cast<double>(c.length(b) + 1))));
    } else if (action == 1 && b != to) {
      c.truncate(to, 0);
      cache.fork(b, to), c.copied(b, to);
    } else {
      std::vector<int64_t> counts(kSequences, 0);
      if (c.length(b) < 24) counts[static_cast<size_t>(b)] = static_cast<int64_t>(uniform(0, 5));
      if (c.length(to) < 24) counts[static_cast<size_t>(to)] += 1;
      if (std::accumulate(counts.begin(), counts.end(), int64_t{0}) > 0) c.step(counts);
    }
    expect_pages(cache);
  }
}
