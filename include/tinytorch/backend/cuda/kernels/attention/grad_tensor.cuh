// Gradients of attention of 16-bit operands on tensor cores (formulas: backend/cpu/attention_grad.hpp).
//
// Two kernels recompute the probabilities: one keeps queries in the block, processes tiles of keys and gives
// dq; the other keeps keys, processes tiles of queries and gives dk and dv. That takes seven products of
// tiles; with atomic additions to dq five would do. Without atomics the results are deterministic, and
// scores never leave a warp's registers. Limit: FLOPs of the tensor cores.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/attention/tiles.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Statistics of a query for the derivative. Probabilities are 2^(score - lse), with lse to the base 2, or
// +inf if the query sees no key, so that they become 0. delta = sum over D of dout out: the term that the
// derivative of softmax subtracts.
struct QueryStats {
  float lse, delta;
};

template <class T>
static __global__ void __launch_bounds__(kTensorThreads)
    attention_stats_kernel(QueryStats* stats, const float* lse, Heads<const T> dout, Heads<const T> out,
                           int64_t lines, const __grid_constant__ AttentionCall call) {
  constexpr int kLanes = 8;  // lanes that share a query
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t line = (static_cast<int64_t>(blockIdx.x) * kTensorThreads + threadIdx.x) / kLanes;
  const bool exists = line < lines;
  const int64_t t = line % call.T, h = line / call.T % call.H, b = line / call.T / call.H;
  float delta = 0;
  for (int64_t d = lane * 8; exists && d < call.D; d += kLanes * 8) {
    float x[8], y[8];
    load(x, dout.place(b, h, t, d));
    load(y, out.place(b, h, t, d));
#pragma unroll
    for (int i = 0; i < 8; ++i) delta += x[i] * y[i];
  }
  delta = warp_reduce<kLanes>(delta, Sum());
  if (!exists || lane != 0) return;
  const float its_lse = lse[line];
  const bool sees_none = its_lse == -std::numeric_limits<float>::infinity();
  stats[line] = {sees_none ? -its_lse : its_lse * std::numbers::log2e_v<float>, delta};
}

template <class T>
struct AttentionGradOperands {
  Heads<const T> dout, q, k, v;
  const QueryStats* stats;
};

// Return the statistics of the query of score[n][i]: queries are the lane's two rows, or the tile's columns.
struct StatsOfRows {
  const QueryStats (&row)[2];
  __device__ __forceinline__ QueryStats operator()(int, int i) const { return row[i / 2]; }
};
struct StatsOfColumns {
  const QueryStats (&column)[kTensorColumns];
  __device__ __forceinline__ QueryStats operator()(int n, int i) const {
    return column[n * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2];
  }
};
// Replaces scores by probabilities; scale is AttentionCall::exponent_scale().
template <class Stats>
__device__ __forceinline__ void to_probabilities(Scores& p, const Stats& stats, float scale) {
#pragma unroll
  for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) p[n][i] = exp2_approx(fmaf(p[n][i], scale, -stats(n, i).lse));
  }
}
// Replaces gradients of probabilities by gradients of scores, without the factor `scale` of the scores.
template <class Stats>
__device__ __forceinline__ void differentiate(Scores& dp, const Scores& p, const Stats& stats) {
#pragma unroll
  for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) dp[n][i] = p[n][i] * (dp[n][i] - stats(n, i).delta);
  }
}

