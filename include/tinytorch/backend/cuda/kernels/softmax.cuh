// Softmax, its logarithm and log-sum-exp, along any dimension (contracts: backend/cpu/softmax.hpp).
//
// Rows are read and written once if the device can hold them: narrow rows in tiles (tiles.cuh), most rows in
// registers or shared memory (row.cuh), long rows in strips of several blocks (strips.cuh). Longer rows are
// cut into segments of a block each: the first kernel computes maximum and sum of each segment, the second
// the result, with reads mostly from the L2 cache. Along another dimension than the last, each thread
// processes one line. Maximum and sum are computed in one pass by online softmax (online_softmax.cuh).
// Limit: memory bandwidth.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/segments.cuh>
#include <tinytorch/backend/cuda/device/tiles.cuh>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/kernels/rows/softmax_strips.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// --- rows in registers ---

template <class R, class T = typename R::Element>
static __global__ void __launch_bounds__(kRowThreads<R::kGroup>)
    softmax_rows(T* out, const T* x, int64_t rows, int64_t columns, bool logarithm) {
  using A = Compute<T>;
  constexpr int kGroup = R::kGroup;
  const GroupRow mine = row_of_group<kGroup>(rows, columns, blockIdx.x);
  if (mine.exits) return;
  const int64_t row = mine.row;
  const int C = mine.C;
  T* const to_ = out + row * columns;
  R r;
  r.align_with(to_);
  r.read(x + row * columns, C, 0, to<T>(kMinusInfinity<A>));
  A m = kMinusInfinity<A>;
  r.each(C, [&](int, const A(&v)[R::kVectorSize]) {
#pragma unroll
    for (int k = 0; k < R::kVectorSize; ++k) m = Maximum()(m, v[k]);
  });
  m = group_reduce<kGroup>(m, Maximum());
  A s = 0;
  r.each(C, [&](int, const A(&v)[R::kVectorSize]) {
#pragma unroll
    for (int k = 0; k < R::kVectorSize; ++k) s += exp_of<T>(v[k] - m);
  });
  s = group_reduce<kGroup>(s, Sum());
  const A scale = A(1) / s, shift = logarithm ? std::log(s) : A(0);
  r.each(C, [&](int c, const A(&v)[R::kVectorSize]) {
    A y[R::kVectorSize];
#pragma unroll
    for (int k = 0; k < R::kVectorSize; ++k)
      y[k] = logarithm ? v[k] - m - shift : exp_of<T>(v[k] - m) * scale;
    R::write(to_, c, C, y);
  });
}

// --- narrow rows in tiles ---

template <class T>
struct SoftmaxTiles {
  using Element = T;
  using Arrays = SoftmaxArrays<T>;
  using A = Compute<T>;
  struct RowStats {
    A m, scale;  // scale: reciprocal of the sum; for log-softmax the logarithm of the sum
  };
  static constexpr int kInputs = 1;
  static constexpr int kBytes = 16384;
  static constexpr bool kByRow = true;
  static constexpr bool kWrites = true;
  Arrays a;
  __device__ __forceinline__ SoftmaxTiles(const Arrays& arrays, int, int) : a(arrays) {}
  static __device__ __forceinline__ const T* input(const Arrays& arrays, int) { return arrays.x; }
  static __device__ __forceinline__ T* output(const Arrays& arrays) { return arrays.out; }
  __device__ __forceinline__ RowStats measure(const TileRow<T, 1>& row, int64_t, bool) const {
    A m = kMinusInfinity<A>, s = 0;
    row.each([&](int, const A(&x)[1]) { m = Maximum()(m, x[0]); });
    m = row.reduce(m, Maximum());
    row.each([&](int, const A(&x)[1]) { s += exp_of<T>(x[0] - m); });
    s = row.reduce(s, Sum());
    return {m, a.logarithm ? std::log(s) : A(1) / s};
  }
  __device__ __forceinline__ A finish(const A (&x)[1], const RowStats& row, int = 0) const {
    return a.logarithm ? x[0] - row.m - row.scale : exp_of<T>(x[0] - row.m) * row.scale;
  }
  static __device__ __forceinline__ void end(const TileColumns<A>&) {}
};

// --- rows in segments ---

// Online softmax state of the block, from those of its threads; all threads get it.
template <class T, class A>
__device__ __forceinline__ OnlineSoftmax<A> block_sum(const OnlineSoftmax<A>& sum) {
  const A m = block_reduce<kSegmentThreads>(sum.m, Maximum());
  const A s = sum.m == kMinusInfinity<A> ? A(0) : sum.s * exp_of<T>(sum.m - m);
  return {m, block_reduce<kSegmentThreads>(s, Sum())};
}

template <class T, int kVectorSize>
static __global__ void __launch_bounds__(kSegmentThreads)
    segment_sums(OnlineSoftmax<Compute<T>>* sums, const T* x, int64_t C, int64_t segments) {
  OnlineSoftmax<Compute<T>> sum;
  Segment(C, segments).each<kVectorSize>([&](int64_t i) {
    Compute<T> v[kVectorSize];
    load(v, x + i);
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k) include<T>(sum, v[k]);
  });
  sum = block_sum<T>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <class T, int kVectorSize>
