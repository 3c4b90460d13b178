#include <support/counted.hpp>

#include "cache_scene.hpp"

using namespace course;

namespace {

// NaN, which fills the memory where no token is, as a number that can be compared.
Numbers comparable(Numbers x) {
  for (double& v : x) v = std::isnan(v) ? 12345 : v;
  return x;
}

// The whole memory after the step: the new tokens are where they belong, and nothing else has changed.
void expect_memory(CacheScene& scene, double roundings = 0) {
  const CacheCase& c = scene.c;
  for (int which = 0; which < 2; ++which) {
    for (int64_t b = 0; b < c.sequences(); ++b) {
      for (int64_t t = c.past[static_cast<size_t>(b)]; t < c.length(b); ++t) scene.put(which, b, t);
    }
    const std::string what = std::string("memory of the ") + (which == 0 ? "keys" : "values") +
                             " after kv_append (12345: NaN, no token): " + c.text();
    const Shape shape = scene.pool[which]->shape(), scales{shape[0], shape[1], shape[2]};
    expect_close(what, comparable(scene.pool[which]->numbers()), comparable(scene.pool_numbers[which]), shape,
                 {.dtype = c.cached, .roundings = 0, .scale = c.cached == i8 ? 1.0 : 2.0});
    if (c.cached != i8) continue;
    expect_close(what + ": scales", comparable(scene.scale[which]->numbers()),
                 comparable(scene.scale_numbers[which]), scales, {.dtype = f32, .roundings = roundings});
  }
}
void check(const CacheCase& c) {
  CacheScene scene(c, false);
  Values k = scene.new_rows(0), v = scene.new_rows(1);
  backend::cuda::kv_append(scene.view(), k.view(), v.view());
  expect_memory(scene, 1);
}
// Blocks run in any order; here the last one is the first.
void check_order(const CacheCase& c) {
  with_last_block_first([&] { check(c); });
}

}  // namespace

TEST_CASE("9.12 a new token goes behind the last one") {
  check({.past = {0}, .rows = {1}});
  check({.past = {5}, .rows = {1}});
  check({.past = {5}, .rows = {1}, .groups = 3, .head_size = 7});
}

TEST_CASE("9.12 several tokens of several sequences, some without a token") {
  check({.past = {5}, .rows = {6}});
  check({.past = {5, 0, 9}, .rows = {1, 1, 1}, .groups = 2});
  check({.past = {0, 3, 1, 8}, .rows = {4, 0, 9, 1}, .groups = 2, .head_size = 5});
  CacheCase many{.groups = 3, .head_size = 3};
  many.past.clear(), many.rows.clear();
  for (int64_t b = 0; b < 21; ++b) many.past.push_back(b % 4), many.rows.push_back(b % 3);
  check(many);
}

TEST_CASE("9.12 pages in any order, and the first row of a new page") {
  for (const int64_t page : {1, 4, 16}) {
    check({.kind = Kind::pages, .past = {15, 16, 3}, .rows = {1, 1, 1}, .groups = 2, .page = page});
    check({.kind = Kind::pages, .past = {0, 21}, .rows = {20, 7}, .page = page});
  }
}

TEST_CASE("9.12 heads of any length") {
  for (const int64_t D : {1, 31, 32, 33, 64, 130}) check({.past = {2}, .rows = {2}, .head_size = D});
}

TEST_CASE("9.12 a ring: the oldest tokens are overwritten, the sinks are not") {
  for (const int64_t past : {0, 6, 7, 8, 20})
    check({.kind = Kind::ring, .past = {past, 1}, .rows = {1, 1}, .groups = 2, .sinks = 2, .ring = 5});
  check({.kind = Kind::ring, .past = {12}, .rows = {4}, .sinks = 2, .ring = 5});
}

TEST_CASE("9.12 of a step that is longer than a ring its last tokens stay, in whatever order blocks run") {
  for (const auto test : {check, check_order}) {
    test({.kind = Kind::ring, .past = {0}, .rows = {30}, .groups = 2, .sinks = 3, .ring = 5});
    test({.kind = Kind::ring, .past = {9, 0}, .rows = {17, 6}, .sinks = 0, .ring = 4});
  }
}

