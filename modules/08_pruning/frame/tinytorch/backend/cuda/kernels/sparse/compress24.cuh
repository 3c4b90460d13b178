// 2:4 sparsity on the device: a dense matrix is compressed to two of each four numbers and their places, and
// these are put in the order of tensor cores (backend/strips24.hpp).
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.13. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/strips24.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The order of magnitudes as integers; NaN is above all.
template <class T>
__device__ __forceinline__ unsigned magnitude_key(T x) {
  const float wide = to<float>(x);
  unsigned bits;
  memcpy(&bits, &wide, sizeof(bits));
  return bits & 0x7fffffffu;
}
template <class T>
__device__ __forceinline__ unsigned largest_two(const T (&group)[4], T (&kept)[2]);  // task 8.13

// --- launchers ---

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/sparse/compress24.cuh>
