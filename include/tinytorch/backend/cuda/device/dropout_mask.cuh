// Dropout mask: a pure function of the counter of a random generator, so no mask is stored.
//
// Element i is kept if word i % 4 of Philox block first_block + i / 4 is at least p 2^32, as in
// backend/cpu/dropout.hpp.
#pragma once

#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <tinytorch/core/random.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct DropoutMask {
  uint64_t seed = 0, first_block = 0;
  const uint64_t* offset = nullptr;  // in a captured graph: number of blocks used since the capture
  uint32_t limit = 0;                // elements with words >= limit are kept
  bool nothing = false;              // p = 1: no element is kept
  double scale = 1;                  // factor of kept elements, 1 / (1 - p)

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
  // x scaled if it is kept, else 0. The choice is no multiplication by 0, which would keep NaN.
  template <class C>
  __device__ __forceinline__ C apply(uint32_t word, C x) const {
    return (keeps(word) ? x : C(0)) * static_cast<C>(scale);
  }
  // Applies the mask to kCount contiguous elements from `first` on. kCount is 1, 2 or a multiple of 4, and
  // `first` is a multiple of kCount, so that elements share Philox blocks.
  template <class C, int kCount>
  __device__ __forceinline__ void apply(C (&x)[kCount], int64_t first) const {
    constexpr int kEach = kCount < 4 ? kCount : 4;
    static_assert(kCount % kEach == 0 && kEach != 3, "elements must fill Philox blocks, or a part of one");
#pragma unroll
    for (int k = 0; k < kCount; k += kEach) {
      const PhiloxBlock words = block(first + k);
#pragma unroll
      for (int w = 0; w < kEach; ++w) {
        x[k + w] = apply(kEach == 4 ? words.v[w] : word_of(words, (first + w) % 4), x[k + w]);
      }
    }
  }
  // A copy of the mask with *offset already added, for kernels that need many Philox blocks between stores.
  __device__ __forceinline__ DropoutMask now() const {
    DropoutMask mask = *this;
    if (offset) mask.first_block += *offset;
    mask.offset = nullptr;
    return mask;
  }

 private:
  // Word w by comparisons, because registers cannot be indexed by a run-time value.
  static __device__ __forceinline__ uint32_t word_of(const PhiloxBlock& words, int64_t w) {
    return w == 0 ? words.v[0] : (w == 1 ? words.v[1] : (w == 2 ? words.v[2] : words.v[3]));
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
