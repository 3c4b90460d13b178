// Column sums that are accumulated during a pass over rows: gradients of weights and biases, which all rows
// share.
//
// The result is deterministic: rows are cut into blocks depending on their number alone, each block is summed
// by one thread, and the sums of blocks are added in order. kColumnRun rows are summed in T, and these sums
// in double.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// sums [width] = sum over rows r of the terms that add_row(r, part, scratch) adds to part [width]. scratch
// [scratch_width] belongs to the calling thread; its contents are undefined.
template <class T, class F>
void sum_over_rows(double* sums, int64_t rows, int64_t width, int64_t scratch_width, F&& add_row) {
  const int64_t blocks = std::clamp<int64_t>(rows / 16, 1, 16);
  Scratch<double> totals(blocks * width);
  parallel_for(blocks, grain_of(rows / blocks * (width + scratch_width)), [&](int64_t begin, int64_t end) {
    Scratch<T> own(width + scratch_width);
    T* const part = own.data();
    for (int64_t b = begin; b < end; ++b) {
      double* const total = totals.data() + b * width;
      std::fill_n(total, width, 0.0);
      const int64_t last = rows * (b + 1) / blocks;
      for (int64_t r0 = rows * b / blocks; r0 < last; r0 += kColumnRun) {
        std::fill_n(part, width, T(0));
        for (int64_t r = r0; r < std::min(last, r0 + kColumnRun); ++r) add_row(r, part, part + width);
        TT_SIMD
        for (int64_t i = 0; i < width; ++i) total[i] += static_cast<double>(part[i]);
      }
    }
  });
  std::copy_n(totals.data(), width, sums);
  for (int64_t b = 1; b < blocks; ++b) {
    TT_SIMD
    for (int64_t i = 0; i < width; ++i) sums[i] += totals.data()[b * width + i];
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
