// Attention of a few new tokens to one split of a cache's tokens, on tensor cores: a block of four warps for
// queries and caches of 16 bits or less. It may append the step's own tokens before it reads them. The merge
// of the splits is in attention_decode/paged_merge.cuh.
//
// The columns of a product are the queries that share a head of keys, padded to eight. A warp computes its
// own tiles of 16 or 32 tokens (attention_decode/paged_tiles.cuh). Numbers of 8 and 4 bits become bf16 in
// registers; scales of keys multiply scores, those of values probabilities, which are rounded to 16 bits.
// Columns of a product do not mix, so bits depend neither on pages nor on other rows. But where rows of a
// step see different tokens, a value that is not finite gives NaN in all of them.
//
// Limit: bytes of the keys and values over bandwidth.
// Source: Dao et al., "Flash-Decoding for long-context inference", 2023.
#pragma once

#include <tinytorch/backend/cuda/kernels/attention_decode/paged_merge.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The online softmax of eight query rows over a warp's own tiles: lane l has rows l % 4 * 2 and the next, of
// scores those of tokens l / 4 and l / 4 + 8 of 16, of sums columns of the head likewise.
template <class Plan>
struct DecodeState {
  static constexpr float kNone = -std::numeric_limits<float>::infinity();
  static constexpr float kSlack = 8;
  static constexpr int kScores = Plan::kTokenTiles * 4;
  float base[2] = {kNone, kNone}, weight[2] = {}, sum[Plan::kHead / 16][4] = {};

  // score: exponents of 2, -infinity where the row does not see the token. They become 2^(score - base). The
  // base of a row rises only if a score is larger by kSlack, which is rare, so that most tiles need neither
  // shuffles nor new sums. It depends on no other row.
  __device__ __forceinline__ void exponentiate(float (&score)[Plan::kTokenTiles][4]) {
    float top[2] = {kNone, kNone};
#pragma unroll
    for (int i = 0; i < kScores; ++i) top[i % 2] = fmaxf(top[i % 2], score[i / 4][i % 4]);
    if (__any_sync(kAllLanes, top[0] > base[0] + kSlack || top[1] > base[1] + kSlack)) rise(top);
    float shift[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) shift[r] = base[r] == kNone ? 0.0f : base[r];  // 2^-infinity is 0
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      float& x = score[i / 4][i % 4];
      x = exp2_approx(x - shift[i % 2]);
      weight[i % 2] += x;
    }
  }

 private:
  // top: the largest scores of this lane.
  __device__ __forceinline__ void rise(float (&top)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int step = 4; step < kWarp; step *= 2) top[r] = fmaxf(top[r], shuffle_xor(top[r], step));
      const float next = top[r] > base[r] + kSlack ? top[r] : base[r],
                  factor = next == base[r] ? 1.0f : exp2_approx(base[r] - next);
      base[r] = next;
      weight[r] *= factor;
#pragma unroll
      for (int j = 0; j < Plan::kHead / 16; ++j) sum[j][r] *= factor, sum[j][r + 2] *= factor;
    }
  }
};

// The work of a warp on a tile in shared memory. Keys and values are the operand a of the products, in
// registers as ldmatrix gives them, and query rows are the columns.
template <class Plan>
struct DecodeTile {
  using T = typename Plan::T;
  using Score = float[Plan::kTiles][Plan::kTokenTiles][4];
  using Probabilities = unsigned[Plan::kTiles][Plan::kProbabilityParts][2];  // of 16 tokens
  static constexpr int kChunks = static_cast<int>(Plan::kChunks);
  unsigned keys, values;                           // shared addresses
  const unsigned char *key_scales, *value_scales;  // in shared memory

