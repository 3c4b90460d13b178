// Gradients of attention of 16-bit operands on tensor cores (formulas: backend/cpu/attention_grad.hpp).
//
// Two kernels form each probability anew: in one, queries stay and keys pass by, which gives dq; in the other
// keys stay, which gives dk and dv. That is seven products of tiles where five would do if blocks added to dq
// together; in exchange nothing is added to by two, so results are deterministic, and scores never leave a
// warp's registers. Limit: FLOPs of the tensor cores.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/kernels/attention_tiles.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// What the derivative needs of a query: probabilities are 2^(score - lse), to the base 2, and +inf where it
// sees no key, so that they become 0. delta = sum over D of dout out: what softmax's derivative subtracts.
struct QueryStats {
  float lse, delta;
};

template <class T>
static __global__ void __launch_bounds__(kTensorThreads)
    attention_stats_kernel(QueryStats* stats, const float* lse, Heads<const T> dout, Heads<const T> out,
                           int64_t lines, const __grid_constant__ AttentionCall call) {
  constexpr int kLanes = 8;  // share a query
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

// Of a lane's two rows, or of a tile's columns, whichever are queries: its own for score[n][i].
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
// Scores become probabilities; scale: AttentionCall::exponent_scale().
template <class Stats>
__device__ __forceinline__ void to_probabilities(Scores& p, const Stats& stats, float scale) {
#pragma unroll
  for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) p[n][i] = exp2_approx(fmaf(p[n][i], scale, -stats(n, i).lse));
  }
}
// Gradients of probabilities become those of scores, over the scale.
template <class Stats>
__device__ __forceinline__ void differentiate(Scores& dp, const Scores& p, const Stats& stats) {
#pragma unroll
  for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) dp[n][i] = p[n][i] * (dp[n][i] - stats(n, i).delta);
  }
}

template <class T, int kHead, class Products, bool kDrops>
static __global__ void __launch_bounds__(kTensorThreads, kHead <= 64 ? 2 : 1)
    attention_grad_query_tensor_kernel(Heads<T> dq, const __grid_constant__ AttentionGradOperands<T> in,
                                       const __grid_constant__ AttentionCall call) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  using Stays = Tile<kHead, kTensorRows>;
  using Source = RowSource<T, kHead>;
  using Passing = PassingTiles<T, kHead, kPlaces<Products, kHead>>;
  constexpr int kAhead = Passing::kAhead, kStep = kTensorColumns;
  __shared__ uint64_t turns;
  const int query_count = static_cast<int>(call.T), D = static_cast<int>(call.D);
  const TensorBlock at(call.T, call.H, true);  // the last queries, which see the most keys, start first
  const unsigned queries = tile_memory(), grads = queries + Stays::kBytes;
  Source(in.q, at.batch, at.head, D).template fetch<kTensorRows>(queries, at.first, query_count);
  Source(in.dout, at.batch, at.head, D).template fetch<kTensorRows>(grads, at.first, query_count);
  const SeenColumns keys(at, call.T, call.keys_of(at.batch));
  const int line = at.batch * static_cast<int>(call.H) + at.head,
            group = static_cast<int>(call.group_of(at.head));
  const Passing passing{grads + Stays::kBytes, Source(in.k, at.batch, group, D),
                        Source(in.v, at.batch, group, D), keys.last, PipelinedBarrier(&turns)};
  for (int i = 0; i < kAhead; ++i) passing.fetch(static_cast<unsigned>(i), keys.first + i * kStep);
  QueryStats stats[2] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (at.row + 8 * r < query_count) stats[r] = in.stats[line * call.T + at.row + 8 * r];
  }
  const LeftRows<kHead, false> query_rows(queries), grad_rows(grads);
  RowSums<kHead> sum;
  clear(sum);
  unsigned turn = 0;
  const int last = keys.end_for_group(Passing::kLags);
  for (int s0 = keys.first; s0 < last; s0 += kStep, ++turn) {
    passing.await(turn);
    if (s0 + kAhead * kStep < keys.last) passing.fetch(turn + kAhead, s0 + kAhead * kStep);
    Scores p, dp;
    Products::template scores<T>(p, query_rows, passing.first(turn));
    Products::template scores<T>(dp, grad_rows, passing.second(turn));
    Products::template await<1>(p);
    if (!keys.by_all(s0)) hide(p, keys, s0);
    to_probabilities(p, StatsOfRows{stats}, call.exponent_scale());
    Products::template await<0>(dp);
    if constexpr (kDrops) drop_of_queries(dp, call, line * call.T + at.row, s0);
    differentiate(dp, p, StatsOfRows{stats});
    Products::template add<T, kHead>(sum, pack_scores<T>(dp), passing.first(turn));
    Products::template await<0>(sum);
  }
  wait_for_copies<0>();
  const float factor = static_cast<float>(call.rules.scale);
  write_rows<T, kHead>(dq, at, query_count, D, sum, {factor, factor});
