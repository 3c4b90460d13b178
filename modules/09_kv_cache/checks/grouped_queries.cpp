#include <tinytorch/backend/cpu/attention_decode.hpp>

#include "cache_scene.hpp"

using namespace course;

namespace {
void check(const CacheCase& c) { check_attention(c, backend::cpu::attention_decode); }
}  // namespace

TEST_CASE("9.5 neighbouring heads share a head of keys") {
  check({.past = {3}, .rows = {1}, .heads = 2, .groups = 1});
  check({.past = {6}, .rows = {1}, .heads = 6, .groups = 2});
  check({.past = {6}, .rows = {1}, .heads = 6, .groups = 3, .head_size = 7});
}

TEST_CASE("9.5 the result is that of keys which are repeated for each head") {
  // One head of keys, copied into a cache with a head of keys for each query head.
  const int64_t H = 4, D = 6, T = 9, length = T, rows[] = {0, 2};
  const Numbers key = Values::random(f64, {T, D}).numbers(), value = Values::random(f64, {T, D}).numbers();
  Numbers keys, values;
  for (int64_t h = 0; h < H; ++h) {
    keys.insert(keys.end(), key.begin(), key.end());
    values.insert(values.end(), value.begin(), value.end());
  }
  Values q = Values::random(f64, {2, H, D});
  const auto attended = [&](int64_t groups, const Numbers& k, const Numbers& v) {
    Values pool_k = Values::of(f64, {1, groups, T, D}, k), pool_v = Values::of(f64, {1, groups, T, D}, v),
           out(f64, {2, H, D});
    backend::KvView kv;
    kv.keys = pool_k.view().data, kv.values = pool_v.view().data, kv.dtype = f64;
    kv.batch = 1, kv.groups = groups, kv.head_size = D, kv.page = T, kv.longest = T, kv.most_rows = 2;
    kv.lengths = &length, kv.first_row = rows;
    backend::cpu::attention_decode(out.view(), q.view(), kv, 0.4, 0);
    return out.numbers();
  };
  const Numbers repeated = attended(H, keys, values);
  expect_close("4 heads that share one head of keys, compared with 4 copies of it", attended(1, key, value),
               repeated, {2, H, D}, {.dtype = f64, .roundings = 200});
}

TEST_CASE("9.5 several new tokens: each row has the position of its token, not of its head") {
  for (const int64_t rows : {2, 5, 8}) {
    check({.past = {0}, .rows = {rows}, .heads = 4, .groups = 2});
    check({.past = {7}, .rows = {rows}, .heads = 3, .groups = 1});
  }
}

TEST_CASE("9.5 sequences of different lengths, some without a new token") {
  check({.past = {3, 9, 0, 20}, .rows = {2, 0, 5, 1}, .heads = 4, .groups = 2});
}

TEST_CASE("9.5 windows, rings and pages") {
  check({.past = {20}, .rows = {3}, .heads = 4, .groups = 2, .window = 4});
  check(
      {.kind = Kind::ring, .past = {30, 2}, .rows = {1, 1}, .heads = 4, .groups = 2, .sinks = 2, .ring = 7});
  check({.kind = Kind::pages, .past = {21, 3}, .rows = {2, 1}, .heads = 6, .groups = 2, .page = 5});
}

TEST_CASE("9.5 a row that sees no token gives zeros, and large scores do not overflow") {
  const int64_t length = 0, rows[] = {0, 1};
  Values pool = Values::random(f64, {1, 1, 2, 3}), q = Values::random(f64, {1, 2, 3}), out(f64, {1, 2, 3});
  backend::KvView kv;
  kv.keys = kv.values = pool.view().data, kv.dtype = f64;
  kv.batch = kv.groups = 1, kv.head_size = 3, kv.page = 2, kv.lengths = &length, kv.first_row = rows;
  backend::cpu::attention_decode(out.view(), q.view(), kv, 1, 0);
  expect_close("a cache that has no token", out, Numbers(6, 0));
  check({.past = {30}, .rows = {2}, .heads = 4, .groups = 2, .head_size = 16, .size = 60});
}

TEST_CASE("9.5 each dtype of a cache, and any strides of queries and results") {
  for (const auto& [cached, queries] : {std::pair{f32, f32}, {f64, f64}, {f16, f16}, {i8, f32}}) {
    for (const Layout layout : kLayouts) {
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
