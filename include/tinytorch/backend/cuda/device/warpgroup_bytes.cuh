// Warpgroup products of signed bytes (wgmma m64n256k32, compute capability 9.0): both operands are in shared
// memory with rows of 128 bytes and 128-byte swizzle, and the sums are exact in i32 (warpgroup.cuh explains
// fences, groups and the layout of the sums).
//
//   multiply_bytes(sum, a, b);   sum [64, 256] += a [64, 32] b [256, 32]^T
#pragma once

#include <tinytorch/backend/cuda/device/warpgroup.cuh>
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/warpgroup_bytes.hpp>
#endif

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Compiler barrier for the sums of asynchronous products, as fence_operands of warpgroup.cuh.
template <int kCount>
__device__ __forceinline__ void fence_sums([[maybe_unused]] int (&sum)[kCount][4]) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    asm volatile("" : "+r"(sum[n][0]), "+r"(sum[n][1]), "+r"(sum[n][2]), "+r"(sum[n][3])::"memory");
  }
#endif
}

__device__ __forceinline__ void multiply_bytes(int (&sum)[32][4], SharedMatrix a, SharedMatrix b) {
#if TINYTORCH_CUDA_SIM
  sim::multiply_bytes(sum, shared_pointer(0), a.address(), b.address());
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n .reg .pred adds;\n setp.ne.b32 adds, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, "
      "%100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, "
      "%117, %118, %119, "
      "%120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, adds;\n}"
      : "+r"(sum[0][0]), "+r"(sum[0][1]), "+r"(sum[0][2]), "+r"(sum[0][3]), "+r"(sum[1][0]), "+r"(sum[1][1]),
        "+r"(sum[1][2]), "+r"(sum[1][3]), "+r"(sum[2][0]), "+r"(sum[2][1]), "+r"(sum[2][2]), "+r"(sum[2][3]),
        "+r"(sum[3][0]), "+r"(sum[3][1]), "+r"(sum[3][2]), "+r"(sum[3][3]), "+r"(sum[4][0]), "+r"(sum[4][1]),
        "+r"(sum[4][2]), "+r"(sum[4][3]), "+r"(sum[5][0]), "+r"(sum[5][1]), "+r"(sum[5][2]), "+r"(sum[5][3]),
        "+r"(sum[6][0]), "+r"(sum[6][1]), "+r"(sum[6][2]), "+r"(sum[6][3]), "+r"(sum[7][0]), "+r"(sum[7][1]),
        "+r"(sum[7][2]), "+r"(sum[7][3]), "+r"(sum[8][0]), "+r"(sum[8][1]), "+r"(sum[8][2]), "+r"(sum[8][3]),
        "+r"(sum[9][0]), "+r"(sum[9][1]), "+r"(sum[9][2]), "+r"(sum[9][3]), "+r"(sum[10][0]),
        "+r"(sum[10][1]), "+r"(sum[10][2]), "+r"(sum[10][3]), "+r"(sum[11][0]), "+r"(sum[11][1]),
        "+r"(sum[11][2]), "+r"(sum[11][3]), "+r"(sum[12][0]), "+r"(sum[12][1]), "+r"(sum[12][2]),
        "+r"(sum[12][3]), "+r"(sum[13][0]), "+r"(sum[13][1]), "+r"(sum[13][2]), "+r"(sum[13][3]),
        "+r"(sum[14][0]), "+r"(sum[14][1]), "+r"(sum[14][2]), "+r"(sum[14][3]), "+r"(sum[15][0]),
        "+r"(sum[15][1]), "+r"(sum[15][2]), "+r"(sum[15][3]), "+r"(sum[16][0]), "+r"(sum[16][1]),
        "+r"(sum[16][2]), "+r"(sum[16][3]), "+r"(sum[17][0]), "+r"(sum[17][1]), "+r"(sum[17][2]),
        "+r"(sum[17][3]), "+r"(sum[18][0]), "+r"(sum[18][1]), "+r"(sum[18][2]), "+r"(sum[18][3]),
        "+r"(sum[19][0]), "+r"(sum[19][1]), "+r"(sum[19][2]), "+r"(sum[19][3]), "+r"(sum[20][0]),
        "+r"(sum[20][1]), "+r"(sum[20][2]), "+r"(sum[20][3]), "+r"(sum[21][0]), "+r"(sum[21][1]),
        "+r"(sum[21][2]), "+r"(sum[21][3]), "+r"(sum[22][0]), "+r"(sum[22][1]), "+r"(sum[22][2]),
        "+r"(sum[22][3]), "+r"(sum[23][0]), "+r"(sum[23][1]), "+r"(sum[23][2]), "+r"(sum[23][3]),
        "+r"(sum[24][0]), "+r"(sum[24][1]), "+r"(sum[24][2]), "+r"(sum[24][3]), "+r"(sum[25][0]),
        "+r"(sum[25][1]), "+r"(sum[25][2]), "+r"(sum[25][3]), "+r"(sum[26][0]), "+r"(sum[26][1]),
        "+r"(sum[26][2]), "+r"(sum[26][3]), "+r"(sum[27][0]), "+r"(sum[27][1]), "+r"(sum[27][2]),
        "+r"(sum[27][3]), "+r"(sum[28][0]), "+r"(sum[28][1]), "+r"(sum[28][2]), "+r"(sum[28][3]),
        "+r"(sum[29][0]), "+r"(sum[29][1]), "+r"(sum[29][2]), "+r"(sum[29][3]), "+r"(sum[30][0]),
        "+r"(sum[30][1]), "+r"(sum[30][2]), "+r"(sum[30][3]), "+r"(sum[31][0]), "+r"(sum[31][1]),
        "+r"(sum[31][2]), "+r"(sum[31][3])
      : "l"(a.descriptor()), "l"(b.descriptor()), "r"(1));
#else
  (void)sum, (void)a, (void)b;
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
