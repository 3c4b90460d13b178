// Attention of a few new tokens to one split of a cache's tokens, on tensor cores: a block of four warps for
// queries and caches of 16 bits or less. It may append the step's own tokens before it reads them. The merge
// of the splits is in attention_decode/paged_merge.cuh.
//
// The rows of a product are the queries that share a head of keys, padded to 16. A warp computes its own
// tiles of 16 tokens (attention_decode/paged_tiles.cuh). Numbers of 8 and 4 bits become bf16 in registers;
// scales of keys multiply scores, those of values probabilities, which are rounded to 16 bits. Rows of a
// product do not mix, so bits depend neither on pages nor on other rows. But where rows of a step see
// different tokens, a value that is not finite gives NaN in all of them.
//
// Limit: bytes of the keys and values over bandwidth.
// Source: Dao et al., "Flash-Decoding for long-context inference", 2023.
#pragma once

#include <tinytorch/backend/cuda/kernels/attention_decode/paged_merge.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The online softmax of a warp's 16 query rows over its own tiles: a lane has rows lane / 4 and lane / 4 + 8.
template <class Plan>
struct DecodeState {
  static constexpr float kNone = -std::numeric_limits<float>::infinity();
  using T = typename Plan::T;
  float largest[2] = {kNone, kNone}, weight[2] = {}, sum[Plan::kHead / 8][4] = {};

  // score: exponents of 2, -infinity where the row does not see the token. They become 2^(score - largest).
  __device__ __forceinline__ void exponentiate(float (&score)[2][4]) {
    float factor[2], shift[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float top = largest[r];
#pragma unroll
      for (int n = 0; n < 2; ++n) top = fmaxf(top, fmaxf(score[n][2 * r], score[n][2 * r + 1]));
      top = fmaxf(top, shuffle_xor(top, 1));
      top = fmaxf(top, shuffle_xor(top, 2));
      shift[r] = top == kNone ? 0.0f : top;  // 2^-infinity is 0
      factor[r] = top == largest[r] ? 1.0f : exp2_approx(largest[r] - shift[r]);
      largest[r] = top;
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[n][i] = exp2_approx(score[n][i] - shift[i / 2]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      weight[r] = weight[r] * factor[r] +
                  ((score[0][2 * r] + score[0][2 * r + 1]) + (score[1][2 * r] + score[1][2 * r + 1]));
    }
    if (!__any_sync(kAllLanes, factor[0] != 1 || factor[1] != 1)) return;
#pragma unroll
    for (float(&tile)[4] : sum) {
#pragma unroll
      for (int i = 0; i < 4; ++i) tile[i] *= factor[i / 2];
    }
  }
};

// The scales of a tile's tokens: this lane's of tokens 8 n + 2 t + i, for lane t of four.
template <class Plan>
struct DecodeScales {
  static constexpr int kWords = Plan::kIs16 ? 1 : static_cast<int>(Plan::kScaleBytes) / 4;
  unsigned word[2][2][kWords];

  explicit __device__ __forceinline__ DecodeScales([[maybe_unused]] const unsigned char* from) {
    if constexpr (!Plan::kIs16) {
#pragma unroll
      for (int i = 0; i < 4 * kWords; ++i) {
        const unsigned token =
            static_cast<unsigned>(i / kWords / 2 * 8 + i / kWords % 2) + threadIdx.x % 4 * 2;
        word[i / kWords / 2][i / kWords % 2][i % kWords] =
            reinterpret_cast<const unsigned*>(from + token * Plan::kScaleBytes)[i % kWords];
      }
    }
  }
  // The scale of a row's numbers; of a row of i4, that of group `group`.
  __device__ __forceinline__ float operator()(int n, int i, int group) const {
    const unsigned x = word[n][i][Plan::kInt4 ? group / 2 : 0];
    return std::bit_cast<float>(!Plan::kInt4 ? x : group % 2 ? x & 0xffff0000u : x << 16);
  }
};

// The work of a warp on a tile in shared memory.
template <class Plan>
struct DecodeTile {
  using T = typename Plan::T;
  using Score = float[Plan::kTiles][2][4];
  static constexpr int kParts = Plan::kProbabilityParts;
  unsigned keys, values;                           // shared addresses
  const unsigned char *key_scales, *value_scales;  // in shared memory