#endif
}

// Which tile of queries a block of keys has before it: those of one head after the other.
struct QueryTile {
  int first, last, head, t0;  // the range of a head's queries that are seen

  __device__ __forceinline__ QueryTile(const SeenColumns& seen, int first_head)
      : first(seen.first), last(seen.last), head(first_head), t0(seen.first) {}
  __device__ __forceinline__ unsigned count(int heads) const {
    return static_cast<unsigned>(heads * std::max((last - first + kTensorColumns - 1) / kTensorColumns, 0));
  }
  __device__ __forceinline__ void advance() {
    t0 += kTensorColumns;
    if (t0 >= last) ++head, t0 = first;
  }
};
// The stats of a tile's queries on their way to shared memory, a thread each. line: number of the head's
// first query among all of the call. +inf beyond the last query.
__device__ __forceinline__ QueryStats fetch_stats(const QueryStats* all, int64_t line, int t0,
                                                  int query_count) {
  const int t = t0 + static_cast<int>(threadIdx.x);
  if (threadIdx.x < kTensorColumns && t < query_count) return all[line + t];
  return {std::numeric_limits<float>::infinity(), 0};
}
__device__ __forceinline__ void put_stats(QueryStats (&tile)[kTensorColumns], const QueryStats& stats) {
  if (threadIdx.x < kTensorColumns) tile[threadIdx.x] = stats;
}

// dv += P^T dout, dk += dS^T q over a tile of queries, which lies at `queries` and `grads`. p: probabilities;
// dp: their gradients, still under way; row, column: of the lane's first key and the tile's first query, for
// dropout.
template <class T, int kHead, class Products, bool kDrops, class Stats>
__device__ __forceinline__ void add_tile(RowSums<kHead>& key_sum, RowSums<kHead>& value_sum, Scores& p,
                                         Scores& dp, const Stats& stats, unsigned queries, unsigned grads,
                                         const AttentionCall& call, int64_t row, int64_t column) {
  if constexpr (!kDrops) {
    Products::template add<T, kHead>(value_sum, pack_scores<T>(p), grads);
    Products::template await<1>(dp);  // while the values' sum is under way
    differentiate(dp, p, stats);
  } else {
    const unsigned kept = kept_by_dropout<false>(call, row, column);
    const float scale = static_cast<float>(call.mask.scale);
    Products::template await<0>(dp);
    drop(dp, kept, scale);
    differentiate(dp, p, stats);
    drop(p, kept, scale);
    Products::template add<T, kHead>(value_sum, pack_scores<T>(p), grads);
  }
  Products::template add<T, kHead>(key_sum, pack_scores<T>(dp), queries);
  Products::template await<0>(value_sum), Products::template await<0>(key_sum);
}

