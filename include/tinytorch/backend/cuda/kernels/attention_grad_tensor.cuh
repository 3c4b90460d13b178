// Gradients of attention of 16-bit operands on tensor cores (formulas: backend/cpu/attention_grad.hpp).
//
// Two kernels form each probability anew: in one, queries stay and keys pass by, which gives dq; in the other
// keys stay, which gives dk and dv. That is seven products of tiles where five would do if blocks added to dq
// together; in exchange nothing is added to by two, so results are deterministic, and scores never leave a
// warp's registers. Limit: FLOPs of the tensor cores.
#pragma once

#include <tinytorch/backend/cuda/attention_tiles.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// What the derivative needs of a query: probabilities are 2^(score - lse), to the base 2, and +inf where it sees
// no key, so that they become 0. delta = sum over D of dout out: what softmax's derivative subtracts.
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
  stats[line] = {sees_none ? -its_lse : its_lse * 1.4426950408889634f, delta};
}

template <class T>
struct AttentionGradOperands {
  Heads<const T> dout, q, k, v;
  const QueryStats* stats;
  float scale;  // of scores, to the base 2
};

// p: a score, which becomes a probability; dp: the gradient of that, which becomes the score's, over the scale.
__device__ __forceinline__ void differentiate(float& p, float& dp, const QueryStats& query, float scale) {
  p = power_of_two(fmaf(p, scale, -query.lse));
  dp = p * (dp - query.delta);
}

template <class T, int kHead, class Products>
static __global__ void __launch_bounds__(kTensorThreads, 1)
    attention_grad_query_tensor_kernel(Heads<T> dq, const __grid_constant__ AttentionGradOperands<T> in,
                                       const __grid_constant__ AttentionCall call) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  using Stays = Tile<kHead, kTensorRows>;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t tiles = (call.T + kTensorRows - 1) / kTensorRows, line = blockIdx.x / tiles,
                t0 = (tiles - 1 - blockIdx.x % tiles) * kTensorRows, t = t0 + warp * 16 + lane / 4;
  const int64_t b = line / call.H, h = line % call.H, g = call.group_of(h);
  const auto keys_of = [&](int64_t query) { return call.keys_of(query); };
  const SeenColumns keys(t0, std::min(t0 + kTensorRows, call.T) - 1, keys_of);
  const IndexRange mine[2] = {keys_of(t), keys_of(t + 8)};
  QueryStats stats[2] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (t + 8 * r < call.T) stats[r] = in.stats[line * call.T + t + 8 * r];
  }
  const unsigned queries = tile_memory(), grads = queries + Stays::kBytes;
  const PassingTiles<T, kHead> passing{grads + Stays::kBytes, in.k, in.v, b, keys.last, call.D};
  Stays::fetch(queries, in.q, b, h, t0, call.T, call.D);
  Stays::fetch(grads, in.dout, b, h, t0, call.T, call.D);
  passing.fetch(0, g, keys.first);
  const LeftRows<kHead, false> query_rows(queries, warp * 16), grad_rows(grads, warp * 16);
  RowSums<kHead> sum;
  clear<kHead>(sum);
  int turn = 0;
  for (int64_t s0 = keys.first; s0 < keys.last; s0 += kTensorColumns, ++turn) {
    passing.await();
    if (s0 + kTensorColumns < keys.last) passing.fetch(turn + 1, g, s0 + kTensorColumns);
    Scores p, dp;
    Products::template scores<T>(p, query_rows, passing.first(turn));
    Products::template scores<T>(dp, grad_rows, passing.second(turn));
    if (!keys.by_all(s0)) hide(p, mine, s0);
    drop_by_query(dp, call, line * call.T + t, s0);
#pragma unroll
    for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) differentiate(p[n][i], dp[n][i], stats[i / 2], in.scale);
    }
    Products::template add<T, kHead>(sum, dp, passing.first(turn));
  }
  wait_for_copies<0>();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (t + 8 * r >= call.T) continue;
    write_row<T, kHead>(dq.place(b, h, t + 8 * r, 0), sum, r, static_cast<float>(call.rules.scale), call.D);
  }
#endif
}

// The stats of a tile's 64 queries on their way to shared memory, a thread each; +inf beyond the last.
struct PassingStats {
  const QueryStats* from;
  int64_t T;
  QueryStats next{};

  __device__ __forceinline__ void fetch(int64_t line, int64_t t0) {
    const int64_t t = t0 + threadIdx.x;
    next = {std::numeric_limits<float>::infinity(), 0};
    if (threadIdx.x < kTensorColumns && t < T) next = from[line * T + t];
  }
  __device__ __forceinline__ void put(QueryStats (&tile)[kTensorColumns]) const {
    if (threadIdx.x < kTensorColumns) tile[threadIdx.x] = next;
  }
};

