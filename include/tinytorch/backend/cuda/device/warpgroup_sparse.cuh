// Warpgroup products with a sparse operand A (wgmma.mma_async.sp; compute capability 9.0, sm_90a): each
// group of four neighbours in a row of a keeps two, and the tensor cores take half the time of wgmma.
//
//   multiply_sparse<BFloat16, 0>(sum, a, metadata, b);   sum [64, 256] += a [64, 32] b [256, 32]^T
//
// a and metadata are in registers, as in tensor_core_sparse.cuh, for rows 16 w to 16 w + 15 of warp w. b is
// in shared memory, as rows of 64 values with 128-byte swizzle (warpgroup.cuh); the number of its rows
// follows from the size of sum. An instruction with 256 rows of b reads 128 bytes of shared memory per clock,
// which is all that there is; so a comes from registers.
//
// Source: NVIDIA, "PTX ISA", wgmma.mma_async.sp.
#pragma once

#include <tinytorch/backend/cuda/device/warpgroup.cuh>
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/warpgroup_sparse.hpp>
#endif

namespace tinytorch::inline TT_BUILD::backend::cuda {

template <class T, int kSelector>
__device__ __forceinline__ void multiply_sparse(float (&sum)[8][4], const unsigned (&a)[4], unsigned metadata,
                                                SharedMatrix b) {
#if TINYTORCH_CUDA_SIM
  sim::multiply_sparse<T>(sum, a, metadata, kSelector, shared_pointer(0), b.address());
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n .reg .pred adds;\n setp.ne.b32 adds, %38, 0;\n"
      "wgmma.mma_async.sp.sync.aligned.m64n64k32.f32.%40.%40 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, %37, %39, adds, 1, 1, 0;\n}"
      : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]), "+f"(sum[1][1]),
        "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]), "+f"(sum[2][2]), "+f"(sum[2][3]),
        "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]), "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]),
        "+f"(sum[4][2]), "+f"(sum[4][3]), "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]),
        "+f"(sum[6][0]), "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),
        "+f"(sum[7][2]), "+f"(sum[7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor()), "r"(metadata), "r"(1),
        "n"(kSelector), "C"(kProductType<T>));
#else
  (void)sum, (void)a, (void)metadata, (void)b;
#endif
}
template <class T, int kSelector>
__device__ __forceinline__ void multiply_sparse(float (&sum)[16][4], const unsigned (&a)[4],
                                                unsigned metadata, SharedMatrix b) {
#if TINYTORCH_CUDA_SIM
  sim::multiply_sparse<T>(sum, a, metadata, kSelector, shared_pointer(0), b.address());
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n .reg .pred adds;\n setp.ne.b32 adds, %70, 0;\n"
      "wgmma.mma_async.sp.sync.aligned.m64n128k32.f32.%72.%72 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
      "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, %69, %71, adds, 1, 1, 0;\n}"
      : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]), "+f"(sum[1][1]),
        "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]), "+f"(sum[2][2]), "+f"(sum[2][3]),
        "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]), "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]),
        "+f"(sum[4][2]), "+f"(sum[4][3]), "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]),
        "+f"(sum[6][0]), "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),
        "+f"(sum[7][2]), "+f"(sum[7][3]), "+f"(sum[8][0]), "+f"(sum[8][1]), "+f"(sum[8][2]), "+f"(sum[8][3]),
        "+f"(sum[9][0]), "+f"(sum[9][1]), "+f"(sum[9][2]), "+f"(sum[9][3]), "+f"(sum[10][0]),
        "+f"(sum[10][1]), "+f"(sum[10][2]), "+f"(sum[10][3]), "+f"(sum[11][0]), "+f"(sum[11][1]),
        "+f"(sum[11][2]), "+f"(sum[11][3]), "+f"(sum[12][0]), "+f"(sum[12][1]), "+f"(sum[12][2]),
        "+f"(sum[12][3]), "+f"(sum[13][0]), "+f"(sum[13][1]), "+f"(sum[13][2]), "+f"(sum[13][3]),
        "+f"(sum[14][0]), "+f"(sum[14][1]), "+f"(sum[14][2]), "+f"(sum[14][3]), "+f"(sum[15][0]),
        "+f"(sum[15][1]), "+f"(sum[15][2]), "+f"(sum[15][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor()), "r"(metadata), "r"(1),
        "n"(kSelector), "C"(kProductType<T>));
#else
  (void)sum, (void)a, (void)metadata, (void)b;
