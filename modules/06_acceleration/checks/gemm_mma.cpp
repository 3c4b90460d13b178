#include <06_acceleration/checks/ladder_product.hpp>

using namespace course;

namespace {

const auto gemm = [](const View& out, const View& a, const View& b) { backend::cuda::gemm_mma(out, a, b); };
void check(ProductCase c) {
  c.dtype = bf16;
  check_ladder("gemm_mma", c, gemm);
}

}  // namespace

TEST_CASE("6.10 one tile, and one result") {
  check({.M = 64, .N = 64, .K = 32});
  check({.M = 1, .N = 1, .K = 1});
}

TEST_CASE("6.10 each number is where it belongs: products with a single 1") {
  // a is 0 but for a 1 at [m, k], so row m of the result is row k of b.
  for (const auto& [m, k] : {std::pair<int64_t, int64_t>{0, 0}, {7, 9}, {8, 17}, {33, 31}, {63, 24}}) {
    Numbers one(64 * 32);
    one[static_cast<size_t>(m * 32 + k)] = 1;
    Values a = Values::of(bf16, {64, 32}, one).on_device(), b = Values::random(bf16, {32, 64}).on_device(),
           out = Values(f32, {64, 64}).on_device();
    gemm(out.view(), a.view(), b.view());
    const Numbers y = b.numbers();
    Numbers want(64 * 64);
    for (size_t n = 0; n < 64; ++n)
      want[static_cast<size_t>(m) * 64 + n] = y[static_cast<size_t>(k) * 64 + n];
    expect_close("a has a 1 at [" + shown(m) + ", " + shown(k) + "]: this row of a b is that row of b", out,
                 want, {.dtype = f32});
  }
}

TEST_CASE("6.10 several stages along k, and depths that end within one") {
  check({.M = 16, .N = 8, .K = 96});
  for (const int64_t K : {7, 15, 17, 33}) check({.M = 9, .N = 10, .K = K});
}

TEST_CASE("6.10 several tiles of the result, the last ones partial") {
  check({.M = 65, .N = 72, .K = 16});
  check({.M = 3, .N = 67, .K = 8});
}

TEST_CASE("6.10 matrices of any layout, and parts that are not aligned") {
  for (const Layout layout : kLayouts)
    check({.M = 9, .N = 10, .K = 8, .a = layout, .b = layout, .out = layout});
  for (const int64_t skipped : {1, 8}) check({.M = 9, .N = 16, .K = 24, .skipped = skipped});
  check({.M = 9, .N = 16, .K = 24, .upside_down = true});
  check({.M = 5, .N = 16, .K = 12, .behind = 4});
}

TEST_CASE("6.10 sums are f32, and rounded to bf16 once") {
  check({.M = 20, .N = 24, .K = 64, .result = bf16});
  // 256 + 1 + 1 + ...: each 1 is half of the distance of two bf16 there, so a sum in bf16 stays at 256.
  Numbers ones(static_cast<size_t>(8 * 160), 1), first = ones;
  for (size_t m = 0; m < 8; ++m) first[m * 160] = 256;
  Values a = Values::of(bf16, {8, 160}, first).on_device(), out = Values(f32, {8, 8}).on_device(),
         b = Values::of(bf16, {160, 8}, ones).on_device();
  gemm(out.view(), a.view(), b.view());
  expect_close("256 + 159 ones", out, Numbers(64, 415), {.dtype = f32});
}

TEST_CASE("6.10 no terms give 0, an empty result needs no kernel, and what does not fit is refused") {
  check({.M = 3, .N = 4, .K = 0});
  check({.M = 0, .N = 4, .K = 2});
  check_ladder_refusals(bf16, gemm);
}

TEST_CASE("6.10 a block reads its rows and columns, and nothing else") {
  const Counted n = count_ladder(64, 64, 64, bf16, gemm);
  if (!kCounts) return expect("nothing is counted on a GPU", true);
  const double bytes = 2.0 * 2 * 64 * 64;
  expect("bytes read of [64, 64] and [64, 64], for one tile: at most 2.5 times their memory, " +
             shown(bytes) + "; got " + shown(n.bytes_read),
         n.bytes_read >= bytes && n.bytes_read <= 2.5 * bytes);
}
