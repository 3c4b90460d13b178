// Tensor cores as a warp uses them: 16-byte copies into shared memory that run beside the arithmetic, 8 x 8
// fragments from there into registers, and products of fragments with sums in fp32.
//
// Needs compute capability 8.0 (has_tensor_cores()). Each instruction has its meaning in plain code beside
// it, which the emulator runs. Source: NVIDIA, "PTX ISA", sections cp.async, ldmatrix, mma.
#pragma once

#include <tinytorch/backend/cuda/collective.cuh>
#include <tinytorch/backend/cuda/vector.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

#if !TINYTORCH_CUDA_SIM && defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 800
#define TT_TENSOR_CORE_PTX 1
#else
#define TT_NO_TENSOR_CORES 1  // kernels that need them are empty, and never launched
#endif
#endif

inline bool has_tensor_cores() {
#if TINYTORCH_CUDA_SIM
  return true;
#else
  return properties(current_device()).major >= 8;
#endif
}

// 16 bytes at `shared` = those at `global`, or zeros; there after wait_for_copies().
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool inside) {
#if TT_TENSOR_CORE_PTX
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global), "r"(bytes)
               : "memory");
#else
  const uint4 zero{0, 0, 0, 0};
  *static_cast<uint4*>(shared) = inside ? *static_cast<const uint4*>(global) : zero;
#endif
}
// Ends a group of copies.
__device__ __forceinline__ void commit_copies() {
#if TT_TENSOR_CORE_PTX
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}
// Waits for this thread's groups but the last kPending.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
#if TT_TENSOR_CORE_PTX
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
#endif
}

// Four 8 x 8 matrices of 16-bit elements. Lane l names row l % 8 of matrix l / 8, 16 bytes; it receives
// elements 2 (l % 4) and the next of row l / 4 of each.
__device__ __forceinline__ void load_fragments(unsigned (&out)[4], const void* row) {
#if TT_TENSOR_CORE_PTX
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(from)
               : "memory");
#else
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int k = 0; k < 4; ++k) {
    const auto address = static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(row));
    const auto named = static_cast<uintptr_t>(__shfl_sync(kAllLanes, address, k * 8 + lane / 4));
    memcpy(&out[k], reinterpret_cast<const char*>(named) + 4 * (lane % 4), 4);
  }
#endif
}

// sum [16, 8] += a [16, 16] b [16, 8]. Lane l holds, with g = l / 4 and t = l % 4: of a, rows g and g + 8 at
// k = 2 t, then the same at k + 8; of b, column g at k = 2 t and k + 8; of sum, columns 2 t and 2 t + 1 of
// rows g and g + 8.
template <class T>
__device__ __forceinline__ void multiply_fragments(float (&sum)[4], const unsigned (&a)[4],
                                                   const unsigned (&b)[2]) {
#if TT_TENSOR_CORE_PTX
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, t = lane % 4;
  for (int half = 0; half < 2; ++half) {
    for (int pair = 0; pair < 4; ++pair) {
      T row[2][2], column[2][2];
      for (int r = 0; r < 2; ++r) {
        const unsigned left = __shfl_sync(kAllLanes, a[2 * half + r], 4 * g + pair);
        const unsigned even = __shfl_sync(kAllLanes, b[half], 4 * (2 * t) + pair);
        const unsigned odd = __shfl_sync(kAllLanes, b[half], 4 * (2 * t + 1) + pair);
        memcpy(row[r], &left, 4);
        memcpy(column[r], r == 0 ? &even : &odd, 4);
      }
      for (int r = 0; r < 2; ++r) {
        for (int c = 0; c < 2; ++c) {
          for (int k = 0; k < 2; ++k) sum[2 * r + c] += to<float>(row[r][k]) * to<float>(column[c][k]);
        }
      }
    }
  }
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
