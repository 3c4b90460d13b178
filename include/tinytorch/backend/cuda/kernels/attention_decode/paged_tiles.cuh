// Tiles of a cache for attention on tensor cores (attention_decode/paged_tensor.cuh): sizes of a block, its
// place, and the way of keys, values, scales and queries to shared memory.
//
// A warp has every fourth tile of 16 tokens, or of 32 in 8 bits and less, and copies its tiles without
// waiting for the other warps, so that several tiles are on the way at any time. Which warp has a token
// depends on its position alone.
#pragma once

#include <tinytorch/backend/cuda/device/kv_pairs.cuh>
#include <tinytorch/backend/cuda/device/tensor_core.cuh>
#include <tinytorch/backend/cuda/kernels/attention/tiles.cuh>
#include <tinytorch/backend/cuda/kernels/attention_decode/paged.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// K: element type of the cache. Q: of the queries, BFloat16 or Half. kTiles: groups of eight query rows,
// which are the columns of the products.
template <class K_, class Q, int kHead_, int kTiles_, int kSplit_, int kStages_, int kBlocks_>
struct DecodePlan {
  using K = K_;
  using T = std::conditional_t<std::is_same_v<K, Half>, Half, BFloat16>;  // of the products' operands
  static constexpr int kHead = kHead_, kTiles = kTiles_, kSplit = kSplit_, kStages = kStages_,
                       kBlocks = kBlocks_;
  static constexpr int kWarps = kDecodeThreads / kWarp, kRows = 8 * kTiles, kWarpTokens = kSplit / kWarps;
  static constexpr bool kInt4 = std::is_same_v<K, Int4>, kIs8 = sizeof(K) == 1 && !kInt4, kIs16 = kIs16Bit<K>;
  // The products of a tile of few bytes are more independent chains with more tokens.
  static constexpr int kTileTokens = kIs16 ? 16 : 32, kTokenTiles = kTileTokens / 16;
  // A number with more bits than T is the sum of two of T: rotated queries of i4, and Half if T is BFloat16.
  static constexpr int kProbabilityParts = std::is_same_v<Q, Half> && !std::is_same_v<T, Half> ? 2 : 1;
  static constexpr int kQueryParts = kInt4 ? 2 : kProbabilityParts;

  // Bytes of a row of the tile, of its scales, and of a warp's stage.
  static constexpr unsigned kRowBytes = kInt4 ? kHead / 2 : kHead * sizeof(K), kChunks = kRowBytes / 16;
  static constexpr unsigned kScaleBytes = kIs16 ? 0 : kInt4 ? kHead / 32 * 2 : 4;
  static constexpr unsigned kPlaneBytes = kTileTokens * kRowBytes,
                            kStageBytes = 2 * kTileTokens * (kRowBytes + kScaleBytes);
  // The block's shared memory: stages; rows of the tokens; queries of T.
  static constexpr unsigned kQueryStride = kHead * 2 + 16, kQueryBytes = kRows * kQueryStride;
  static constexpr unsigned kTokensAt = kWarps * kStages * kStageBytes, kQueriesAt = kTokensAt + kSplit * 4,
                            kQueriesEnd = kQueriesAt + kQueryParts * kQueryBytes;
  // With the sums, operands must leave registers for everything else.
  static constexpr bool kQueriesInRegisters = kTiles * kHead * (2 + kQueryParts) <= 768;
  // At the end of a split, the sums of the warps meet, some rows at a time, while the tiles of the next split
  // are on the way. They lie in the place of the queries, if these are in registers by then: kBlocks blocks
  // shall fit a multiprocessor.
  static constexpr int kMeetingRows = kWarps, kMeetingStride = kHead + 4;
  static constexpr unsigned kMeetingAt = kQueriesInRegisters ? kQueriesAt : kQueriesEnd,
                            kMeetingEnd = kMeetingAt + kWarps * kMeetingRows * kMeetingStride * 4,
                            kSharedBytes = kMeetingEnd > kQueriesEnd ? kMeetingEnd : kQueriesEnd;

