// Embedding: rows of a table picked by index, and the gradient that adds rows back (contracts:
// backend/cpu/embedding.hpp). An index outside the table gives a row of zeros, and adds nothing.
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.17.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kEmbeddingThreads = 256, kEmbeddingWarps = kEmbeddingThreads / kWarp;

// Indices of any layout: row by row, the table's row that position n names, or -1.
struct RowIndices {
  Elements<float> places;  // where they lie; their values are integers
  int64_t rows;            // of the table
  __device__ int64_t operator[](int64_t n) const {
    const int64_t row = static_cast<const int64_t*>(places.data)[places.place(n)];
    return row >= 0 && row < rows ? row : -1;
  }
};

template <class C>
static __global__ void __launch_bounds__(kEmbeddingThreads)
    zero_table_kernel(const __grid_constant__ Elements<C> table) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kEmbeddingThreads + threadIdx.x;
  if (i < table.count) table.write(table.place(i), C(0));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/embedding.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void embedding(const View& out, const View& weight, const View& index) {
  const RowIndices rows{Elements<float>(index), weight.shape[0]};
  dispatch_floating(out.dtype, [&]<class C>(C*) {
    launch(embedding_kernel<C>, over(out.numel(), kEmbeddingThreads), Elements<C>(out), Elements<C>(weight),
           rows, static_cast<int64_t>(weight.shape[1]));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
