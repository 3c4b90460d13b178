// Sparse tensor cores of a warp: mma.sp with an operand A of which each group of four neighbours in a row
// keeps two (2:4 sparsity), at twice the rate of mma (compute capability 8.0).
//
//   multiply_add_sparse<BFloat16, 0>(sum, a, b, metadata);   sum [16, 8] += a [16, 32] b [32, 8]
//
// a has the registers of tensor_core.cuh: the 16 kept values of a row take the place of 16 dense ones. Their
// places in the groups are 2 bits each, the lower place first, so that a group is 4 bits and 16 numbers of a
// row are 16 bits. A word has those of row g (low half) and of row g + 8. Lanes 4 g + 2 kSelector and the
// next hold the words of numbers 0 to 15 and 16 to 31; the words of the other two lanes are ignored, so one
// word per lane serves two products. b is as in two products of tensor_core.cuh: 32 numbers deep.
//
// Source: NVIDIA, "PTX ISA", mma.sp::ordered_metadata.
#pragma once

#include <tinytorch/backend/cuda/device/tensor_core.cuh>
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/tensor_core_sparse.hpp>
#endif

namespace tinytorch::inline TT_BUILD::backend::cuda {

template <class T, int kSelector>
__device__ __forceinline__ void multiply_add_sparse(float (&sum)[4], const unsigned (&a)[4],
                                                    const unsigned (&b)[4], unsigned metadata) {
  static_assert(kSelector == 0 || kSelector == 1);
#if TINYTORCH_CUDA_SIM
  sim::multiply_add_sparse<T>(sum, a, b, metadata, kSelector);
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
          "r"(metadata), "n"(kSelector));
  } else {
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
          "r"(metadata), "n"(kSelector));
  }
#else
  (void)sum, (void)a, (void)b, (void)metadata;
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