  // score = keys queries^T
  __device__ __forceinline__ void scores(Score& score, const DecodeQueries<Plan>& queries) const {
    const unsigned lane = threadIdx.x % kWarp;
#pragma unroll
    for (int t = 0; t < Plan::kTokenTiles; ++t) {
      const DecodeScales<Plan> scale(scales(key_scales, t));
#pragma unroll
      for (int c = 0; c < kChunks; c += 2) {
        unsigned word[4];
        load_matrices(word, keys + Plan::offset(static_cast<unsigned>(t) * 16 + lane % 16,
                                                static_cast<unsigned>(c) + lane / 16));
        if constexpr (Plan::kIs16) {
          queries.multiply(score, t, c / 2, word);
        } else {
          add_narrow(score, t, queries, scale, c, word[0], word[1]);
          add_narrow(score, t, queries, scale, c + 1, word[2], word[3]);
        }
      }
      if constexpr (Plan::kIs8) {
#pragma unroll
        for (int i = 0; i < Plan::kTiles * 4; ++i) {
          float& x = score[i / 4][t][i % 4];
          x = __fmul_rn(x, scale(i % 4 / 2, 0));
        }
      }
    }
  }
  // sum += values^T probabilities^T
  __device__ __forceinline__ void add_values(DecodeState<Plan> (&state)[Plan::kTiles], const Score& p) const {
    const unsigned lane = threadIdx.x % kWarp;
#pragma unroll
    for (int t = 0; t < Plan::kTokenTiles; ++t) {
      const DecodeScales<Plan> scale(scales(value_scales, t));
      Probabilities b;
      if constexpr (!Plan::kInt4) pack(b, p, t, scale, 0);
#pragma unroll
      for (int c = 0; c < kChunks; c += 2) {
        unsigned word[4];
        load_transposed(word, values + Plan::offset(static_cast<unsigned>(t) * 16 + lane % 8 + lane / 16 * 8,
                                                    static_cast<unsigned>(c) + lane / 8 % 2));
        if constexpr (Plan::kIs16) {
          add(state, c / 2, word, b);
        } else {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            if constexpr (Plan::kInt4) pack(b, p, t, scale, c + half);
            add_narrow_values(state, c + half, word[half], word[2 + half], b);
          }
        }
      }
    }
  }

 private:
  // Those of tokens 16 t to 16 t + 15.
  static __device__ __forceinline__ const unsigned char* scales(const unsigned char* all, int t) {
    return all + static_cast<unsigned>(t) * 16 * Plan::kScaleBytes;
  }
  // The part of the scores that chunk c of the keys has: `low` of tokens 0 to 7, `high` of tokens 8 to 15.
  static __device__ __forceinline__ void add_narrow(Score& score, int t, const DecodeQueries<Plan>& queries,
                                                    const DecodeScales<Plan>& scale, int c, unsigned low,
                                                    unsigned high) {
    constexpr int kPairs = KvPairs<typename Plan::K>::kPairs;
    unsigned first[kPairs], second[kPairs];
    KvPairs<typename Plan::K>::widen(first, low);
    KvPairs<typename Plan::K>::widen(second, high);
    [[maybe_unused]] Score part = {};
#pragma unroll
    for (int i = 0; i < kPairs / 2; ++i) {
      const unsigned a[4] = {first[2 * i], second[2 * i], first[2 * i + 1], second[2 * i + 1]};
      queries.multiply(Plan::kInt4 ? part : score, t, c * kPairs / 2 + i, a);
    }
    if constexpr (Plan::kInt4) {
#pragma unroll
      for (int i = 0; i < Plan::kTiles * 4; ++i) {
        float& sum = score[i / 4][t][i % 4];
        sum = fmaf(part[i / 4][t][i % 4], scale(i % 4 / 2, c), sum);
      }
    }
  }
  // The same chunk of the values.
  static __device__ __forceinline__ void add_narrow_values(DecodeState<Plan> (&state)[Plan::kTiles], int c,
                                                           unsigned low, unsigned high,
                                                           const Probabilities& b) {
    constexpr int kPairs = KvPairs<typename Plan::K>::kPairs;
    unsigned first[kPairs], second[kPairs];
    KvPairs<typename Plan::K>::widen(first, low);
    KvPairs<typename Plan::K>::widen(second, high);
#pragma unroll
    for (int i = 0; i < kPairs / 2; ++i) {
      const unsigned a[4] = {first[2 * i], first[2 * i + 1], second[2 * i], second[2 * i + 1]};
      add(state, c * kPairs / 2 + i, a, b);
    }
  }
  // Probabilities as operands, multiplied by the scales of the values.
  static __device__ __forceinline__ void pack(Probabilities& b, const Score& p, int t,
                                              [[maybe_unused]] const DecodeScales<Plan>& scale, int group) {
#pragma unroll
    for (int m = 0; m < Plan::kTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float x[2] = {p[m][t][2 * i], p[m][t][2 * i + 1]};
        if constexpr (!Plan::kIs16)
          x[0] = __fmul_rn(x[0], scale(i, group)), x[1] = __fmul_rn(x[1], scale(i, group));
#pragma unroll
        for (int part = 0; part < Plan::kProbabilityParts; ++part) {
          const unsigned pair = pack_pair<T>(x[0], x[1]);
          b[m][part][i] = transpose_matrix(pair);
          if (part + 1 == Plan::kProbabilityParts) break;
          x[0] -= cuda::to<float>(std::bit_cast<T>(static_cast<uint16_t>(pair)));
          x[1] -= cuda::to<float>(std::bit_cast<T>(static_cast<uint16_t>(pair >> 16)));
        }
      }
    }
  }
  // sum j [16, 8] += a [16 columns of the head, 16 tokens] b
  static __device__ __forceinline__ void add(DecodeState<Plan> (&state)[Plan::kTiles], int j,
                                             const unsigned (&a)[4], const Probabilities& b) {
#pragma unroll
    for (int m = 0; m < Plan::kTiles; ++m) {
#pragma unroll
      for (int part = 0; part < Plan::kProbabilityParts; ++part)
        multiply_add<T>(state[m].sum[j], a, b[m][part][0], b[m][part][1]);
    }
  }
};

