// Batched products and the products of linear layers, against plain loops. gemm has its own tests.
#include <support/linear_reference.hpp>

#include <tinytorch/backend/cpu/matmul.hpp>
#include <tinytorch/core/parallel.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("a batch of products with a broadcast operand, with any number of threads") {
  const int before = thread_count();
  for (const int64_t batch : {0, 1, 2, 9}) {
    for (const int threads : {1, 3}) {
      set_thread_count(threads);
      Array a = Array::random(f64, {batch, 4, 5}, 1, -1, 1), b = Array::random(f64, {5, 3}, 2, -1, 1),
            c(f64, {batch, 4, 3});
      tinytorch::backend::View shared = b.view();
      shared.shape = {batch, 5, 3};
      shared.strides = {0, shared.strides[0], shared.strides[1]};
      kernels::matmul(c.view(), a.view(), shared);
      const std::vector<double> x = a.values(), y = b.values();
      std::vector<double> want(static_cast<size_t>(batch * 12), 0.0);
      for (size_t i = 0; i < want.size(); ++i) {
        for (size_t k = 0; k < 5; ++k) want[i] += x[i / 3 * 5 + k] * y[k * 3 + i % 3];
      }
      check_close(c.values(), want, f64, 10);
    }
  }
  set_thread_count(before);
}

TEST_CASE("products accumulate into out; those of 16-bit operands into f32, unrounded") {
  for (const DType dtype : kFloating) {
    const DType wide = dtype == f64 ? f64 : f32;
    Array a = Array::random(dtype, {2, 4, 9}, 1, -1, 1),
          b = Array::random(dtype, {2, 9, 3}, 2, -1, 1, Layout::gaps),
          c = Array::random(wide, {2, 4, 3}, 3, -1, 1);
    const std::vector<double> x = a.values(), y = b.values();
    std::vector<double> want = c.values();
    kernels::matmul(c.view(), a.view(), b.view(), true);
    for (size_t i = 0; i < want.size(); ++i) {
      for (size_t k = 0; k < 9; ++k) want[i] += x[i / 3 * 9 + k] * y[i / 12 * 27 + k * 3 + i % 3];
    }
    check_close(c.values(), want, wide, 20);
  }
}

TEST_CASE("linear multiplies by the transposed weight and adds the bias; linear_activation also stores z") {
  for (const DType dtype : kFloating) {
    Array x = Array::random(dtype, {6, 5}, 1, -1, 1, Layout::gaps),
          w = Array::random(dtype, {4, 5}, 2, -1, 1), b = Array::random(dtype, {4}, 3, -1, 1),
          y(dtype, {6, 4}), z(dtype, {6, 4}), relu(dtype, {6, 4});
    kernels::linear(y.view(), x.view(), w.view(), b.view());
    kernels::linear_activation(tinytorch::backend::Activation::relu, relu.view(), z.view(), x.view(),
                               w.view(), b.view());
    const std::vector<double> xs = x.values(), ws = w.values(), bs = b.values();
    std::vector<double> want(24);
    for (size_t i = 0; i < 24; ++i) {
      want[i] = bs[i % 4];
      for (size_t k = 0; k < 5; ++k) want[i] += xs[i / 4 * 5 + k] * ws[i % 4 * 5 + k];
    }
    check_close(y.values(), want, dtype, 16, 4);
    CHECK(z.values() == y.values());
    std::vector<double> positive = y.values();
    for (double& v : positive) v = v < 0 ? 0 : v;
    CHECK(relu.values() == positive);
    kernels::linear(y.view(), x.view(), w.view(), {});
    for (size_t i = 0; i < 24; ++i) want[i] -= bs[i % 4];
    check_close(y.values(), want, dtype, 16, 4);
  }
}

TEST_CASE("linear_residual adds the residual before it rounds") {
  check_linear_residual<Array>(kernels::linear_residual);
}

TEST_CASE("linear_grad_weight computes the gradients of weight and bias") {
  check_linear_grad_weight<Array>(kernels::linear_grad_weight);
}

TEST_CASE("linear_grad_activation multiplies by the derivative and sums the bias gradient") {
  check_linear_grad_activation<Array>(kernels::linear_grad_activation);
}
