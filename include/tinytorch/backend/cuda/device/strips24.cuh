// A lane's operands in a part of a strip (backend/strips24.hpp).
#pragma once

#include <tinytorch/backend/cuda/device/tensor_core_sparse.cuh>
#include <tinytorch/backend/strips24.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

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
