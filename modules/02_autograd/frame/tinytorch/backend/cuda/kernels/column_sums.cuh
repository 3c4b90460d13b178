// The sum of a matrix over its rows, out[c] = x[0][c] + x[1][c] + ...: the gradient of a bias.
//
// The frame of a course header: it has the given parts, and includes the functions of task 2.9.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kSumColumns = 32, kSumLines = 8;  // a block's threads, x and y
inline constexpr int64_t kSumChunkRows = 64;           // that a block sums up
inline constexpr int64_t kMostSumChunks = 1024;        // longer chunks, where there are more rows

// A matrix as a kernel meets it: element (r, c) is data[r * row_stride + c * column_stride].
template <class T>
struct SummedMatrix {
  const T* data;
  int64_t rows, columns, row_stride, column_stride;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/column_sums.cuh>
