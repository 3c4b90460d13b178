// Products with a weight stored as a bitmap (contract: backend/cpu/spmv.hpp), for few rows of x.
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.12. The
// library's own kernel copies the numbers to shared memory ahead of their use; this one reads them where they
// are.
#pragma once

#include <tinytorch/backend/cuda/device/linear_result.cuh>
#include <tinytorch/backend/cuda/kernels/rows/padded.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kSpmvThreads = 128, kSpmvStep = kWarp * 8;  // columns of a step

// The addresses of the numbers of a warp's rows. kRows is even.
template <class T, int kRows>
struct BitmapRows {
  const T* value[kRows];
  const uint8_t* bits[kRows];
  int bytes;  // of a row of the bitmap

  __device__ __forceinline__ BitmapRows(const BitmapView& w, int64_t n0)
      : bytes(static_cast<int>((w.columns + 63) / 64 * 8)) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t n = min(n0 + r, w.rows - 1);  // the last row again: its sum is not written
      value[r] = static_cast<const T*>(w.values) + w.offsets[n];
      bits[r] = reinterpret_cast<const uint8_t*>(w.bits) + n * bytes;
    }
  }
  // The lane's byte of each row, in the step that begins at byte `first` of a row.
  __device__ __forceinline__ void load_bits(unsigned (&byte)[kRows], int first) const {
    const int at = first + static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int r = 0; r < kRows; ++r) byte[r] = at < bytes ? bits[r][at] : 0u;
  }
  __device__ __forceinline__ void add_step(float (&sum)[kRows], const unsigned (&byte)[kRows],
                                           const float (&x)[8]);  // task 8.12
};

// --- launchers ---

// Task 8.12.
template <class T, int kRows>
void launch_spmv_bitmap(const BitmapView& w, const PaddedRows<T>& x, int64_t M, const LinearResult& to);

void spmv_bitmap(const View& out, const View& x, const BitmapView& w) {
  if (out.numel() == 0) return;
  dispatch_stored(w.dtype, [&]<class T>(T*) {
    if constexpr (std::is_same_v<Compute<T>, float>) {
      const DeviceScratch<T> own(x.dtype == w.dtype ? 0 : x.numel());
      View same = x;
      if (x.dtype != w.dtype) {
        same = contiguous_view(own.data(), w.dtype, x.shape);
        copy(same, x);
      }
      const PaddedRows<T> rows(same);
      const LinearResult to(out, {});
      // Few rows of the weight are divided among more warps.
      const int64_t enough = int64_t{4} * 16 * properties(current_device()).multiprocessors;
      if (w.rows >= enough) return launch_spmv_bitmap<T, 4>(w, rows, x.shape[0], to);
      return launch_spmv_bitmap<T, 2>(w, rows, x.shape[0], to);
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/spmv.cuh>
