#include "byte_product.hpp"

using namespace course;

TEST_CASE("7.14 one tile: the exact sums of 64 x 64 results") {
  check_product({.M = 64, .N = 64, .K = 64});
  check_product({.M = 64, .N = 64, .K = 32});
}

TEST_CASE("7.14 each code is where it belongs: products with a single 1") {
  // x is 0 but for a 1 in row m, column k; so row m of the result is column k of the weight.
  for (const auto& [m, k] :
       {std::pair<int64_t, int64_t>{0, 0}, {7, 3}, {8, 4}, {9, 17}, {15, 31}, {16, 32}, {33, 40}, {63, 63}}) {
    Numbers one(64 * 64);
    one[static_cast<size_t>(m * 64 + k)] = 1;
    Values x = Values::of(i8, {64, 64}, one).on_device(),
           w = Values::random(i8, {64, 64}, Layout::contiguous, -127, 127).on_device(),
           out = Values(i32, {64, 64}).on_device();
    backend::cuda::linear_int8(out.view(), x.view(), w.view(), {}, {}, {}, Activation::none);
    const Numbers codes = w.numbers();
    Numbers want(64 * 64);
    for (size_t n = 0; n < 64; ++n)
      want[static_cast<size_t>(m) * 64 + n] = codes[n * 64 + static_cast<size_t>(k)];
    expect_close("x has a 1 in row " + std::to_string(m) + ", column " + std::to_string(k) +
                     ": this row of x W^T is that column of W",
                 out, want, {.dtype = i32});
  }
}

TEST_CASE("7.14 several stages along K, and several tiles") {
  check_product({.M = 64, .N = 64, .K = 320});
  check_product({.M = 128, .N = 128, .K = 128});
}

TEST_CASE("7.14 tiles that are partly outside of the result, and columns that end within a stage") {
  check_product({.M = 5, .N = 3, .K = 16});
  check_product({.M = 65, .N = 66, .K = 80});
  check_product({.M = 33, .N = 70, .K = 48});
  for (const int64_t K : {1, 31, 65, 100}) check_product({.M = 9, .N = 10, .K = K});
}

TEST_CASE("7.14 the extreme codes: sums that no f32 has") {
  check_product({.M = 8, .N = 16, .K = 1600, .extremes = true});
  check_product({.M = 6, .N = 5, .K = 1601, .extremes = true});
}

TEST_CASE("7.14 scales, a bias and an activation behind the complete sum") {
  for (const DType out : {f32, bf16}) check_product({.M = 20, .N = 30, .K = 160, .out = out, .bias = true});
  check_product({.M = 9, .N = 10, .K = 160, .out = f32, .one_scale = true});
  check_product({.M = 9, .N = 10, .K = 64, .out = f16, .bias = true, .fn = Activation::relu});
}

TEST_CASE("7.14 codes that are not aligned, or not neighbours in memory") {
  for (const Layout layout : kLayouts) check_product({.M = 10, .N = 12, .K = 84, .layout = layout});
  for (const int64_t skipped : {1, 16}) check_product({.M = 10, .N = 12, .K = 64, .skipped = skipped});
}

TEST_CASE("7.14 each operand is read once per tile") {
  const int64_t M = 64, N = 128, K = 256;
  Values x = Values::random(i8, {M, K}, Layout::contiguous, -100, 100).on_device(),
         w = Values::random(i8, {N, K}, Layout::contiguous, -100, 100).on_device(),
         out = Values(i32, {M, N}).on_device();
  const View result = out.view(), left = x.view(), right = w.view();
  const Counted n =
      counted([&] { backend::cuda::linear_int8(result, left, right, {}, {}, {}, Activation::none); });
  const Numbers a = x.numbers(), b = w.numbers();
  Numbers want;
  for (size_t i = 0; i < 64 * 128; ++i) {
    const auto row = a.begin() + static_cast<long>(i / 128 * 256);
    want.push_back(std::inner_product(row, row + 256, b.begin() + static_cast<long>(i % 128 * 256), 0.0));
  }
  expect_close("x [64, 256], weight [128, 256]", out, want, {.dtype = i32});
  if (!kCounts) return;
  const double bytes = static_cast<double>(2 * M * K + N * K);
  expect("bytes read: those of x for each of 2 tiles, and those of the weight, at most 1.3 times; got " +
             shown(n.bytes_read / bytes),
         n.bytes_read <= 1.3 * bytes);
}