template <class T, int kHead, class Products, bool kDrops>
static __global__ void __launch_bounds__(kTensorThreads, 1)
    attention_grad_key_tensor_kernel(Heads<T> dk, Heads<T> dv,
                                     const __grid_constant__ AttentionGradOperands<T> in,
                                     const __grid_constant__ AttentionCall call) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  using Stays = Tile<kHead, kTensorRows>;
  using Source = RowSource<T, kHead>;
  using Passing = PassingTiles<T, kHead, kPlaces<Products, kHead>>;
  constexpr unsigned kAhead = Passing::kAhead, kStats = 2 * kAhead;
  __shared__ uint64_t turns;
  __shared__ QueryStats stats[kStats][kTensorColumns];
  const int query_count = static_cast<int>(call.T), key_count = static_cast<int>(call.S),
            D = static_cast<int>(call.D), heads = static_cast<int>(call.sharing);
  const TensorBlock at(call.S, call.G, false);  // the first keys, which most queries see, start first
  const unsigned keys = tile_memory(), values = keys + Stays::kBytes;
  Source(in.k, at.batch, at.head, D).template fetch<kTensorRows>(keys, at.first, key_count);
  Source(in.v, at.batch, at.head, D).template fetch<kTensorRows>(values, at.first, key_count);
  const SeenColumns queries(at, call.S, call.queries_of(at.batch));
  const auto line_of = [&](int head) { return (at.batch * call.H + head) * call.T; };
  Passing passing{values + Stays::kBytes, Source(in.q, at.batch, at.head * heads, D),
                  Source(in.dout, at.batch, at.head * heads, D), query_count, PipelinedBarrier(&turns)};
  QueryTile now(queries, at.head * heads), next = now;
  const unsigned count = now.count(heads);
  QueryStats on_their_way{};
  const auto fetch = [&](unsigned turn) {  // the next tile, that of `turn`
    if (next.t0 == next.first) {
      passing.x.to_head(in.q, at.batch, next.head), passing.y.to_head(in.dout, at.batch, next.head);
    }
    passing.fetch(turn, next.t0);
    on_their_way = fetch_stats(in.stats, line_of(next.head), next.t0, query_count);
    next.advance();
  };
  if (count > 0) fetch(0);
  if (kAhead == 2) put_stats(stats[0], on_their_way);
  if (kAhead == 2 && count > 1) fetch(1);
  const LeftRows<kHead, false> key_rows(keys), value_rows(values);
  RowSums<kHead> key_sum, value_sum;
  clear(key_sum), clear(value_sum);
  for (unsigned turn = 0; turn < count; ++turn, now.advance()) {
    put_stats(stats[(turn + kAhead - 1) % kStats], on_their_way);
    passing.await(turn);
    if (turn + kAhead < count) fetch(turn + kAhead);
    if (now.t0 + kTensorColumns <= queries.group_first) continue;  // by the other group alone
    Scores p, dp;
    Products::template scores<T>(p, key_rows, passing.first(turn));
    Products::template scores<T>(dp, value_rows, passing.second(turn));
    const StatsOfColumns of_tile{stats[turn % kStats]};
    Products::template await<1>(p);
    if (!queries.by_all(now.t0)) hide(p, queries, now.t0);
    to_probabilities(p, of_tile, call.exponent_scale());
    add_tile<T, kHead, Products, kDrops>(key_sum, value_sum, p, dp, of_tile, passing.first(turn),
                                         passing.second(turn), call, at.row, line_of(now.head) + now.t0);
  }
  wait_for_copies<0>();
  const float factor = static_cast<float>(call.rules.scale);
  write_rows<T, kHead>(dk, at, key_count, D, key_sum, {factor, factor});
  write_rows<T, kHead>(dv, at, key_count, D, value_sum, {1.0f, 1.0f});
#endif
}

// False where a block has too little shared memory.
template <class T, int kHead, class Products, bool kDrops>
bool attention_grad_tensor(const View& dq, const View& dk, const View& dv, const View& dout, const View& q,
                           const View& k, const View& v, const View& out, const View& lse,
                           const AttentionCall& call) {
  using Passing = PassingTiles<T, kHead, kPlaces<Products, kHead>>;
  const auto config = [&](int64_t rows, int64_t heads) {
    return LaunchConfig{dim3(static_cast<unsigned>(ceil_div(rows, kTensorRows) * q.shape[0] * heads)),
                        dim3(kTensorThreads),
                        2 * Tile<kHead, kTensorRows>::kBytes + Passing::kBytes + kTileAlignment};
  };
  if (!fits_shared_memory(config(1, 1))) return false;
  const int64_t lines = q.shape[0] * call.H * call.T;
  const DeviceScratch<QueryStats> stats(lines);
  const AttentionGradOperands<T> in{Heads<const T>(dout), Heads<const T>(q), Heads<const T>(k),
                                    Heads<const T>(v), stats.data()};
  launch(attention_stats_kernel<T>, over(lines * 8, kTensorThreads), stats.data(), lse.as<const float>(),
         in.dout, Heads<const T>(out), lines, call);
  launch(attention_grad_query_tensor_kernel<T, kHead, Products, kDrops>, config(call.T, call.H), Heads<T>(dq),
         in, call);
  launch(attention_grad_key_tensor_kernel<T, kHead, Products, kDrops>, config(call.S, call.G), Heads<T>(dk),
         Heads<T>(dv), in, call);
  return true;
}

// False where the plain kernels have to do it.
template <class T>
bool attention_grad_on_tensor_cores(const View& dq, const View& dk, const View& dv, const View& dout,
                                    const View& q, const View& k, const View& v, const View& out,
                                    const View& lse, const AttentionCall& call) {
  return on_tensor_cores<128>(
      call, {&dq, &dk, &dv, &dout, &q, &k, &v, &out}, [&]<int kHead, class Products, bool kDrops>() {
        return attention_grad_tensor<T, kHead, Products, kDrops>(dq, dk, dv, dout, q, k, v, out, lse, call);
      });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
