// Gradients of attention by CUDA (contract: backend/cpu/attention_grad.hpp).
//
//   p = e^(scale q k^T - lse)      dp = dout v^T      ds = scale p (dp - delta),  delta = sum(dout out)
//   dq = ds k                      dk = ds^T q       dv = p^T dout
//
// The probabilities were not stored: they are formed anew from lse. Two kernels walk the same pairs of query
// and key: one has queries and adds up dq over the keys, the other has keys and adds up dk and dv over the
// queries of all heads that use them. Each pair is computed twice; in exchange nothing is added to by two
// blocks, so that the results are the same in every run. Source: Dao, "FlashAttention-2", 2023.
//
// Task 4.16: attention_delta_kernel, pair_grad, attention_grad_query_kernel, attention_grad_key_kernel,
// attention_grad. The given parts of this header are in
// modules/04_transformer/frame/tinytorch/backend/cuda/kernels/attention_grad.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// From score = q k (not yet scaled), dp = dout v, and the query's lse and delta. line: the query's number
// among all of the call. Dropout stands between p and v: what it multiplied p by (call.dropped(C(1), line,
// key)) it multiplies dp by on the way back; delta has it already. A pair that is not seen, or whose query
// saw nothing (lse is -infinity), contributes 0.
template <class C>
__device__ PairGrad<C> pair_grad(const AttentionCall& call, C score, C dp, C lse, C delta, bool seen,
                                 int64_t line, int64_t key) {
  if (!seen || lse == -std::numeric_limits<C>::infinity()) return {C(0), C(0)};
  const C scale = static_cast<C>(call.rules.scale), p = std::exp(score * scale - lse);
  const C kept = call.dropped(C(1), line, key);  // 0 or 1 / (1 - dropout's p)
  return {p * kept, p * (dp * kept - delta) * scale};
}

// delta[line] = the sum over d of dout out, for query number `line` of [B, H, T]; a warp each, whose lanes
// share out D.
template <class C>
static __global__ void __launch_bounds__(kGradThreads)
    attention_delta_kernel(C* delta, const __grid_constant__ HeadElements<C> dout,
                           const __grid_constant__ HeadElements<C> out,
                           const __grid_constant__ AttentionCall call, int64_t lines) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t line = (static_cast<int64_t>(blockIdx.x) * kGradThreads + threadIdx.x) / kWarp;
  if (line >= lines) return;
  const int64_t t = line % call.T, h = line / call.T % call.H, b = line / call.T / call.H;
  C sum = 0;
  for (int64_t d = lane; d < call.D; d += kWarp) {
    sum += dout.read(dout.place(b, h, t, d)) * out.read(out.place(b, h, t, d));
  }
  sum = warp_reduce(sum, Sum());
  if (lane == 0) delta[line] = sum;
}

// dq of kGradTile queries.
//
// Once: their q and dout to shared memory. Then for each tile of keys that any of them sees: keys and values
// to shared memory; barrier; this thread's pair: score = q_i k_j and dp = dout_i v_j, and by pair_grad its
// ds, to shared memory; barrier; each of the thread's columns: sum[d] += ds_0 k_0[d] + ... + ds_15 k_15[d];
// barrier.
template <class C>
static __global__ void __launch_bounds__(kGradThreads)
    attention_grad_query_kernel(const __grid_constant__ HeadElements<C> dq,
                                const __grid_constant__ AttentionGradCall<C> a) {
  __shared__ C pairs[kGradTile][kGradTile];
  const AttentionCall& call = a.call;
  const GradPlace at(call.T, call.H);
  const int D = static_cast<int>(call.D), line_size = D + 1, size = kGradTile * line_size, i = at.i, j = at.j;
  C *const queries = dynamic_shared<C>(), *const grads = queries + size, *const keys = grads + size,
           *const values = keys + size;
  const int64_t g = call.group_of(at.h), line = (at.b * call.H + at.h) * call.T + at.row;
  const bool exists = at.row < call.T;
  const SeenRange seen(at.first, kGradTile, at.row, call.T, call.keys_of(at.b));
  const C lse = exists ? a.lse[line] : C(0), delta = exists ? a.delta[line] : C(0);
  bring_grad_tile(queries, a.q, at.b, at.h, at.first, call.T, D);
  bring_grad_tile(grads, a.dout, at.b, at.h, at.first, call.T, D);
  C sum[kGradColumns] = {};
  for (int64_t s0 = seen.any.first; s0 < seen.any.last; s0 += kGradTile) {
    bring_grad_tile(keys, a.k, at.b, g, s0, call.S, D);
    bring_grad_tile(values, a.v, at.b, g, s0, call.S, D);
    __syncthreads();
    C score = 0, dp = 0;
    for (int d = 0; d < D; ++d) {
      score += queries[i * line_size + d] * keys[j * line_size + d];
      dp += grads[i * line_size + d] * values[j * line_size + d];
    }
    pairs[i][j] = pair_grad(call, score, dp, lse, delta, seen(s0 + j), line, s0 + j).ds;
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kGradColumns; ++e) {
      const int d = j + e * kGradTile;
      if (d >= D) break;
#pragma unroll 4
      for (int s = 0; s < kGradTile; ++s) sum[e] += pairs[i][s] * keys[s * line_size + d];
    }
    __syncthreads();
  }
  if (!exists) return;
#pragma unroll
  for (int e = 0; e < kGradColumns; ++e) {
    const int d = j + e * kGradTile;
    if (d < D) dq.write(dq.place(at.b, at.h, at.row, d), sum[e]);
  }
}

