// Gradients of softmax and its logarithm, along any dimension (contracts: backend/cpu/softmax.hpp).
//
//   softmax: dx = y (dy - sum(dy y))      log_softmax: dx = dy - e^y sum(dy)
//
// The cases are those of softmax.cuh, but rows longer than registers use strips (strips.cuh) before shared
// memory: two arrays are read, so shared memory holds half as many columns. Limit: memory bandwidth.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/segments.cuh>
#include <tinytorch/backend/cuda/device/tiles.cuh>
#include <tinytorch/backend/cuda/kernels/rows/softmax_grad_strips.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// --- rows in registers ---

template <class R, class T = typename R::Element>
static __global__ void __launch_bounds__(kRowThreads<R::kGroup>)
    softmax_grad_rows(T* dx, const T* dy, const T* y, int64_t rows, int64_t columns, bool logarithm) {
  using A = Compute<T>;
  constexpr int kVectorSize = R::kVectorSize;
  const GroupRow mine = row_of_group<R::kGroup>(rows, columns, blockIdx.x);
  if (mine.exits) return;
  const int64_t row = mine.row;
  const int C = mine.C;
  const int64_t first = row * columns;
  R g, r;
  g.align_with(dx + first);
  r.align_with(dx + first);
  g.read(dy + first, C, 0);
  r.read(y + first, C, 1);
  A sum = 0;
  g.each_pair(r, C, [&](int, const A(&a)[kVectorSize], const A(&b)[kVectorSize]) {
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k) sum += logarithm ? a[k] : a[k] * b[k];
  });
  sum = group_reduce<R::kGroup>(sum, Sum());
  g.each_pair(r, C, [&](int c, const A(&a)[kVectorSize], const A(&b)[kVectorSize]) {
    A d[kVectorSize];
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k)
      d[k] = logarithm ? a[k] - exp_of<T>(b[k]) * sum : b[k] * (a[k] - sum);
    R::write(dx + first, c, C, d);
  });
}

// --- narrow rows in tiles ---

template <class T>
struct SoftmaxGradTiles {
  using Element = T;
  using Arrays = SoftmaxGradArrays<T>;
  using A = Compute<T>;
  struct RowStats {
    A sum;
  };
  static constexpr int kInputs = 2;
  static constexpr int kBytes = 16384;
  static constexpr bool kByRow = true;
  static constexpr bool kWrites = true;
  Arrays a;
  __device__ __forceinline__ SoftmaxGradTiles(const Arrays& arrays, int, int) : a(arrays) {}
  static __device__ __forceinline__ const T* input(const Arrays& arrays, int k) {
    return k == 0 ? arrays.dy : arrays.y;
  }
  static __device__ __forceinline__ T* output(const Arrays& arrays) { return arrays.dx; }
  __device__ __forceinline__ RowStats measure(const TileRow<T, 2>& row, int64_t, bool) const {
    A sum = 0;
    row.each([&](int, const A(&x)[2]) { sum += a.logarithm ? x[0] : x[0] * x[1]; });
    return {row.reduce(sum, Sum())};
  }
  __device__ __forceinline__ A finish(const A (&x)[2], const RowStats& row, int = 0) const {
    return a.logarithm ? x[0] - exp_of<T>(x[1]) * row.sum : x[1] * (x[0] - row.sum);
  }
  static __device__ __forceinline__ void end(const TileColumns<A>&) {}
};

// --- rows in segments ---

template <class T, int kVectorSize>
static __global__ void __launch_bounds__(kSegmentThreads)
    softmax_grad_segment_sums(Compute<T>* sums, const T* dy, const T* y, int64_t C, int64_t segments,
                              bool logarithm) {
  using A = Compute<T>;
  A sum = 0;
  Segment(C, segments).each<kVectorSize>([&](int64_t i) {
    A g[kVectorSize], v[kVectorSize];
    load(g, dy + i);
    if (!logarithm) load(v, y + i);
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k) sum += logarithm ? g[k] : g[k] * v[k];
  });
  sum = block_reduce<kSegmentThreads>(sum, Sum());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <class T, int kVectorSize>