#endif
}
template <class T, int kSelector>
__device__ __forceinline__ void multiply_sparse(float (&sum)[32][4], const unsigned (&a)[4],
                                                unsigned metadata, SharedMatrix b) {
#if TINYTORCH_CUDA_SIM
  sim::multiply_sparse<T>(sum, a, metadata, kSelector, shared_pointer(0), b.address());
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n .reg .pred adds;\n setp.ne.b32 adds, %134, 0;\n"
      "wgmma.mma_async.sp.sync.aligned.m64n256k32.f32.%136.%136 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
      "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, "
      "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
      "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "
      "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
      "%123, %124, %125, %126, %127"
      "}, {%128, %129, %130, %131}, %132, %133, %135, adds, 1, 1, 0;\n}"
      : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]), "+f"(sum[1][1]),
        "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]), "+f"(sum[2][2]), "+f"(sum[2][3]),
        "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]), "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]),
        "+f"(sum[4][2]), "+f"(sum[4][3]), "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]),
        "+f"(sum[6][0]), "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),
        "+f"(sum[7][2]), "+f"(sum[7][3]), "+f"(sum[8][0]), "+f"(sum[8][1]), "+f"(sum[8][2]), "+f"(sum[8][3]),
        "+f"(sum[9][0]), "+f"(sum[9][1]), "+f"(sum[9][2]), "+f"(sum[9][3]), "+f"(sum[10][0]),
        "+f"(sum[10][1]), "+f"(sum[10][2]), "+f"(sum[10][3]), "+f"(sum[11][0]), "+f"(sum[11][1]),
        "+f"(sum[11][2]), "+f"(sum[11][3]), "+f"(sum[12][0]), "+f"(sum[12][1]), "+f"(sum[12][2]),
        "+f"(sum[12][3]), "+f"(sum[13][0]), "+f"(sum[13][1]), "+f"(sum[13][2]), "+f"(sum[13][3]),
        "+f"(sum[14][0]), "+f"(sum[14][1]), "+f"(sum[14][2]), "+f"(sum[14][3]), "+f"(sum[15][0]),
        "+f"(sum[15][1]), "+f"(sum[15][2]), "+f"(sum[15][3]), "+f"(sum[16][0]), "+f"(sum[16][1]),
        "+f"(sum[16][2]), "+f"(sum[16][3]), "+f"(sum[17][0]), "+f"(sum[17][1]), "+f"(sum[17][2]),
        "+f"(sum[17][3]), "+f"(sum[18][0]), "+f"(sum[18][1]), "+f"(sum[18][2]), "+f"(sum[18][3]),
        "+f"(sum[19][0]), "+f"(sum[19][1]), "+f"(sum[19][2]), "+f"(sum[19][3]), "+f"(sum[20][0]),
        "+f"(sum[20][1]), "+f"(sum[20][2]), "+f"(sum[20][3]), "+f"(sum[21][0]), "+f"(sum[21][1]),
        "+f"(sum[21][2]), "+f"(sum[21][3]), "+f"(sum[22][0]), "+f"(sum[22][1]), "+f"(sum[22][2]),
        "+f"(sum[22][3]), "+f"(sum[23][0]), "+f"(sum[23][1]), "+f"(sum[23][2]), "+f"(sum[23][3]),
        "+f"(sum[24][0]), "+f"(sum[24][1]), "+f"(sum[24][2]), "+f"(sum[24][3]), "+f"(sum[25][0]),
        "+f"(sum[25][1]), "+f"(sum[25][2]), "+f"(sum[25][3]), "+f"(sum[26][0]), "+f"(sum[26][1]),
        "+f"(sum[26][2]), "+f"(sum[26][3]), "+f"(sum[27][0]), "+f"(sum[27][1]), "+f"(sum[27][2]),
        "+f"(sum[27][3]), "+f"(sum[28][0]), "+f"(sum[28][1]), "+f"(sum[28][2]), "+f"(sum[28][3]),
        "+f"(sum[29][0]), "+f"(sum[29][1]), "+f"(sum[29][2]), "+f"(sum[29][3]), "+f"(sum[30][0]),
        "+f"(sum[30][1]), "+f"(sum[30][2]), "+f"(sum[30][3]), "+f"(sum[31][0]), "+f"(sum[31][1]),
        "+f"(sum[31][2]), "+f"(sum[31][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor()), "r"(metadata), "r"(1),
        "n"(kSelector), "C"(kProductType<T>));
#else
  (void)sum, (void)a, (void)metadata, (void)b;
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