  // The chunks of 16 bytes of a row are permuted by its index, so that those of eight rows lie in different
  // banks.
  static __device__ __forceinline__ unsigned offset(unsigned row, unsigned chunk) {
    constexpr unsigned kPerLine = kChunks < 8 ? 8 / kChunks : 1, kMask = kChunks < 8 ? kChunks - 1 : 7;
    return row * kRowBytes + (chunk ^ (row / kPerLine & kMask)) * 16;
  }
  // The place that column c of 32 has in a row of queries.
  static __device__ __forceinline__ int query_place(int c) {
    return kIs16 ? c : c / 16 * 16 + place_in_16(c % 16);
  }
};

// The splits of a sequence. The first tokens are in short splits, so that the blocks of a few short sequences
// occupy many multiprocessors; the others are in splits of `tokens`. A block has a span: 2^shift short splits
// or one long one, or, from kUnitShift on, 2^(shift - kUnitShift) units in turn, of which one is four short
// splits or a long one. This changes no bit, because only splits are merged.
inline constexpr int kShortSplits = 8, kShortSplit = 128;
inline constexpr unsigned kUnitShift = 2, kMostSpanShift = 16;
template <class Int>
constexpr Int begin_of_split(Int split, Int tokens) {
  return split < kShortSplits ? split * kShortSplit
                              : kShortSplits * kShortSplit + (split - kShortSplits) * tokens;
}
// A sequence without tokens has one split, which gives zeros.
template <class Int>
constexpr Int splits_of(Int held, Int tokens) {
  if (held <= kShortSplits * kShortSplit) return held == 0 ? 1 : (held + kShortSplit - 1) / kShortSplit;
  return kShortSplits + (held - kShortSplits * kShortSplit + tokens - 1) / tokens;
}
template <class Int>
constexpr Int units_of(Int splits) {
  constexpr Int kOfShort = kShortSplits >> kUnitShift;
  return splits <= kShortSplits ? (splits + (1 << kUnitShift) - 1) >> kUnitShift
                                : kOfShort + splits - kShortSplits;
}
template <class Int>
constexpr Int spans_of(Int splits, unsigned shift) {
  if (shift >= kUnitShift) {
    shift -= kUnitShift;
    return (units_of(splits) + (Int{1} << shift) - 1) >> shift;
  }
  if (splits <= kShortSplits) return (splits + (1 << shift) - 1) >> shift;
  return (kShortSplits >> shift) + splits - kShortSplits;
}
constexpr int first_of_span(int span, unsigned shift) {
  if (shift > kUnitShift) span <<= shift - kUnitShift, shift = kUnitShift;
  const int short_spans = kShortSplits >> shift;
  return span < short_spans ? span << shift : kShortSplits + span - short_spans;
}

// A block's work: its rows, and splits [split, split_end) with the tokens [begin, end) of them that a row of
// the block sees.
struct DecodeSpan {
  int split, split_end, b, g, r0, rows, first_row, shared, position, window, begin, end, origin, skipped;
  int sinks;
  int own_splits;  // splits of the sequence

  // item: the number of the span among those of all sequences, heads and groups of rows.
  __device__ __forceinline__ DecodeSpan(const KvView& kv, const DecodeCall& call, unsigned item,
                                        int block_rows, int split_tokens) {
    const auto groups = static_cast<unsigned>(kv.groups), row_groups = static_cast<unsigned>(call.row_groups),
               lines = static_cast<unsigned>(kv.batch) * groups * row_groups;
    const unsigned line = item % lines, head = line / row_groups;
    g = static_cast<int>(head % groups), b = static_cast<int>(head / groups);
    const auto span = static_cast<int>(item / lines);
    r0 = static_cast<int>(line % row_groups) * block_rows;
    shared = static_cast<int>(call.shared), first_row = static_cast<int>(kv.first_row[b]);
    const int count = static_cast<int>(kv.first_row[b + 1]) - first_row;
    const auto length = static_cast<int>(kv.lengths[b]), held = static_cast<int>(kv.held(length));
    rows = min(block_rows, count * shared - r0);
    position = length - count;  // of the first row of the step
    window = static_cast<int>(min(call.window, int64_t{length} + 1));
    skipped = length - held, sinks = static_cast<int>(min(kv.sinks, int64_t{length}));
    own_splits = splits_of(held, split_tokens);
    split = first_of_span(span, call.span_shift);
    split_end = min(own_splits, first_of_span(span + 1, call.span_shift));
    origin = begin_of_split(split, split_tokens);
    begin = max(origin, number_of(first(0)));
    end = min(min(begin_of_split(split_end, split_tokens), held), number_of(last(rows - 1)));
    exists_ = rows > 0 && split < own_splits;
  }
  __device__ __forceinline__ bool exists() const { return exists_; }
  // The tokens [first, last) that row r of the block sees.
  __device__ __forceinline__ int last(int r) const { return position + (r0 + r) / shared + 1; }
  __device__ __forceinline__ int first(int r) const { return window > 0 ? max(0, last(r) - window) : 0; }
  __device__ __forceinline__ int token_of(int number) const {
    return number < sinks ? number : number + skipped;
  }
  // The number of the first held token from `token` on.
  __device__ __forceinline__ int number_of(int token) const {
    return token < sinks ? token : max(sinks, token - skipped);
  }
  __device__ __forceinline__ int64_t row(int r) const { return first_row + (r0 + r) / shared; }
  __device__ __forceinline__ int64_t head(int r) const { return g * shared + (r0 + r) % shared; }