  // score = queries keys^T
  __device__ __forceinline__ void scores(Score& score, const DecodeQueries<Plan>& queries) const {
    const unsigned lane = threadIdx.x % kWarp, token = lane % 8 + lane / 16 * 8;
    const DecodeScales<Plan> scale(key_scales);
#pragma unroll
    for (int c = 0; c < static_cast<int>(Plan::kChunks); c += 2) {
      unsigned word[4];
      load_matrices(word, keys + Plan::offset(token, static_cast<unsigned>(c) + lane / 8 % 2));
      if constexpr (Plan::kIs16) {
        queries.multiply(score, 0, c / 2, word[0], word[1]);
        queries.multiply(score, 1, c / 2, word[2], word[3]);
      } else {
#pragma unroll
        for (int half = 0; half < 2; ++half)
          add_narrow(score, queries, scale, c + half, word[half], word[2 + half]);
      }
    }
    if constexpr (Plan::kIs8) {
#pragma unroll
      for (int i = 0; i < Plan::kTiles * 8; ++i) score[i / 8][i / 4 % 2][i % 4] *= scale(i / 4 % 2, i % 2, 0);
    }
  }
  // sum += probabilities values
  __device__ __forceinline__ void add_values(DecodeState<Plan> (&state)[Plan::kTiles], const Score& p) const {
    const unsigned lane = threadIdx.x % kWarp;
    constexpr int kStep = Plan::kInt4 ? 1 : static_cast<int>(Plan::kChunks);  // chunks with the same scales
    unsigned a[Plan::kTiles][kParts][4];
    const DecodeScales<Plan> scale(value_scales);
#pragma unroll
    for (int c = 0; c < static_cast<int>(Plan::kChunks); c += 2) {
      unsigned word[4];
      load_transposed(word, values + Plan::offset(lane % 16, static_cast<unsigned>(c) + lane / 16));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if ((c + half) % kStep == 0) pack(a, p, scale, c + half);
        if constexpr (Plan::kIs16) {
          add(state, c + half, a, word[2 * half], word[2 * half + 1]);
        } else {
          constexpr int kPairs = KvPairs<typename Plan::K>::kPairs;
          unsigned low[kPairs], high[kPairs];
          KvPairs<typename Plan::K>::widen(low, word[2 * half]);
          KvPairs<typename Plan::K>::widen(high, word[2 * half + 1]);
#pragma unroll
          for (int j = 0; j < kPairs; ++j) add(state, (c + half) * kPairs + j, a, low[j], high[j]);
        }
      }
    }
  }

 private:
  // The part of the scores that chunk c of the keys has: `low` of tokens 0 to 7, `high` of tokens 8 to 15.
  static __device__ __forceinline__ void add_narrow(Score& score, const DecodeQueries<Plan>& queries,
                                                    const DecodeScales<Plan>& scale, int c, unsigned low,
                                                    unsigned high) {
    constexpr int kPairs = KvPairs<typename Plan::K>::kPairs;
    unsigned first[kPairs], second[kPairs];
    KvPairs<typename Plan::K>::widen(first, low);
    KvPairs<typename Plan::K>::widen(second, high);
    if constexpr (Plan::kInt4) {
      Score part = {};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        queries.multiply(part, 0, 2 * c + i, first[2 * i], first[2 * i + 1]);
        queries.multiply(part, 1, 2 * c + i, second[2 * i], second[2 * i + 1]);
      }
#pragma unroll
      for (int i = 0; i < Plan::kTiles * 8; ++i) {
        float& sum = score[i / 8][i / 4 % 2][i % 4];
        sum = fmaf(part[i / 8][i / 4 % 2][i % 4], scale(i / 4 % 2, i % 2, c), sum);
      }
    } else {
      queries.multiply(score, 0, c, first[0], first[1]);
      queries.multiply(score, 1, c, second[0], second[1]);
    }
  }
  // Probabilities as operands, multiplied by the scales of the values.
  static __device__ __forceinline__ void pack(unsigned (&a)[Plan::kTiles][kParts][4], const Score& p,
                                              [[maybe_unused]] const DecodeScales<Plan>& scale, int c) {
#pragma unroll
    for (int m = 0; m < Plan::kTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float x[2] = {p[m][i / 2][i % 2 * 2], p[m][i / 2][i % 2 * 2 + 1]};
        if constexpr (!Plan::kIs16) x[0] *= scale(i / 2, 0, c), x[1] *= scale(i / 2, 1, c);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          a[m][part][i] = pack_pair<T>(x[0], x[1]);
          if (part + 1 == kParts) break;
          x[0] -= cuda::to<float>(std::bit_cast<T>(static_cast<uint16_t>(a[m][part][i])));
          x[1] -= cuda::to<float>(std::bit_cast<T>(static_cast<uint16_t>(a[m][part][i] >> 16)));
        }
      }
    }
  }
  static __device__ __forceinline__ void add(DecodeState<Plan> (&state)[Plan::kTiles], int j,
                                             const unsigned (&a)[Plan::kTiles][kParts][4], unsigned b0,
                                             unsigned b1) {
#pragma unroll
    for (int m = 0; m < Plan::kTiles; ++m) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) multiply_add<T>(state[m].sum[j], a[m][part], b0, b1);
    }
  }
};