// dk and dv of kGradTile keys: as above with queries and keys in each other's place.
//
// The keys of head at.h of [B, G] are used by query heads at.h * call.sharing ... (at.h + 1) * call.sharing -
// 1: one after the other, each with all tiles of queries that see any of the block's keys. The pair is score
// = k_i q_j and dp = v_i dout_j, with lse and delta of query t0 + j (of none beyond T); sum_v[d] += p
// dout[d], sum_k[d] += ds q[d].
template <class C>
static __global__ void __launch_bounds__(kGradThreads)
    attention_grad_key_kernel(const __grid_constant__ HeadElements<C> dk,
                              const __grid_constant__ HeadElements<C> dv,
                              const __grid_constant__ AttentionGradCall<C> a) {
  __shared__ C pairs_p[kGradTile][kGradTile], pairs_ds[kGradTile][kGradTile];
  const AttentionCall& call = a.call;
  const GradPlace at(call.S, call.G);
  const int D = static_cast<int>(call.D), line_size = D + 1, size = kGradTile * line_size, i = at.i, j = at.j;
  C *const queries = dynamic_shared<C>(), *const grads = queries + size, *const keys = grads + size,
           *const values = keys + size;
  const SeenRange seen(at.first, kGradTile, at.row, call.S, call.queries_of(at.b));
  bring_grad_tile(keys, a.k, at.b, at.h, at.first, call.S, D);
  bring_grad_tile(values, a.v, at.b, at.h, at.first, call.S, D);
  C sum_k[kGradColumns] = {}, sum_v[kGradColumns] = {};
  for (int64_t h = at.h * call.sharing; h < (at.h + 1) * call.sharing; ++h) {
    const int64_t lines = (at.b * call.H + h) * call.T;
    for (int64_t t0 = seen.any.first; t0 < seen.any.last; t0 += kGradTile) {
      bring_grad_tile(queries, a.q, at.b, h, t0, call.T, D);
      bring_grad_tile(grads, a.dout, at.b, h, t0, call.T, D);
      __syncthreads();
      const int64_t t = t0 + j;
      const C lse = t < call.T ? a.lse[lines + t] : C(0), delta = t < call.T ? a.delta[lines + t] : C(0);
      C score = 0, dp = 0;
      for (int d = 0; d < D; ++d) {
        score += keys[i * line_size + d] * queries[j * line_size + d];
        dp += values[i * line_size + d] * grads[j * line_size + d];
      }
      const PairGrad<C> pair = pair_grad(call, score, dp, lse, delta, seen(t), lines + t, at.row);
      pairs_p[i][j] = pair.p;
      pairs_ds[i][j] = pair.ds;
      __syncthreads();
#pragma unroll
      for (int e = 0; e < kGradColumns; ++e) {
        const int d = j + e * kGradTile;
        if (d >= D) break;
#pragma unroll 4
        for (int s = 0; s < kGradTile; ++s) {
          sum_v[e] += pairs_p[i][s] * grads[s * line_size + d];
          sum_k[e] += pairs_ds[i][s] * queries[s * line_size + d];
        }
      }
      __syncthreads();
    }
  }
  if (at.row >= call.S) return;
#pragma unroll
  for (int e = 0; e < kGradColumns; ++e) {
    const int d = j + e * kGradTile;
    if (d >= D) break;
    dk.write(dk.place(at.b, at.h, at.row, d), sum_k[e]);
    dv.write(dv.place(at.b, at.h, at.row, d), sum_v[e]);
  }
}

// Three launches: delta, a warp per query; dq, a block per tile of queries; dk and dv, a block per tile of
// keys. The last two have shared memory for four tiles.
void attention_grad(const View& dq, const View& dk, const View& dv, const View& dout, const View& q,
                    const View& k, const View& v, const View& out, const View& lse,
                    const AttentionParameters& parameters) {
  const AttentionCall call(q, k, parameters);
  if (call.D > kLongestGradHead) {
    fail("TT-SHAPE-04", "attention: heads of " + std::to_string(call.D) + " values are longer than " +
                            std::to_string(kLongestGradHead) +
                            "\n  hint: use more and smaller heads, or the CPU");
  }
  const int64_t B = q.shape[0], lines = B * call.H * call.T;
  dispatch_floating(q.dtype, [&]<class C>(C*) {
    const DeviceScratch<C> delta(lines);
    const HeadElements<C> g(dout);
    const AttentionGradCall<C> a{
        g, HeadElements<C>(q), HeadElements<C>(k), HeadElements<C>(v), lse.as<const C>(), delta.data(), call};
    const auto grid = [&](int64_t rows, int64_t heads) {
      const int64_t blocks = B * heads * ceil_div(rows, kGradTile);
      const size_t shared = 4 * static_cast<size_t>(kGradTile * (call.D + 1)) * sizeof(C);
      return LaunchConfig{dim3(static_cast<unsigned>(blocks)), dim3(kGradThreads), shared};
    };
    launch(attention_delta_kernel<C>, over(lines * kWarp, kGradThreads), delta.data(), g,
           HeadElements<C>(out), call, lines);
    launch(attention_grad_query_kernel<C>, grid(call.T, call.H), HeadElements<C>(dq), a);
    launch(attention_grad_key_kernel<C>, grid(call.S, call.G), HeadElements<C>(dk), HeadElements<C>(dv), a);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
