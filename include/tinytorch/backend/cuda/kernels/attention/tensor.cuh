// Attention of 16-bit operands on tensor cores, forward (contract: backend/cpu/attention.hpp).
//
// A block has 128 queries of one head and processes keys and values in tiles of 64. Online softmax (a
// running maximum and sum per query) avoids storing the matrix of probabilities. Limit: FLOPs of the tensor
// cores, and for short heads the throughput of 2^x.
// Source: Dao, "FlashAttention-2: Faster attention with better parallelism and work partitioning", 2023.
#pragma once

#include <tinytorch/backend/cuda/kernels/attention/tiles.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Online softmax state of a lane's two queries.
template <int kHead>
struct RunningSoftmax {
  RowSums<kHead> sum;    // sum of 2^(score - running_max) value
  float running_max[2];  // approximate maximum
  float running_sum[2];  // sum of 2^(score - running_max) over this lane's keys
  // The sums are rescaled only if the maximum grows by more than this exponent of 2, which is rare. Terms of
  // up to 2^8 overflow neither the float sums nor 16-bit probabilities.
  static constexpr float kRescaleThreshold = 8;

  __device__ __forceinline__ RunningSoftmax() {
    clear(sum);
#pragma unroll
    for (int r = 0; r < 2; ++r) running_max[r] = -std::numeric_limits<float>::infinity(), running_sum[r] = 0;
  }
  // Updates the state by a tile: score = 2^(scale score - running_max) with the new maximum. The caller must
  // then call rescale(factor).
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
      const float now = highest[r] > running_max[r] + kRescaleThreshold ? highest[r] : running_max[r];
      shift[r] = now == -std::numeric_limits<float>::infinity() ? 0.0f : now;
      factor[r] = exp2_approx(running_max[r] - shift[r]);
      running_max[r] = now;
    }
#pragma unroll
    for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[n][i] = exp2_approx(fmaf(score[n][i], scale, -shift[i / 2]));
#pragma unroll
      for (int r = 0; r < 2; ++r) added[r] += score[n][2 * r] + score[n][2 * r + 1];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) running_sum[r] = running_sum[r] * factor[r] + added[r];
  }
  // Returns in factor the reciprocal of the running sum, and writes lse of the lane's queries `row` and row
  // + 8 of the head.
  __device__ __forceinline__ void finish(float (&factor)[2], float* lse, int row, int end) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float all = warp_reduce<4>(running_sum[r], Sum());
      factor[r] = all == 0 ? 0.0f : 1 / all;
      if (threadIdx.x % 4 != 0 || row + 8 * r >= end) continue;
      lse[row + 8 * r] = all == 0 ? -std::numeric_limits<float>::infinity()
                                  : (running_max[r] + std::log2(all)) * std::numbers::ln2_v<float>;
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
inline constexpr bool kQueriesInRegisters = kHead <= 128;

