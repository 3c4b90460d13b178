// Dropout: out = x / (1 - p) where a random word says keep, else 0 (dropout_mask.cuh).
#pragma once

#include <tinytorch/backend/cuda/dropout_mask.cuh>
#include <tinytorch/backend/cuda/walk.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Neighbours begin at a multiple of 4, so a thread makes each of its Philox blocks once.
template <class C, int kCount>
static __global__ void __launch_bounds__(kElementwiseBlock)
    dropout_kernel(const __grid_constant__ Operands<2> o, DropoutMask mask) {
  const Share<C, kCount> share;
  if (share.first >= o.count) return;
  C v[kCount];
  read(v, o, 1, share);
  if constexpr (kCount > kScattered) {
#pragma unroll
    for (int k = 0; k < kCount; k += 4) {
      const PhiloxBlock words = mask.block(share.first + k);
#pragma unroll
      for (int w = 0; w < 4; ++w) v[k + w] = mask.apply(words.v[w], v[k + w]);
    }
  } else {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const int64_t i = share.element(k);
      const PhiloxBlock words = mask.block(i);
      const int w = static_cast<int>(i % 4);  // registers have no index
      const uint32_t word = w == 0 ? words.v[0] : (w == 1 ? words.v[1] : (w == 2 ? words.v[2] : words.v[3]));
      v[k] = mask.apply(word, v[k]);
    }
  }
  write(v, o, share);
}

void dropout(const View& out, const View& x, double p, uint64_t seed, uint64_t first_block) {
  if (out.numel() == 0) return;
  const DropoutMask mask(p, seed, first_block);
  const auto run = [&]<class C>(C*) {
    launch_over<C>(
        {out, x}, [&]<int kCount>() { return dropout_kernel<C, kCount>; }, mask);
  };
  if (x.dtype == DType::f64) return run(static_cast<double*>(nullptr));
  run(static_cast<float*>(nullptr));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