template <class T, int kHead, class Products, bool kDropout>
static __global__ void __launch_bounds__(kTensorThreads, kHead <= 64 ? 2 : 1)
    attention_grad_query_tensor_kernel(Heads<T> dq, const __grid_constant__ AttentionGradOperands<T> in,
                                       const __grid_constant__ AttentionCall call) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  using ResidentTile = Tile<kHead, kTensorRows>;
  using Source = RowSource<T, kHead>;
  using Pipeline = TilePipeline<T, kHead, kPipelineStages<Products, kHead>>;
  constexpr int kPrefetch = Pipeline::kPrefetch, kStep = kTensorColumns;
  __shared__ uint64_t mbarrier;
  const int query_count = static_cast<int>(call.T), D = static_cast<int>(call.D);
  const TensorBlock at(call.T, call.H, true);  // the last queries see the most keys: they start first
  const unsigned queries = aligned_shared_memory(), grads = queries + ResidentTile::kBytes;
  Source(in.q, at.batch, at.head, D).template fetch<kTensorRows>(queries, at.first, query_count);
  Source(in.dout, at.batch, at.head, D).template fetch<kTensorRows>(grads, at.first, query_count);
  const SeenColumns keys(at, call.T, call.keys_of(at.batch));
  const int line = at.batch * static_cast<int>(call.H) + at.head,
            group = static_cast<int>(call.group_of(at.head));
  const Pipeline pipeline{grads + ResidentTile::kBytes, Source(in.k, at.batch, group, D),
                          Source(in.v, at.batch, group, D), keys.last, PipelinedBarrier(&mbarrier)};
  for (int i = 0; i < kPrefetch; ++i) pipeline.fetch(static_cast<unsigned>(i), keys.first + i * kStep);
  QueryStats stats[2] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (at.row + 8 * r < query_count) stats[r] = in.stats[line * call.T + at.row + 8 * r];
  }
  const OperandA<kHead, false> query_rows(queries), grad_rows(grads);
  RowSums<kHead> sum;
  clear(sum);
  unsigned tile = 0;
  const int last = keys.end_for_group(Pipeline::kSplitBarrier);
  for (int s0 = keys.first; s0 < last; s0 += kStep, ++tile) {
    pipeline.wait(tile);
    if (s0 + kPrefetch * kStep < keys.last) pipeline.fetch(tile + kPrefetch, s0 + kPrefetch * kStep);
    Scores p, dp;
    Products::template scores<T>(p, query_rows, pipeline.first(tile));
    Products::template scores<T>(dp, grad_rows, pipeline.second(tile));
    Products::template wait<1>(p);
    if (!keys.seen_by_all(s0)) mask_scores(p, keys, s0);
    to_probabilities(p, StatsOfRows{stats}, call.exponent_scale());
    Products::template wait<0>(dp);
    if constexpr (kDropout) apply_query_dropout(dp, call, line * call.T + at.row, s0);
    differentiate(dp, p, StatsOfRows{stats});
    Products::template add<T, kHead>(sum, pack_scores<T>(dp), pipeline.first(tile));
    Products::template wait<0>(sum);
  }
  wait_for_copies<0>();
  const float factor = static_cast<float>(call.rules.scale);
  write_rows<T, kHead>(dq, at, query_count, D, sum, {factor, factor});
#endif
}

// The tile of queries that a block of keys processes: all tiles of one head, then those of the next head.
struct QueryTile {
  int first, last, head, t0;  // first, last: the queries of a head that see the block

  __device__ __forceinline__ QueryTile(const SeenColumns& seen, int first_head)
      : first(seen.first), last(seen.last), head(first_head), t0(seen.first) {}
  __device__ __forceinline__ unsigned count(int heads) const {
    return static_cast<unsigned>(heads * ceil_div(std::max(last - first, 0), kTensorColumns));
  }
  __device__ __forceinline__ void advance() {
    t0 += kTensorColumns;
    if (t0 >= last) ++head, t0 = first;
  }
};
// Prefetches the statistics of a tile's queries, one per thread; store_stats writes them to shared memory.
// line: row-major index of the head's first query in [B, H, T]. Beyond the last query, lse is +inf.
__device__ __forceinline__ QueryStats fetch_stats(const QueryStats* all, int64_t line, int t0,
                                                  int query_count) {
  const int t = t0 + static_cast<int>(threadIdx.x);
  if (threadIdx.x < kTensorColumns && t < query_count) return all[line + t];
  return {std::numeric_limits<float>::infinity(), 0};
}
__device__ __forceinline__ void store_stats(QueryStats (&tile)[kTensorColumns], const QueryStats& stats) {
  if (threadIdx.x < kTensorColumns) tile[threadIdx.x] = stats;
}

