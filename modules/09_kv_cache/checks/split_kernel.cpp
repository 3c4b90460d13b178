#include <support/counted.hpp>

#include "cache_scene.hpp"

using namespace course;

namespace {

void check(const CacheCase& c) { check_attention(c, backend::cuda::attention_decode); }

// The result of a case whose tokens and queries are fixed.
Numbers attended(CacheScene& scene, const Numbers& queries) {
  const CacheCase& c = scene.c;
  const Shape shape{c.steps(), c.heads, c.head_size};
  Values q = placed(Values::of(c.queries, shape, queries)), out = placed(Values(c.queries, shape));
  backend::cuda::attention_decode(out.view(), q.view(), scene.view(), 0.4, c.window);
  return out.numbers();
}

}  // namespace

TEST_CASE("9.15 one split: the block writes the result") {
  check({.past = {0}, .rows = {1}});
  check({.past = {99}, .rows = {1}, .heads = 2, .groups = 2, .head_size = 16});
  check({.past = {255}, .rows = {1}});
}

TEST_CASE("9.15 two and three splits of one sequence") {
  for (const int64_t past : {256, 257, 511, 512, 700})
    check({.past = {past}, .rows = {1}, .heads = 2, .groups = 1, .head_size = 8});
  check({.past = {600}, .rows = {1}, .head_size = 64, .size = 30});  // the largest score is in any of them
}

TEST_CASE("9.15 sequences of different lengths have different numbers of splits") {
  check({.past = {3, 600, 260}, .rows = {1, 1, 1}, .heads = 2, .groups = 2});
  check({.past = {520, 0, 30}, .rows = {2, 0, 3}, .heads = 2, .groups = 1});
}

TEST_CASE("9.15 more query rows than a block has") {
  check({.past = {300}, .rows = {5}, .heads = 4, .groups = 1});
  check({.past = {20, 270}, .rows = {7, 1}, .heads = 3, .groups = 1});
}

TEST_CASE("9.15 a split in which a row sees no token has weight 0") {
  check({.past = {600}, .rows = {1}, .window = 5});
  check({.past = {600}, .rows = {3}, .heads = 2, .groups = 1, .window = 90});
  check({.past = {255}, .rows = {3}});  // the second split has tokens for the last two rows only
}

TEST_CASE("9.15 a row that sees no token at all gives zeros") {
  // 300 tokens in sequence 1, none in sequence 0, which has a row nevertheless.
  CacheScene scene({.past = {300, 300}, .rows = {1, 1}});
  Values lengths = placed(Values::of(i64, {2}, {0, 301}));
  backend::KvView kv = scene.view();
  kv.lengths = lengths.view().as<const int64_t>();
  Values q = placed(Values::random(f32, {2, 1, 4})), out = placed(Values(f32, {2, 1, 4}));
  backend::cuda::attention_decode(out.view(), q.view(), kv, 0.5, 0);
  const Numbers y = out.numbers();
  expect_equal("the row of a sequence without tokens", Numbers(y.begin(), y.begin() + 4), Numbers(4, 0));
}

TEST_CASE("9.15 pages in any order, and rings") {
  for (const int64_t page : {1, 16, 64})
    check({.kind = Kind::pages, .past = {290, 15}, .rows = {1, 1}, .heads = 2, .groups = 1, .page = page});
  check({.kind = Kind::ring, .past = {900}, .rows = {1}, .sinks = 4, .ring = 290});
}

TEST_CASE("9.15 the same bits, whatever the other sequences of the step") {
  const CacheCase one{
      .kind = Kind::pages, .past = {300}, .rows = {1}, .heads = 2, .head_size = 16, .page = 16};
  CacheCase two = one;
  two.past = {300, 800}, two.rows = {1, 1};
  CacheScene both(two);
  Numbers queries = Values::random(f32, {2, 2, 16}).numbers();
  const Numbers together = attended(both, queries);
  // The first sequence alone, in the memory of both.
  backend::KvView kv = both.view();
  kv.batch = 1, kv.longest = 301;
  queries.resize(32);
  Values q = placed(Values::of(f32, {1, 2, 16}, queries)), out = placed(Values(f32, {1, 2, 16}));
  backend::cuda::attention_decode(out.view(), q.view(), kv, 0.4, 0);
  expect("2 splits alone, and beside a sequence with 4: the same bits",
         out.numbers() == Numbers(together.begin(), together.begin() + 32));
}

TEST_CASE("9.15 rows that pad a step belong to no sequence, and each dtype is computed in its own") {
  CacheScene scene({.past = {300}, .rows = {1}});
  Values q = placed(Values::random(f32, {4, 1, 4})), out = placed(Values(f32, {4, 1, 4}));
  backend::cuda::attention_decode(out.view(), q.view(), scene.view(), 0.5, 0);
  const Numbers y = out.numbers();
  expect_equal("results of 3 rows behind the last of the step: not written", Numbers(y.begin() + 4, y.end()),
               Numbers(12, Values::unwritten(f32)));
  for (const auto& [cached, queries] : {std::pair{f64, f64}, {bf16, f32}, {f16, f16}, {i8, f32}})
    check({.past = {280},
           .rows = {1},
           .head_size = 5,
           .cached = cached,
           .queries = queries,
           .layout = Layout::gaps});
}

TEST_CASE("9.15 two launches if a sequence has several splits, one if none has") {
  for (const int64_t past : {200, 1023}) {
    const CacheCase c{.past = {past}, .rows = {1}, .heads = 4, .groups = 1, .head_size = 64};
    CacheScene scene(c);
    Values q = placed(Values::random(f32, {1, 4, 64})), out = placed(Values(f32, {1, 4, 64}));
    const backend::KvView kv = scene.view();
    const View queries = q.view(), result = out.view();
    const Counted n = counted([&] { backend::cuda::attention_decode(result, queries, kv, 0.125, 0); });
    expect_close("attention: " + c.text(), out, scene.want(q.numbers(), 0.125), {.roundings = 4000});
    if (kCounts)
      expect_equal("launches for " + shown(past + 1) + " tokens", n.launches, past > 255 ? 2.0 : 1.0);
  }
}
