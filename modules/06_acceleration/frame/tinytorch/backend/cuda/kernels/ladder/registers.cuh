// The third step of a fast product on a GPU: a thread computes 4 x 4 results in registers.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.9. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/backend/cuda/kernels/ladder/product.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A tile of results, the depth of a stage, and the results of a thread in each direction.
inline constexpr int kRegisterTile = 64, kRegisterDepth = 16, kOwn = 4, kRegisterThreads = 256;
// Floats from one k to the next in a's tile [k][m]: 4 more, for fewer bank conflicts where it is written.
inline constexpr int kRegisterPitch = kRegisterTile + 4;

// Four neighbours of a row of `width` numbers, from column c on, as far as they exist; others are 0. vectors:
// pieces are aligned, so that one that is whole is read at once.
__device__ __forceinline__ float4 load_piece(const float* row, int64_t c, int64_t width, bool vectors) {
  if (vectors && c + 4 <= width) return *reinterpret_cast<const float4*>(row + c);
  return make_float4(c < width ? row[c] : 0.0f, c + 1 < width ? row[c + 1] : 0.0f,
                     c + 2 < width ? row[c + 2] : 0.0f, c + 3 < width ? row[c + 3] : 0.0f);
}

// Task 6.9.
__device__ __forceinline__ void bring_a(float* to_, const LadderProduct<float>& p, int64_t m0, int64_t k0);
// Task 6.9.
__device__ __forceinline__ void bring_b(float* to_, const LadderProduct<float>& p, int64_t k0, int64_t n0);

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/ladder/registers.cuh>