// dv += P^T dout and dk += dS^T q over a tile of queries; `queries` and `grads` are the addresses of its q
// and dout. p: probabilities; dp: their gradients, whose product is still pending. row, column: indices of
// the lane's first key and of the tile's first query, for dropout.
template <class T, int kHead, class Products, bool kDropout, class Stats>
__device__ __forceinline__ void add_tile(RowSums<kHead>& key_sum, RowSums<kHead>& value_sum, Scores& p,
                                         Scores& dp, const Stats& stats, unsigned queries, unsigned grads,
                                         const AttentionCall& call, int64_t row, int64_t column) {
  if constexpr (!kDropout) {
    Products::template add<T, kHead>(value_sum, pack_scores<T>(p), grads);
    Products::template wait<1>(dp);  // overlaps with the product for dv
    differentiate(dp, p, stats);
  } else {
    const unsigned keep_bits = dropout_keep_bits<false>(call, row, column);
    const float scale = static_cast<float>(call.mask.scale);
    Products::template wait<0>(dp);
    apply_dropout(dp, keep_bits, scale);
    differentiate(dp, p, stats);
    apply_dropout(p, keep_bits, scale);
    Products::template add<T, kHead>(value_sum, pack_scores<T>(p), grads);
  }
  Products::template add<T, kHead>(key_sum, pack_scores<T>(dp), queries);
  Products::template wait<0>(value_sum), Products::template wait<0>(key_sum);
}

template <class T, int kHead, class Products, bool kDropout>
static __global__ void __launch_bounds__(kTensorThreads, 1)
    attention_grad_key_tensor_kernel(Heads<T> dk, Heads<T> dv,
                                     const __grid_constant__ AttentionGradOperands<T> in,
                                     const __grid_constant__ AttentionCall call) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  using ResidentTile = Tile<kHead, kTensorRows>;
  using Source = RowSource<T, kHead>;
  using Pipeline = TilePipeline<T, kHead, kPipelineStages<Products, kHead>>;
  constexpr unsigned kPrefetch = Pipeline::kPrefetch, kStats = 2 * kPrefetch;
  __shared__ uint64_t mbarrier;
  __shared__ QueryStats stats[kStats][kTensorColumns];
  const int query_count = static_cast<int>(call.T), key_count = static_cast<int>(call.S),
            D = static_cast<int>(call.D), heads = static_cast<int>(call.sharing);
  const TensorBlock at(call.S, call.G, false);  // most queries see the first keys: they start first
  const unsigned keys = aligned_shared_memory(), values = keys + ResidentTile::kBytes;
  Source(in.k, at.batch, at.head, D).template fetch<kTensorRows>(keys, at.first, key_count);
  Source(in.v, at.batch, at.head, D).template fetch<kTensorRows>(values, at.first, key_count);
  const SeenColumns queries(at, call.S, call.queries_of(at.batch));
  const auto line_of = [&](int head) { return (at.batch * call.H + head) * call.T; };
  Pipeline pipeline{values + ResidentTile::kBytes, Source(in.q, at.batch, at.head * heads, D),
                    Source(in.dout, at.batch, at.head * heads, D), query_count, PipelinedBarrier(&mbarrier)};
  QueryTile now(queries, at.head * heads), next = now;
  const unsigned count = now.count(heads);
  QueryStats prefetched_stats{};
  const auto fetch = [&](unsigned tile) {  // fetches the next tile, which is number `tile`
    if (next.t0 == next.first) {
      pipeline.x.set_head(in.q, at.batch, next.head), pipeline.y.set_head(in.dout, at.batch, next.head);
    }
    pipeline.fetch(tile, next.t0);
    prefetched_stats = fetch_stats(in.stats, line_of(next.head), next.t0, query_count);
    next.advance();
  };
  if (count > 0) fetch(0);
  if (kPrefetch == 2) store_stats(stats[0], prefetched_stats);
  if (kPrefetch == 2 && count > 1) fetch(1);
  const OperandA<kHead, false> key_rows(keys), value_rows(values);
  RowSums<kHead> key_sum, value_sum;
  clear(key_sum), clear(value_sum);
  for (unsigned tile = 0; tile < count; ++tile, now.advance()) {
    store_stats(stats[(tile + kPrefetch - 1) % kStats], prefetched_stats);
    pipeline.wait(tile);
    if (tile + kPrefetch < count) fetch(tile + kPrefetch);
    if (now.t0 + kTensorColumns <= queries.group_first) continue;  // see only the other warpgroup's keys
    Scores p, dp;
    Products::template scores<T>(p, key_rows, pipeline.first(tile));
    Products::template scores<T>(dp, value_rows, pipeline.second(tile));
    const StatsOfColumns of_tile{stats[tile % kStats]};
    Products::template wait<1>(p);
    if (!queries.seen_by_all(now.t0)) mask_scores(p, queries, now.t0);
    to_probabilities(p, of_tile, call.exponent_scale());
    add_tile<T, kHead, Products, kDropout>(key_sum, value_sum, p, dp, of_tile, pipeline.first(tile),
                                           pipeline.second(tile), call, at.row, line_of(now.head) + now.t0);
  }
  wait_for_copies<0>();
  const float factor = static_cast<float>(call.rules.scale);
  write_rows<T, kHead>(dk, at, key_count, D, key_sum, {factor, factor});
  write_rows<T, kHead>(dv, at, key_count, D, value_sum, {1.0f, 1.0f});
