// Attention of 16-bit operands on tensor cores, forward (contract: backend/cpu/attention.hpp).
//
// A block has 128 queries of one head; keys and values pass by in tiles of 64. A running maximum and sum per
// query replace the matrix of probabilities. Source: Dao, "FlashAttention-2", 2023. Limit: FLOPs of the
// tensor cores, and of the units for 2^x where heads are short.
#pragma once

#include <tinytorch/backend/cuda/kernels/attention_tiles.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// What a lane's two queries know of the keys so far.
template <int kHead>
struct RunningSoftmax {
  RowSums<kHead> sum;      // of 2^(score - top) value
  float top[2], total[2];  // about the largest score, and the sum of 2^(score - top) over this lane's keys
  // How far scores may exceed `top`, to the base 2, before the sums are rescaled: rarely, then. 2^8 times as
  // much is still far from what a sum can hold, and from what 16 bits can.
  static constexpr float kSlack = 8;

  __device__ __forceinline__ RunningSoftmax() {
    clear(sum);
#pragma unroll
    for (int r = 0; r < 2; ++r) top[r] = -std::numeric_limits<float>::infinity(), total[r] = 0;
  }
  // score = 2^(scale score - top) with the new top; the sums still wait for rescale(factor).
  __device__ __forceinline__ void exponentiate(Scores& score, float scale, float (&factor)[2]) {
    float highest[2], shift[2], added[2] = {};
#pragma unroll
    for (int r = 0; r < 2; ++r) highest[r] = Maximum()(score[0][2 * r], score[0][2 * r + 1]);
#pragma unroll
    for (int n = 1; n < kTensorColumns / 8; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        highest[r] = Maximum()(highest[r], Maximum()(score[n][2 * r], score[n][2 * r + 1]));
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      highest[r] = warp_reduce<4>(highest[r], Maximum()) * scale;
      const float now = highest[r] > top[r] + kSlack ? highest[r] : top[r];
      shift[r] = now == -std::numeric_limits<float>::infinity() ? 0.0f : now;
      factor[r] = exp2_approx(top[r] - shift[r]);
      top[r] = now;
    }
#pragma unroll
    for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[n][i] = exp2_approx(fmaf(score[n][i], scale, -shift[i / 2]));
#pragma unroll
      for (int r = 0; r < 2; ++r) added[r] += score[n][2 * r] + score[n][2 * r + 1];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) total[r] = total[r] * factor[r] + added[r];
  }
  // factor: what makes the sums averages. lse: of the head's queries, of which the lane has `row` and row
  // + 8.
  __device__ __forceinline__ void finish(float (&factor)[2], float* lse, int row, int end) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float all = warp_reduce<4>(total[r], Sum());
      factor[r] = all == 0 ? 0.0f : 1 / all;
      if (threadIdx.x % 4 != 0 || row + 8 * r >= end) continue;
      lse[row + 8 * r] = all == 0 ? -std::numeric_limits<float>::infinity()
                                  : (top[r] + std::log2(all)) * std::numbers::ln2_v<float>;
    }
  }
  __device__ __forceinline__ void rescale(const float (&factor)[2]) {
    if (!__any_sync(kAllLanes, factor[0] != 1 || factor[1] != 1)) return;
#pragma unroll
    for (int d = 0; d < kHead / 8; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[d][i] *= factor[i / 2];
    }
  }
};

template <int kHead>
inline constexpr bool kKeepsQueries = kHead <= 128;  // in registers