template <class T, int kHead, class Products, bool kDropout>
static __global__ void __launch_bounds__(kTensorThreads, kHead <= 64 ? 2 : 1)
    attention_tensor_kernel(Heads<T> out, float* lse, Heads<const T> q, Heads<const T> k, Heads<const T> v,
                            const __grid_constant__ AttentionCall call) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  const int query_count = static_cast<int>(call.T), D = static_cast<int>(call.D);
  const TensorBlock at(call.T, call.H, true);  // the last queries see the most keys: they start first
  const unsigned queries = aligned_shared_memory();
  using Source = RowSource<T, kHead>;
  using Pipeline = TilePipeline<T, kHead, kPipelineStages<Products, kHead>>;
  constexpr int kPrefetch = Pipeline::kPrefetch, kStep = kTensorColumns;
  __shared__ uint64_t mbarrier;
  Source(q, at.batch, at.head, D).template fetch<kTensorRows>(queries, at.first, query_count);
  const SeenColumns keys(at, call.T, call.keys_of(at.batch));
  const int line = at.batch * static_cast<int>(call.H) + at.head,
            group = static_cast<int>(call.group_of(at.head));
  const Pipeline pipeline{queries + Tile<kHead, kTensorRows>::kBytes, Source(k, at.batch, group, D),
                          Source(v, at.batch, group, D), keys.last, PipelinedBarrier(&mbarrier)};
  // A tile's scores are computed one iteration before its values are used, so values may arrive later.
  for (int i = 0; i < kPrefetch; ++i) pipeline.fetch_first(static_cast<unsigned>(i), keys.first + i * kStep);
  if (kPrefetch == 2) pipeline.fetch_second(0, keys.first);
  OperandA<kHead, kQueriesInRegisters<kHead>> rows(queries);
  RunningSoftmax<kHead> softmax;
  PackedScores probabilities{};
  const auto exponentiate = [&](Scores& score, int s0, float(&factor)[2]) {
    if (!keys.seen_by_all(s0)) mask_scores(score, keys, s0);
    softmax.exponentiate(score, call.exponent_scale(), factor);
    if constexpr (kDropout) apply_query_dropout(score, call, line * call.T + at.row, s0);
  };
  // A tile's softmax overlaps with the product of the previous tile's probabilities and values.
  unsigned tile = 0;
  const int last = keys.end_for_group(Pipeline::kSplitBarrier);
  for (int s0 = keys.first; s0 < last; s0 += kStep, ++tile) {
    pipeline.wait(tile);
    if (tile == 0) rows.load_registers();
    const int next = s0 + kPrefetch * kStep;
    if (next < keys.last) pipeline.fetch_first(tile + kPrefetch, next);
    if (next - kStep < keys.last) pipeline.fetch_second(tile + kPrefetch - 1, next - kStep);
    Scores score;
    float factor[2];
    Products::template scores<T>(score, rows, pipeline.first(tile));
    if (tile > 0) Products::template add<T, kHead>(softmax.sum, probabilities, pipeline.second(tile - 1));
    tile > 0 ? Products::template wait<1>(score) : Products::template wait<0>(score);
    exponentiate(score, s0, factor);
    Products::template wait<0>(softmax.sum);
    softmax.rescale(factor);
    probabilities = pack_scores<T>(score);
  }
  if (tile > 0) {
    pipeline.wait(tile);
    Products::template add<T, kHead>(softmax.sum, probabilities, pipeline.second(tile - 1));
    Products::template wait<0>(softmax.sum);
  }
  wait_for_copies<0>();
  float factor[2];
  softmax.finish(factor, lse + line * call.T, at.row, query_count);
  write_rows<T, kHead>(out, at, query_count, D, softmax.sum, factor);
#endif
}

// Returns false if a block has too little shared memory.
template <class T, int kHead, class Products, bool kDropout>
bool attention_tensor(const View& out, const View& lse, const View& q, const View& k, const View& v,
                      const AttentionCall& call) {
  using Pipeline = TilePipeline<T, kHead, kPipelineStages<Products, kHead>>;
  const auto blocks = ceil_div(call.T, kTensorRows) * q.shape[0] * call.H;
  const LaunchConfig config{dim3(static_cast<unsigned>(blocks)), dim3(kTensorThreads),
                            Tile<kHead, kTensorRows>::kBytes + Pipeline::kBytes + kTileAlignment};
  if (!fits_shared_memory(config)) return false;
  launch(attention_tensor_kernel<T, kHead, Products, kDropout>, config, Heads<T>(out), lse.as<float>(),
         Heads<const T>(q), Heads<const T>(k), Heads<const T>(v), call);
  return true;
}

// Returns false if the kernel for any device must be used.
template <class T>
bool attention_on_tensor_cores(const View& out, const View& lse, const View& q, const View& k, const View& v,
                               const AttentionCall& call) {
  return on_tensor_cores<256>(call, {&out, &q, &k, &v}, [&]<int kHead, class Products, bool kDropout>() {
    return attention_tensor<T, kHead, Products, kDropout>(out, lse, q, k, v, call);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
