// Which elements dropout keeps: a pure function of the counter, so no mask is ever stored.
//
// Element i is decided by word i % 4 of Philox block first_block + i / 4 and kept when that word is at least
// p 2^32 (backend/cpu/dropout.hpp).
#pragma once

#include <tinytorch/backend/cuda/kernel.cuh>
#include <tinytorch/core/random.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct DropoutMask {
  uint64_t seed = 0, first_block = 0;
  const uint64_t* offset = nullptr;  // in a replayed graph: blocks used since its capture
  uint32_t limit = 0;                // words from here on keep
  bool nothing = false;              // p = 1
  double scale = 1;                  // of what is kept

  DropoutMask() = default;
  DropoutMask(double p, uint64_t s, uint64_t first) : seed(s), first_block(first), offset(random_offset(s)) {
    const auto threshold = static_cast<uint64_t>(p * 0x1p32);
    nothing = threshold > 0xffffffffu;
    limit = nothing ? 0xffffffffu : static_cast<uint32_t>(threshold);
    scale = p < 1 ? 1 / (1 - p) : 0;
  }
  __device__ __forceinline__ PhiloxBlock block(int64_t element) const {
    const uint64_t first = first_block + (offset ? *offset : 0);
    return philox(seed, first + static_cast<uint64_t>(element / 4));
  }
  __device__ __forceinline__ bool keeps(uint32_t word) const { return !nothing && word >= limit; }
  // What becomes of x; 0 where it is dropped, also of NaN, which a factor of 0 would keep.
  template <class C>
  __device__ __forceinline__ C apply(uint32_t word, C x) const {
    return (keeps(word) ? x : C(0)) * static_cast<C>(scale);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
