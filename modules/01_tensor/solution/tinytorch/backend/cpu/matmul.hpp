// Batched matrix products on the CPU, and x W^T + b: 2 M N K FLOPs each, on no more than M K + K N + M N
// elements.
//
// Matrices of any layout and dtype are first copied, row by row and converted, so that one triple loop in
// four types serves them all: few moves beside M N K multiplications.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [..., M, N] (+)= a [..., M, K] b [..., K, N], one dtype (bool: out is i32; bf16 and f16: out may be
// f32). The batch dimensions of a and b are those of out, with stride 0 where one matrix serves many.
TT_API void matmul(const View& out, const View& a, const View& b, bool accumulate = false);
// out [M, N] = x [M, K] weight [N, K]^T + bias [N]; bias may be without data.
TT_API void linear(const View& out, const View& x, const View& weight, const View& bias);
// The same + residual [M, N], which out must not overlap.
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

#if TT_BODIES(PRODUCTS)
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/reduce.hpp>
#include <tinytorch/backend/layout.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [M, N] += a [M, K] b [K, N], all row-major without gaps: out[m, n] += sum over k of a[m, k] b[k, n].
// Order the three loops so that the innermost one walks along rows: side by side in memory, and each step
// apart from the one before.
template <class C>
void multiply_add(C* out, const C* a, const C* b, int64_t M, int64_t N, int64_t K) {
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t k = 0; k < K; ++k) {
      const C factor = a[m * K + k];
      const C* row = b + k * N;
      C* sums = out + m * N;
      for (int64_t n = 0; n < N; ++n) sums[n] += factor * row[n];
    }
  }
}

// Matrix number `batch` of v [..., R, C]: a view of R x C elements. `batches` is the shape of the dimensions
// before the last two, whose strides may be 0; locate() (backend/layout.hpp) counts in it.
inline View matrix_of(const View& v, const Shape& batches, int64_t batch) {
  const int r = v.rank();
  int64_t index[kMaxRank];
  const int64_t offset = locate(batches, batches_of(v).strides, batch, index);
  return {v.as<char>() + offset * static_cast<int64_t>(size_of(v.dtype)),
          v.dtype,
          {v.shape[r - 2], v.shape[r - 1]},
          {v.strides[r - 2], v.strides[r - 1]}};
}

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

// out (+)= a b for each matrix of the batch, computed in C: copy(to, from) brings matrices of any layout and
// dtype into a RowMajor<C> and back. With `accumulate` the product is added to what out holds.
template <class C>
void multiply_batches(const View& out, const View& a, const View& b, bool accumulate) {
  const Shape batches = batches_of(out).shape;
  const int64_t M = out.shape[out.rank() - 2], N = out.shape[out.rank() - 1], K = a.shape[a.rank() - 1];
  RowMajor<C> left(M, K), right(K, N);
  for (int64_t batch = 0; batch < batches.numel(); ++batch) {
    const View result = matrix_of(out, batches, batch);
    RowMajor<C> sums(M, N);
    copy(left.view(), matrix_of(a, batches, batch));
    copy(right.view(), matrix_of(b, batches, batch));
    if (accumulate) copy(sums.view(), result);
    multiply_add(sums.data(), left.data(), right.data(), M, N, K);
    copy(result, sums.view());
  }
}

TT_API void matmul(const View& out, const View& a, const View& b, bool accumulate) {
  dispatch_compute(a.dtype, [&]<class C>(C*) { multiply_batches<C>(out, a, b, accumulate); });
}

// out [M, N] = x [M, K] weight [N, K]^T + bias [N], in terms of what is there: copy() broadcasts, matmul()
// can add to its output, and transposed() moves nothing. bias.data is null where there is no bias.
TT_API void linear(const View& out, const View& x, const View& weight, const View& bias) {
  if (bias.data) copy(out, bias);
  matmul(out, x, transposed(weight), bias.data != nullptr);
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
