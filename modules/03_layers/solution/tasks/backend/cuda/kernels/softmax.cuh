// Softmax, its logarithm and log-sum-exp, along any dimensions (contracts: backend/cpu/softmax.hpp).
//
//   softmax(x)_i = e^(x_i - m) / s        log_softmax(x)_i = x_i - m - log s        logsumexp(x) = m + log s
//   where m = max_j x_j                   s = sum_j e^(x_j - m)
//
// The textbook formula needs one pass over a row of x for m and a second one for s. Online softmax needs one
// for both: when a larger element comes, what was summed so far is scaled to it. Source: Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018.
//
// Task 3.21: include, join, softmax_kernel, logsumexp_kernel, run_softmax, logsumexp. The given parts of this
// header are in modules/03_layers/frame/tinytorch/backend/cuda/kernels/softmax.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The sum of two sets of elements: both are scaled to the larger maximum m, by e^(a.m - m) and e^(b.m - m).
//
// A set whose m is -infinity adds nothing. It must not reach the exponential: where both are empty, or hold
// -inf alone, a.m - m is (-inf) - (-inf), a NaN.
template <class C>
__device__ RunningSum<C> join(RunningSum<C> a, RunningSum<C> b) {
  constexpr C kNone = -std::numeric_limits<C>::infinity();
  const C m = Maximum()(a.m, b.m);
  const C left = a.m == kNone ? C(0) : a.s * std::exp(a.m - m);
  const C right = b.m == kNone ? C(0) : b.s * std::exp(b.m - m);
  return {m, left + right};
}

// Some more elements: their own maximum and sum first, which wait for nothing, then joined to the others.
//
// If all elements are -infinity, s is NaN, and join leaves the set out. With +infinity or NaN among them the
// line has no softmax: x - m is NaN there, and so is s, now and later.
template <class C, int kCount>
__device__ RunningSum<C> include(RunningSum<C> sum, const C (&x)[kCount]) {
  RunningSum<C> more = {x[0], C(0)};
#pragma unroll
  for (int k = 1; k < kCount; ++k) more.m = Maximum()(more.m, x[k]);
#pragma unroll
  for (int k = 0; k < kCount; ++k) more.s += std::exp(x[k] - more.m);
  return join(sum, more);
}

// Softmax of each line, or its logarithm; out may be the memory of x.
//
// A line belongs to the block's threads together, which visit it twice. A thread moves kAtOnce neighbours at
// a time (elements.cuh: floats by one access of 16 bytes), and then those kThreads * kAtOnce further on. The
// first visit finds the line's sum: a thread's own by include, then block_reduce<kThreads>(sum, Join()),
// which gives all threads the whole. The second writes. Where a line is a single thread's (`alone`: short
// lines, or lines that lie side by side in memory), thread number i of the grid has line i, steps by 1, and
// has nobody to join with.
template <class C, int kThreads, int kAtOnce>
static __global__ void __launch_bounds__(kThreads)
    softmax_kernel(const __grid_constant__ SoftmaxLines<C> out, const __grid_constant__ SoftmaxLines<C> x,
                   bool logarithm, bool alone) {
  const int64_t line = alone ? static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x : blockIdx.x;
  if (line >= x.start.count) return;
  const int64_t first = alone ? 0 : threadIdx.x * kAtOnce, step = alone ? 1 : kThreads * kAtOnce;
  const int64_t length = x.along.count;
  const int64_t from = x.start.place(line), to_ = out.start.place(line);
  RunningSum<C> sum = RunningSum<C>::empty();
  for (int64_t e = first; e < length; e += step) {
    C v[kAtOnce];
    x.start.read(v, from + e * x.along.step);
    sum = include(sum, v);
  }
  if (!alone) sum = block_reduce<kThreads>(sum, Join());
  const C scale = C(1) / sum.s, shift = std::log(sum.s);
  for (int64_t e = first; e < length; e += step) {
    C v[kAtOnce];
    x.start.read(v, from + e * x.along.step);
#pragma unroll
    for (C& y : v) y = logarithm ? y - sum.m - shift : std::exp(y - sum.m) * scale;
    out.start.write(to_ + e * out.along.step, v);
  }
}

// out[i] = log(sum of e^x over line i) = m + log s; a block per line. Of -inf alone it is -inf, with +inf it
// is +inf: there m itself is the answer, and s is none.
template <class C>
static __global__ void __launch_bounds__(kShortThreads)
    logsumexp_kernel(const __grid_constant__ Elements<C> out, const __grid_constant__ SoftmaxLines<C> x) {
  const int64_t from = x.start.place(blockIdx.x);
  RunningSum<C> sum = RunningSum<C>::empty();
  for (int64_t e = threadIdx.x; e < x.along.count; e += kShortThreads) {
    const C v[1] = {x.start.read(from + x.along.place(e))};
    sum = include(sum, v);
  }
  sum = block_reduce<kShortThreads>(sum, Join());
  if (threadIdx.x != 0) return;
  const bool infinite = std::abs(sum.m) == std::numeric_limits<C>::infinity();
  out.write(out.place(blockIdx.x), infinite ? sum.m : sum.m + std::log(sum.s));
}

inline void run_softmax(const View& out, const View& x, int dim, bool logarithm) {
  if (out.numel() == 0) return;
  bool reduced[kMaxRank] = {};
  reduced[dim] = true;
  const int64_t length = x.shape[dim], lines = x.numel() / length;
  const bool alone = length <= 32 || x.strides[dim] != 1;
  const bool wide = !alone && moves_wide(out, length) && moves_wide(x, length);
  dispatch_floating(x.dtype, [&]<class C>(C*) {
    const auto run = [&](auto* kernel, int threads) {
      launch(kernel, over(alone ? lines : lines * threads, threads), SoftmaxLines<C>(out, reduced),
             SoftmaxLines<C>(x, reduced), logarithm, alone);
    };
    if (alone || length <= kLongLine) {
      run(wide ? softmax_kernel<C, kShortThreads, 4> : softmax_kernel<C, kShortThreads, 1>, kShortThreads);
    } else {
      run(wide ? softmax_kernel<C, kLongThreads, 4> : softmax_kernel<C, kLongThreads, 1>, kLongThreads);
    }
  });
}

void logsumexp(const View& out, const View& x, const bool* reduced) {
  dispatch_floating(x.dtype, [&]<class C>(C*) {
    launch(logsumexp_kernel<C>, {dim3(static_cast<unsigned>(out.numel())), dim3(kShortThreads)},
           Elements<C>(out), SoftmaxLines<C>(x, reduced));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
