// Tiles: rows so narrow that a word of 16 bytes, or the access of a warp, spans several of them.
//
// A block brings many neighbouring rows into shared memory, in words of 16 bytes wherever rows begin. There a
// few lanes share each row to measure it; then all threads walk the elements, each down a column of its own,
// so that what belongs to a column (weights, sums over rows) waits in registers; the results take the place
// of the first input and leave in words again. What is done with the rows is a Work:
//
//   struct Work {
//     using Element, Arrays;          what rows hold; the kernel's argument
//     using RowStats;                    what a row is measured for
//     static constexpr int kInputs;   arrays of rows that are read
//     static constexpr int kBytes;    of a tile of each, at the most
//     static constexpr bool kByRow;   whether finish() can take any column: finish(in, stats, column)
//     static constexpr bool kWrites;  whether rows have results; else measure() is all there is to do
//     static const Element* input(const Arrays&, int k);
//     static Element* output(const Arrays&);              or null
//     Work(const Arrays&, int column, int C);             of this thread's column
//     RowStats measure(const TileRow&, int64_t row, bool leads);   by all lanes of a row; one leads
//     Compute<Element> finish(const Compute<Element> (&in)[kInputs], const RowStats&);
//     void end(const TileColumns&);   after the last row
//   };
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/async_copy.cuh>
#include <tinytorch/backend/cuda/device/row.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kTileThreads = 256;

// One row of the tile, in shared memory, with the lanes that share it.
template <class T, int kInputs>
struct TileRow {
  const T* at[kInputs];
  int C, lane, lanes;
  // f(column, element of each input) for the lane's share.
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

// Sums over the threads of a column, of which there are several.
template <class A>
struct TileColumns {
  A* space;  // an element for each thread, shared
  int C, threads;
  // f(column, sum) once for each column.
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

// Calls f(word number, first element) for each word of 16 bytes that n elements at an address lie in.
template <class T, class F>
__device__ __forceinline__ void each_vector(const T* p, int n, F&& f) {
  const int phase = phase_of(p), words = (phase + n + kVectorSizeOf<T> - 1) / kVectorSizeOf<T>;
  for (int w = static_cast<int>(threadIdx.x); w < words; w += kTileThreads)
    f(w, w * kVectorSizeOf<T> - phase);
}
// Queues copies of n elements to shared memory, where they lie in words as they did; returns the first's
// place.
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
      uint4 word;
      if (alike) {
        word = *reinterpret_cast<const uint4*>(from + i);
      } else {
#pragma unroll
        for (int k = 0; k < kVectorSizeOf<T>; ++k) values[k] = from[i + k];
        memcpy(&word, values, sizeof(word));
      }
      *reinterpret_cast<uint4*>(to_ + i) = word;
      return;
    }
    for (int k = 0; k < kVectorSizeOf<T>; ++k) {
      if (is_inside(i + k, n)) to_[i + k] = from[i + k];
    }
  });
}

template <class T>
__host__ __device__ constexpr int tile_buffer(int height, int C) {  // elements; whole words
  return (height * C + 2 * kVectorSizeOf<T> - 2) / kVectorSizeOf<T> * kVectorSizeOf<T>;
}

// Rows of so few elements that a thread does all of one, in its place. kColumns: as many as C, or 0 for any
// number.
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

// Rows that some lanes share: each is measured, and its stats are left for all threads.
template <class Work, class T, int kInputs>
__device__ __forceinline__ void measure_rows(Work& work, T* const (&at)[kInputs], int64_t first, int here,
                                             int C, int lanes, typename Work::RowStats* stats) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % lanes, groups = kTileThreads / lanes;
  for (int begin = 0; begin < here; begin += groups) {
    const int group = begin + thread / lanes, row = std::min(group, here - 1);  // a warp measures together
    TileRow<T, kInputs> one{{}, C, lane, lanes};
#pragma unroll
    for (int k = 0; k < kInputs; ++k) one.at[k] = at[k] + row * C;
    const bool leads = lane == 0 && group < here;
    const typename Work::RowStats found = work.measure(one, first + row, leads);
    if (Work::kWrites && leads) stats[row] = found;
  }
}

// The elements of the tile by all threads, each down a column of its own.
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

// height: rows of a tile. lanes: of a row, a power of two up to 32.
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

inline constexpr int64_t kTileColumns = kTileThreads;  // at the most
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
  if (plan.height > kVectorSizeOf<T>) plan.height -= plan.height % kVectorSizeOf<T>;  // tiles begin alike
  plan.lanes = 1;                                                                     // all rows at once
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

// Rows of few words, of which a group of lanes would be mostly idle, or mostly busy with the ends.
template <class T>
bool is_narrow(int64_t C, bool aligned) {
  return C * static_cast<int64_t>(sizeof(T)) < (aligned ? 128 : 256);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
