// Attention of a few new tokens to one split of a cache's tokens, on tensor cores: a block of four warps for
// queries and caches of 16 bits or less. It may append the step's own tokens before it reads them. The sums
// of splits are added in attention_decode/paged_sums.cuh and paged_merge.cuh.
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

#include <tinytorch/backend/cuda/kernels/attention_decode/paged_queries.cuh>
#include <tinytorch/backend/cuda/kernels/attention_decode/paged_sums.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// An operand a that takes back the offset of the values of i4. It comes from shared memory: the compiler
// would write a constant to registers before each product.
template <class Plan>
struct ValueOffset {
  unsigned pairs[Plan::kInt4 ? 4 : 1] = {};
  static __device__ __forceinline__ void write([[maybe_unused]] unsigned char* memory) {
    if constexpr (Plan::kInt4) {
      if (threadIdx.x < 4) at(memory)[threadIdx.x] = KvPairs<Int4>::kMinusOffset;
    }
  }
  explicit __device__ __forceinline__ ValueOffset([[maybe_unused]] unsigned char* memory) {
    if constexpr (Plan::kInt4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) pairs[i] = at(memory)[i];
    }
  }

 private:
  static __device__ __forceinline__ volatile unsigned* at(unsigned char* memory) {
    return reinterpret_cast<volatile unsigned*>(memory + Plan::kValueOffsetAt);
  }
};

// The work of a warp on a tile in shared memory. Keys and values are the operand a of the products, in
// registers as ldmatrix gives them, and query rows are the columns.
template <class Plan>
struct DecodeTile {
  using T = typename Plan::T;
  using Score = float[Plan::kTiles][Plan::kTokenTiles][4];
  struct Probabilities {  // of 16 tokens
    unsigned word[Plan::kTiles][Plan::kProbabilityParts][2];
  };
  static constexpr int kChunks = static_cast<int>(Plan::kChunks);
  unsigned keys, values;                           // shared addresses
  const unsigned char *key_scales, *value_scales;  // in shared memory
  const ValueOffset<Plan>& offset;