// Scores become exponents of 2, and -infinity where the row does not see the token. `number` is the index of
// the tile's first token.
template <class Plan>
__device__ __forceinline__ void scale_and_mask(float (&score)[2][4], const DecodeSpan& at, float scale,
                                               int row_tile, int number, bool seen_by_all) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) score[n][i] *= scale;
  }
  if (seen_by_all) return;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = row_tile * 16 + static_cast<int>(threadIdx.x) % kWarp / 4 + 8 * r,
              column = number + static_cast<int>(threadIdx.x) % 4 * 2;
    const int low = max(at.begin, at.number_of(at.first(row))) - column,
              high = min(at.end, at.number_of(at.last(row))) - column;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (n * 8 + i < low || n * 8 + i >= high)
          score[n][2 * r + i] = -std::numeric_limits<float>::infinity();
      }
    }
  }
}

// Writes this warp's sums of rows [begin, end) to shared memory, where the warps meet.
template <class Plan>
__device__ __forceinline__ void meet(float* meeting, int begin, int end,
                                     const DecodeState<Plan> (&state)[Plan::kTiles]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  constexpr int kStride = Plan::kMeetingStride;
#pragma unroll
  for (int m = 0; m < Plan::kTiles; ++m) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float weight = warp_reduce<4>(state[m].weight[r], Sum());
      const int row = m * 16 + lane / 4 + 8 * r;
      if (row < begin || row >= end) continue;
      float* const to = meeting + (warp * Plan::kMeetingRows + row - begin) * kStride;
      if (lane % 4 == 0) to[Plan::kHead] = state[m].largest[r], to[Plan::kHead + 1] = weight;
#pragma unroll
      for (int j = 0; j < Plan::kHead / 8; j += 2) {
        const float(&x)[4] = state[m].sum[j], (&y)[4] = state[m].sum[j + 1];
        if constexpr (Plan::kIs16) {
          *reinterpret_cast<float2*>(to + Plan::column(j, lane % 4 * 2)) = {x[2 * r], x[2 * r + 1]};
          *reinterpret_cast<float2*>(to + Plan::column(j + 1, lane % 4 * 2)) = {y[2 * r], y[2 * r + 1]};
        } else {
          *reinterpret_cast<float4*>(to + Plan::column(j, lane % 4 * 2)) = {x[2 * r], y[2 * r], x[2 * r + 1],
                                                                            y[2 * r + 1]};
        }
      }
    }
  }
}

// Writes the block's sums of row r of a split, those of its warps in their order, to the result or to
// partial. `meeting` has the row's sums of the first warp.
template <class Plan>
__device__ __forceinline__ void write_sums(const float* meeting, float* partial, const StepRows<float>& out,
                                           const KvView& kv, const DecodeCall& call, const DecodeSpan& at,
                                           int split, int r) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  constexpr int kNext = Plan::kMeetingRows * Plan::kMeetingStride;  // from a warp's sums to the next one's
  float top = DecodeState<Plan>::kNone, weight = 0, factor[Plan::kWarps];
#pragma unroll
  for (int w = 0; w < Plan::kWarps; ++w) top = fmaxf(top, meeting[w * kNext + Plan::kHead]);
  const float shift = top == DecodeState<Plan>::kNone ? 0.0f : top;
#pragma unroll
  for (int w = 0; w < Plan::kWarps; ++w) {
    const float* const its = meeting + w * kNext + Plan::kHead;
    factor[w] = exp2_approx(its[0] - shift);
    weight += factor[w] * its[1];
  }
  const int64_t n = at.row(r), h = at.head(r), line = (n * kv.groups * at.shared + h) * call.splits + split;
  float* const to = partial + line * (kPartialHead + kv.head_size);
  if (call.splits > 1 && lane == 0) to[0] = top, to[1] = weight;
#pragma unroll
  for (int d = lane; d < Plan::kHead; d += kWarp) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < Plan::kWarps; ++w) sum += factor[w] * meeting[w * kNext + d];
    if (d >= kv.head_size) continue;
    if (call.splits > 1)
      to[kPartialHead + d] = sum;
    else
      out.write(n * out.row + h * out.head + d * out.col, weight == 0 ? 0.0f : sum / weight);
  }
}

