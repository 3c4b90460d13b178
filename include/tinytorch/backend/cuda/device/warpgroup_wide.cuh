// Warpgroup products with 128 or 256 columns (wgmma m64n128k16, m64n256k16). One instruction reads operand
// A once for all columns, so that the tensor cores reach their full rate; with 64 columns
// (warpgroup.cuh, which also explains fences, groups and the layout of the sums) they do not.
//
//   multiply_wide<BFloat16>(sum, a, b);   sum [64, 128] += a [64, 16] b [128, 16]^T; or 256 instead of 128
//
// b is stored as rows of 64 values, with 128-byte swizzle: panels of 64 rows follow each other.
#pragma once

#include <tinytorch/backend/cuda/device/warpgroup.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

template <class T>
__device__ __forceinline__ void multiply_wide(float (&sum)[16][4], const unsigned (&a)[4], SharedMatrix b) {
#if TINYTORCH_CUDA_SIM
  for (unsigned panel = 0; panel < 2; ++panel)
    sim::multiply_group<T, false>(reinterpret_cast<float(&)[8][4]>(sum[panel * 8]), a, shared_pointer(0),
                                  b.after(panel * 8192).address(), true);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n .reg .pred adds;\n setp.ne.b32 adds, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.%70.%70 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
      "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, adds, 1, 1, 0;\n}"
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
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor()), "r"(1), "C"(kProductType<T>));
#else
  (void)sum, (void)a, (void)b;
#endif
}
template <class T>
__device__ __forceinline__ void multiply_wide(float (&sum)[32][4], const unsigned (&a)[4], SharedMatrix b) {
#if TINYTORCH_CUDA_SIM
  for (unsigned panel = 0; panel < 4; ++panel)
    sim::multiply_group<T, false>(reinterpret_cast<float(&)[8][4]>(sum[panel * 8]), a, shared_pointer(0),
                                  b.after(panel * 8192).address(), true);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n .reg .pred adds;\n setp.ne.b32 adds, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.%134.%134 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
      "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, "
      "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
      "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "
      "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
      "%123, %124, %125, %126, %127}, "
      "{%128, %129, %130, %131}, %132, adds, 1, 1, 0;\n}"
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
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor()), "r"(1), "C"(kProductType<T>));
#else
  (void)sum, (void)a, (void)b;
#endif
}
// This overload reads A from shared memory, too, as 64 rows of 16 values.
template <class T>
__device__ __forceinline__ void multiply_wide(float (&sum)[32][4], SharedMatrix a_rows, SharedMatrix b) {
#if TINYTORCH_CUDA_SIM
  unsigned a[4];
  sim::load_a(a, shared_pointer(0), a_rows.address());
  for (unsigned panel = 0; panel < 4; ++panel)
    sim::multiply_group<T, false>(reinterpret_cast<float(&)[8][4]>(sum[panel * 8]), a, shared_pointer(0),
                                  b.after(panel * 8192).address(), true);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n .reg .pred adds;\n setp.ne.b32 adds, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.%131.%131 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
      "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, "
      "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
      "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "
      "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
      "%123, %124, %125, %126, %127}, "
      "%128, %129, adds, 1, 1, 0, 0;\n}"
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
      : "l"(a_rows.descriptor()), "l"(b.descriptor()), "r"(1), "C"(kProductType<T>));
#else
  (void)sum, (void)a_rows, (void)b;
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