static __global__ void __launch_bounds__(kSegmentThreads)
    softmax_segments(T* out, const T* x, const OnlineSoftmax<Compute<T>>* sums, int64_t C, int64_t segments,
                     bool logarithm) {
  using A = Compute<T>;
  const Segment mine(C, segments);
  OnlineSoftmax<A> sum;
  for (int64_t k = 0; k < segments; ++k) sum = merge<T>(sum, sums[mine.row * segments + k]);
  const A s = finished(sum), scale = A(1) / s, shift = logarithm ? std::log(s) : A(0);
  mine.each<kVectorSize>([&](int64_t i) {
    A v[kVectorSize];
    load(v, x + i);
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k)
      v[k] = logarithm ? v[k] - sum.m - shift : exp_of<T>(v[k] - sum.m) * scale;
    store(out + i, v);
  });
}

// --- strided lines: element e of line i is at (i / inner * C + e) * inner + i % inner ---

template <class T>
static __global__ void __launch_bounds__(kLineThreads)
    softmax_lines(T* out, const T* x, int64_t lines, int64_t C, int64_t inner, bool logarithm) {
  using A = Compute<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kLineThreads + threadIdx.x;
  if (i >= lines) return;
  const int64_t start = i / inner * C * inner + i % inner;
  OnlineSoftmax<A> sum;
  for (int64_t e = 0; e < C; ++e) include<T>(sum, to<A>(x[start + e * inner]));
  const A s = finished(sum), scale = A(1) / s, shift = logarithm ? std::log(s) : A(0);
  for (int64_t e = 0; e < C; ++e) {
    const A d = to<A>(x[start + e * inner]) - sum.m;
    out[start + e * inner] = to<T>(logarithm ? d - shift : exp_of<T>(d) * scale);
  }
}

// --- launchers ---

inline void run_softmax(const View& out, const View& x, int dim, bool logarithm) {
  const SoftmaxShape s(x, dim);
  if (s.lines == 0) return;
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x);
    ContiguousOutput<T> to_(out);
    if (s.by_lines()) {
      launch(softmax_lines<T>, over(s.lines, kLineThreads), to_.data(), in.data(), s.lines, s.C, s.inner,
             logarithm);
      return to_.write_back();
    }
    const SoftmaxArrays<T> arrays{to_.data(), in.data(), logarithm};
    const bool aligned = rows_are_aligned<T>(s.C, {in.data(), to_.data()});
    const auto held = [&] {
      return dispatch_row<T>(s.C, 1, aligned, [&]<class R>(size_t shared) {
        launch(softmax_rows<R>, rows_grid<R::kGroup>(s.lines, shared), to_.data(), in.data(), s.lines, s.C,
               logarithm);
      });
    };
    const auto in_strips = [&] { return try_strips<SoftmaxStrips, T>(arrays, s.lines, s.C, aligned); };
    if (is_narrow<T>(s.C, aligned)) {
      launch_tiles<SoftmaxTiles<T>>(plan_tiles<SoftmaxTiles<T>>(s.lines, s.C), arrays, s.lines, s.C);
    } else if (!(rows_are_few<T>(s.lines, s.C) && in_strips()) && !held() && !in_strips()) {
      const DeviceScratch<OnlineSoftmax<Compute<T>>> sums(s.lines * s.segments());
      launch(aligned ? segment_sums<T, kVectorSizeOf<T>> : segment_sums<T, 1>, s.segments_grid(), sums.data(),
             in.data(), s.C, s.segments());
      launch(aligned ? softmax_segments<T, kVectorSizeOf<T>> : softmax_segments<T, 1>, s.segments_grid(),
             to_.data(), in.data(), sums.data(), s.C, s.segments(), logarithm);
    }
    to_.write_back();
  });
}

void softmax(const View& out, const View& x, int dim) { run_softmax(out, x, dim, false); }
void log_softmax(const View& out, const View& x, int dim) { run_softmax(out, x, dim, true); }
// A block per result; the reduced elements may have any strides.
template <class T>
static __global__ void __launch_bounds__(kSegmentThreads)
    logsumexp_kernel(T* out, const T* x, const __grid_constant__ Operands<1> kept,
                     const __grid_constant__ Operands<1> reduced) {
  using A = Compute<T>;
  const T* row = x + kept.offset(0, blockIdx.x);
  OnlineSoftmax<A> sum;
  for (int64_t c = threadIdx.x; c < reduced.count; c += kSegmentThreads)
    include<T>(sum, to<A>(row[reduced.offset(0, c)]));
  sum = block_sum<T>(sum);
  if (threadIdx.x != 0) return;
  const bool infinite = sum.m == kMinusInfinity<A> || sum.m == std::numeric_limits<A>::infinity();
  out[blockIdx.x] = to<T>(infinite ? sum.m : sum.m + std::log(sum.s));
}

void logsumexp(const View& out, const View& x, const bool* reduced) {
  if (out.numel() == 0) return;
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    Shape shape;
    Strides strides;
    const Operands<1> kept = part_of(x, reduced, false, shape, strides),
                      rest = part_of(x, reduced, true, shape, strides);
    ContiguousOutput<T> to_(out);
    launch(logsumexp_kernel<T>, {dim3(static_cast<unsigned>(out.numel())), dim3(kSegmentThreads)}, to_.data(),
           x.as<const T>(), kept, rest);
    to_.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