// Writes the block's sums of a split, some rows at a time. All threads of the block call it.
template <class Plan>
__device__ __forceinline__ void write_split(float* meeting, float* partial, const StepRows<float>& out,
                                            const KvView& kv, const DecodeCall& call, const DecodeSpan& at,
                                            int split, const DecodeState<Plan> (&state)[Plan::kTiles]) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int row = 0; row < at.rows; row += Plan::kMeetingRows) {
    __syncthreads();  // no warp reads what lies there any more
    meet<Plan>(meeting, row, min(row + Plan::kMeetingRows, at.rows), state);
    __syncthreads();
    if (warp < Plan::kMeetingRows && row + warp < at.rows)
      write_sums<Plan>(meeting + warp * Plan::kMeetingStride, partial, out, kv, call, at, split, row + warp);
  }
}

// The operands of a step. k and v: its own tokens, or null if they are in the cache already. A block appends
// those that it reads, so its rows must be all rows of the step (call.row_groups is 1).
struct DecodeStepRows {
  StepRows<float> out, q, k, v;
};

// Attention of the block's rows to the splits of a span. The copies of the next split's tiles are on the way
// while the warps meet at the end of a split.
template <class Plan>
__device__ __forceinline__ void attend_to_span(float* partial, const DecodeStepRows& step, const KvView& kv,
                                               const DecodeCall& call, const DecodeSpan& at) {
  if (!at.exists()) return;
  using Tiles = DecodeTiles<Plan>;
  auto* const memory = dynamic_shared<unsigned char>();
  const unsigned address = shared_address(memory);
  auto* const rows = reinterpret_cast<unsigned*>(memory + Plan::kTokensAt);
  if (step.k.data) append_own_tokens<Plan>(step.k, step.v, kv, at);
  const Tiles tiles{kv, at, address, rows};
  constexpr int kAhead = Plan::kStages - 1;
  const int first = tiles.first(), last = tiles.last();
  int looked_up = -1;
  const auto fetch = [&](int tile) {
    if (tile < last) {
      if (const int part = tile / Tiles::kTilesOfPart; part != looked_up) tiles.look_up(looked_up = part);
      tiles.fetch(tile);
    }
    commit_copies();
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) fetch(first + i);
  DecodeQueries<Plan>::write(memory + Plan::kQueriesAt, step.q, kv, at);
  const DecodeQueries<Plan> queries(address + Plan::kQueriesAt);
  const int all_begin = max(at.begin, at.number_of(at.first(at.rows - 1))),
            all_end = min(at.end, at.number_of(at.last(0)));
  auto* const meeting = reinterpret_cast<float*>(memory + Plan::kMeetingAt);
  for (int tile = first, split = at.split; split < at.split_end; ++split) {
    DecodeState<Plan> state[Plan::kTiles];
    const int stop = min(last, (begin_of_split(split + 1, Plan::kSplit) - at.origin) / Tiles::kEvery);
    for (; tile < stop; ++tile) {
      wait_for_copies<kAhead - 1>();
      __syncwarp();  // the tile has arrived for all lanes, and none reads the one before it any more
      fetch(tile + kAhead);
      const unsigned stage = tiles.stage(tile);
      const unsigned char* const scales = memory + (stage - address) + 2 * Plan::kPlaneBytes;
      const DecodeTile<Plan> now{stage, stage + Plan::kPlaneBytes, scales,
                                 scales + kTileTokens * Plan::kScaleBytes};
      const int number = at.origin + Tiles::local(tile);
      float score[Plan::kTiles][2][4] = {};
      now.scores(score, queries);
#pragma unroll
      for (int m = 0; m < Plan::kTiles; ++m) {
        scale_and_mask<Plan>(score[m], at, static_cast<float>(call.scale), m, number,
                             number >= all_begin && number + kTileTokens <= all_end);
        state[m].exponentiate(score[m]);
      }
      now.add_values(state, score);
    }
    write_split<Plan>(meeting, partial, step.out, kv, call, at, split, state);
  }
  wait_for_copies<0>();
  if (call.splits > 1 && call.arrivals)
    merge_if_last<Plan>(step.out, partial, kv, call, at,
                        *reinterpret_cast<MergeMemory<Plan::kHead>*>(memory));
}

// A block computes several spans in turn, so that all blocks are resident and may be launched early.
template <class Plan>
static __global__ void __launch_bounds__(kDecodeThreads, Plan::kBlocks)
    attention_paged_tensor_kernel(float* partial, const __grid_constant__ DecodeStepRows step,
                                  const __grid_constant__ KvView kv,
                                  const __grid_constant__ DecodeCall call) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  start_next_kernel();
  wait_for_previous_kernel();
  for (unsigned item = blockIdx.x; item < call.spans; item += gridDim.x) {
    if (item != blockIdx.x) __syncthreads();  // no thread reads the shared memory of the span before
    attend_to_span<Plan>(partial, step, kv, call, DecodeSpan(kv, call, item, Plan::kRows, Plan::kSplit));
  }
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
