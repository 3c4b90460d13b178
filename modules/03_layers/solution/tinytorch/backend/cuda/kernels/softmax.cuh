// Softmax, its logarithm and log-sum-exp, along any dimensions (contracts: backend/cpu/softmax.hpp).
//
//   softmax(x)_i = e^(x_i - m) / s        log_softmax(x)_i = x_i - m - log s        logsumexp(x) = m + log s
//   where m = max_j x_j                   s = sum_j e^(x_j - m)
//
// Found by the book, m takes one pass over a line of x and s a second. Online, both take one: when a larger
// element comes, what was summed so far is scaled to it. Source: Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/collective.cuh>
#include <tinytorch/backend/cuda/elements.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kSoftmaxThreads = 256;

// Some elements of a line: m is the largest, s the sum of e^(x - m). Of none: m = -infinity, s = 0.
template <class C>
struct RunningSum {
  C m, s;
  static __device__ RunningSum empty() { return {-std::numeric_limits<C>::infinity(), C(0)}; }
};

// The sum of two sets of elements: both are scaled to the larger maximum m, by e^(a.m - m) and e^(b.m - m).
//
// A set whose m is -infinity adds nothing. It must not reach the exponential: where both are empty, or hold
// -inf alone, a.m - m is (-inf) - (-inf), a NaN. A NaN in either m must reach the result: Maximum() hands it
// on, fmax would not.
template <class C>
__device__ RunningSum<C> join(RunningSum<C> a, RunningSum<C> b) {
  constexpr C kNone = -std::numeric_limits<C>::infinity();
  const C m = Maximum()(a.m, b.m);
  const C left = a.m == kNone ? C(0) : a.s * std::exp(a.m - m);
  const C right = b.m == kNone ? C(0) : b.s * std::exp(b.m - m);
  return {m, left + right};
}

// One more element x: the same as join(sum, {x, 1}), with one exponential instead of two.
//
// An x of -infinity changes nothing. With one of +infinity or NaN the line has no softmax: s becomes NaN,
// which x - x is for these, and 0 for all others.
template <class C>
__device__ RunningSum<C> include(RunningSum<C> sum, C x) {
  if (x == -std::numeric_limits<C>::infinity()) return sum;
  if (x <= sum.m) return {sum.m, sum.s + std::exp(x - sum.m)};
  return {x, sum.s * std::exp(sum.m - x) + C(1) + (x - x)};
}

// For block_reduce.
struct Join {
  template <class C>
  __device__ RunningSum<C> operator()(RunningSum<C> a, RunningSum<C> b) const {
    return join(a, b);
  }
};

// Lines of a tensor: elements that differ in some dimensions only. Element e of line i lies at
// start.place(i) + along.place(e).
template <class C>
struct SoftmaxLines {
  Elements<C> start, along;  // the tensor's other dimensions, and these
  SoftmaxLines(const View& x, const bool* reduced)
      : start(part(x, reduced, false)), along(part(x, reduced, true)) {}

 private:
  static Elements<C> part(const View& x, const bool* reduced, bool which) {
    View v{x.data, x.dtype, {}, {}};
    for (int d = 0; d < x.rank(); ++d) {
      if (reduced[d] != which) continue;
      v.shape.push_back(x.shape[d]);
      v.strides.push_back(x.strides[d]);
    }
    return Elements<C>(v);
  }
};

// Softmax of each line, or its logarithm; out may be the memory of x.
//
// A line belongs to the block's threads together, which visit it twice: element e, e + kSoftmaxThreads, ...
// each. The first visit finds the line's sum: a thread's own by include, then
// block_reduce<kSoftmaxThreads>(sum, Join()), which gives all threads the whole. The second writes. Where a
// line is a single thread's (`alone`: short lines, or lines that lie side by side in memory), thread number i
// of the grid has line i, steps by 1, and has nobody to join with.
template <class C>
static __global__ void __launch_bounds__(kSoftmaxThreads)
    softmax_kernel(const __grid_constant__ SoftmaxLines<C> out, const __grid_constant__ SoftmaxLines<C> x,
                   bool logarithm, bool alone) {
  const int64_t line = alone ? static_cast<int64_t>(blockIdx.x) * kSoftmaxThreads + threadIdx.x : blockIdx.x;
  if (line >= x.start.count) return;
  const int64_t first = alone ? 0 : threadIdx.x, step = alone ? 1 : kSoftmaxThreads, length = x.along.count;
  const int64_t from = x.start.place(line), to_ = out.start.place(line);
  RunningSum<C> sum = RunningSum<C>::empty();
  for (int64_t e = first; e < length; e += step) sum = include(sum, x.start.read(from + x.along.place(e)));
  if (!alone) sum = block_reduce<kSoftmaxThreads>(sum, Join());
  const C scale = C(1) / sum.s, shift = std::log(sum.s);
  for (int64_t e = first; e < length; e += step) {
    const C d = x.start.read(from + x.along.place(e)) - sum.m;
    out.start.write(to_ + out.along.place(e), logarithm ? d - shift : std::exp(d) * scale);
  }
}

// out[i] = log(sum of e^x over line i) = m + log s; a block per line. Of -inf alone it is -inf, with +inf it
// is +inf: there m itself is the answer, and s is none.
template <class C>
static __global__ void __launch_bounds__(kSoftmaxThreads)
    logsumexp_kernel(const __grid_constant__ Elements<C> out, const __grid_constant__ SoftmaxLines<C> x) {
  const int64_t from = x.start.place(blockIdx.x);
  RunningSum<C> sum = RunningSum<C>::empty();
  for (int64_t e = threadIdx.x; e < x.along.count; e += kSoftmaxThreads) {
    sum = include(sum, x.start.read(from + x.along.place(e)));
  }
  sum = block_reduce<kSoftmaxThreads>(sum, Join());
  if (threadIdx.x != 0) return;
  const bool infinite = std::abs(sum.m) == std::numeric_limits<C>::infinity();
  out.write(out.place(blockIdx.x), infinite ? sum.m : sum.m + std::log(sum.s));
}

// --- launchers ---

inline void run_softmax(const View& out, const View& x, int dim, bool logarithm) {
  if (out.numel() == 0) return;
  bool reduced[kMaxRank] = {};
  reduced[dim] = true;
  const int64_t length = x.shape[dim], lines = x.numel() / length;
  const bool alone = length <= 32 || x.strides[dim] != 1;
  dispatch_floating(x.dtype, [&]<class C>(C*) {
    const LaunchConfig config =
        alone ? over(lines, kSoftmaxThreads) : over(lines * kSoftmaxThreads, kSoftmaxThreads);
    launch(softmax_kernel<C>, config, SoftmaxLines<C>(out, reduced), SoftmaxLines<C>(x, reduced), logarithm,
           alone);
  });
}

void softmax(const View& out, const View& x, int dim) { run_softmax(out, x, dim, false); }
void log_softmax(const View& out, const View& x, int dim) { run_softmax(out, x, dim, true); }

void logsumexp(const View& out, const View& x, const bool* reduced) {
  dispatch_floating(x.dtype, [&]<class C>(C*) {
    launch(logsumexp_kernel<C>, {dim3(static_cast<unsigned>(out.numel())), dim3(kSoftmaxThreads)},
           Elements<C>(out), SoftmaxLines<C>(x, reduced));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