static __global__ void __launch_bounds__(kSegmentThreads)
    softmax_grad_segments(T* dx, const T* dy, const T* y, const Compute<T>* sums, int64_t C, int64_t segments,
                          bool logarithm) {
  using A = Compute<T>;
  const Segment mine(C, segments);
  A sum = 0;
  for (int64_t k = 0; k < segments; ++k) sum += sums[mine.row * segments + k];
  mine.each<kVectorSize>([&](int64_t i) {
    A g[kVectorSize], v[kVectorSize];
    load(g, dy + i);
    load(v, y + i);
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k)
      g[k] = logarithm ? g[k] - exp_of<T>(v[k]) * sum : v[k] * (g[k] - sum);
    store(dx + i, g);
  });
}

// --- strided lines ---

template <class T>
static __global__ void __launch_bounds__(kLineThreads)
    softmax_grad_lines(T* dx, const T* dy, const T* y, int64_t lines, int64_t C, int64_t inner,
                       bool logarithm) {
  using A = Compute<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kLineThreads + threadIdx.x;
  if (i >= lines) return;
  const int64_t start = i / inner * C * inner + i % inner;
  A sum = 0;
  for (int64_t e = 0; e < C; ++e) {
    const A g = to<A>(dy[start + e * inner]);
    sum += logarithm ? g : g * to<A>(y[start + e * inner]);
  }
  for (int64_t e = 0; e < C; ++e) {
    const int64_t at = start + e * inner;
    const A g = to<A>(dy[at]), v = to<A>(y[at]);
    dx[at] = to<T>(logarithm ? g - exp_of<T>(v) * sum : v * (g - sum));
  }
}

// --- launchers ---

inline void run_softmax_grad(const View& dx, const View& dy, const View& y, int dim, bool logarithm) {
  const SoftmaxShape s(y, dim);
  if (s.lines == 0) return;
  dispatch_stored(y.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> g(dy), in(y);
    ContiguousOutput<T> to_(dx);
    if (s.by_lines()) {
      launch(softmax_grad_lines<T>, over(s.lines, kLineThreads), to_.data(), g.data(), in.data(), s.lines,
             s.C, s.inner, logarithm);
      return to_.write_back();
    }
    const SoftmaxGradArrays<T> arrays{to_.data(), g.data(), in.data(), logarithm};
    const bool aligned = rows_are_aligned<T>(s.C, {in.data(), g.data(), to_.data()});
    const auto held = [&] {
      return dispatch_row<T>(s.C, 2, aligned, [&]<class R>(size_t shared) {
        launch(softmax_grad_rows<R>, rows_grid<R::kGroup>(s.lines, shared), to_.data(), g.data(), in.data(),
               s.lines, s.C, logarithm);
      });
    };
    const bool long_rows = rows_are_few<T>(s.lines, s.C) || !registers_hold<T>(s.C, aligned);
    if (is_narrow<T>(s.C, aligned)) {
      using Work = SoftmaxGradTiles<T>;
      launch_tiles<Work>(plan_tiles<Work>(s.lines, s.C), arrays, s.lines, s.C);
    } else if (!(long_rows && try_strips<SoftmaxGradStrips, T>(arrays, s.lines, s.C, aligned)) && !held()) {
      const DeviceScratch<Compute<T>> sums(s.lines * s.segments());
      launch(aligned ? softmax_grad_segment_sums<T, kVectorSizeOf<T>> : softmax_grad_segment_sums<T, 1>,
             s.segments_grid(), sums.data(), g.data(), in.data(), s.C, s.segments(), logarithm);
      launch(aligned ? softmax_grad_segments<T, kVectorSizeOf<T>> : softmax_grad_segments<T, 1>,
             s.segments_grid(), to_.data(), g.data(), in.data(), sums.data(), s.C, s.segments(), logarithm);
    }
    to_.write_back();
  });
}

void softmax_grad(const View& dx, const View& dy, const View& y, int dim) {
  run_softmax_grad(dx, dy, y, dim, false);
}
void log_softmax_grad(const View& dx, const View& dy, const View& y, int dim) {
  run_softmax_grad(dx, dy, y, dim, true);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
