// Gradients of attention on CUDA (formulas: backend/cpu/attention_grad.hpp): the kernels for any device and
// dtype, and the dispatch to tensor cores (attention/grad_tensor.cuh).
//
// Two kernels recompute the probability of each pair of a query and a key. In one, the lanes that share a
// query sum its dq; in the other, the lanes that share a key sum its dk and dv over the queries of all heads
// that use the key. No two groups of lanes add to the same value, so the results are deterministic. Limit:
// FLOPs of the FP32 units.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/attention/grad_tensor.cuh>
#include <tinytorch/backend/cuda/kernels/attention/heads.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// delta [B, H, T] = sum over D of dout out: the term that the derivative of softmax subtracts.
template <class T, int kHead>
static __global__ void __launch_bounds__(kAttentionThreads)
    attention_delta_kernel(Compute<T>* delta, Heads<const T> dout, Heads<const T> out,
                           const __grid_constant__ AttentionCall call) {
  using A = Compute<T>;
  const BlockRows<A, kHead> at(call.T, call.H);
  LaneRow<A, kHead> x, y;
  x.read(dout, at.b, at.h, at.row, call.D, at.row < call.T);
  y.read(out, at.b, at.h, at.row, call.D, at.row < call.T);
  A sum = 0;
#pragma unroll
  for (int i = 0; i < x.kEach; ++i) sum += x.v[i] * y.v[i];
  sum = warp_reduce<x.kLanes>(sum, Sum());
  if (at.row < call.T && x.lane() == 0) delta[(at.b * call.H + at.h) * call.T + at.row] = sum;
}

// The probability p of a pair, from its score and the query's log-sum-exp, and the gradient ds of its score.
// dp is the dot product of the rows of dout and v.
template <class A>
struct AttentionPair {
  A p, ds;  // p is the probability after dropout
  __device__ __forceinline__ AttentionPair(const AttentionCall& call, A score, A lse, A dp, A delta,
                                           bool seen, int64_t line, int64_t key) {
    // A query that sees no key has lse = -inf; all its probabilities are 0.
    const A whole = seen && lse != -std::numeric_limits<A>::infinity() ? std::exp(score - lse) : A(0);
    ds = whole * (call.dropped(dp, line, key) - delta) * static_cast<A>(call.rules.scale);
    p = call.dropped(whole, line, key);
  }
};

template <class T, int kHead>
static __global__ void __launch_bounds__(kAttentionThreads)
    attention_grad_query_kernel(Heads<T> dq, Heads<const T> dout, Heads<const T> q, Heads<const T> k,
                                Heads<const T> v, const Compute<T>* lse, const Compute<T>* delta,
                                const __grid_constant__ AttentionCall call) {
  using A = Compute<T>;
  constexpr int kKeys = kTileRows<kHead>;
  __shared__ A keys[kKeys * kHead], values[kKeys * kHead];
  const BlockRows<A, kHead> at(call.T, call.H);
  const int64_t t = at.row, g = call.group_of(at.h), line = (at.b * call.H + at.h) * call.T + t;
  const bool exists = t < call.T;
  const SeenRange seen(at.first, at.kRows, t, call.T, call.keys_of(at.b));
  LaneRow<A, kHead> query, grad, sum;
  query.read(q, at.b, at.h, t, call.D, exists);
  query.scale(static_cast<A>(call.rules.scale));
  grad.read(dout, at.b, at.h, t, call.D, exists);
  sum.clear();
  const A my_lse = exists ? lse[line] : A(0), my_delta = exists ? delta[line] : A(0);
  for (int64_t s0 = seen.any.first; s0 < seen.any.last; s0 += kKeys) {
    __syncthreads();  // all threads have finished reading the previous tile
    load_tile<kHead>(keys, kKeys, k, at.b, g, s0, seen.any.last, call.D);
    load_tile<kHead>(values, kKeys, v, at.b, g, s0, seen.any.last, call.D);
    __syncthreads();
#pragma unroll 4
    for (int j = 0; j < kKeys; ++j) {
      const A score = query.dot(keys + j * kHead), dp = grad.dot(values + j * kHead);
      sum.add(AttentionPair<A>(call, score, my_lse, dp, my_delta, seen(s0 + j), line, s0 + j).ds,
              keys + j * kHead);
    }
  }
  if (exists) sum.write(dq, at.b, at.h, t, call.D, A(1));
}