 private:
  bool exists_;
};

inline constexpr unsigned kNoRow = 0xffffffffu;  // of the pool: a pool of 2^32 rows is larger than a device

// The row of the pool that has a token, with divisions of 32 bits.
__device__ __forceinline__ unsigned row_of_token(const KvView& kv, int b, int g, int token) {
  auto slot = static_cast<unsigned>(token);
  const auto sinks = static_cast<unsigned>(kv.sinks), page = static_cast<unsigned>(kv.page);
  if (kv.ring > 0 && slot >= sinks) slot = sinks + (slot - sinks) % static_cast<unsigned>(kv.ring);
  const unsigned number = slot / page;
  const int64_t in_pool = kv.table ? kv.table[b * kv.table_width + number] : b;
  return static_cast<unsigned>((in_pool * kv.groups + g) * kv.page + (slot - number * page));
}

// Writes those of the step's own tokens to the cache that this warp will read. k and v: the step's rows.
template <class Plan>
__device__ __forceinline__ void append_own_tokens(const StepRows<float>& k, const StepRows<float>& v,
                                                  const KvView& kv, const DecodeSpan& at) {
  using K = typename Plan::K;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int number = max(at.begin, at.number_of(at.position)); number < at.end; ++number) {
    const int place = number - at.origin;
    if (place / Plan::kTileTokens % Plan::kWarps != warp) continue;
    const int token = at.token_of(number);
    const int64_t n = at.first_row + (token - at.position), row = row_of_token(kv, at.b, at.g, token);
    if constexpr (Plan::kIs16) {  // all loads before all stores
      constexpr int kEach = Plan::kHead / kWarp;
      float key[kEach], value[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int d = i * kWarp + lane;
        if (d < kv.head_size) key[i] = k.at(n, at.g, d), value[i] = v.at(n, at.g, d);
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int d = i * kWarp + lane;
        if (d >= kv.head_size) continue;
        static_cast<K*>(kv.keys)[row * kv.head_size + d] = cuda::to<K>(key[i]);
        static_cast<K*>(kv.values)[row * kv.head_size + d] = cuda::to<K>(value[i]);
      }
    } else {
      append_row<float, K>(kv, kv.keys, kv.key_scales, k, n, at.g, row, true);
      append_row<float, K>(kv, kv.values, kv.value_scales, v, n, at.g, row, false);
    }
  }
  __syncwarp();
}

