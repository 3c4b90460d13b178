// Batched matrix products on the CPU, and x W^T + b. Each product is one gemm (backend/cpu/gemm.hpp); many
// small ones are shared out among threads, a few large ones are each computed by all.
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
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/loops/function_kernels.hpp>
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

// Calls f(sums, i, j, n) for pieces of rows of complete sums: n numbers from row i and column j on.
template <class T, class F>
void for_pieces(const Sums& s, F&& f) {
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t k = 0; k < s.cols; k += kPackLength<T>)
      f(s.at<T>(r, k), s.i + r, s.j + k, std::min(kPackLength<T>, s.cols - k));
}

// z = sums + bias + residual, out = fn(z); z may be without data.
template <class T>
void finished_product(Activation fn, const View& out, const View& z, const View& x, const View& weight,
                      const View& bias, const View& residual) {
  const DenseInput<T> dense_bias(bias);
  const Kernel<T> activate = kernel_of<T>(activation_fn(fn));
  const auto epilogue = [&](const Sums& sums) {
    constexpr double kNone[] = {0, 0};
    alignas(64) T buffer[kPackLength<T>];
    for_pieces<T>(sums, [&](T* sum, int64_t i, int64_t j, int64_t n) {
      const auto add = [sum, n](const T* more) {
        TT_SIMD
        for (int64_t k = 0; k < n; ++k) sum[k] += more[k];
      };
      if (bias.data) add(dense_bias.data() + j);
      if (residual.data) add(read_row(residual, i, j, n, buffer));
      if (z.data) {
        T* const to = has_rows_of<T>(out) ? out.as<T>() + i * out.strides[0] + j : buffer;
        activate(to, &sum, n, kNone);
        if (to == buffer) write_row(out, i, j, n, buffer);
      } else if (fn != Activation::none) {
        activate(sum, &sum, n, kNone);
      }
    });
  };
  const bool nothing = !bias.data && !residual.data && !z.data && fn == Activation::none;
  gemm(z.data ? z : out, x, transposed(weight), false, true,
       nothing ? Epilogue() : Epilogue(epilogue, z.data || residual.data));
}

// dz = (dy weight) fn'(z).
template <class T>
void product_with_slope(Activation fn, const View& dz, const View& dy, const View& weight, const View& z) {
  const Kernel<T> slope = kernel_of<T>(activation_grad_fn(fn));
  const auto epilogue = [&](const Sums& sums) {
    constexpr double kNone[] = {0};
    alignas(64) T buffer[kPackLength<T>];
    for_pieces<T>(sums, [&](T* g, int64_t i, int64_t j, int64_t n) {
      const T* const operands[] = {g, read_row(z, i, j, n, buffer)};
      slope(g, operands, n, kNone);
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
    finished_product<T>(Activation::none, out, {}, x, weight, bias, residual);
  });
}

TT_API void linear_activation(Activation fn, const View& out, const View& z, const View& x,
                              const View& weight, const View& bias) {
  dispatch_floating(out.dtype, [&]<class T>(T*) { finished_product<T>(fn, out, z, x, weight, bias, {}); });
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
    dispatch_floating(dz.dtype, [&]<class T>(T*) { product_with_slope<T>(fn, dz, dy, weight, z); });
  }
  const bool rows[] = {true, false};
  if (dbias.data) reduce(ReduceFn::sum, dbias, dz, rows);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
