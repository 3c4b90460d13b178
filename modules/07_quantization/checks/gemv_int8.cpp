#include "byte_product.hpp"

using namespace course;

TEST_CASE("7.13 one row of x: the exact sums, for any number of rows of the weight") {
  for (const int64_t N : {1, 2, 3, 4, 5, 15, 16, 17, 40}) check_product({.M = 1, .N = N, .K = 64});
}

TEST_CASE("7.13 any number of columns: whole rounds of a warp, parts of them, and a tail") {
  for (const int64_t K : {16, 32, 496, 512, 528, 1024, 1040}) check_product({.M = 1, .N = 6, .K = K});
  for (const int64_t K : {1, 2, 15, 17, 100, 513, 1001}) check_product({.M = 1, .N = 6, .K = K});
}

TEST_CASE("7.13 two to four rows of x") {
  for (const int64_t M : {2, 3, 4})
    for (const int64_t K : {48, 600}) check_product({.M = M, .N = 9, .K = K});
}

TEST_CASE("7.13 the extreme codes: -128 times -128, and sums that no f32 has") {
  for (const int64_t K : {16, 1200}) check_product({.M = 2, .N = 7, .K = K, .extremes = true});
  check_product({.M = 2, .N = 6, .K = 3001, .extremes = true});
}

TEST_CASE("7.13 scales, a bias and an activation behind the complete sum") {
  for (const DType out : {f32, bf16, f16})
    check_product({.M = 2, .N = 10, .K = 64, .out = out, .bias = true});
  check_product({.M = 3, .N = 10, .K = 600, .out = f32, .one_scale = true});
  check_product({.M = 1, .N = 10, .K = 64, .out = f32, .bias = true, .fn = Activation::relu});
}

TEST_CASE("7.13 codes that are not aligned, or not neighbours in memory") {
  for (const Layout layout : kLayouts) check_product({.M = 3, .N = 6, .K = 80, .layout = layout});
  check_product({.M = 2, .N = 5, .K = 16 * 5 + 4});
  for (const int64_t skipped : {1, 4, 16}) check_product({.M = 2, .N = 5, .K = 64, .skipped = skipped});
}

TEST_CASE("7.13 the weight is read once, 16 bytes at a time, and x once for four of its rows") {
  const int64_t N = 64, K = 2048;
  Values x = Values::random(i8, {1, K}, Layout::contiguous, -100, 100).on_device(),
         w = Values::random(i8, {N, K}, Layout::contiguous, -100, 100).on_device(),
         out = Values(i32, {1, N}).on_device();
  const View result = out.view(), left = x.view(), right = w.view();
  const Counted n =
      counted([&] { backend::cuda::linear_int8(result, left, right, {}, {}, {}, Activation::none); });
  Numbers want;
  const Numbers a = x.numbers(), b = w.numbers();
  for (size_t r = 0; r < 64; ++r)
    want.push_back(std::inner_product(a.begin(), a.end(), b.begin() + static_cast<long>(r * 2048), 0.0));
  expect_close("sums of x [1, 2048], weight [64, 2048]", out, want, {.dtype = i32});
  if (!kCounts) return;
  const double bytes = static_cast<double>(N * K);
  expect("bytes read, in the bytes of the weight: at most 2.1; got " + shown(n.bytes_read / bytes),
         n.bytes_read <= 2.1 * bytes);
  expect("bytes of an access of a warp, on average: at least 200, as of 16 bytes a lane; got " +
             shown(n.bytes_read / n.requests),
         n.bytes_read >= 200 * n.requests);
}