TEST_CASE("9.12 each dtype of a cache, and any strides of the rows") {
  for (const auto& [cached, queries] :
       {std::pair{f64, f64}, {bf16, f32}, {f16, f32}, {bf16, bf16}, {f32, f16}}) {
    for (const Layout layout : kLayouts) {
      check({.past = {3, 1},
             .rows = {2, 1},
             .groups = 2,
             .head_size = 6,
             .cached = cached,
             .queries = queries,
             .layout = layout});
    }
  }
}

TEST_CASE("9.12 integers from -127 to 127, with a scale for each row") {
  for (const int64_t D : {1, 8, 33, 100})
    check({.kind = Kind::pages, .past = {5, 2}, .rows = {2, 3}, .groups = 2, .head_size = D, .cached = i8});
  // A row of zeros has scale 0. A row with an infinity has no scale: NaN.
  CacheScene scene({.past = {0}, .rows = {2}, .head_size = 3, .cached = i8}, false);
  Values k = placed(Values::of(f32, {2, 1, 3}, {0, 0, 0, 1, INFINITY, 2}));
  Values v = placed(Values::of(f32, {2, 1, 3}, {0.5, -1, 0.25, 2, 0, -4}));
  backend::cuda::kv_append(scene.view(), k.view(), v.view());
  const Numbers keys = scene.scale[0]->numbers(), values = scene.scale[1]->numbers(),
                numbers = scene.pool[1]->numbers();
  expect_equal("the scale of a row of zeros", keys[0], 0.0);
  expect("the scale of a row with an infinity is NaN", std::isnan(keys[1]));
  expect_close("the scales of rows 0.5, -1, 0.25 and 2, 0, -4: 1 / 127 and 4 / 127", {values[0], values[1]},
               {1.0 / 127, 4.0 / 127}, {2}, {.dtype = f32, .roundings = 1});
  expect_equal("their integers: 63.5 to the nearest even one, 31.75 up",
               std::vector<double>(numbers.begin(), numbers.begin() + 6),
               std::vector<double>{64, -127, 32, 64, 0, -127});
}

TEST_CASE("9.12 rows that pad a step to a fixed length belong to no sequence") {
  const CacheCase c{.past = {5, 2}, .rows = {1, 2}, .groups = 2, .head_size = 4};
  CacheScene scene(c, false);
  const auto padded = [&](int which) {
    Numbers rows = scene.new_rows(which).numbers();
    rows.resize(static_cast<size_t>(8 * c.groups * c.head_size), 77);
    return placed(Values::of(f32, {8, c.groups, c.head_size}, rows));
  };
  Values k = padded(0), v = padded(1);
  backend::cuda::kv_append(scene.view(), k.view(), v.view());
  expect_memory(scene);
  Values none = placed(Values(f32, {0, c.groups, c.head_size}));
  backend::cuda::kv_append(scene.view(), none.view(), none.view());
}

TEST_CASE("9.12 each row is read once and written once, by neighbouring lanes") {
  const CacheCase c{.kind = Kind::pages,
                    .past = {40, 3, 17, 8},
                    .rows = {3, 8, 1, 8},
                    .groups = 4,
                    .head_size = 64,
                    .page = 16};
  CacheScene scene(c, false);
  Values k = scene.new_rows(0), v = scene.new_rows(1);
  const backend::KvView kv = scene.view();
  const View keys = k.view(), values = v.view();
  const Counted n = counted([&] { backend::cuda::kv_append(kv, keys, values); });
  expect_memory(scene);
  if (!kCounts) return;
  const double bytes = 2.0 * static_cast<double>(c.steps() * c.groups * c.head_size) * 4;
  expect_equal("launches", n.launches, 1.0);
  expect_equal("bytes written for 20 tokens of 4 heads of 64 floats, keys and values", n.bytes_written,
               bytes);
  const double moved = 32 * n.sectors / (2 * bytes);
  expect(
      "sectors of 32 bytes, with lengths and tables, in the bytes of the rows, read and written: at most 2; "
      "got " +
          shown(moved),
      moved <= 2);
}
