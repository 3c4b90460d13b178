// Matrix products of a warpgroup, four neighbouring warps, the first of a number divisible by four: 64 rows
// at once, the right side read from shared memory by the tensor cores themselves (compute capability 9.0,
// compiled for sm_90a). The emulator does the same by loads (sim/warpgroup.hpp).
//
//   wgmma_fence();
//   multiply_group<BFloat16, false>(sum, a, b, true);  ...   sum [64, 64] += a [64, 16] b [16, 64]
//   wgmma_commit();  ...                                  they go on while the threads do other things
//   wgmma_wait<0>(), fence_operands(sum);
//
// Warp w of the group has rows 16 w to 16 w + 15 of a and sum, as in tensor_core.cuh. b lies in rows of 128
// bytes, which begin at a multiple of 1024 and whose eight pieces of 16 bytes trade places: piece p of row
// r is at place p ^ r % 8. Source: NVIDIA, "PTX ISA", wgmma, matrices with 128-byte swizzle.
#pragma once

#include <cstdlib>
#include <cstring>
#include <tinytorch/backend/cuda/device/tensor_core.cuh>
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/warpgroup.hpp>
#endif

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Whether this compilation knows their instructions: sm_90a's does, sm_90's does not.
#if TINYTORCH_CUDA_SIM || defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kHasWarpgroups = true;
#else
inline constexpr bool kHasWarpgroups = false;
#endif

// TINYTORCH_CUDA_WARPGROUPS=0 leaves the work to single warps, to compare or to test them.
inline bool has_warpgroups() {
  const char* const asked = std::getenv("TINYTORCH_CUDA_WARPGROUPS");
  return properties(current_device()).major == 9 && !(asked && std::strcmp(asked, "0") == 0);
}

// What threads wrote to shared memory will be seen by the tensor cores, after the barrier that follows.
__device__ __forceinline__ void fence_async_proxy() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// Registers may be read and written by the products that follow.
__device__ __forceinline__ void wgmma_fence() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
// Ends a group of products.
__device__ __forceinline__ void wgmma_commit() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Until at most kPending groups of the warp are under way.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}
// Sums that products wrote meanwhile: the compiler takes them from here on, and not from before.
template <int kCount>
__device__ __forceinline__ void fence_operands([[maybe_unused]] float (&sum)[kCount][4]) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    asm volatile("" : "+f"(sum[n][0]), "+f"(sum[n][1]), "+f"(sum[n][2]), "+f"(sum[n][3])::"memory");
  }
#endif
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
template <class T>
inline constexpr char kProductType[] = "bf16";
template <>
inline constexpr char kProductType<Half>[] = "f16";
#endif

// A matrix in shared memory that begins at an address and lies in rows of 128 bytes, 1024 bytes from one
// group of eight rows to the next, as the tensor cores are told of it.
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
  static constexpr unsigned kFields = 1u << 16;  // above the address, whose sums never reach it
  unsigned low_;
};

// sum = a b, added to what it was with `add`. b [16, 64]: kRowMajor says that its 16 rows of 64 values lie
// there; otherwise 64 rows hold its columns, 16 values of each.
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
// The same with a in shared memory too, 64 rows of which 16 values count; b by columns.
template <class T>
__device__ __forceinline__ void multiply_group(float (&sum)[8][4], SharedMatrix left, SharedMatrix b,
                                               bool add) {
#if TINYTORCH_CUDA_SIM
  unsigned a[4];
  sim::load_left(a, shared_pointer(0), left.address());
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
      : "l"(left.descriptor()), "l"(b.descriptor()), "r"(static_cast<int>(add)), "C"(kProductType<T>));
#else
  (void)sum, (void)left, (void)b, (void)add;
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