template <class T, int kHead, class Products>
static __global__ void __launch_bounds__(kTensorThreads, 1)
    attention_grad_key_tensor_kernel(Heads<T> dk, Heads<T> dv,
                                     const __grid_constant__ AttentionGradOperands<T> in,
                                     const __grid_constant__ AttentionCall call) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  using Stays = Tile<kHead, kTensorRows>;
  __shared__ QueryStats stats[2][kTensorColumns];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp,
            pair = lane % 4 * 2;
  const int64_t tiles = (call.S + kTensorRows - 1) / kTensorRows, line = blockIdx.x / tiles,
                s0 = blockIdx.x % tiles * kTensorRows, s = s0 + warp * 16 + lane / 4;
  const int64_t b = line / call.G, g = line % call.G, heads = call.H / call.G;
  const auto queries_of = [&](int64_t key) { return call.queries_of(key); };
  const SeenColumns queries(s0, std::min(s0 + kTensorRows, call.S) - 1, queries_of);
  const IndexRange mine[2] = {queries_of(s), queries_of(s + 8)};
  const unsigned keys = tile_memory(), values = keys + Stays::kBytes;
  const PassingTiles<T, kHead> passing{values + Stays::kBytes, in.q, in.dout, b, call.T, call.D};
  PassingStats next{in.stats, call.T};
  const LeftRows<kHead, false> key_rows(keys, warp * 16), value_rows(values, warp * 16);
  RowSums<kHead> key_sum, value_sum;
  clear<kHead>(key_sum), clear<kHead>(value_sum);
  // Tiles of queries of one head after the other.
  const int64_t each =
      std::max<int64_t>((queries.last - queries.first + kTensorColumns - 1) / kTensorColumns, 0);
  const int count = static_cast<int>(heads * each);
  int64_t h = g * heads, t0 = queries.first;
  Stays::fetch(keys, in.k, b, g, s0, call.S, call.D);
  Stays::fetch(values, in.v, b, g, s0, call.S, call.D);
  if (count > 0) {
    passing.fetch(0, h, t0);
    next.fetch(b * call.H + h, t0);
    next.put(stats[0]);
  }
  for (int turn = 0; turn < count; ++turn) {
    const int64_t its_head = h, its_t0 = t0;
    t0 += kTensorColumns;
    if (t0 >= queries.last) ++h, t0 = queries.first;
    passing.await();
    if (turn + 1 < count) {
      passing.fetch(turn + 1, h, t0);
      next.fetch(b * call.H + h, t0);
    }
    Scores p, dp;
    Products::template scores<T>(p, key_rows, passing.first(turn));
    Products::template scores<T>(dp, value_rows, passing.second(turn));
    if (!queries.by_all(its_t0)) hide(p, mine, its_t0);
    const QueryStats(&tile)[kTensorColumns] = stats[turn % 2];
#pragma unroll
    for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + pair + i % 2;
        const int64_t query = (b * call.H + its_head) * call.T + its_t0 + column;
        dp[n][i] = call.dropped(dp[n][i], query, s + i / 2 * 8);
        differentiate(p[n][i], dp[n][i], tile[column], in.scale);
        p[n][i] = call.dropped(p[n][i], query, s + i / 2 * 8);
      }
    }
    Products::template add<T, kHead>(value_sum, p, passing.second(turn));
    Products::template add<T, kHead>(key_sum, dp, passing.first(turn));
    if (turn + 1 < count) next.put(stats[(turn + 1) % 2]);
  }
  wait_for_copies<0>();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (s + 8 * r >= call.S) continue;
    write_row<T, kHead>(dk.place(b, g, s + 8 * r, 0), key_sum, r, static_cast<float>(call.rules.scale),
                        call.D);
    write_row<T, kHead>(dv.place(b, g, s + 8 * r, 0), value_sum, r, 1.0f, call.D);
  }
#endif
}

template <class T, int kHead, class Products>
void attention_grad_tensor(const View& dq, const View& dk, const View& dv, const AttentionGradOperands<T>& in,
                           int64_t batches, const AttentionCall& call) {
  const auto config = [&](int64_t rows, int64_t heads) {
    return LaunchConfig{
        dim3(static_cast<unsigned>(divided_up(rows, kTensorRows) * batches * heads)), dim3(kTensorThreads),
        2 * Tile<kHead, kTensorRows>::kBytes + PassingTiles<T, kHead>::kBytes + kTileAlignment};
  };
  launch(attention_grad_query_tensor_kernel<T, kHead, Products>, config(call.T, call.H), Heads<T>(dq), in,
         call);
  launch(attention_grad_key_tensor_kernel<T, kHead, Products>, config(call.S, call.G), Heads<T>(dk),
         Heads<T>(dv), in, call);
}

// False where the plain kernels have to do it.
template <class T>
bool attention_grad_on_tensor_cores(const View& dq, const View& dk, const View& dv, const View& dout,
                                    const View& q, const View& k, const View& v, const View& out,
                                    const View& lse, const AttentionCall& call) {
  return on_tensor_cores<128>(
      call, {&dq, &dk, &dv, &dout, &q, &k, &v, &out}, [&]<int kHead, class Products>() {
        const int64_t lines = q.shape[0] * call.H * call.T;
        const DeviceScratch<QueryStats> stats(lines);
        launch(attention_stats_kernel<T>, over(lines * 8, kTensorThreads), stats.data(),
               lse.as<const float>(), Heads<const T>(dout), Heads<const T>(out), lines, call);
        const AttentionGradOperands<T> in{
            Heads<const T>(dout), Heads<const T>(q),
            Heads<const T>(k),    Heads<const T>(v),
            stats.data(),         static_cast<float>(call.rules.scale) * 1.4426950408889634f};
        attention_grad_tensor<T, kHead, Products>(dq, dk, dv, in, q.shape[0], call);
      });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
