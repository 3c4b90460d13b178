// Tiles: kernels for rows so narrow that a vector of 16 bytes, or the access of a warp, spans several rows.
//
// A block copies a tile of many neighbouring rows to shared memory, by 16-byte vectors at any alignment. A
// few lanes per row compute the row's statistics. Then each thread processes the elements of one column, so
// that values of the column (weights, sums over rows) stay in registers. The results replace the first input
// in shared memory and are written to global memory by 16-byte vectors.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/async_copy.cuh>
#include <tinytorch/backend/cuda/device/row.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The work on the rows is a class:
//
//   struct Work {
//     using Element, Arrays;          element type of the rows; argument of the kernel
//     using RowStats;                 result of measure()
//     static constexpr int kInputs;   number of input arrays
//     static constexpr int kBytes;    most bytes of a tile, for each input
//     static constexpr bool kByRow;   true if finish(in, stats, column) exists, for any column
//     static constexpr bool kWrites;  true if rows have results; if false, only measure() is called
//     static const Element* input(const Arrays&, int k);
//     static Element* output(const Arrays&);              may be null
//     Work(const Arrays&, int column, int C);             for this thread's column
//     RowStats measure(const TileRow&, int64_t row, bool leads);   by all lanes of a row; leads: one of them
//     Compute<Element> finish(const Compute<Element> (&in)[kInputs], const RowStats&);
//     void end(const TileColumns&);   after the last row
//   };

inline constexpr int kTileThreads = 256;

// One row of the tile in shared memory, and this lane's number among the lanes that share the row.
template <class T, int kInputs>
struct TileRow {
  const T* at[kInputs];
  int C, lane, lanes;
  // Calls f(column, element of each input) for this lane's columns.
  template <class F>
  __device__ __forceinline__ void each(F&& f) const {
#pragma unroll 4
    for (int c = lane; c < C; c += lanes) {
      Compute<T> x[kInputs];
#pragma unroll
      for (int k = 0; k < kInputs; ++k) x[k] = to<Compute<T>>(at[k][c]);
      f(c, x);
    }
  }
  template <class A, class Op>
  __device__ __forceinline__ A reduce(A x, Op op) const {
    for (int step = lanes / 2; step > 0; step /= 2) x = op(x, shuffle_xor(x, step));
    return x;
  }
};

// Sums over the threads that process the same column.
template <class A>
struct TileColumns {
  A* space;  // shared memory, one element per thread
  int C, threads;
  // Calls f(column, sum) once for each column.
  template <class F>
  __device__ __forceinline__ void sum(A x, F&& f) const {
    const int thread = static_cast<int>(threadIdx.x);
    __syncthreads();
    space[thread] = x;
    __syncthreads();
    if (thread >= C) return;
    for (int k = thread + C; k < threads; k += C) x += space[k];
    f(thread, x);
  }
};

// Calls f(vector number, first element) for each aligned 16-byte vector that contains some of the n elements
// at p.
template <class T, class F>
__device__ __forceinline__ void each_vector(const T* p, int n, F&& f) {
  const int phase = phase_of(p), vectors = ceil_div(phase + n, kVectorSizeOf<T>);
  for (int w = static_cast<int>(threadIdx.x); w < vectors; w += kTileThreads)
    f(w, w * kVectorSizeOf<T> - phase);
}
// Queues copies of n elements to shared memory, with the same phase as in global memory. Returns the address
// of the first element.
template <class T>
__device__ __forceinline__ T* fetch_tile(T* buffer, const T* from, int n) {
  T* const first = buffer + phase_of(from);
  each_vector(from, n, [&](int w, int i) {
    if (vector_is_inside<T>(i, n))
      return copy_async(shared_address(buffer + w * kVectorSizeOf<T>), from + i, true);
    for (int k = 0; k < kVectorSizeOf<T>; ++k) {
      if (is_inside(i + k, n)) first[i + k] = from[i + k];
    }
  });
  return first;
}
template <class T>
__device__ __forceinline__ void write_tile(T* to_, const T* from, int n) {
  const bool alike = phase_of(to_) == phase_of(from);
  each_vector(to_, n, [&](int, int i) {
    if (vector_is_inside<T>(i, n)) {
      T values[kVectorSizeOf<T>];
      uint4 vector;
      if (alike) {
        vector = *reinterpret_cast<const uint4*>(from + i);
      } else {
#pragma unroll
        for (int k = 0; k < kVectorSizeOf<T>; ++k) values[k] = from[i + k];
        memcpy(&vector, values, sizeof(vector));
      }
      *reinterpret_cast<uint4*>(to_ + i) = vector;
      return;
    }
    for (int k = 0; k < kVectorSizeOf<T>; ++k) {
      if (is_inside(i + k, n)) to_[i + k] = from[i + k];
    }
  });
}

