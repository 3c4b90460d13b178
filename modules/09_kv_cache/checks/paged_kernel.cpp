#include <support/counted.hpp>

#include "cache_scene.hpp"

using namespace course;

namespace {
// All cases here have one split: at most 256 tokens that the cache still holds.
void check(const CacheCase& c) { check_attention(c, backend::cuda::attention_decode); }
}  // namespace

TEST_CASE("9.13 a new token sees itself and the tokens before it") {
  check({.past = {0}, .rows = {1}});
  check({.past = {1}, .rows = {1}});
  check({.past = {2}, .rows = {1}, .heads = 2, .groups = 2});
}

TEST_CASE("9.13 more tokens than warps: each warp has a softmax, and they meet") {
  for (const int64_t past : {3, 4, 5, 30, 255})
    check({.past = {past}, .rows = {1}, .heads = 2, .groups = 2, .head_size = 16});
  check({.past = {100}, .rows = {1}, .head_size = 32, .size = 40});  // large scores do not overflow
}

TEST_CASE("9.13 heads of any length") {
  for (const int64_t D : {1, 31, 33, 64, 65, 128, 200}) check({.past = {9}, .rows = {1}, .head_size = D});
}

TEST_CASE("9.13 heads that share keys, and several new tokens: each row has its own position") {
  check({.past = {20}, .rows = {1}, .heads = 8, .groups = 2});
  check({.past = {0}, .rows = {4}});
  check({.past = {17}, .rows = {3}, .heads = 6, .groups = 2, .head_size = 7});
  check({.past = {17}, .rows = {8}, .heads = 3, .groups = 1});
}

TEST_CASE("9.13 sequences of different lengths, some without a new token") {
  check({.past = {3, 90, 0, 41}, .rows = {1, 1, 1, 1}, .heads = 2, .groups = 1});
  check({.past = {3, 9, 0, 20}, .rows = {2, 0, 5, 1}, .heads = 2, .groups = 2});
}

TEST_CASE("9.13 pages in any order; free pages and free rows of the last page count for nothing") {
  for (const int64_t page : {1, 7, 16, 64})
    check({.kind = Kind::pages,
           .past = {37, 4, 100},
           .rows = {2, 1, 1},
           .heads = 2,
           .groups = 1,
           .page = page});
}

TEST_CASE("9.13 windows and rings") {
  for (const int64_t window : {1, 3, 50}) check({.past = {40}, .rows = {2}, .window = window});
  for (const int64_t past : {2, 8, 9, 60})
    check({.kind = Kind::ring, .past = {past}, .rows = {1}, .heads = 2, .groups = 1, .sinks = 3, .ring = 6});
  check({.kind = Kind::ring, .past = {60}, .rows = {1}, .sinks = 3, .ring = 6, .window = 4});
}

TEST_CASE("9.13 a sequence without tokens gives zeros") {
  CacheScene scene({.past = {5}, .rows = {1}});
  Values none = placed(Values::of(i64, {1}, {0})), q = placed(Values::random(f32, {1, 1, 4})),
         out = placed(Values(f32, {1, 1, 4}));
  backend::KvView kv = scene.view();
  kv.lengths = none.view().as<const int64_t>();
  backend::cuda::attention_decode(out.view(), q.view(), kv, 0.5, 0);
  expect_close("a row of a sequence without tokens", out, Numbers(4, 0));
}

TEST_CASE("9.13 each dtype, and any strides of queries and results") {
  for (const auto& [cached, queries] : {std::pair{f64, f64}, {bf16, f32}, {f16, f16}, {i8, f32}}) {
    for (const Layout layout : {Layout::contiguous, Layout::gaps, Layout::reversed}) {
      check({.past = {6, 2},
             .rows = {2, 1},
             .heads = 4,
             .groups = 2,
             .head_size = 5,
             .cached = cached,
             .queries = queries,
             .layout = layout});
    }
  }
}

TEST_CASE("9.13 the cache is read once, for all heads that share its keys") {
  const CacheCase c{.kind = Kind::pages,
                    .past = {249, 200},
                    .rows = {1, 1},
                    .heads = 4,
                    .groups = 1,
                    .head_size = 64,
                    .page = 16};
  CacheScene scene(c);
  Values q = placed(Values::random(f32, {2, 4, 64})), out = placed(Values(f32, {2, 4, 64}));
  const backend::KvView kv = scene.view();
  const View queries = q.view(), result = out.view();
  const Counted n = counted([&] { backend::cuda::attention_decode(result, queries, kv, 0.125, 0); });
  expect_close("attention: " + c.text(), out, scene.want(q.numbers(), 0.125), {.roundings = 4000});
  if (!kCounts) return;
  const double bytes = 2.0 * (250 + 201) * 64 * 4;
  expect("sectors of 32 bytes, in the bytes of keys and values: at most 1.2; got " +
             shown(32 * n.sectors / bytes),
         32 * n.sectors <= 1.2 * bytes);
}
