// Attention of 16-bit operands on tensor cores, forward (contract: backend/cpu/attention.hpp).
//
// A block has 128 queries of one head; keys and values pass by in tiles of 64. A running maximum and sum per
// query replace the matrix of probabilities. Source: Dao, "FlashAttention-2", 2023. Limit: FLOPs of the tensor
// cores, and of the units for 2^x where heads are short.
#pragma once

#include <tinytorch/backend/cuda/attention_tiles.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// What a lane's two queries know of the keys so far.
template <int kHead>
struct RunningSoftmax {
  RowSums<kHead> sum;      // of 2^(score - top) value
  float top[2], total[2];  // the largest score, and the sum of 2^(score - top) over this lane's keys

  __device__ __forceinline__ RunningSoftmax() {
    clear<kHead>(sum);
#pragma unroll
    for (int r = 0; r < 2; ++r) top[r] = -std::numeric_limits<float>::infinity(), total[r] = 0;
  }
  // score = 2^(scale score - top), after the sums have been brought to the new maximum.
  __device__ __forceinline__ void exponentiate(Scores& score, float scale) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float highest = score[0][2 * r];
#pragma unroll
      for (int n = 0; n < kTensorColumns / 8; ++n) {
        highest = Maximum()(highest, Maximum()(score[n][2 * r], score[n][2 * r + 1]));
      }
      highest = Maximum()(top[r], warp_reduce<4>(highest, Maximum()) * scale);
      const float shift = highest == -std::numeric_limits<float>::infinity() ? 0.0f : highest;
      const float factor = power_of_two(top[r] - shift);
      top[r] = highest;
      float added = 0;
#pragma unroll
      for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          float& x = score[n][2 * r + k];
          x = power_of_two(fmaf(x, scale, -shift));
          added += x;
        }
      }
      total[r] = total[r] * factor + added;
#pragma unroll
      for (int d = 0; d < kHead / 8; ++d) sum[d][2 * r] *= factor, sum[d][2 * r + 1] *= factor;
    }
  }
};

template <int kHead>
inline constexpr bool kKeepsQueries = kHead <= 128;  // in registers

template <class T, int kHead, class Products>
static __global__ void __launch_bounds__(kTensorThreads, kHead <= 64 ? 2 : 1)
    attention_tensor_kernel(Heads<T> out, float* lse, Heads<const T> q, Heads<const T> k, Heads<const T> v,
                            const __grid_constant__ AttentionCall call) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  // The last queries, which see the most keys, start first.
  const int64_t tiles = (call.T + kTensorRows - 1) / kTensorRows, line = blockIdx.x / tiles,
                t0 = (tiles - 1 - blockIdx.x % tiles) * kTensorRows, t = t0 + warp * 16 + lane / 4;
  const int64_t b = line / call.H, h = line % call.H, g = call.group_of(h);
  const auto keys_of = [&](int64_t query) { return call.keys_of(query); };
  const SeenColumns keys(t0, std::min(t0 + kTensorRows, call.T) - 1, keys_of);
  const IndexRange mine[2] = {keys_of(t), keys_of(t + 8)};
  const float scale = static_cast<float>(call.rules.scale) * 1.4426950408889634f;  // to the base 2

  const unsigned queries = tile_memory();
  const PassingTiles<T, kHead> passing{
      queries + Tile<kHead, kTensorRows>::kBytes, k, v, b, keys.last, call.D};
  LeftRows<kHead, kKeepsQueries<kHead>> rows(queries, warp * 16);
  Tile<kHead, kTensorRows>::fetch(queries, q, b, h, t0, call.T, call.D);
  passing.fetch(0, g, keys.first);
  RunningSoftmax<kHead> softmax;
  int turn = 0;
  for (int64_t s0 = keys.first; s0 < keys.last; s0 += kTensorColumns, ++turn) {
    passing.await();
    if (turn == 0) rows.keep();
    if (s0 + kTensorColumns < keys.last) passing.fetch(turn + 1, g, s0 + kTensorColumns);
    Scores score;
    Products::template scores<T>(score, rows, passing.first(turn));
    if (!keys.by_all(s0)) hide(score, mine, s0);
    softmax.exponentiate(score, scale);
    drop_by_query(score, call, line * call.T + t, s0);
    Products::template add<T, kHead>(softmax.sum, score, passing.second(turn));
  }
  wait_for_copies<0>();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float total = warp_reduce<4>(softmax.total[r], Sum());
    if (t + 8 * r >= call.T) continue;
    write_row<T, kHead>(out.place(b, h, t + 8 * r, 0), softmax.sum, r, total == 0 ? 0.0f : 1 / total, call.D);
    if (lane % 4 == 0) {
      lse[line * call.T + t + 8 * r] = total == 0 ? -std::numeric_limits<float>::infinity()
                                                  : (softmax.top[r] + std::log2(total)) * 0.6931471805599453f;
    }
  }
#endif
}

template <class T, int kHead, class Products>
void attention_tensor(const View& out, const View& lse, const View& q, const View& k, const View& v,
                      const AttentionCall& call) {
  const auto blocks = divided_up(call.T, kTensorRows) * q.shape[0] * call.H;
  const LaunchConfig config{
      dim3(static_cast<unsigned>(blocks)), dim3(kTensorThreads),
      Tile<kHead, kTensorRows>::kBytes + PassingTiles<T, kHead>::kBytes + kTileAlignment};
  launch(attention_tensor_kernel<T, kHead, Products>, config, Heads<T>(out), lse.as<float>(),
         Heads<const T>(q), Heads<const T>(k), Heads<const T>(v), call);
}

// False where the plain kernel has to do it.
template <class T>
bool attention_on_tensor_cores(const View& out, const View& lse, const View& q, const View& k, const View& v,
                               const AttentionCall& call) {
  return on_tensor_cores<256>(call, {&out, &q, &k, &v}, [&]<int kHead, class Products>() {
    attention_tensor<T, kHead, Products>(out, lse, q, k, v, call);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
