// Warpgroup matrix products (wgmma; compute capability 9.0, compiled for sm_90a) by four neighbouring warps,
// the first with a number divisible by four. The tensor cores read B from shared memory. The emulator uses
// loads (sim/warpgroup.hpp).
//
//   wgmma_fence();
//   multiply_group<BFloat16, false>(sum, a, b, true);  ...   sum [64, 64] += a [64, 16] b [16, 64]
//   wgmma_commit();  ...                                     asynchronous: the threads continue
//   wgmma_wait<0>(), fence_operands(sum);
//
// Warp w of the group has rows 16 w to 16 w + 15 of a and sum, with the layout of tensor_core.cuh. b begins
// at a multiple of 1024 bytes and has rows of 128 bytes with 128-byte swizzle, where 16-byte piece p of row r
// is at place p ^ (r % 8).
//
// Source: NVIDIA, "PTX ISA", wgmma, matrices with 128-byte swizzle.
#pragma once

#include <cstdlib>
#include <cstring>
#include <tinytorch/backend/cuda/device/tensor_core.cuh>
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/warpgroup.hpp>
#endif

namespace tinytorch::inline TT_BUILD::backend::cuda {

// True on devices with wgmma. TINYTORCH_CUDA_WARPGROUPS=0 disables it, to test or to compare the kernels of
// single warps.
inline bool has_warpgroups() {
  const char* const asked = std::getenv("TINYTORCH_CUDA_WARPGROUPS");
  return properties(current_device()).major == 9 && !(asked && std::strcmp(asked, "0") == 0) &&
         compiled_for(DeviceCode::sm_90a);
}

// Makes this thread's writes to shared memory visible to the tensor cores (the async proxy), after the next
// barrier.
__device__ __forceinline__ void fence_async_proxy() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// Orders accesses to registers before the wgmma instructions that follow. Call it before the first product.
__device__ __forceinline__ void wgmma_fence() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
// Ends a group of products (wgmma.commit_group).
__device__ __forceinline__ void wgmma_commit() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Waits until at most the kPending newest groups of products are incomplete (wgmma.wait_group).
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}
// Compiler barrier for the accumulators of asynchronous products: the compiler does not move reads of `sum`
// before this point. Call it after wgmma_wait.
template <int kCount>
__device__ __forceinline__ void fence_operands([[maybe_unused]] float (&sum)[kCount][4]) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    asm volatile("" : "+f"(sum[n][0]), "+f"(sum[n][1]), "+f"(sum[n][2]), "+f"(sum[n][3])::"memory");
  }
#endif
}
// Compiler barrier for A fragments in registers: they are complete before the products that follow.
template <int kCount>
__device__ __forceinline__ void fence_operands([[maybe_unused]] unsigned (&a_fragment)[kCount][4]) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#pragma unroll
  for (int n = 0; n < kCount; ++n)
    asm volatile(""
                 : "+r"(a_fragment[n][0]), "+r"(a_fragment[n][1]), "+r"(a_fragment[n][2]),
                   "+r"(a_fragment[n][3])::"memory");
#endif
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
template <class T>
inline constexpr char kProductType[] = "bf16";
template <>
inline constexpr char kProductType<Half>[] = "f16";
#endif

// The block's dynamic shared memory from the next multiple of 1024 on; kTileAlignment must be added to its
// size.
inline constexpr size_t kTileAlignment = 1024;
__device__ __forceinline__ unsigned aligned_shared_memory() {
  constexpr unsigned kMask = kTileAlignment - 1;
  return (shared_address(dynamic_shared<unsigned char>()) + kMask) & ~kMask;
}

// wgmma descriptor of a matrix in shared memory: rows of 128 bytes, with 1024 bytes from one group of eight
// rows to the next.
class SharedMatrix {
 public:
  explicit __device__ __forceinline__ SharedMatrix(unsigned address) : low_(kFields | address / 16) {}
  __device__ __forceinline__ SharedMatrix after(unsigned bytes) const { return {low_ + bytes / 16, 0}; }
  __device__ __forceinline__ unsigned address() const { return (low_ ^ kFields) * 16; }
  __device__ __forceinline__ uint64_t descriptor() const {
    constexpr uint64_t kSwizzle128 = 1, kGroup = 1024;
    return kSwizzle128 << 62 | (kGroup >> 4) << 32 | low_;
  }

 private:
  __device__ __forceinline__ SharedMatrix(unsigned low, int) : low_(low) {}
  static constexpr unsigned kFields = 1u << 16;  // above the address, which never overflows into it
  unsigned low_;
};

// sum = a b, or sum += a b if `add`. b [16, 64] is stored as 16 rows of 64 values if kRowMajor, else
// transposed, as 64 rows of 16 values.
template <class T, bool kRowMajor>
__device__ __forceinline__ void multiply_group(float (&sum)[8][4], const unsigned (&a)[4], SharedMatrix b,
                                               bool add) {
#if TINYTORCH_CUDA_SIM
  sim::multiply_group<T, kRowMajor>(sum, a, shared_pointer(0), b.address(), add);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n .reg .pred adds;\n setp.ne.b32 adds, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.%38.%38 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, adds, 1, 1, %39;\n}"
      : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]), "+f"(sum[1][1]),
        "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]), "+f"(sum[2][2]), "+f"(sum[2][3]),
        "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]), "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]),
        "+f"(sum[4][2]), "+f"(sum[4][3]), "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]),
        "+f"(sum[6][0]), "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),
        "+f"(sum[7][2]), "+f"(sum[7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor()), "r"(static_cast<int>(add)),
        "C"(kProductType<T>), "n"(kRowMajor ? 1 : 0));
#else
  (void)sum, (void)a, (void)b, (void)add;
#endif
}
// This overload reads A from shared memory, too, as 64 rows of 16 values; B is stored transposed.
template <class T>
__device__ __forceinline__ void multiply_group(float (&sum)[8][4], SharedMatrix a_rows, SharedMatrix b,
                                               bool add) {
#if TINYTORCH_CUDA_SIM
  unsigned a[4];
  sim::load_a(a, shared_pointer(0), a_rows.address());
  sim::multiply_group<T, false>(sum, a, shared_pointer(0), b.address(), add);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n .reg .pred adds;\n setp.ne.b32 adds, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.%35.%35 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, adds, 1, 1, 0, 0;\n}"
      : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]), "+f"(sum[1][1]),
        "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]), "+f"(sum[2][2]), "+f"(sum[2][3]),
        "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]), "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]),
        "+f"(sum[4][2]), "+f"(sum[4][3]), "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]),
        "+f"(sum[6][0]), "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),
        "+f"(sum[7][2]), "+f"(sum[7][3])
      : "l"(a_rows.descriptor()), "l"(b.descriptor()), "r"(static_cast<int>(add)), "C"(kProductType<T>));
#else
  (void)sum, (void)a_rows, (void)b, (void)add;
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
