// Scales, bias and activation of a product of 8-bit codes as a pass of its own, for sums that are in memory,
// and the operands of all such products. Limit: memory bandwidth.
#pragma once

#include <algorithm>
#include <tinytorch/backend/codes_product.hpp>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/int8_tiles.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kScaleThreads = 256, kScaleAhead = 4;

// A thread has four columns and keeps their factors; sums [M, N] are i32 or f32.
template <class S, class Out>
static __global__ void __launch_bounds__(kScaleThreads)
    scale_sums_kernel(const __grid_constant__ ScaledSums<Out> to, const S* sums, bool vectors) {
  const int64_t n = (static_cast<int64_t>(blockIdx.x) * kScaleThreads + threadIdx.x) * 4;
  if (n >= to.N) return;
  const auto factors = to.columns(n);
  for (int64_t m0 = blockIdx.y; m0 < to.M; m0 += int64_t{kScaleAhead} * gridDim.y) {
    S held[kScaleAhead][4];
#pragma unroll
    for (int a = 0; a < kScaleAhead; ++a) {
      const int64_t m = m0 + a * int64_t{gridDim.y};
      if (m >= to.M) continue;
      const S* const row = sums + m * to.N + n;
      if (vectors) {
        load(held[a], row);
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) held[a][k] = n + k < to.N ? row[k] : S(0);
      }
    }
#pragma unroll
    for (int a = 0; a < kScaleAhead; ++a) {
      const int64_t m = m0 + a * int64_t{gridDim.y};
      if (m < to.M) to.write(m, n, held[a], factors);
    }
  }
}
template <class S, class Out>
void scale_sums(const ScaledSums<Out>& to, const S* sums) {
  const int64_t across = ceil_div(to.N, kScaleThreads * 4),
                wanted = ceil_div(8 * properties(current_device()).multiprocessors, across),
                down = std::clamp<int64_t>(ceil_div(to.M, kScaleAhead), 1, std::min<int64_t>(wanted, 65535));
  const bool vectors = to.N % 4 == 0 && reinterpret_cast<uintptr_t>(sums) % 16 == 0;
  launch(scale_sums_kernel<S, Out>,
         {dim3(static_cast<unsigned>(across), static_cast<unsigned>(down)), dim3(kScaleThreads)}, to, sums,
         vectors);
}

// Calls f(ScaledSums<Out>) for the dtype of out, with all operands as the kernels need them.
template <class F>
void with_scaled_sums(const View& out, const View& x_scale, const View& weight_scale, const View& bias,
                      Activation fn, F&& f) {
  const Contiguous rows(x_scale), columns(weight_scale);
  const ContiguousInput<float> added(bias);
  const auto run = [&]<class Out>(Out*) {
    ContiguousOutput<Out> result(out);
    const int64_t M = out.shape[0], N = out.shape[1];
    const bool vectors = N % 4 == 0 && reinterpret_cast<uintptr_t>(result.data()) % (4 * sizeof(Out)) == 0;
    f(ScaledSums<Out>{result.data(), rows.as<const float>(), columns.as<const float>(), added.data(),
                      x_scale.numel() == 1 ? 0 : 1, weight_scale.numel() == 1 ? 0 : 1, fn, M, N, vectors});
    result.write_back();
  };
  if (out.dtype == DType::i32) return run(static_cast<int*>(nullptr));
  if (out.dtype == DType::f32) return run(static_cast<float*>(nullptr));
  if (out.dtype == DType::bf16) return run(static_cast<BFloat16*>(nullptr));
  run(static_cast<Half*>(nullptr));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
