// The sum of a matrix over its rows, out[c] = x[0][c] + x[1][c] + ...: the gradient of a bias.
//
// A sum of floats depends on the order of its terms. With atomicAdd the order differs from run to run, and so
// do the last bits of a training's results. Here the order depends on the shape alone:
//
//   1. rows are divided into chunks; one block sums 32 columns of one chunk     partial [chunks, columns]
//   2. one thread per column adds its partial sums, first chunk to last         out [columns]
//
// Neighbouring threads read neighbouring columns, so the 32 reads of a warp are coalesced. The accumulate
// type is double, whatever x stores: the kernels are memory-bound, so it costs no time, and the sum of a
// million rows is as exact as that of ten.
//
// Task 2.9: partial_sums_kernel, add_partials_kernel, column_sums. The given parts of this header are in
// modules/02_autograd/frame/tinytorch/backend/cuda/kernels/column_sums.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// partial[chunk * x.columns + c] = the sum of column c over the rows of the chunk. A block has 32 columns,
// from blockIdx.x * kSumColumns on, and one chunk of rows, from blockIdx.y * chunk_rows on; the last chunk
// may have fewer rows. Thread (x, y) of 32 x 8 sums every eighth row of its column, from row y of the chunk
// on. The 8 sums of a column go to shared memory, and the threads with y = 0 add them up, 0 to 7. All threads
// must reach the barrier, those beyond the last column, too.
template <class T>
static __global__ void __launch_bounds__(kSumColumns* kSumLines)
    partial_sums_kernel(double* partial, SummedMatrix<T> x, int64_t chunk_rows) {
  __shared__ double sums[kSumLines][kSumColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kSumColumns + threadIdx.x;
  const int64_t begin = blockIdx.y * chunk_rows, end = std::min(begin + chunk_rows, x.rows);
  double sum = 0;
  if (column < x.columns) {
    for (int64_t r = begin + threadIdx.y; r < end; r += kSumLines) {
      sum += to<double>(x.data[r * x.row_stride + column * x.column_stride]);
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= x.columns) return;
  for (int line = 1; line < kSumLines; ++line) sum += sums[line][threadIdx.x];
  partial[blockIdx.y * x.columns + column] = sum;
}

// out[c * out_stride] = partial[0][c] + partial[1][c] + ... in this order, with one thread per column. The
// sum is rounded to T once.
template <class T>
static __global__ void __launch_bounds__(kSumColumns* kSumLines)
    add_partials_kernel(T* out, int64_t out_stride, const double* partial, int64_t chunks, int64_t columns) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * (kSumColumns * kSumLines) + threadIdx.x;
  if (column >= columns) return;
  double sum = 0;
  for (int64_t k = 0; k < chunks; ++k) sum += partial[k * columns + column];
  out[column * out_stride] = to<T>(sum);
}

// out [C], x [R, C]: floating, of the same or of different dtypes, of any strides. Without rows the sums are
// 0. The number of chunks may depend on the shape, but not on the device; the grid's y is at most 65535.
// DeviceScratch<double>(n) is memory for n numbers, .data() its address; dispatch_stored(dtype, f) calls f
// with a null pointer of the stored type; launch(kernel, {dim3 grid, dim3 block}, arguments...).
void column_sums(const View& out, const View& x) {
  const int64_t rows = x.shape[0], columns = x.shape[1];
  if (columns == 0) return;
  const int64_t chunk_rows = std::max(kSumChunkRows, ceil_div(rows, kMostSumChunks));
  const int64_t chunks = ceil_div(rows, chunk_rows);
  const DeviceScratch<double> partial(chunks * columns);
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    const SummedMatrix<T> matrix{x.as<const T>(), rows, columns, x.strides[0], x.strides[1]};
    const dim3 grid(static_cast<unsigned>(ceil_div(columns, kSumColumns)), static_cast<unsigned>(chunks));
    launch(partial_sums_kernel<T>, {grid, dim3(kSumColumns, kSumLines)}, partial.data(), matrix, chunk_rows);
  });
  dispatch_stored(out.dtype, [&]<class T>(T*) {
    launch(add_partials_kernel<T>, over(columns, kSumColumns * kSumLines), out.as<T>(), out.strides[0],
           partial.data(), chunks, columns);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
