// floor_divide, remainder and fmod (contract: backend/cpu/division.hpp). The code of fmod is long, so the
// function is selected at compile time, and there is one kernel per function and compute type.
#pragma once

#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/division.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

template <Division fn, class C, int kCount>
static __global__ void __launch_bounds__(kElementwiseBlock)
    division_kernel(const __grid_constant__ Operands<3> o) {
  const Share<C, kCount> share;
  if (share.first >= o.count) return;
  C u[kCount], v[kCount];
  read_two(u, v, o, 1, share);
#pragma unroll 1
  for (int k = 0; k < kCount; ++k) u[k] = division_value<fn, C>(u[k], v[k]);
  write(u, o, share);
}

template <Division fn>
void launch_division(const View& out, const View& a, const View& b) {
  dispatch_compute(out.dtype, [&]<class C>(C*) {
    launch_elementwise<C>({out, a, b}, [&]<int kCount>() { return division_kernel<fn, C, kCount>; });
  });
}

void division(Division fn, const View& out, const View& a, const View& b) {
  if (out.numel() == 0) return;
  if (!strides_fall(out.shape, out.strides)) {
    return in_order_of(out, {a, b},
                       [&](const View& to, const View(&in)[2]) { division(fn, to, in[0], in[1]); });
  }
  if (fn == Division::floor) return launch_division<Division::floor>(out, a, b);
  if (fn == Division::remainder) return launch_division<Division::remainder>(out, a, b);
  launch_division<Division::fmod>(out, a, b);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
