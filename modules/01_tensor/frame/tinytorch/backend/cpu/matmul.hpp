// Batched matrix products on the CPU, and x W^T + b: 2 M N K FLOPs each, on no more than M K + K N + M N
// elements.
//
// The frame of a course header: it has the given parts, and includes the functions of task 1.7.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [..., M, N] (+)= a [..., M, K] b [..., K, N], one dtype (bool: out is i32; bf16 and f16: out may be
// f32). The batch dimensions of a and b are those of out, with stride 0 where one matrix serves many.
TT_API void matmul(const View& out, const View& a, const View& b, bool accumulate = false);
// out [M, N] = x [M, K] weight [N, K]^T + bias [N]; bias may be without data.
TT_API void linear(const View& out, const View& x, const View& weight, const View& bias);
// linear plus residual [M, N], which out must not overlap.
TT_API void linear_residual(const View& out, const View& x, const View& weight, const View& bias,
                            const View& residual);
// z = x weight^T + bias as in linear, out = fn(z); z may be without data.
TT_API void linear_activation(Activation fn, const View& out, const View& z, const View& x,
                              const View& weight, const View& bias);
// The gradients of weight and bias: dweight [N, K] = dy [M, N]^T x [M, K], dbias [N] = column sums of dy.
TT_API void linear_grad_weight(const View& dweight, const View& dbias, const View& dy, const View& x);
// The gradient of z where y = fn(z) weight^T: dz [M, F] = (dy [M, N] weight [N, F]) fn'(z [M, F]), and dbias
// [F] = column sums of dz, of a bias that was added to z; dbias may be without data. Activation::none ignores
// z.
TT_API void linear_grad_activation(Activation fn, const View& dz, const View& dbias, const View& dy,
                                   const View& weight, const View& z);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS) || defined(TINYTORCH_TASK)
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/reduce.hpp>
#include <tinytorch/backend/layout.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// A matrix of C without gaps, 0 at first.
template <class C>
class RowMajor {
 public:
  RowMajor(int64_t rows, int64_t cols)
      : elements_(static_cast<size_t>(rows * cols)), shape_{rows, cols}, strides_{cols, 1} {}
  C* data() { return elements_.data(); }
  View view() { return {data(), dtype_of<C>, shape_, strides_}; }

 private:
  std::vector<C> elements_;
  Shape shape_;
  Strides strides_;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/matmul.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

TT_API void matmul(const View& out, const View& a, const View& b, bool accumulate) {
  dispatch_compute(a.dtype, [&]<class C>(C*) { multiply_batches<C>(out, a, b, accumulate); });
}

TT_API void linear_residual(const View& out, const View& x, const View& weight, const View& bias,
                            const View& residual) {
  linear(out, x, weight, bias);
  binary(BinaryFn::add, out, out, residual);
}

TT_API void linear_activation(Activation fn, const View& out, const View& z, const View& x,
                              const View& weight, const View& bias) {
  const View& before = z.data ? z : out;
  linear(before, x, weight, bias);
  unary(activation_fn(fn), out, before);
}

TT_API void linear_grad_weight(const View& dweight, const View& dbias, const View& dy, const View& x) {
  matmul(dweight, transposed(dy), x);
  const bool rows[] = {true, false};
  reduce(ReduceFn::sum, dbias, dy, rows);
}

TT_API void linear_grad_activation(Activation fn, const View& dz, const View& dbias, const View& dy,
                                   const View& weight, const View& z) {
  matmul(dz, dy, weight);
  if (fn != Activation::none) binary(activation_grad_fn(fn), dz, dz, z);
  const bool rows[] = {true, false};
  if (dbias.data) reduce(ReduceFn::sum, dbias, dz, rows);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