template <class T, int kHead, class Products, bool kDrops>
static __global__ void __launch_bounds__(kTensorThreads, kHead <= 64 ? 2 : 1)
    attention_tensor_kernel(Heads<T> out, float* lse, Heads<const T> q, Heads<const T> k, Heads<const T> v,
                            const __grid_constant__ AttentionCall call) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  const int query_count = static_cast<int>(call.T), D = static_cast<int>(call.D);
  const TensorBlock at(call.T, call.H, true);  // the last queries, which see the most keys, start first
  const unsigned queries = tile_memory();
  using Source = RowSource<T, kHead>;
  using Passing = PassingTiles<T, kHead, kPlaces<Products, kHead>>;
  constexpr int kAhead = Passing::kAhead, kStep = kTensorColumns;
  __shared__ uint64_t turns;
  Source(q, at.batch, at.head, D).template fetch<kTensorRows>(queries, at.first, query_count);
  const SeenColumns keys(at, call.T, call.keys_of(at.batch));
  const int line = at.batch * static_cast<int>(call.H) + at.head,
            group = static_cast<int>(call.group_of(at.head));
  const Passing passing{queries + Tile<kHead, kTensorRows>::kBytes, Source(k, at.batch, group, D),
                        Source(v, at.batch, group, D), keys.last, PipelinedBarrier(&turns)};
  // Scores of a tile's keys are made a turn before they meet its values, which so may come a turn later.
  for (int i = 0; i < kAhead; ++i) passing.fetch_first(static_cast<unsigned>(i), keys.first + i * kStep);
  if (kAhead == 2) passing.fetch_second(0, keys.first);
  LeftRows<kHead, kKeepsQueries<kHead>> rows(queries);
  RunningSoftmax<kHead> softmax;
  PackedScores probabilities{};
  const auto exponentiate = [&](Scores& score, int s0, float(&factor)[2]) {
    if (!keys.by_all(s0)) hide(score, keys, s0);
    softmax.exponentiate(score, call.exponent_scale(), factor);
    if constexpr (kDrops) drop_of_queries(score, call, line * call.T + at.row, s0);
  };
  // While a tile's scores become probabilities, the values of the tile before it are multiplied.
  unsigned turn = 0;
  const int last = keys.end_for_group(Passing::kLags);
  for (int s0 = keys.first; s0 < last; s0 += kStep, ++turn) {
    passing.await(turn);
    if (turn == 0) rows.keep();
    const int next = s0 + kAhead * kStep;
    if (next < keys.last) passing.fetch_first(turn + kAhead, next);
    if (next - kStep < keys.last) passing.fetch_second(turn + kAhead - 1, next - kStep);
    Scores score;
    float factor[2];
    Products::template scores<T>(score, rows, passing.first(turn));
    if (turn > 0) Products::template add<T, kHead>(softmax.sum, probabilities, passing.second(turn - 1));
    turn > 0 ? Products::template await<1>(score) : Products::template await<0>(score);
    exponentiate(score, s0, factor);
    Products::template await<0>(softmax.sum);
    softmax.rescale(factor);
    probabilities = pack_scores<T>(score);
  }
  if (turn > 0) {
    passing.await(turn);
    Products::template add<T, kHead>(softmax.sum, probabilities, passing.second(turn - 1));
    Products::template await<0>(softmax.sum);
  }
  wait_for_copies<0>();
  float factor[2];
  softmax.finish(factor, lse + line * call.T, at.row, query_count);
  write_rows<T, kHead>(out, at, query_count, D, softmax.sum, factor);
#endif
}

// False where a block has too little shared memory.
template <class T, int kHead, class Products, bool kDrops>
bool attention_tensor(const View& out, const View& lse, const View& q, const View& k, const View& v,
                      const AttentionCall& call) {
  using Passing = PassingTiles<T, kHead, kPlaces<Products, kHead>>;
  const auto blocks = ceil_div(call.T, kTensorRows) * q.shape[0] * call.H;
  const LaunchConfig config{dim3(static_cast<unsigned>(blocks)), dim3(kTensorThreads),
                            Tile<kHead, kTensorRows>::kBytes + Passing::kBytes + kTileAlignment};
  if (!fits_shared_memory(config)) return false;
  launch(attention_tensor_kernel<T, kHead, Products, kDrops>, config, Heads<T>(out), lse.as<float>(),
         Heads<const T>(q), Heads<const T>(k), Heads<const T>(v), call);
  return true;
}

// False where the plain kernel has to do it.
template <class T>
bool attention_on_tensor_cores(const View& out, const View& lse, const View& q, const View& k, const View& v,
                               const AttentionCall& call) {
  return on_tensor_cores<256>(call, {&out, &q, &k, &v}, [&]<int kHead, class Products, bool kDrops>() {
    return attention_tensor<T, kHead, Products, kDrops>(out, lse, q, k, v, call);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
