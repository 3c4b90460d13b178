#include <01_tensor/checks/reference.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

using namespace course;
namespace cuda = backend::cuda;

namespace {

struct Case {
  DType dtype = f32, result = f32;
  int64_t M = 1, N = 1, K = 1;
  Layout a = Layout::contiguous, b = Layout::contiguous, out = Layout::contiguous;
  bool bias = false, accumulate = false;
};

void check_product(const Case& c) {
  const bool floating = is_floating(c.dtype), truth = c.dtype == boolean;
  const double low = truth || c.dtype == u8 ? 0 : (floating ? -1 : -3), high = truth ? 2 : (floating ? 1 : 3);
  Values a = Values::random(c.dtype, {c.M, c.K}, c.a, low, high).on_device();
  Values b = Values::random(c.dtype, {c.K, c.N}, c.b, low, high).on_device();
  Values out = Values::random(c.result, {c.M, c.N}, c.out, 0, 3).on_device();
  Values bias = Values::random(c.result, {c.N}, Layout::gaps, 0, 3).on_device();
  Numbers want = product(a.numbers(), b.numbers(), c.M, c.N, c.K);
  const Numbers before = out.numbers(), added = bias.numbers();
  for (size_t i = 0; i < want.size(); ++i) {
    if (c.bias) want[i] += added[i % static_cast<size_t>(c.N)];
    if (c.accumulate) want[i] += before[i];
  }
  cuda::gemm(out.view(), a.view(), b.view(), c.bias ? bias.view() : View{}, c.accumulate);
  expect_close(std::string("gemm of ") + name_of(c.dtype) + " " + a.shape().str() + " (" +
                   name_of_layout(c.a) + ") and " + b.shape().str() + " (" + name_of_layout(c.b) + ")" +
                   (c.bias ? ", with a bias" : "") + (c.accumulate ? ", added" : "") + " to " +
                   name_of(c.result) + " (" + name_of_layout(c.out) + ")",
               out, want, {.roundings = 8, .scale = 6 + static_cast<double>(c.K) / 2});
}

}  // namespace

TEST_CASE("1.11 one tile") {
  check_product({.M = 16, .N = 16, .K = 16});
  check_product({.M = 1, .N = 1, .K = 1});
  check_product({.M = 3, .N = 5, .K = 7});
}

TEST_CASE("1.11 several tiles along k") {
  check_product({.M = 16, .N = 16, .K = 48});
  check_product({.M = 4, .N = 4, .K = 17});
  check_product({.M = 9, .N = 4, .K = 15});
}

TEST_CASE("1.11 several tiles of the result, the last ones partial") {
  check_product({.M = 32, .N = 48, .K = 16});
  check_product({.M = 17, .N = 15, .K = 33});
  check_product({.M = 40, .N = 19, .K = 5});
  check_product({.M = 70, .N = 66, .K = 3});
}

TEST_CASE("1.11 matrices of any layout") {
  for (const Layout layout : kLayouts) {
    check_product({.M = 18, .N = 7, .K = 20, .a = layout, .b = Layout::transposed});
    check_product({.M = 7, .N = 18, .K = 5, .a = Layout::gaps, .b = layout});
    check_product({.M = 7, .N = 18, .K = 5, .out = layout});
  }
}

TEST_CASE("1.11 a bias and the old values of out are added") {
  check_product({.M = 18, .N = 17, .K = 6, .bias = true});
  check_product({.M = 18, .N = 17, .K = 20, .accumulate = true});
  check_product({.dtype = f64, .result = f64, .M = 5, .N = 6, .K = 7, .bias = true, .accumulate = true});
}

TEST_CASE("1.11 each dtype is computed in its compute type") {
  for (const DType dtype : {f64, bf16, f16, i8, u8, i32, i64}) {
    check_product({.dtype = dtype, .result = dtype, .M = 5, .N = 18, .K = 9});
  }
  check_product({.dtype = bf16, .result = f32, .M = 5, .N = 6, .K = 40});
  check_product({.dtype = f16, .result = f32, .M = 5, .N = 6, .K = 40});
  check_product({.dtype = boolean, .result = i32, .M = 5, .N = 6, .K = 20});
}

TEST_CASE("1.11 batches, and one matrix broadcast over a batch") {
  const int64_t M = 3, N = 4, K = 17;
  Values a = Values::random(f32, {2, M, K}, Layout::transposed).on_device();
  Values b = Values::random(f32, {K, N}).on_device(), out = Values(f32, {2, M, N}, Layout::gaps).on_device();
  View same = b.view();
  same.shape = {2, K, N};
  same.strides = {0, N, 1};
  cuda::gemm(out.view(), a.view(), same, {}, false);
  expect_close("gemm of [2, 3, 17] and one [17, 4] for both batches", out,
               product(a.numbers(), b.numbers(), 2 * M, N, K), {.roundings = 8, .scale = 9});
  Values p = Values::random(f64, {5, 1, 2, 3}).on_device(), q = Values::random(f64, {5, 1, 3, 2}).on_device();
  Values many = Values(f64, {5, 1, 2, 2}).on_device();
  Numbers want;
  const Numbers all_p = p.numbers(), all_q = q.numbers();
  for (int64_t i = 0; i < 5; ++i) {
    const Numbers one = product(Numbers(all_p.begin() + i * 6, all_p.begin() + (i + 1) * 6),
                                Numbers(all_q.begin() + i * 6, all_q.begin() + (i + 1) * 6), 2, 2, 3);
    want.insert(want.end(), one.begin(), one.end());
  }
  cuda::gemm(many.view(), p.view(), q.view(), {}, false);
  expect_close("gemm of [5, 1, 2, 3] and [5, 1, 3, 2]", many, want, {.roundings = 8, .scale = 3});
}

TEST_CASE("1.11 a product with K = 0, and an empty result") {
  check_product({.M = 2, .N = 3, .K = 0});
  check_product({.M = 2, .N = 3, .K = 0, .bias = true});
  check_product({.M = 0, .N = 3, .K = 4});
}

// The products have K = 0, so that the emulator is quick: each element of the result is 0.
void check_large_grid(const std::string& what, const Shape& a_shape, const Shape& out_shape) {
  Values a = Values::random(f32, a_shape, Layout::contiguous, 0, 1).on_device();
  Values b = Values::random(f32, {0, 1}, Layout::contiguous, 0, 1).on_device();
  Values out = Values(f32, out_shape).on_device();
  cuda::gemm(out.view(), a.view(), b.view(), View{}, false);
  expect_close(what, out, Numbers(static_cast<size_t>(out_shape.numel())));
}

TEST_CASE("1.11 more tiles of rows, and more batches, than one dimension of a grid has in y and z") {
  check_large_grid("gemm with 1,048,577 rows", {1'048'577, 0}, {1'048'577, 1});
  check_large_grid("gemm of 65,540 products", {65'540, 1, 0}, {65'540, 1, 1});
}
