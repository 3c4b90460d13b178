#include <tinytorch/backend/cpu/attention_decode.hpp>

#include "cache_scene.hpp"

using namespace course;

namespace {
void check(const CacheCase& c) { check_attention(c, backend::cpu::attention_decode); }
}  // namespace

TEST_CASE("9.2 the first token of a text sees itself") {
  check({.past = {0}, .rows = {1}});
  check({.past = {0}, .rows = {1}, .head_size = 1});
  check({.past = {0, 0, 0}, .rows = {1, 1, 1}, .heads = 2, .groups = 2});
}

TEST_CASE("9.2 a new token sees the cached ones, weighted by the softmax of the scores") {
  // Keys 0, log 2 and log 5 with a query of 1: weights 1, 2 and 5 of 8.
  Values keys = Values::of(f64, {1, 1, 3, 1}, {0, std::log(2.0), std::log(5.0)}),
         values = Values::of(f64, {1, 1, 3, 1}, {8, 16, 24}), q = Values::of(f64, {1, 1, 1}, {1}),
         out(f64, {1, 1, 1});
  const int64_t length = 3, rows[] = {0, 1};
  backend::KvView kv;
  kv.keys = keys.view().data, kv.values = values.view().data, kv.dtype = f64;
  kv.batch = kv.groups = kv.head_size = 1, kv.page = 3, kv.longest = 3, kv.most_rows = 1;
  kv.lengths = &length, kv.first_row = rows;
  backend::cpu::attention_decode(out.view(), q.view(), kv, 1, 0);
  expect_close("scores log 1, log 2, log 5, values 8, 16, 24: (8 + 2 * 16 + 5 * 24) / 8", out, {20});
  for (const int64_t past : {1, 2, 63, 300}) check({.past = {past}, .rows = {1}, .head_size = 8});
}

TEST_CASE("9.2 several new tokens: each sees those up to its own position") {
  for (const int64_t rows : {2, 3, 8}) {
    check({.past = {0}, .rows = {rows}});
    check({.past = {5}, .rows = {rows}, .heads = 2, .groups = 2});
    check({.past = {90}, .rows = {rows}, .head_size = 16});
  }
}

TEST_CASE("9.2 sequences of different lengths, some without a new token") {
  check({.past = {3, 0, 7}, .rows = {1, 1, 1}, .heads = 3, .groups = 3});
  check({.past = {3, 9, 0, 20}, .rows = {2, 0, 5, 1}});
}

TEST_CASE("9.2 a window hides the tokens that are too far away") {
  for (const int64_t window : {1, 2, 7, 100}) check({.past = {20}, .rows = {3}, .window = window});
}

TEST_CASE("9.2 a ring holds its sinks and its last tokens") {
  for (const int64_t past : {0, 5, 8, 9, 40})
    check({.kind = Kind::ring, .past = {past, past + 3}, .rows = {1, 1}, .sinks = 3, .ring = 6});
  check({.kind = Kind::ring, .past = {31}, .rows = {1}, .sinks = 0, .ring = 5, .window = 3});
}

TEST_CASE("9.2 pages in any order; free pages and free rows of the last page are not read") {
  for (const int64_t page : {1, 3, 16})
    check(
        {.kind = Kind::pages, .past = {17, 4, 33}, .rows = {2, 1, 1}, .heads = 2, .groups = 2, .page = page});
}

TEST_CASE("9.2 large scores do not overflow") {
  check({.past = {30}, .rows = {2}, .head_size = 16, .size = 60});
}

TEST_CASE("9.2 each dtype of a cache, and any strides of queries and results") {
  for (const auto& [cached, queries] :
       {std::pair{f32, f32}, {f64, f64}, {bf16, f32}, {f16, f16}, {bf16, bf16}, {i8, f32}}) {
    for (const Layout layout : kLayouts) {
      check({.past = {6, 2},
             .rows = {2, 1},
             .heads = 2,
             .groups = 2,
             .head_size = 5,
             .cached = cached,
             .queries = queries,
             .layout = layout});
    }
  }
}
