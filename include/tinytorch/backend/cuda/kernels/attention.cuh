// Attention on CUDA, forward (contract: backend/cpu/attention.hpp): the kernel for any device and dtype, and
// the dispatch to tensor cores (attention/tensor.cuh).
//
// A group of lanes shares a query and holds its row and its result in registers. Tiles of keys and values
// are loaded into shared memory. Online softmax (a running maximum and sum per query) avoids storing the
// matrix of probabilities. Limit: FLOPs of the FP32 units.
// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/attention/heads.cuh>
#include <tinytorch/backend/cuda/kernels/attention/tensor.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kScoresPerRescale = 8;  // the running sums are rescaled once per 8 scores

template <class T, int kHead>
static __global__ void __launch_bounds__(kAttentionThreads)
    attention_kernel(Heads<T> out, Compute<T>* lse, Heads<const T> q, Heads<const T> k, Heads<const T> v,
                     const __grid_constant__ AttentionCall call) {
  using A = Compute<T>;
  constexpr int kKeys = kTileRows<kHead>;
  constexpr A kNone = -std::numeric_limits<A>::infinity();
  __shared__ A keys[kKeys * kHead], values[kKeys * kHead];
  const BlockRows<A, kHead> at(call.T, call.H);
  const int64_t t = at.row, g = call.group_of(at.h), line = (at.b * call.H + at.h) * call.T + t;
  const SeenRange seen(at.first, at.kRows, t, call.T, call.keys_of(at.b));
  LaneRow<A, kHead> query, sum;
  query.read(q, at.b, at.h, t, call.D, t < call.T);
  query.scale(static_cast<A>(call.rules.scale));
  sum.clear();
  A m = kNone, total = 0;
  for (int64_t s0 = seen.any.first; s0 < seen.any.last; s0 += kKeys) {
    __syncthreads();  // all threads have finished reading the previous tile
    load_tile<kHead>(keys, kKeys, k, at.b, g, s0, seen.any.last, call.D);
    load_tile<kHead>(values, kKeys, v, at.b, g, s0, seen.any.last, call.D);
    __syncthreads();
    for (int j0 = 0; j0 < kKeys; j0 += kScoresPerRescale) {
      A score[kScoresPerRescale], highest = m;
#pragma unroll
      for (int j = 0; j < kScoresPerRescale; ++j) {
        const A x = query.dot(keys + (j0 + j) * kHead);
        score[j] = seen(s0 + j0 + j) ? x : kNone;
        highest = Maximum()(highest, score[j]);
      }
      const A shift = highest == kNone ? A(0) : highest, factor = std::exp(m - shift);
      m = highest;
      total *= factor;
      sum.scale(factor);
#pragma unroll
      for (int j = 0; j < kScoresPerRescale; ++j) {
        const A p = std::exp(score[j] - shift);
        total += p;
        sum.add(call.dropped(p, line, s0 + j0 + j), values + (j0 + j) * kHead);
      }
    }
  }
  if (t >= call.T) return;
  sum.write(out, at.b, at.h, t, call.D, total == A(0) ? A(0) : A(1) / total);
  if (sum.lane() == 0) lse[line] = total == A(0) ? kNone : m + std::log(total);
}

void attention(const View& out, const View& lse, const View& q, const View& k, const View& v,
               const AttentionParameters& parameters) {
  if (out.numel() == 0) return;
  const AttentionCall call(q, k, parameters);
  dispatch_stored(q.dtype, [&]<class T>(T*) {
    if constexpr (kIs16Bit<T>) {
      if (attention_on_tensor_cores<T>(out, lse, q, k, v, call)) return;
    }
    dispatch_head(call.D, [&]<int kHead>() {
      launch(attention_kernel<T, kHead>, BlockRows<Compute<T>, kHead>::config(q.shape[0], call.H, call.T),
             Heads<T>(out), lse.as<Compute<T>>(), Heads<const T>(q), Heads<const T>(k), Heads<const T>(v),
             call);
    });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