#endif
}

// Returns false if a block has too little shared memory.
template <class T, int kHead, class Products, bool kDropout>
bool attention_grad_tensor(const View& dq, const View& dk, const View& dv, const View& dout, const View& q,
                           const View& k, const View& v, const View& out, const View& lse,
                           const AttentionCall& call) {
  using Pipeline = TilePipeline<T, kHead, kPipelineStages<Products, kHead>>;
  const auto config = [&](int64_t rows, int64_t heads) {
    return LaunchConfig{dim3(static_cast<unsigned>(ceil_div(rows, kTensorRows) * q.shape[0] * heads)),
                        dim3(kTensorThreads),
                        2 * Tile<kHead, kTensorRows>::kBytes + Pipeline::kBytes + kTileAlignment};
  };
  if (!fits_shared_memory(config(1, 1))) return false;
  const int64_t lines = q.shape[0] * call.H * call.T;
  const DeviceScratch<QueryStats> stats(lines);
  const AttentionGradOperands<T> in{Heads<const T>(dout), Heads<const T>(q), Heads<const T>(k),
                                    Heads<const T>(v), stats.data()};
  launch(attention_stats_kernel<T>, over(lines * 8, kTensorThreads), stats.data(), lse.as<const float>(),
         in.dout, Heads<const T>(out), lines, call);
  launch(attention_grad_query_tensor_kernel<T, kHead, Products, kDropout>, config(call.T, call.H),
         Heads<T>(dq), in, call);
  launch(attention_grad_key_tensor_kernel<T, kHead, Products, kDropout>, config(call.S, call.G), Heads<T>(dk),
         Heads<T>(dv), in, call);
  return true;
}

// Returns false if the kernels for any device must be used.
template <class T>
bool attention_grad_on_tensor_cores(const View& dq, const View& dk, const View& dv, const View& dout,
                                    const View& q, const View& k, const View& v, const View& out,
                                    const View& lse, const AttentionCall& call) {
  return on_tensor_cores<128>(
      call, {&dq, &dk, &dv, &dout, &q, &k, &v, &out}, [&]<int kHead, class Products, bool kDropout>() {
        return attention_grad_tensor<T, kHead, Products, kDropout>(dq, dk, dv, dout, q, k, v, out, lse, call);
      });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