// Scores become exponents of 2, and -infinity where the row does not see the token. `number` is the index of
// the tile's first token.
template <class Plan>
__device__ __forceinline__ void scale_and_mask(float (&score)[Plan::kTokenTiles][4], const DecodeSpan& at,
                                               float scale, int row_tile, int number, bool seen_by_all) {
#pragma unroll
  for (int i = 0; i < Plan::kTokenTiles * 4; ++i) score[i / 4][i % 4] = __fmul_rn(score[i / 4][i % 4], scale);
  if (seen_by_all) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, first = number + lane / 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = row_tile * 8 + lane % 4 * 2 + r, low = max(at.begin, at.number_of(at.first(row))) - first,
              high = min(at.end, at.number_of(at.last(row))) - first;
#pragma unroll
    for (int i = 0; i < Plan::kTokenTiles * 2; ++i) {  // tokens 8 i to 8 i + 7
      float& x = score[i / 2][i % 2 * 2 + r];
      x = 8 * i < low || 8 * i >= high ? -std::numeric_limits<float>::infinity() : x;
    }
  }
}

// Writes this warp's sums of rows [begin, end) to shared memory, where the warps meet.
template <class Plan>
__device__ __forceinline__ void meet(float* meeting, int begin, int end,
                                     const DecodeState<Plan> (&state)[Plan::kTiles]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
  for (int m = 0; m < Plan::kTiles; ++m) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float weight = state[m].weight[r];
#pragma unroll
      for (int step = 4; step < kWarp; step *= 2) weight += shuffle_xor(weight, step);
      const int row = m * 8 + lane % 4 * 2 + r;
      if (row < begin || row >= end) continue;
      float* const to = meeting + (warp * Plan::kMeetingRows + row - begin) * Plan::kMeetingStride;
      if (lane < 4) to[Plan::kHead] = state[m].base[r], to[Plan::kHead + 1] = weight;
#pragma unroll
      for (int j = 0; j < Plan::kHead / 16; ++j) {
        const float low = state[m].sum[j][r], high = state[m].sum[j][r + 2];
        if constexpr (Plan::kIs16) {
          to[j * 16 + lane / 4] = low, to[j * 16 + lane / 4 + 8] = high;
        } else {  // widened pairs have every second column
          *reinterpret_cast<float2*>(to + j * 16 + lane / 4 * 2) = {low, high};
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
    weight = fmaf(factor[w], its[1], weight);
  }
  const int64_t n = at.row(r), h = at.head(r), line = (n * kv.groups * at.shared + h) * call.splits + split;
  float* const to = partial + line * (kPartialHead + kv.head_size);
  if (call.splits > 1 && lane == 0) *reinterpret_cast<float2*>(to) = {top, weight};
#pragma unroll 1
  for (int d = 4 * lane; d < kv.head_size; d += 4 * kWarp) {
    float sum[4] = {};
#pragma unroll
    for (int w = 0; w < Plan::kWarps; ++w) {
      const float4 x = *reinterpret_cast<const float4*>(meeting + w * kNext + d);
      sum[0] = fmaf(factor[w], x.x, sum[0]), sum[1] = fmaf(factor[w], x.y, sum[1]);
      sum[2] = fmaf(factor[w], x.z, sum[2]), sum[3] = fmaf(factor[w], x.w, sum[3]);
    }
    if (call.splits > 1)
      *reinterpret_cast<float4*>(to + kPartialHead + d) = {sum[0], sum[1], sum[2], sum[3]};
    else
      write_average(out, n * out.row + h * out.head + d * out.col, sum, weight);
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
    if (row + warp < at.rows)
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
                                 scales + Plan::kTileTokens * Plan::kScaleBytes};
      const int number = at.origin + Tiles::local(tile);
      typename DecodeTile<Plan>::Score score = {};
      now.scores(score, queries);
#pragma unroll
      for (int m = 0; m < Plan::kTiles; ++m) {
        scale_and_mask<Plan>(score[m], at, static_cast<float>(call.scale), m, number,
                             number >= all_begin && number + Plan::kTileTokens <= all_end);
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
