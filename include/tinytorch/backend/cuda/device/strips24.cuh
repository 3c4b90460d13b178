// A lane's operands in a part of a strip (backend/strips24.hpp).
#pragma once

#include <tinytorch/backend/cuda/device/tensor_core_sparse.cuh>
#include <tinytorch/backend/strips24.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// 16 bytes at p that no kernel writes and that are read once: they do not displace x from the L1 cache.
__device__ __forceinline__ void load_once(unsigned (&out)[4], const uint8_t* p) {
#ifdef __CUDA_ARCH__
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "l"(p));
#else
  const uint4 four = *reinterpret_cast<const uint4*>(p);
  out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
#endif
}
__device__ __forceinline__ unsigned load_word_once(const uint8_t* p) {
#ifdef __CUDA_ARCH__
  unsigned word;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(word) : "l"(p));
  return word;
#else
  return *reinterpret_cast<const unsigned*>(p);
#endif
}

// The kept pairs of two products, and the word of places.
struct PartOfStrip {
  unsigned kept[2][4], places;

  // `part`: the first byte of the part.
  __device__ __forceinline__ void load(const uint8_t* part) {
    const unsigned lane = threadIdx.x % kWarp;
    load_once(kept[0], part + lane * 16);
    load_once(kept[1], part + 512 + lane * 16);
    places = load_word_once(part + Strips24::kPlacesAt + lane * 4);
  }
  // A part that does not exist.
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < 4; ++i) kept[0][i] = kept[1][i] = 0;
    places = Strips24::kFirstTwo << 16 | Strips24::kFirstTwo;
  }
};

// y = x W^T + bias for a 2:4 sparse W [N, K] in strips; x [M, K] of a 16-bit type.
struct StripsProduct {
  const uint8_t* strips;
  const void* x;  // rows of contiguous elements
  int64_t x_row;  // distance of rows, in elements
  int64_t M, N;
  int K, parts;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
