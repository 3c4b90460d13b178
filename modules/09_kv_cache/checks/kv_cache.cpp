#include <tinytorch/kv_cache/contiguous.hpp>

#include "conversation.hpp"

using namespace course;

namespace {

KvCacheOptions options(int64_t sequences, int64_t capacity, DType dtype = f64) {
  return {.sequences = sequences, .capacity = capacity, .device = cpu, .dtype = dtype};
}
Tensor random_rows(const Shape& shape) {
  return from_data(Values::random(f32, shape).numbers(), shape).to(f32);
}

}  // namespace

TEST_CASE("9.1 the bytes of a token: keys and values of every layer and group") {
  const auto bytes = [](const KvShape& shape, DType dtype) {
    return ContiguousCache(shape, options(1, 1, dtype)).bytes_per_token();
  };
  expect_equal("GPT-2, 12 layers of 12 heads of 64, bf16: 2 * 12 * 12 * 64 * 2", bytes({12, 12, 64}, bf16),
               int64_t{36864});
  expect_equal("the same in f32", bytes({12, 12, 64}, f32), int64_t{73728});
  expect_equal("1 layer, 2 groups of 5, f64: 2 * 1 * 2 * 5 * 8", bytes({1, 2, 5}, f64), int64_t{160});
  expect_equal("12 layers of 12 heads of 64, i8 with a scale of 4 bytes for each row: 2 * 12 * 12 * 68",
               bytes({12, 12, 64}, i8), int64_t{19584});
}

TEST_CASE("9.1 a batch of sequences of equal lengths") {
  for (const auto& [B, heads, G, D] :
       {std::array<int64_t, 4>{1, 1, 1, 1}, {1, 4, 2, 5}, {3, 3, 3, 4}, {2, 6, 1, 7}}) {
    ContiguousCache cache({2, G, D}, options(B, 12));
    Conversation c(cache, heads);
    expect_equal("position of an empty cache", cache.position(), int64_t{0});
    for (const int64_t count : {3, 1, 1, 2, 5}) {
      const int64_t before = c.length(0);
      expect_equal("position before a step", cache.position(), before);
      c.batch(count);
      expect_equal("position after a step of " + shown(count) + " tokens", cache.position(), before + count);
    }
  }
}

TEST_CASE("9.1 each sequence has a length of its own") {
  ContiguousCache cache({2, 2, 3}, options(4, 20));
  Conversation c(cache, 4);
  c.step({3, 0, 1, 7});
  c.step({0, 2, 1, 1});
  c.step({1, 1, 1, 1});
  c.step({0, 0, 9, 0});
  for (int i = 0; i < 4; ++i) {
    std::vector<int64_t> counts;
    for (int b = 0; b < 4; ++b) counts.push_back(static_cast<int64_t>(uniform(0, 2.99)));
    counts[static_cast<size_t>(i)] = 1;
    c.step(counts);
  }
}

TEST_CASE("9.1 positions continue at the length of each sequence") {
  ContiguousCache cache({1, 1, 2}, options(3, 30));
  Conversation c(cache, 1);
  c.step({4, 0, 2});
  cache.begin(std::vector<int64_t>{1, 3, 2});
  const Positions p = cache.positions();
  expect("after begin(), each token has a position", p.differ());
  expect_equal("positions of 1, 3 and 2 tokens behind 4, 0 and 2", p.each.to_vector<int64_t>(),
               std::vector<int64_t>{4, 0, 1, 2, 2, 3});
  expect_equal("their bound, which is larger than each", p.end, int64_t{5});
  ContiguousCache equal({1, 1, 2}, options(2, 30));
  Conversation d(equal, 1);
  d.batch(6);
  const Positions q = equal.positions();
  expect("without begin() there is one position for all sequences", !q.differ());
  expect_equal("the position of the next token", q.first, int64_t{6});
}

TEST_CASE("9.1 a layer's tokens count when the last layer has them") {
  ContiguousCache cache({3, 1, 2}, options(1, 10));
  const Tensor rows = random_rows({1, 1, 4, 2}).to(f64);
  for (int64_t layer = 0; layer < 3; ++layer) {
    expect_equal("length before layer " + shown(layer) + " of a step of 4 tokens", cache.length(0),
                 int64_t{0});
    const KeysAndValues all = cache.append(layer, rows, rows);
    expect_equal("keys that layer " + shown(layer) + " sees", all.keys.shape(), Shape{1, 1, 4, 2});
  }
  expect_equal("length after the last layer", cache.length(0), int64_t{4});
}

TEST_CASE("9.1 a step that does not fit is refused, and changes nothing") {
  ContiguousCache cache({1, 1, 2}, options(2, 6));
  Conversation c(cache, 1);
  c.step({4, 6});
  const auto refused = [&](const char* code, const char* what, const std::vector<int64_t>& counts) {
    expect_throws(code, what, [&] { cache.begin(counts); });
    c.expect_lengths();
  };
  refused("TT-KV-02", "a token more than the capacity of 6", {0, 1});
  refused("TT-KV-02", "3 tokens behind 4", {3, 0});
  refused("TT-KV-01", "counts of 1 sequence for a cache of 2", {1});
  refused("TT-KV-01", "-1 tokens", {-1, 0});
  c.step({2, 0});
  ContiguousCache batch({1, 1, 2}, options(2, 6));
  Conversation d(batch, 1);
  d.batch(5);
  expect_throws("TT-KV-02", "a batch of 2 tokens behind 5, capacity 6", [&] { d.batch(2); });
  expect_equal("position after the refusal", batch.position(), int64_t{5});
}

TEST_CASE("9.1 truncate forgets the last tokens, and an announced step") {
  ContiguousCache cache({2, 1, 3}, options(2, 9));
  Conversation c(cache, 2);
  c.step({7, 4});
  c.truncate(0, 2);
  c.expect_lengths();
  c.step({3, 1});
  c.truncate(1, 0);
  c.step({1, 6});
  expect_throws("TT-KV-03", "truncate to more tokens than there are", [&] { cache.truncate(1, 7); });
  expect_throws("TT-KV-03", "truncate to -1 tokens", [&] { cache.truncate(1, -1); });
  c.expect_lengths();
  c.truncate(0, 3), c.truncate(1, 3);
  cache.begin(std::vector<int64_t>{1, 0});
  cache.truncate(0, 3);
  expect("the announced step is forgotten: there is one position again", !cache.positions().differ());
  c.batch(2);
}

TEST_CASE("9.1 old tokens are neither copied nor moved: a step costs the same at every length") {
  ContiguousCache cache({1, 2, 8}, options(1, 400, f32));
  const auto step = [&](int64_t tokens) {
    const Tensor k = random_rows({1, 2, tokens, 8}), v = random_rows({1, 2, tokens, 8});
    return cache.append(0, k, v);
  };
  const KeysAndValues first = step(3);
  const Numbers old = first.keys.to_vector<double>();
  const double early = bytes_of([&] { step(1); });
  step(390);
  KeysAndValues last;
  const double late = bytes_of([&] { last = step(1); });
  expect_equal("bytes that a token moves behind 394 tokens, as behind 3", late, early);
  expect("the keys are a view of the cache's memory, in which they stay",
         last.keys.storage() == first.keys.storage());
  expect_equal("keys that the last step sees", last.keys.shape(), Shape{1, 2, 395, 8});
  expect("the first three tokens are where they were", first.keys.to_vector<double>() == old);
}
