// Attention by CUDA, forward (contract: backend/cpu/attention.hpp).
//
//   out = softmax(scale q k^T, where seen) v          lse = log of each query's sum of exponentials
//
// The matrix of probabilities [T, S] is never stored: keys pass by in tiles, and each query keeps a running
// maximum m and sum, and a row of results that is scaled when m grows. Memory beyond the operands is O(T),
// and the pairs of a tile are formed and used in shared memory. Source: Dao, Fu, Ermon, Rudra, Re,
// "FlashAttention", 2022.
//
// Task 4.15: attention_kernel, attention. The given parts of this header are in
// modules/04_transformer/frame/tinytorch/backend/cuda/kernels/attention.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// out and lse of kQueryTile queries.
//
// Once: the queries to shared memory. Then for each tile of keys s0 ... s0 + kQueryTile - 1 in
// [seen.any.first, seen.any.last), which is what any of the block's queries sees:
//   1. keys and values to shared memory; barrier
//   2. this thread's score: scale q_i k_j, or -infinity where seen(s0 + j) is false
//   3. m' = the larger of m and the scores of the query's 16 threads (warp_reduce<kQueryTile>(x, Maximum()));
//      p = e^(score - m'), factor = e^(m - m'); total = total factor + the sum of the 16 p; m = m'
//   4. p, after dropout (call.dropped(p, line, key)), to shared memory; barrier
//   5. each of this thread's columns: sum[d] = sum[d] factor + p_0 v_0[d] + ... + p_15 v_15[d]
//   6. barrier, before the next tile overwrites this one
// At the end: out = sum / total, lse = m + log(total). Dropout does not touch total. A query that has seen
// nothing has m = -infinity: then subtract 0 instead of m (what is not seen stays e^-infinity = 0), and out
// is 0, lse -infinity. All threads meet at the barriers, also those whose query does not exist; they see
// nothing, and do not write.
template <class C>
static __global__ void __launch_bounds__(kPairThreads)
    attention_kernel(const __grid_constant__ HeadElements<C> out, C* lse,
                     const __grid_constant__ HeadElements<C> q, const __grid_constant__ HeadElements<C> k,
                     const __grid_constant__ HeadElements<C> v, const __grid_constant__ AttentionCall call) {
  constexpr C kNone = -std::numeric_limits<C>::infinity();
  __shared__ C pairs[kQueryTile][kQueryTile];
  const QueryPlace at(call);
  const int D = static_cast<int>(call.D), line_size = D + 1, i = at.i, j = at.j;
  C* const queries = dynamic_shared<C>();
  C* const keys = queries + kQueryTile * line_size;
  C* const values = keys + kQueryTile * line_size;
  const int64_t g = call.group_of(at.h), line = (at.b * call.H + at.h) * call.T + at.t;
  const SeenRange seen(at.first, kQueryTile, at.t, call.T, call.keys_of(at.b));
  bring_tile(queries, q, at.b, at.h, at.first, call.T, D);
  C m = kNone, total = 0, sum[kColumnsEach] = {};
  for (int64_t s0 = seen.any.first; s0 < seen.any.last; s0 += kQueryTile) {
    bring_tile(keys, k, at.b, g, s0, call.S, D);
    bring_tile(values, v, at.b, g, s0, call.S, D);
    __syncthreads();
    C score = 0;
    for (int d = 0; d < D; ++d) score += queries[i * line_size + d] * keys[j * line_size + d];
    score = seen(s0 + j) ? score * static_cast<C>(call.rules.scale) : kNone;
    const C highest = Maximum()(m, warp_reduce<kQueryTile>(score, Maximum()));
    const C shift = highest == kNone ? C(0) : highest;
    const C p = std::exp(score - shift), factor = std::exp(m - shift);
    total = total * factor + warp_reduce<kQueryTile>(p, Sum());
    m = highest;
    pairs[i][j] = call.dropped(p, line, s0 + j);
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kColumnsEach; ++e) {
      const int d = j + e * kQueryTile;
      if (d >= D) break;
      sum[e] *= factor;
#pragma unroll 4
      for (int s = 0; s < kQueryTile; ++s) sum[e] += pairs[i][s] * values[s * line_size + d];
    }
    __syncthreads();
  }
  if (at.t >= call.T) return;
  if (j == 0) lse[line] = total == C(0) ? kNone : m + std::log(total);
#pragma unroll
  for (int e = 0; e < kColumnsEach; ++e) {
    const int d = j + e * kQueryTile;
    if (d < D) out.write(out.place(at.b, at.h, at.t, d), total == C(0) ? C(0) : sum[e] / total);
  }
}

// A block per tile of queries of each head of each batch, with shared memory for three tiles. Heads are at
// most kLongestHead long.
void attention(const View& out, const View& lse, const View& q, const View& k, const View& v,
               const AttentionParameters& parameters) {
  const AttentionCall call(q, k, parameters);
  if (call.D > kLongestHead) {
    fail("TT-SHAPE-04", "attention: heads of " + std::to_string(call.D) + " values are longer than " +
                            std::to_string(kLongestHead) +
                            "\n  hint: use more and smaller heads, or the CPU");
  }
  const int64_t blocks = q.shape[0] * call.H * ceil_div(call.T, kQueryTile);
  dispatch_floating(q.dtype, [&]<class C>(C*) {
    const size_t shared = 3 * static_cast<size_t>(kQueryTile * (call.D + 1)) * sizeof(C);
    launch(attention_kernel<C>, {dim3(static_cast<unsigned>(blocks)), dim3(kPairThreads), shared},
           HeadElements<C>(out), lse.as<C>(), HeadElements<C>(q), HeadElements<C>(k), HeadElements<C>(v),
           call);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