template <class T>
__host__ __device__ constexpr int tile_buffer(int height, int C) {  // elements; whole vectors
  return (height * C + 2 * kVectorSizeOf<T> - 2) / kVectorSizeOf<T> * kVectorSizeOf<T>;
}

// Each thread processes a whole row, in place, which suits rows of few elements. kColumns is C, or 0 if C is
// known only at run time.
template <int kColumns, class Work, class T, int kInputs>
__device__ __forceinline__ void finish_by_row(Work& work, T* const (&at)[kInputs], int64_t first, int here,
                                              int C) {
  const int columns = kColumns ? kColumns : C;
  for (int row = static_cast<int>(threadIdx.x); row < here; row += kTileThreads) {
    TileRow<T, kInputs> one{{}, columns, 0, 1};
#pragma unroll
    for (int k = 0; k < kInputs; ++k) one.at[k] = at[k] + row * columns;
    const typename Work::RowStats found = work.measure(one, first + row, true);
    if constexpr (Work::kWrites) {
      one.each([&](int c, const Compute<T>(&x)[kInputs]) {
        at[0][row * columns + c] = to<T>(work.finish(x, found, c));
      });
    }
  }
}

template <class Work, class T, int kInputs>
__device__ __forceinline__ void finish_few_columns(Work& work, T* const (&at)[kInputs], int64_t first,
                                                   int here, int C) {
  if (C == 1) return finish_by_row<1>(work, at, first, here, C);
  if (C == 2) return finish_by_row<2>(work, at, first, here, C);
  if (C == 3) return finish_by_row<3>(work, at, first, here, C);
  if (C == 4) return finish_by_row<4>(work, at, first, here, C);
  finish_by_row<0>(work, at, first, here, C);
}

// Computes the statistics of each row by `lanes` lanes, and stores them in shared memory for all threads.
template <class Work, class T, int kInputs>
__device__ __forceinline__ void measure_rows(Work& work, T* const (&at)[kInputs], int64_t first, int here,
                                             int C, int lanes, typename Work::RowStats* stats) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % lanes, groups = kTileThreads / lanes;
  for (int begin = 0; begin < here; begin += groups) {
    const int group = begin + thread / lanes, row = std::min(group, here - 1);  // all lanes must shuffle
    TileRow<T, kInputs> one{{}, C, lane, lanes};
#pragma unroll
    for (int k = 0; k < kInputs; ++k) one.at[k] = at[k] + row * C;
    const bool leads = lane == 0 && group < here;
    const typename Work::RowStats found = work.measure(one, first + row, leads);
    if (Work::kWrites && leads) stats[row] = found;
  }
}

// Processes the elements of the tile; each thread has a fixed column.
template <class Work, class T, int kInputs>
__device__ __forceinline__ void finish_columns(Work& work, T* const (&at)[kInputs], int here, int C,
                                               const typename Work::RowStats* stats) {
  const int thread = static_cast<int>(threadIdx.x), down = kTileThreads / C, threads = down * C;
  if (thread >= threads) return;
#pragma unroll 4
  for (int i = thread, row = thread / C; i < here * C; i += threads, row += down) {
    Compute<T> x[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) x[k] = to<Compute<T>>(at[k][i]);
    at[0][i] = to<T>(work.finish(x, stats[row]));
  }
}

