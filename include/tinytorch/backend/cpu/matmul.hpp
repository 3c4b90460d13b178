// Batched matrix products on the CPU, and linear layers x W^T + b. Each product is one gemm
// (backend/cpu/gemm.hpp). Many small products are divided among threads; a few large ones are computed one
// after the other by all threads.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [..., M, N] = or += a [..., M, K] b [..., K, N], all of one dtype, or out of the accumulate type: f32
// for bf16 and f16, i32 for bool. a and b have the batch dimensions of out, with stride 0 where one matrix is
// used for several products.
TT_API void matmul(const View& out, const View& a, const View& b, bool accumulate = false);
// out [M, N] = x [M, K] weight [N, K]^T + bias [N]; bias may be without data.
TT_API void linear(const View& out, const View& x, const View& weight, const View& bias);
// out [M, N] = x weight^T + bias + residual [M, N]. out must not overlap residual.
TT_API void linear_residual(const View& out, const View& x, const View& weight, const View& bias,
                            const View& residual);
// z [M, N] = x weight^T + bias, out [M, N] = fn(z). bias and z may be without data.
TT_API void linear_activation(Activation fn, const View& out, const View& z, const View& x,
                              const View& weight, const View& bias);
// Gradients of weight and bias: dweight [N, K] = dy [M, N]^T x [M, K], dbias [N] = column sums of dy.
TT_API void linear_grad_weight(const View& dweight, const View& dbias, const View& dy, const View& x);
// Gradient of z where y = fn(z) weight^T: dz [M, F] = (dy [M, N] weight [N, F]) fn'(z [M, F]). dbias [F], the
// gradient of a bias that was added to z, = column sums of dz; it may be without data. Activation::none
// ignores z.
TT_API void linear_grad_activation(Activation fn, const View& dz, const View& dbias, const View& dy,
                                   const View& weight, const View& z);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/loops/function_kernels.hpp>
#include <tinytorch/backend/cpu/reduce.hpp>
#include <tinytorch/backend/layout.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Matrix number `batch` of v [..., R, C]; `batches` is the shape without the last two dimensions.
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

// Calls f(sums, i, j, n) on pieces of the rows of a block: n sums of row i from column j on.
template <class T, class F>
void for_row_pieces(const SumBlock& s, F&& f) {
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t k = 0; k < s.cols; k += kPackLength<T>)
      f(s.at<T>(r, k), s.i + r, s.j + k, std::min(kPackLength<T>, s.cols - k));
}

// z = x weight^T + bias + residual, out = fn(z). bias, residual and z may be without data.
template <class T>
void product_with_epilogue(Activation fn, const View& out, const View& z, const View& x, const View& weight,
                           const View& bias, const View& residual) {
  const ContiguousInput<T> bias_values(bias);
  const Kernel<T> activate = kernel_of<T>(activation_fn(fn));
  const auto epilogue = [&](const SumBlock& sums) {
    constexpr double kNone[] = {0, 0};
    alignas(64) T buffer[kPackLength<T>];
    for_row_pieces<T>(sums, [&](T* sum, int64_t i, int64_t j, int64_t n) {
      const auto add = [sum, n](const T* more) {
        TT_SIMD
        for (int64_t k = 0; k < n; ++k) sum[k] += more[k];
      };
      if (bias.data) add(bias_values.data() + j);
      if (residual.data) add(read_row(residual, i, j, n, buffer));
      if (z.data) {
        T* const to = has_contiguous_rows<T>(out) ? out.as<T>() + i * out.strides[0] + j : buffer;
        activate(to, &sum, n, kNone);
        if (to == buffer) write_row(out, i, j, n, buffer);
      } else if (fn != Activation::none) {
        activate(sum, &sum, n, kNone);
      }
    });
  };
  const bool no_epilogue = !bias.data && !residual.data && !z.data && fn == Activation::none;
  gemm(z.data ? z : out, x, transposed(weight), false, true,
       no_epilogue ? Epilogue() : Epilogue(epilogue, z.data || residual.data));
}

// dz = (dy weight) fn'(z), in the epilogue of one product.
template <class T>
void product_with_derivative(Activation fn, const View& dz, const View& dy, const View& weight,
                             const View& z) {
  const Kernel<T> derivative = kernel_of<T>(activation_grad_fn(fn));
  const auto epilogue = [&](const SumBlock& sums) {
    constexpr double kNone[] = {0};
    alignas(64) T buffer[kPackLength<T>];
    for_row_pieces<T>(sums, [&](T* g, int64_t i, int64_t j, int64_t n) {
      const T* const operands[] = {g, read_row(z, i, j, n, buffer)};
      derivative(g, operands, n, kNone);
    });
  };
  gemm(dz, dy, weight, false, true, Epilogue(epilogue, true));
}

TT_API void linear(const View& out, const View& x, const View& weight, const View& bias) {
  linear_residual(out, x, weight, bias, {});
}

TT_API void linear_residual(const View& out, const View& x, const View& weight, const View& bias,
                            const View& residual) {
  dispatch_floating(out.dtype, [&]<class T>(T*) {
    product_with_epilogue<T>(Activation::none, out, {}, x, weight, bias, residual);
  });
}

TT_API void linear_activation(Activation fn, const View& out, const View& z, const View& x,
                              const View& weight, const View& bias) {
  dispatch_floating(out.dtype,
                    [&]<class T>(T*) { product_with_epilogue<T>(fn, out, z, x, weight, bias, {}); });
}

TT_API void linear_grad_weight(const View& dweight, const View& dbias, const View& dy, const View& x) {
  gemm(dweight, transposed(dy), x, false);
  const bool rows[] = {true, false};
  reduce(ReduceFn::sum, dbias, dy, rows);
}

TT_API void linear_grad_activation(Activation fn, const View& dz, const View& dbias, const View& dy,
                                   const View& weight, const View& z) {
  if (fn == Activation::none) {
    gemm(dz, dy, weight);
  } else {
    dispatch_floating(dz.dtype, [&]<class T>(T*) { product_with_derivative<T>(fn, dz, dy, weight, z); });
  }
  const bool rows[] = {true, false};
  if (dbias.data) reduce(ReduceFn::sum, dbias, dz, rows);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