template <class T, int kHead>
static __global__ void __launch_bounds__(kAttentionThreads)
    attention_grad_key_kernel(Heads<T> dk, Heads<T> dv, Heads<const T> dout, Heads<const T> q,
                              Heads<const T> k, Heads<const T> v, const Compute<T>* lse,
                              const Compute<T>* delta, const __grid_constant__ AttentionCall call) {
  using A = Compute<T>;
  constexpr int kQueries = kTileRows<kHead>;
  __shared__ A queries[kQueries * kHead], grads[kQueries * kHead];
  const BlockRows<A, kHead> at(call.S, call.G);
  const int64_t s = at.row, heads = call.H / call.G;
  const bool exists = s < call.S;
  const SeenRange seen(at.first, at.kRows, s, call.S, call.queries_of(at.b));
  LaneRow<A, kHead> key, value, key_sum, value_sum;
  key.read(k, at.b, at.h, s, call.D, exists);
  key.scale(static_cast<A>(call.rules.scale));
  value.read(v, at.b, at.h, s, call.D, exists);
  key_sum.clear();
  value_sum.clear();
  for (int64_t h = at.h * heads; h < (at.h + 1) * heads; ++h) {
    const int64_t lines = (at.b * call.H + h) * call.T;
    for (int64_t t0 = seen.any.first / kQueries * kQueries; t0 < seen.any.last; t0 += kQueries) {
      __syncthreads();  // all threads have finished reading the previous tile
      load_tile<kHead>(queries, kQueries, q, at.b, h, t0, call.T, call.D);
      load_tile<kHead>(grads, kQueries, dout, at.b, h, t0, call.T, call.D);
      __syncthreads();
#pragma unroll 4
      for (int j = 0; j < kQueries; ++j) {
        const int64_t t = t0 + j;
        const A score = key.dot(queries + j * kHead), dp = value.dot(grads + j * kHead);
        const A its_lse = t < call.T ? lse[lines + t] : A(0),
                its_delta = t < call.T ? delta[lines + t] : A(0);
        const AttentionPair<A> pair(call, score, its_lse, dp, its_delta, seen(t), lines + t, s);
        value_sum.add(pair.p, grads + j * kHead);
        key_sum.add(pair.ds, queries + j * kHead);
      }
    }
  }
  if (!exists) return;
  key_sum.write(dk, at.b, at.h, s, call.D, A(1));
  value_sum.write(dv, at.b, at.h, s, call.D, A(1));
}

void attention_grad(const View& dq, const View& dk, const View& dv, const View& dout, const View& q,
                    const View& k, const View& v, const View& out, const View& lse,
                    const AttentionParameters& parameters) {
  const AttentionCall call(q, k, parameters);
  const auto B = static_cast<int64_t>(q.shape[0]);
  dispatch_stored(q.dtype, [&]<class T>(T*) {
    if constexpr (kIs16Bit<T>) {
      if (attention_grad_on_tensor_cores<T>(dq, dk, dv, dout, q, k, v, out, lse, call)) return;
    }
    dispatch_head(call.D, [&]<int kHead>() {
      using A = Compute<T>;
      const Heads<const T> g(dout), in_q(q), in_k(k), in_v(v);
      const DeviceScratch<A> delta(B * call.H * call.T);
      const LaunchConfig of_queries = BlockRows<Compute<T>, kHead>::config(B, call.H, call.T),
                         of_keys = BlockRows<Compute<T>, kHead>::config(B, call.G, call.S);
      launch(attention_delta_kernel<T, kHead>, of_queries, delta.data(), g, Heads<const T>(out), call);
      launch(attention_grad_query_kernel<T, kHead>, of_queries, Heads<T>(dq), g, in_q, in_k, in_v,
             lse.as<const A>(), delta.data(), call);
      launch(attention_grad_key_kernel<T, kHead>, of_keys, Heads<T>(dk), Heads<T>(dv), g, in_q, in_k, in_v,
             lse.as<const A>(), delta.data(), call);
    });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