  // score = keys queries^T
  __device__ __forceinline__ void scores(Score& score, const DecodeQueries<Plan>& queries) const {
    const unsigned lane = threadIdx.x % kWarp, first = keys + Plan::offset(lane % 16, lane / 16);
#pragma unroll
    for (int t = 0; t < Plan::kTokenTiles; ++t) {
      const DecodeScales<Plan> scale(scales(key_scales, t));
      if constexpr (Plan::kOffsets == 1) queries.start(score, t, 0);
#pragma unroll
      for (int c = 0; c < kChunks; c += 2) {
        unsigned word[4];
        load_matrices(word, Plan::moved(first, static_cast<unsigned>(t) * 16, static_cast<unsigned>(c)));
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
    const unsigned lane = threadIdx.x % kWarp,
                   first = values + Plan::offset(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (int t = 0; t < Plan::kTokenTiles; ++t) {
      Probabilities b;
      pack(b, p, t, scales(value_scales, t));
      [[maybe_unused]] const DecodeScalePairs<Plan> pairs(scales(value_scales, t));
#pragma unroll
      for (int c = 0; c < kChunks; c += 2) {
        unsigned word[4];
        load_transposed(word, Plan::moved(first, static_cast<unsigned>(t) * 16, static_cast<unsigned>(c)));
        if constexpr (Plan::kIs16) {
          add(state, c / 2, word, b);
        } else {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            if constexpr (Plan::kInt4)
              add_narrow_values(state, c + half, word[half], word[2 + half], scaled(b, pairs, c + half));
            else
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
    constexpr int kPairs = KvHalves<typename Plan::K>::kPairs;
    unsigned first[kPairs], second[kPairs];
    KvHalves<typename Plan::K>::widen(first, low);
    KvHalves<typename Plan::K>::widen(second, high);
    [[maybe_unused]] Score part;
    if constexpr (Plan::kInt4) queries.start(part, t, c);
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
  __device__ __forceinline__ void add_narrow_values(DecodeState<Plan> (&state)[Plan::kTiles], int c,
                                                    unsigned low, unsigned high,
                                                    const Probabilities& b) const {
    using Pairs = KvPairs<typename Plan::K>;
    constexpr int kPairs = Pairs::kPairs;
    unsigned first[kPairs], second[kPairs];
    Pairs::widen(first, low);
    Pairs::widen(second, high);
#pragma unroll
    for (int i = 0; i < kPairs / 2; ++i) {
      const unsigned a[4] = {first[2 * i], first[2 * i + 1], second[2 * i], second[2 * i + 1]};
      add(state, c * kPairs / 2 + i, a, b);
      if constexpr (Plan::kInt4) {
        add(state, c * kPairs / 2 + i, offset.pairs, b);
      } else if constexpr (Pairs::kHasOffsets) {
        const unsigned minus[4] = {Pairs::minus_offset(low, 2 * i), Pairs::minus_offset(low, 2 * i + 1),
                                   Pairs::minus_offset(high, 2 * i), Pairs::minus_offset(high, 2 * i + 1)};
        add(state, c * kPairs / 2 + i, minus, b);
      }
    }
  }
  // Probabilities as operands, multiplied by the scales of the values if a token has one.
  static __device__ __forceinline__ void pack(Probabilities& b, const Score& p, int t,
                                              const unsigned char* value_scales) {
    [[maybe_unused]] const DecodeScales<Plan> scale(value_scales);
#pragma unroll
    for (int m = 0; m < Plan::kTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float x[2] = {p[m][t][2 * i], p[m][t][2 * i + 1]};
        if constexpr (Plan::kIs8) x[0] = __fmul_rn(x[0], scale(i, 0)), x[1] = __fmul_rn(x[1], scale(i, 0));
#pragma unroll
        for (int part = 0; part < Plan::kProbabilityParts; ++part) {
          const unsigned pair = pack_pair<T>(x[0], x[1]);
          b.word[m][part][i] = transpose_matrix(pair);
          if (part + 1 == Plan::kProbabilityParts) break;
          x[0] -= cuda::to<float>(std::bit_cast<T>(static_cast<uint16_t>(pair)));
          x[1] -= cuda::to<float>(std::bit_cast<T>(static_cast<uint16_t>(pair >> 16)));
        }
      }
    }
  }
  // Operands multiplied by the scales of group c of i4. The product of two numbers of 16 bits is the sum of
  // two, of which the second is added to the second part.
  static __device__ __forceinline__ Probabilities scaled(const Probabilities& b,
                                                         const DecodeScalePairs<Plan>& pairs, int c) {
    Probabilities out;
#pragma unroll
    for (int m = 0; m < Plan::kTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const unsigned scale = pairs(i, c), first = multiply_pair(b.word[m][0][i], scale);
        out.word[m][0][i] = first;
        if constexpr (Plan::kProbabilityParts > 1) {
          const unsigned rest = multiply_add_pair(b.word[m][0][i], scale, first ^ kMinusPair);
          out.word[m][1][i] = multiply_add_pair(b.word[m][1][i], scale, rest);
        }
      }
    }
    return out;
  }
  // sum j [16, 8] += a [16 columns of the head, 16 tokens] b
  static __device__ __forceinline__ void add(DecodeState<Plan> (&state)[Plan::kTiles], int j,
                                             const unsigned (&a)[4], const Probabilities& b) {
#pragma unroll
    for (int m = 0; m < Plan::kTiles; ++m) {
#pragma unroll
      for (int part = 0; part < Plan::kProbabilityParts; ++part)
        multiply_add<T>(state[m].sum[j], a, b.word[m][part][0], b.word[m][part][1]);
    }
  }
};

// Scores become exponents of 2, and -infinity where the row does not see the token. `number` is the index of
// the tile's first token.
template <class Plan>
__device__ __forceinline__ void scale_and_mask(float (&score)[Plan::kTokenTiles][4], const DecodeSpan& at,
                                               const float (&scale)[2], int row_tile, int number,
                                               bool seen_by_all) {
#pragma unroll
  for (int i = 0; i < Plan::kTokenTiles * 4; ++i)
    score[i / 4][i % 4] = __fmul_rn(score[i / 4][i % 4], scale[i % 2]);
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

// The operands of a step. k and v: its own tokens, or null if they are in the cache already. A block appends
// those that it reads, so its rows must be all rows of its sequence (call.row_groups.each is 1).
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
  if (step.k.data) append_own_tokens<Plan>(step.k, step.v, kv, call, at);
  const Tiles tiles{kv, call, at, address, reinterpret_cast<unsigned*>(memory + Plan::kTokensAt)};
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
  const auto scale = static_cast<float>(call.scale);
  ValueOffset<Plan>::write(memory);
  DecodeQueries<Plan>::write(memory, step.q, kv, at, scale);
  const DecodeQueries<Plan> queries(memory);
  const ValueOffset<Plan> offset(memory);
  const int all_begin = max(at.begin, at.number_of(at.first(at.rows - 1))),
            all_end = min(at.end, at.number_of(at.last(0)));
  const RowPlace place{step.out, partial, kv, call, at};
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
                                 scales + Plan::kTileTokens * Plan::kScaleBytes, offset};
      const int number = at.origin + Tiles::local(tile);
      typename DecodeTile<Plan>::Score score = {};
      now.scores(score, queries);
#pragma unroll
      for (int m = 0; m < Plan::kTiles; ++m) {
        const float scales_of_rows[2] = {Plan::kIs16 ? scale : queries.factor(m, 0),
                                         Plan::kIs16 ? scale : queries.factor(m, 1)};
        scale_and_mask<Plan>(score[m], at, scales_of_rows, m, number,
                             number >= all_begin && number + Plan::kTileTokens <= all_end);
        state[m].exponentiate(score[m]);
      }
      now.add_values(state, score);
    }
    end_split<Plan>(memory, place, split, state);
  }
  wait_for_copies<0>();
  if (call.arrivals)
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