// A warp's tiles on their way to shared memory.
template <class Plan>
struct DecodeTiles {
  const KvView& kv;
  const DecodeSpan& at;
  unsigned stages;  // shared address
  unsigned* rows;   // of kSplit tokens of the span, kNoRow where no query sees the token

  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
  static __device__ __forceinline__ int local(int tile) {
    return (tile * Plan::kWarps + warp()) * Plan::kTileTokens;
  }
  __device__ __forceinline__ unsigned stage(int tile) const {
    return stages + static_cast<unsigned>(warp() * Plan::kStages + tile % Plan::kStages) * Plan::kStageBytes;
  }
  // Tiles [first(), last()) of this warp have tokens of the block.
  static constexpr int kTileTokens = Plan::kTileTokens, kEvery = Plan::kWarps * kTileTokens;
  __device__ __forceinline__ int first() const {
    const int low = at.begin - at.origin - local(0);
    return low < kTileTokens ? 0 : (low - kTileTokens) / kEvery + 1;
  }
  __device__ __forceinline__ int last() const {
    const int high = at.end - at.origin - local(0);
    return high > 0 ? (high + kEvery - 1) / kEvery : 0;
  }
  // Looks up this warp's tokens of the span's part `part`, which has kSplit tokens.
  static constexpr int kTilesOfPart = Plan::kSplit / kEvery;
  __device__ __forceinline__ void look_up(int part) const {
    __syncwarp();  // no lane reads the rows of the part before
#pragma unroll
    for (int i = lane(); i < Plan::kWarpTokens; i += kWarp) {
      const int place = local(i / kTileTokens) + i % kTileTokens,
                number = at.origin + part * Plan::kSplit + place;
      const bool seen = number >= at.begin && number < at.end;
      rows[place] = seen ? row_of_token(kv, at.b, at.g, at.token_of(number)) : kNoRow;
    }
    __syncwarp();
  }
  // Starts the copy of a tile; tokens that no row sees become zeros.
  __device__ __forceinline__ void fetch(int tile) const {
    const auto bytes = static_cast<unsigned>(
        Plan::kInt4 ? kv.head_size / 2 : kv.head_size * static_cast<int64_t>(sizeof(typename Plan::K)));
    const unsigned* const from = rows + local(tile % kTilesOfPart);
    const unsigned to = stage(tile);
    // Lane l copies chunk l % kChunks of rows l / kChunks, and kStep rows further each time.
    constexpr unsigned kChunks = Plan::kChunks, kStep = kWarp / kChunks;
    const unsigned token = static_cast<unsigned>(lane()) / kChunks,
                   chunk = static_cast<unsigned>(lane()) % kChunks;
    const auto* const keys = static_cast<const char*>(kv.keys) + chunk * 16;
    const auto* const values = static_cast<const char*>(kv.values) + chunk * 16;
#pragma unroll
    for (unsigned i = 0; i < kTileTokens; i += kStep) {
      const unsigned row = from[i + token];
      const bool inside = row != kNoRow && chunk * 16 < bytes;
      const uint64_t place = inside ? static_cast<uint64_t>(row) * bytes : 0;
      const unsigned in_tile = to + Plan::offset(i + token, chunk);
      copy_async(in_tile, keys + place, inside);
      copy_async(in_tile + Plan::kPlaneBytes, values + place, inside);
    }
    if constexpr (Plan::kScaleBytes > 0) fetch_scales(from, to + 2 * Plan::kPlaneBytes);
  }

 private:
  // Lanes 0 to 15 copy the scales of 16 keys, the others those of their values.
  __device__ __forceinline__ void fetch_scales(const unsigned* from, unsigned to) const {
    const auto bytes = static_cast<unsigned>(Plan::kInt4 ? kv.head_size / 16 : 4);
    const auto* const scales = static_cast<const char*>(lane() < 16 ? kv.key_scales : kv.value_scales);
#pragma unroll
    for (int first = 0; first < kTileTokens; first += 16) {
      const int token = first + lane() % 16;
      const unsigned row = from[token];
      to += first == 0 ? static_cast<unsigned>(lane() / 16 * kTileTokens + token) * Plan::kScaleBytes
                       : 16 * Plan::kScaleBytes;
#pragma unroll
      for (unsigned i = 0; i < Plan::kScaleBytes; i += 4) {
        const bool inside = row != kNoRow && i < bytes;
        copy_async_word(to + i, scales + (inside ? static_cast<uint64_t>(row) * bytes + i : 0), inside);
      }
    }
  }
};

// The queries of the block: rows of T in kQueryParts parts in shared memory. A fragment is the operand b
// [16, 8] of a product: 16 columns of the head of a part of eight rows. Fragments are counted by columns,
// then by rows and parts, and two are loaded at once.
template <class Plan>
struct DecodeQueries {
  using T = typename Plan::T;
  static constexpr int kParts = Plan::kQueryParts, kOfStep = Plan::kTiles * kParts,
                       kPairs = Plan::kHead / 16 * kOfStep / 2;
  static constexpr bool kInRegisters = Plan::kQueriesInRegisters;
  static_assert(kInRegisters || kOfStep % 2 == 0);
  unsigned address;
  unsigned operands[kInRegisters ? kPairs : 1][4];

