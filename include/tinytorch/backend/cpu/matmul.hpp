// Batched matrix products on the CPU, and x W^T + b. Each product is one gemm (backend/cpu/gemm.hpp); many
// small ones are shared out among threads, a few large ones are each computed by all.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [..., M, N] (+)= a [..., M, K] b [..., K, N], one dtype (bool: out is i32; bf16 and f16: out may be f32).
// The batch dimensions of a and b are those of out, with stride 0 where one matrix serves many.
TT_API void matmul(const View& out, const View& a, const View& b, bool accumulate = false);
// out [M, N] = x [M, K] weight [N, K]^T + bias [N]; bias may be without data.
TT_API void linear(const View& out, const View& x, const View& weight, const View& bias);
// z = x weight^T + bias as in linear, out = fn(z); z may be without data.
TT_API void linear_activation(Activation fn, const View& out, const View& z, const View& x,
                              const View& weight, const View& bias);
// The gradients of weight and bias: dweight [N, K] = dy [M, N]^T x [M, K], dbias [N] = column sums of dy.
TT_API void linear_grad_weight(const View& dweight, const View& dbias, const View& dy, const View& x);
// The gradient of z where y = fn(z) weight^T: dz [M, F] = (dy [M, N] weight [N, F]) fn'(z [M, F]), and dbias [F]
// = column sums of dz, of a bias that was added to z; dbias may be without data. Activation::none ignores z.
TT_API void linear_grad_activation(Activation fn, const View& dz, const View& dbias, const View& dy,
                                   const View& weight, const View& z);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <tinytorch/backend/cpu/dense.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/backend/cpu/reduce.hpp>
#include <tinytorch/backend/layout.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Matrix number `batch` of v [..., R, C].
inline View matrix_of(const View& v, const Shape& batches, int64_t batch) {
  const int r = v.rank();
  int64_t index[kMaxRank];
  const int64_t offset = locate(batches, Strides(v.strides.begin(), v.strides.end() - 2), batch, index);
  return {v.as<char>() + offset * static_cast<int64_t>(size_of(v.dtype)),
          v.dtype,
          {v.shape[r - 2], v.shape[r - 1]},
          {v.strides[r - 2], v.strides[r - 1]}};
}

TT_API void matmul(const View& out, const View& a, const View& b, bool accumulate) {
  const Shape batches(out.shape.begin(), out.shape.end() - 2);
  const int64_t count = batches.numel();
  const bool one_per_thread = count >= thread_count();
  const auto products = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      gemm(matrix_of(out, batches, i), matrix_of(a, batches, i), matrix_of(b, batches, i), accumulate,
           !one_per_thread);
    }
  };
  const bool parallel = one_per_thread && 2 * out.numel() * a.shape.back() > kParallelFlops;
  maybe_parallel(parallel, count, 1, products);
}

// Whether a product can be finished in place: rows of v are contiguous and of the type that sums are kept in.
inline bool has_dense_rows(const View& v) {
  return (v.dtype == DType::f32 || v.dtype == DType::f64) && v.strides.back() == 1;
}

// Row i of a matrix from column j on; a null pointer where there is none.
template <class T>
T* row_from(const View& v, int64_t i, int64_t j) {
  return v.data ? v.as<T>() + i * v.strides[0] + j : nullptr;
}

// out = fn(z), z = sums + bias; z may be out.
template <class T>
void product_with_activation(Activation fn, const View& out, const View& z, const View& x, const View& weight,
                             const View& bias) {
  const Kernel<T> add = find_binary<T>(BinaryFn::add), activate = find_unary<T>(activation_fn(fn));
  const auto finish = [&](int64_t i0, int64_t rows, int64_t j, int64_t cols) {
    constexpr double kNone[] = {0, 0};
    for (int64_t i = i0; i < i0 + rows; ++i) {
      T *const sum = row_from<T>(z, i, j), *const to = row_from<T>(out, i, j);
      const T* const operands[] = {sum, bias.data ? bias.as<const T>() + j : sum};
      if (bias.data) add(sum, operands, cols, kNone);
      if (fn != Activation::none || to != sum) activate(to, operands, cols, kNone);
    }
  };
  gemm(z, x, transposed(weight), false, true, Finish(finish));
}

// dz = (dy weight) fn'(z).
template <class T>
void product_with_slope(Activation fn, const View& dz, const View& dy, const View& weight, const View& z) {
  const Kernel<T> slope = find_binary<T>(activation_grad_fn(fn));
  const auto finish = [&](int64_t i0, int64_t rows, int64_t j, int64_t cols) {
    constexpr double kNone[] = {0};
    for (int64_t i = i0; i < i0 + rows; ++i) {
      T* const g = row_from<T>(dz, i, j);
      const T* const operands[] = {g, row_from<T>(z, i, j)};
      slope(g, operands, cols, kNone);
    }
  };
  gemm(dz, dy, weight, false, true, Finish(finish));
}

TT_API void linear(const View& out, const View& x, const View& weight, const View& bias) {
  linear_activation(Activation::none, out, {}, x, weight, bias);
}

TT_API void linear_activation(Activation fn, const View& out, const View& z, const View& x,
                              const View& weight, const View& bias) {
  const View& before = z.data ? z : out;
  if (has_dense_rows(out) && has_dense_rows(before) && (!bias.data || has_dense_rows(bias))) {
    return dispatch_floating(
        out.dtype, [&]<class T>(T*) { product_with_activation<T>(fn, out, before, x, weight, bias); });
  }
  if (bias.data) copy(before, bias);
  gemm(before, x, transposed(weight), bias.data != nullptr);
  if (fn != Activation::none || z.data) unary(activation_fn(fn), out, before);
}

TT_API void linear_grad_weight(const View& dweight, const View& dbias, const View& dy, const View& x) {
  gemm(dweight, transposed(dy), x, false);
  const bool rows[] = {true, false};
  reduce(ReduceFn::sum, dbias, dy, rows);
}

TT_API void linear_grad_activation(Activation fn, const View& dz, const View& dbias, const View& dy,
                                   const View& weight, const View& z) {
  if (fn != Activation::none && has_dense_rows(dz) && has_dense_rows(z)) {
    dispatch_floating(dz.dtype, [&]<class T>(T*) { product_with_slope<T>(fn, dz, dy, weight, z); });
  } else {
    gemm(dz, dy, weight, false);
    if (fn != Activation::none) binary(activation_grad_fn(fn), dz, dz, z);
  }
  const bool rows[] = {true, false};
  if (dbias.data) reduce(ReduceFn::sum, dbias, dz, rows);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
