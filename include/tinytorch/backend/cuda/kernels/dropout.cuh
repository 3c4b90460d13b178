// Dropout: out = x / (1 - p) if the element's random word is at least p 2^32, else 0 (dropout_mask.cuh;
// contract: backend/cpu/dropout.hpp).
#pragma once

#include <tinytorch/backend/cuda/device/dropout_mask.cuh>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

template <class C, int kCount>
static __global__ void __launch_bounds__(kElementwiseBlock)
    dropout_kernel(const __grid_constant__ Operands<2> o, DropoutMask mask) {
  const Share<C, kCount> share;
  if (share.first >= o.count) return;
  C v[kCount];
  read(v, o, 1, share);
  if constexpr (kCount > kPerThreadStrided) {
    mask.apply(v, share.first);
  } else {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      C one[] = {v[k]};
      mask.apply(one, share.element(k));
      v[k] = one[0];
    }
  }
  write(v, o, share);
}

void dropout(const View& out, const View& x, double p, uint64_t seed, uint64_t first_block) {
  if (out.numel() == 0) return;
  const DropoutMask mask(p, seed, first_block);
  const auto run = [&]<class C>(C*) {
    launch_elementwise<C>(
        {out, x}, [&]<int kCount>() { return dropout_kernel<C, kCount>; }, mask);
  };
  if (x.dtype == DType::f64) return run(static_cast<double*>(nullptr));
  run(static_cast<float*>(nullptr));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