// height: rows per tile. lanes: lanes per row, a power of two up to 32.
template <class Work>
static __global__ void __launch_bounds__(kTileThreads)
    tiles_kernel(const __grid_constant__ typename Work::Arrays arrays, int64_t rows, int C, int height,
                 int lanes) {
  using T = typename Work::Element;
  constexpr int kInputs = Work::kInputs;
  __shared__ Compute<T> space[kTileThreads];
  const int buffer = tile_buffer<T>(height, C);
  T* const tiles = dynamic_shared<T>();
  auto* const stats = reinterpret_cast<typename Work::RowStats*>(tiles + kInputs * buffer);
  Work work(arrays, static_cast<int>(threadIdx.x) % C, C);
  T* const out = Work::output(arrays);
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * height; first < rows;
       first += static_cast<int64_t>(gridDim.x) * height) {
    const int here = static_cast<int>(std::min<int64_t>(height, rows - first)), n = here * C;
    T* at[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      at[k] = fetch_tile(tiles + k * buffer, Work::input(arrays, k) + first * C, n);
    }
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    const bool by_row = Work::kByRow && lanes == 1;
    if constexpr (Work::kByRow) {
      if (by_row) finish_few_columns(work, at, first, here, C);
    }
    if (!by_row) measure_rows(work, at, first, here, C, lanes, stats);
    __syncthreads();
    if constexpr (Work::kWrites) {
      if (!by_row) finish_columns(work, at, here, C, stats);
      __syncthreads();
      if (out) write_tile(out + first * C, at[0], n);
      __syncthreads();
    }
  }
  work.end(TileColumns<Compute<T>>{space, C, kTileThreads / C * C});
}

inline constexpr int64_t kTileColumns = kTileThreads;  // most columns of a row
struct TilesPlan {
  LaunchConfig config;
  int height, lanes;
};
template <class Work>
TilesPlan plan_tiles(int64_t rows, int64_t C) {
  using T = typename Work::Element;
  constexpr int kSize = static_cast<int>(sizeof(T));
  TilesPlan plan{};
  plan.height = static_cast<int>(std::min({rows, int64_t{1024}, Work::kBytes / kSize / C}));
  if (plan.height > kVectorSizeOf<T>)
    plan.height -= plan.height % kVectorSizeOf<T>;  // all tiles have the same phase
  plan.lanes = 1;                                   // so many that all rows are measured at once
  while (plan.lanes < kWarp && plan.lanes * 2 * plan.height <= kTileThreads) plan.lanes *= 2;
  plan.config.block = dim3(kTileThreads);
  plan.config.shared_bytes =
      static_cast<size_t>(Work::kInputs * tile_buffer<T>(plan.height, static_cast<int>(C)) * kSize) +
      (Work::kByRow && plan.lanes == 1 ? 0
                                       : static_cast<size_t>(plan.height) * sizeof(typename Work::RowStats));
  plan.config.grid.x = static_cast<unsigned>(
      std::min(ceil_div(rows, plan.height), resident_blocks(tiles_kernel<Work>, plan.config)));
  return plan;
}
template <class Work>
void launch_tiles(const TilesPlan& plan, const typename Work::Arrays& arrays, int64_t rows, int64_t C) {
  launch(tiles_kernel<Work>, plan.config, arrays, rows, static_cast<int>(C), plan.height, plan.lanes);
}

// True for rows so short that most lanes of a group would be idle, or would process only the ends of rows.
template <class T>
bool is_narrow(int64_t C, bool aligned) {
  return C * static_cast<int64_t>(sizeof(T)) < (aligned ? 128 : 256);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