  explicit __device__ __forceinline__ DecodeQueries(unsigned at) : address(at) {
    if constexpr (kInRegisters) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) load(operands[i], i);
    }
  }

  // A warp writes every fourth row; rows that do not exist are zeros.
  static __device__ __forceinline__ void write(unsigned char* to, const StepRows<float>& q, const KvView& kv,
                                               const DecodeSpan& at) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    for (int r = static_cast<int>(threadIdx.x) / kWarp; r < Plan::kRows; r += Plan::kWarps) {
      unsigned char* const row = to + static_cast<unsigned>(r) * Plan::kQueryStride;
      if (r >= at.rows) {
        for (int i = lane; i < Plan::kHead / 8 * kParts; i += kWarp)
          *reinterpret_cast<uint4*>(row + static_cast<unsigned>(i / (Plan::kHead / 8)) * Plan::kQueryBytes +
                                    i % (Plan::kHead / 8) * 16) = uint4{};
        continue;
      }
      const int64_t from = at.row(r) * q.row + at.head(r) * q.head;
      float x[kMostGroups];  // column 32 j + lane
#pragma unroll
      for (int j = 0; j < kMostGroups; ++j) {
        const int c = j * kWarp + lane;
        x[j] = j < Plan::kHead / kWarp && c < kv.head_size ? q.read(from + c * q.col) : 0.0f;
      }
      if constexpr (Plan::kInt4) rotate_row(x, kv.head_size);  // as the keys are
#pragma unroll
      for (int j = 0; j < Plan::kHead / kWarp; ++j) {
        const int k = j * kWarp + Plan::query_place(lane);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const T y = cuda::to<T>(x[j]);
          *reinterpret_cast<T*>(row + part * static_cast<int>(Plan::kQueryBytes) + k * 2) = y;
          x[j] -= cuda::to<float>(y);
        }
      }
    }
    __syncthreads();
  }
  // sum[m][t] [16, 8] += a times columns 16 k to 16 k + 15 of query rows 8 m to 8 m + 7.
  __device__ __forceinline__ void multiply(float (&sum)[Plan::kTiles][Plan::kTokenTiles][4], int t, int k,
                                           const unsigned (&a)[4]) const {
    [[maybe_unused]] unsigned loaded[4];
#pragma unroll
    for (int i = 0; i < kOfStep; ++i) {
      const int fragment = k * kOfStep + i, half = fragment % 2 * 2;
      float(&to)[4] = sum[i / kParts][t];
      if constexpr (kInRegisters) {
        multiply_add<T>(to, a, operands[fragment / 2][half], operands[fragment / 2][half + 1]);
      } else {
        if (half == 0) load(loaded, fragment / 2);
        multiply_add<T>(to, a, loaded[half], loaded[half + 1]);
      }
    }
  }

 private:
  // Loads fragments 2 pair and 2 pair + 1.
  __device__ __forceinline__ void load(unsigned (&out)[4], int pair) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp, fragment = 2 * pair + lane / 16,
              k = fragment / kOfStep, i = fragment % kOfStep;
    load_matrices(out, address + static_cast<unsigned>(i % kParts) * Plan::kQueryBytes +
                           static_cast<unsigned>(i / kParts * 8 + lane % 8) * Plan::kQueryStride +
                           static_cast<unsigned>(k * 32 + lane / 8 % 2 * 16));
  }
};

// The scales of 16 tokens: this lane's of tokens l / 4 and l / 4 + 8, for lane l.
template <class Plan>
struct DecodeScales {
  static constexpr int kWords = Plan::kIs16 ? 1 : static_cast<int>(Plan::kScaleBytes) / 4;
  unsigned word[2][kWords];

  explicit __device__ __forceinline__ DecodeScales([[maybe_unused]] const unsigned char* from) {
    if constexpr (!Plan::kIs16) {
#pragma unroll
      for (int i = 0; i < 2 * kWords; ++i) {
        const unsigned token = threadIdx.x % kWarp / 4 + static_cast<unsigned>(i / kWords) * 8;
        word[i / kWords][i % kWords] =
            reinterpret_cast<const unsigned*>(from + token * Plan::kScaleBytes)[i % kWords];
      }
    }
  }
  // The scale of a token's numbers; of a token of i4, that of group `group`.
  __device__ __forceinline__ float operator()(int i, int group) const {
    const unsigned x = word[i][Plan::kInt4 ? group / 2 : 0];
    return std::bit_cast<float>(!Plan::kInt4 ? x : group % 2 ? x & 0xffff0000u : x << 16);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
