// Tensor cores of a warp: mma on registers, ldmatrix to load the operands, and movmatrix to transpose those
// that the warp has computed (compute capability 8.0). The emulator computes the same by shuffles
// (sim/tensor_core.hpp).
//
//   load_matrices(a, address); ...
//   multiply_add<BFloat16>(sum, a, b0, b1);   sum [16, 8] += a [16, 16] b [16, 8]
//   multiply_add_bytes(sum, a, b0, b1);       sum [16, 8] += a [16, 32] b [32, 8], signed bytes, exact
//
// Lane l holds columns l % 4 * 2 and the next of rows l / 4 and l / 4 + 8 of sum.
// Source: NVIDIA, "PTX ISA", mma and ldmatrix.
#pragma once

#include <cstring>
#include <tinytorch/backend/cuda/device/async_copy.cuh>
#include <tinytorch/backend/cuda/device/compiled_code.cuh>
#include <tinytorch/backend/cuda/device/vector.cuh>
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/tensor_core.hpp>
#endif

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline bool has_tensor_cores() {
  return properties(current_device()).major >= 8 && compiled_for(DeviceCode::sm_80);
}

// Packs two floats into a register as a pair of 16-bit values.
template <class T>
__device__ __forceinline__ unsigned pack_pair(float low, float high) {
  const float pair[2] = {low, high};
  T narrow[2];
  convert_elements(narrow, pair);
  unsigned word;
  memcpy(&word, narrow, sizeof(word));
  return word;
}

// ldmatrix: loads four 8 x 8 matrices of 16-bit elements. The address that lane l passes is row l % 8 of
// matrix l / 8. Lane l receives elements l % 4 * 2 and the next of row l / 4 of each matrix.
__device__ __forceinline__ void load_matrices(unsigned (&out)[4], unsigned address) {
#if TINYTORCH_CUDA_SIM
  sim::load_matrices(out, shared_pointer(address));
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
#endif
}

// ldmatrix.trans: loads four transposed matrices. Lane l receives element l / 4 of rows l % 4 * 2 and the
// next of each matrix.
__device__ __forceinline__ void load_transposed(unsigned (&out)[4], unsigned address) {
#if TINYTORCH_CUDA_SIM
  sim::load_transposed(out, shared_pointer(address));
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
#endif
}

// movmatrix: transposes an 8 x 8 matrix of 16-bit elements. Lane l passes elements l % 4 * 2 and the next of
// row l / 4, and receives the same elements of the transposed matrix.
__device__ __forceinline__ unsigned transpose_matrix(unsigned word) {
#if TINYTORCH_CUDA_SIM
  return sim::transpose_matrix(word);
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  unsigned out;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(word));
  return out;
#else
  return word;
#endif
}

// mma: sum [16, 8] += a [16, 16] b [16, 8], accumulated in f32. T is BFloat16 or Half.
template <class T>
__device__ __forceinline__ void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
#if TINYTORCH_CUDA_SIM
  sim::multiply_add<T>(sum, a, b0, b1);
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#else
  (void)sum, (void)a, (void)b0, (void)b1;
#endif
}

// mma: sum [16, 8] += a [16, 32] b [32, 8], signed bytes accumulated in i32, which wraps. Four bytes along
// the depth take the place of two 16-bit values, so that load_matrices() loads both operands.
__device__ __forceinline__ void multiply_add_bytes(int (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                                   unsigned b1) {
#if TINYTORCH_CUDA_SIM
  sim::multiply_add_bytes(sum, a, b0, b1);
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  (void)sum, (void)a, (void)b0, (void)b1;
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
