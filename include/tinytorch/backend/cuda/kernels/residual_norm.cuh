// Residual sum with dropout and norm, forward and backward (contract: backend/cpu/residual_norm.hpp).
//
// Each element is read once and written once. The kernels of rows/norm.cuh normalize the residual sum, which
// ResidualSums computes, rounds to the dtype and stores. In the backward pass the kernels of
// rows/norm_grad.cuh add the gradient that reaches the sum directly. Limit: memory bandwidth.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/dropout_mask.cuh>
#include <tinytorch/backend/cuda/kernels/rows/norm_grad.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Source of rows that are computed on the fly: residual + dropout(x). The sums are stored, too.
template <class T, bool kDropout>
struct ResidualSums {
  const T *x, *residual;
  T* sum;
  DropoutMask mask;
  template <class R>
  __device__ __forceinline__ void read(R& r, int64_t row, int C, int64_t columns) const {
    using A = Compute<T>;
    constexpr int kVectorSize = R::kVectorSize;
    const int64_t first = row * columns;
    const DropoutMask drop = kDropout ? mask.now() : mask;
    r.read_with(x + first, residual + first, sum + first, C,
                [&](int c, A(&v)[kVectorSize], const A(&onto)[kVectorSize]) {
                  if constexpr (kDropout) drop.apply(v, first + c);
#pragma unroll
                  for (int k = 0; k < kVectorSize; ++k) v[k] += onto[k];
                });
  }
};

// 8 blocks per multiprocessor, which limits a thread to 64 registers.
template <class T, int kGroup, bool kDropout>
inline constexpr int kNormBlocks<Row<T, kGroup, 4>, ResidualSums<T, kDropout>> =
    kIs16Bit<T>&& kRowThreads<kGroup> == 128 ? 8 : 1;

// Composition of kernels for rows that are too long for registers and shared memory.
inline void residual_norm_in_steps(const View& out, const View& sum, const View& mean, const View& rstd,
                                   const View& x, const View& residual, const View& weight, const View& bias,
                                   const ResidualNorm& p) {
  if (p.p > 0) {
    dropout(sum, x, p.p, p.seed, p.first_block);
    binary(BinaryFn::add, sum, sum, residual, 0);
  } else {
    binary(BinaryFn::add, sum, x, residual, 0);
  }
  if (mean.data) return layer_norm(out, mean, rstd, sum, weight, bias, p.eps);
  rms_norm(out, rstd, sum, weight, p.eps);
}

void residual_norm(const View& out, const View& sum, const View& mean, const View& rstd, const View& x,
                   const View& residual, const View& weight, const View& bias, const ResidualNorm& p) {
  if (out.numel() == 0) return;
  const int64_t C = out.shape.back(), rows = out.numel() / C;
  dispatch_stored(out.dtype, [&]<class T>(T*) {
    using A = Compute<T>;
    const ContiguousInput<T> a(x), b(residual), w(weight), s(bias);
    ContiguousOutput<T> y(out), stored(sum);
    const NormArrays<T> arrays{y.data(), mean.as<A>(), rstd.as<A>(),
                               w.data(), s.data(),     static_cast<A>(p.eps)};
    const bool aligned =
        rows_are_aligned<T>(C, {a.data(), b.data(), y.data(), stored.data(), w.data(), s.data()});
    const auto held = [&]<bool kDropout>() {
      const DropoutMask mask(p.p, p.seed, p.first_block);
      return norm_rows_on_chip(arrays, ResidualSums<T, kDropout>{a.data(), b.data(), stored.data(), mask},
                               rows, C, aligned);
    };
    // The dropout mask needs element indices that are multiples of the vector size, so the result must be
    // aligned.
    const bool begins = p.p == 0 || phase_of(y.data()) == 0;
    if (!begins || !(p.p > 0 ? held.template operator()<true>() : held.template operator()<false>())) {
      return residual_norm_in_steps(out, sum, mean, rstd, x, residual, weight, bias, p);
    }
    y.write_back();
    stored.write_back();
  });
}

void residual_norm_grad(const View& dx, const View& dresidual, const View& dweight, const View& dbias,
                        const View& dout, const View& dsum, const View& sum, const View& mean,
                        const View& rstd, const View& weight, const ResidualNorm& p) {
  run_norm_grad(dresidual, dweight, dbias, dout, sum, mean, rstd, weight, dsum);
  if (!dx.data || dx.data == dresidual.data) return;
  if (p.p > 0) return dropout(dx, dresidual, p.p, p.seed, p.first_block);
  copy(dx, dresidual);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
