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
#include <tinytorch/backend/cuda/kernels/attention_decode/splits.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// K: element type of the cache. Q: of the queries, BFloat16 or Half. kTiles: groups of eight query rows,
// which are the columns of the products.
template <class K_, class Q, int kHead_, int kTiles_, int kSplit_, int kStages_, int kBlocks_>
struct DecodePlan {
  using K = K_;
  // Types of the operands of the products with values and with keys. The scales of values may be of any size,
  // so their products have the range of bf16; queries are divided by a power of two instead.
  using T = std::conditional_t<std::is_same_v<K, Half>, Half, BFloat16>;
  using KeyT = std::conditional_t<kIs16Bit<K>, T, Half>;
  static constexpr int kHead = kHead_, kTiles = kTiles_, kSplit = kSplit_, kStages = kStages_,
                       kBlocks = kBlocks_;
  static constexpr int kWarps = kDecodeThreads / kWarp, kRows = 8 * kTiles, kWarpTokens = kSplit / kWarps;
  static constexpr bool kInt4 = std::is_same_v<K, Int4>, kIs8 = sizeof(K) == 1 && !kInt4, kIs16 = kIs16Bit<K>;
  // Another plan if fewer blocks share a multiprocessor: its threads have more registers.
  using WithFewerBlocks = std::conditional_t<kInt4 && kTiles == 1 && kBlocks == 3,
                                             DecodePlan<K_, Q, kHead_, kTiles_, kSplit_, kStages_, 2>, void>;
  // The products of a tile of few bytes are more independent chains with more tokens.
  static constexpr int kTileTokens = kIs16 ? 16 : 32, kTokenTiles = kTileTokens / 16;
  // A number with more bits than T is the sum of two of T.
  static constexpr int kProbabilityParts = std::is_same_v<Q, Half> && !std::is_same_v<T, Half> ? 2 : 1;
  static constexpr int kQueryParts = kIs16 ? kProbabilityParts : 1;
  // Sums of a query row that take back the offsets of the keys: one of all keys, or one of each group of i4.
  static constexpr int kOffsets = kInt4 ? kHead / 32 : std::is_same_v<K, int8_t> ? 1 : 0;

  // Bytes of a row of the tile, of its scales, and of a warp's stage.
  static constexpr unsigned kRowBytes = kInt4 ? kHead / 2 : kHead * sizeof(K), kChunks = kRowBytes / 16;
  static constexpr unsigned kScaleBytes = kIs16 ? 0 : kInt4 ? kHead / 32 * 2 : 4;
  static constexpr unsigned kPlaneBytes = kTileTokens * kRowBytes,
                            kStageBytes = 2 * kTileTokens * (kRowBytes + kScaleBytes);
  // A block of eight rows has memory for the sums of a section of each.
  static constexpr bool kAddsSections = kTiles == 1;
  // The block's shared memory: stages; rows of the tokens; factors and offsets of the query rows; the offset
  // of the values; sums of sections; queries.
  static constexpr unsigned kQueryStride = kHead * 2 + 16, kQueryBytes = kRows * kQueryStride;
  static constexpr unsigned kTokensAt = kWarps * kStages * kStageBytes, kFactorsAt = kTokensAt + kSplit * 4,
                            kValueOffsetAt = kFactorsAt + (kIs16 ? 0 : (1 + 2 * kOffsets) * kRows * 4),
                            kSectionsAt = kValueOffsetAt + (kInt4 ? 16 : 0),
                            kQueriesAt = kSectionsAt + (kAddsSections ? kRows * (kHead + 4) * 4 : 0),
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
  static_assert(kStageBytes % 128 == 0);
  static __device__ __forceinline__ unsigned permutation(unsigned row) {
    constexpr unsigned kPerLine = kChunks < 8 ? 8 / kChunks : 1, kMask = kChunks < 8 ? kChunks - 1 : 7;
    return row / kPerLine & kMask;
  }
  static __device__ __forceinline__ unsigned offset(unsigned row, unsigned chunk) {
    return row * kRowBytes + (chunk ^ permutation(row)) * 16;
  }
  // From the address of a chunk to that of the chunk whose number differs in the bits of `difference`, in a
  // row that is `rows` further: one instruction if both are constants.
  static __device__ __forceinline__ unsigned moved(unsigned address, unsigned rows, unsigned difference) {
    return (address ^ difference % 8 * 16) + difference / 8 * 128 + rows * kRowBytes;
  }
  // The place that column c of 32 has in a row of queries.
  static __device__ __forceinline__ int query_place(int c) {
    return kIs16 ? c : c / 16 * 16 + place_in_16(c % 16);
  }
};

// A block's work: its rows, and splits [split, split_end) with the tokens [begin, end) of them that a row of
// the block sees.
struct DecodeSpan {
  int split, split_end, b, g, r0, rows, first_row, position, window, begin, end, origin, skipped;
  int sinks;
  int own_splits;  // splits of the sequence
  unsigned all_heads;
  FastDivide heads;

  // item: the number of the span among those of all sequences, heads and groups of rows.
  __device__ __forceinline__ DecodeSpan(const KvView& kv, const DecodeCall& call, unsigned item,
                                        int block_rows, int split_tokens) {
    const auto groups = static_cast<unsigned>(kv.groups), heads_each = static_cast<unsigned>(call.shared),
               lines = groups * static_cast<unsigned>(call.row_groups.count);
    const RowGroup<unsigned> group(kv, call.row_groups, heads_each, static_cast<unsigned>(block_rows),
                                   item % lines);
    b = static_cast<int>(group.b), g = static_cast<int>(group.g), r0 = static_cast<int>(group.r0);
    const auto span = static_cast<int>(item / lines);
    all_heads = groups * heads_each;
    heads = call.heads, first_row = static_cast<int>(kv.first_row[b]);
    const int count = static_cast<int>(kv.first_row[b + 1]) - first_row;
    const auto length = static_cast<int>(kv.lengths[b]), held = static_cast<int>(kv.held(length));
    rows = min(block_rows, count * shared() - r0);
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
  // Sums of a row that are merged.
  __device__ __forceinline__ int parts(const DecodeCall& call) const {
    return call.by_section ? sections_of(own_splits) : own_splits;
  }
  // The tokens [first, last) that row r of the block sees.
  __device__ __forceinline__ int last(int r) const { return position + of_step(r) + 1; }
  __device__ __forceinline__ int first(int r) const { return window > 0 ? max(0, last(r) - window) : 0; }
  __device__ __forceinline__ int token_of(int number) const {
    return number < sinks ? number : number + skipped;
  }
  // The number of the first held token from `token` on.
  __device__ __forceinline__ int number_of(int token) const {
    return token < sinks ? token : max(sinks, token - skipped);
  }
  __device__ __forceinline__ int64_t row(int r) const { return first_row + of_step(r); }
  // The line of row r among the query rows of the step [N, H], whose sums fit a device only if they are fewer
  // than 2^32.
  __device__ __forceinline__ unsigned line(int r) const {
    return static_cast<unsigned>(first_row + of_step(r)) * all_heads + static_cast<unsigned>(head(r));
  }
  __device__ __forceinline__ int64_t head(int r) const {
    return g * shared() + r0 + r - of_step(r) * shared();
  }

 private:
  // Query heads of a head of keys.
  __device__ __forceinline__ int shared() const { return static_cast<int>(heads.divisor); }
  // The new token of the sequence to which row r of the block belongs.
  __device__ __forceinline__ int of_step(int r) const {
    return static_cast<int>(heads.quotient(static_cast<unsigned>(r0 + r)));
  }
  bool exists_;
};

inline constexpr unsigned kNoRow = 0xffffffffu;  // of the pool: a pool of 2^32 rows is larger than a device

// The row of the pool that has a token, with divisions of 32 bits. kRing: the cache is a ring.
template <bool kRing>
__device__ __forceinline__ unsigned row_of_token(const KvView& kv, const DecodeCall& call, int b, int g,
                                                 int token) {
  auto slot = static_cast<unsigned>(token);
  if constexpr (kRing) {
    const auto sinks = static_cast<unsigned>(kv.sinks);
    const unsigned rounds = call.ring.quotient(slot - sinks);  // not read for a sink
    slot -= slot >= sinks ? rounds * call.ring.divisor : 0;
  }
  const unsigned number = call.page.quotient(slot), page = call.page.divisor;
  const auto in_pool = static_cast<unsigned>(kv.table ? kv.table[b * kv.table_width + number] : b);
  return (in_pool * static_cast<unsigned>(kv.groups) + static_cast<unsigned>(g)) * page + slot -
         number * page;
}

// Writes those of the step's own tokens to the cache that this warp will read. k and v: the step's rows.
template <class Plan>
__device__ __forceinline__ void append_own_tokens(const StepRows<float>& k, const StepRows<float>& v,
                                                  const KvView& kv, const DecodeCall& call,
                                                  const DecodeSpan& at) {
  using K = typename Plan::K;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int number = max(at.begin, at.number_of(at.position)); number < at.end; ++number) {
    const int place = number - at.origin;
    if (place / Plan::kTileTokens % Plan::kWarps != warp) continue;
    const int token = at.token_of(number);
    const int64_t n = at.first_row + (token - at.position),
                  row = kv.ring > 0 ? row_of_token<true>(kv, call, at.b, at.g, token)
                                    : row_of_token<false>(kv, call, at.b, at.g, token);
    if constexpr (Plan::kIs16) {  // all loads before all stores
      constexpr int kEach = Plan::kHead / kWarp;
      float key[kEach], value[kEach];
      const auto count = static_cast<int>(ceil_div(kv.head_size - lane, int64_t{kWarp}));
      k.read_columns(key, k.place(n, at.g, lane), kWarp * k.col, count);
      v.read_columns(value, v.place(n, at.g, lane), kWarp * v.col, count);
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

// A pointer that the compiler keeps in registers, so that an address is one multiplication and addition of 64
// bits.
__device__ __forceinline__ const char* kept(const char* pointer) {
#ifdef __CUDA_ARCH__
  asm("" : "+l"(pointer));
#endif
  return pointer;
}

// A warp's tiles on their way to shared memory.
template <class Plan>
struct DecodeTiles {
  const KvView& kv;
  const DecodeCall& call;
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
    return high > 0 ? ceil_div(high, kEvery) : 0;
  }
  // Looks up this warp's tokens of the span's part `part`, which has kSplit tokens.
  static constexpr int kTilesOfPart = Plan::kSplit / kEvery;
  __device__ __forceinline__ void look_up(int part) const {
    __syncwarp();  // no lane reads the rows of the part before
    if (kv.ring > 0)
      look_up_rows<true>(part);
    else
      look_up_rows<false>(part);
    __syncwarp();
  }
  // Starts the copy of a tile; tokens that no row sees become zeros.
  __device__ __forceinline__ void fetch(int tile) const {
    const auto size = static_cast<unsigned>(kv.head_size),
               bytes = Plan::kInt4 ? size / 2 : size * static_cast<unsigned>(sizeof(typename Plan::K));
    const unsigned* const from = rows + local(tile % kTilesOfPart);
    const unsigned to = stage(tile);
    // Lane l copies chunk l % kChunks of rows l / kChunks, and kStep rows further each time.
    constexpr unsigned kChunks = Plan::kChunks, kStep = kWarp / kChunks;
    const unsigned token = static_cast<unsigned>(lane()) / kChunks,
                   chunk = static_cast<unsigned>(lane()) % kChunks;
    const char* const keys = kept(static_cast<const char*>(kv.keys) + chunk * 16);
    const char* const values = kept(static_cast<const char*>(kv.values) + chunk * 16);
    const bool in_row = chunk * 16 < bytes;
    const unsigned first = to + Plan::offset(token, chunk);
    constexpr unsigned kCopies = kTileTokens / kStep;
    unsigned row[kCopies], scale_row[Plan::kTokenTiles];  // all loads before all copies
#pragma unroll
    for (unsigned i = 0; i < kCopies; ++i) row[i] = from[i * kStep + token];
#pragma unroll
    for (int t = 0; t < Plan::kTokenTiles; ++t)
      scale_row[t] = Plan::kScaleBytes > 0 ? from[t * 16 + lane() % 16] : 0;
#pragma unroll
    for (unsigned i = 0; i < kCopies; ++i) {
      const bool inside = row[i] != kNoRow && in_row;
      const uint64_t place = static_cast<uint64_t>(row[i]) * bytes;  // not read if not inside
      const unsigned in_tile = Plan::moved(first, i * kStep, Plan::permutation(i * kStep));
      copy_async(in_tile, keys + place, inside);
      copy_async(in_tile + Plan::kPlaneBytes, values + place, inside);
    }
    if constexpr (Plan::kScaleBytes > 0) fetch_scales(scale_row, to + 2 * Plan::kPlaneBytes);
  }

 private:
  template <bool kRing>
  __device__ __forceinline__ void look_up_rows(int part) const {
#pragma unroll
    for (int i = lane(); i < Plan::kWarpTokens; i += kWarp) {
      const int place = local(i / kTileTokens) + i % kTileTokens,
                number = at.origin + part * Plan::kSplit + place;
      // The loads of all tokens are on the way together, so they are without branches.
      const int valid = min(max(number, at.begin), at.end - 1), token = kRing ? at.token_of(valid) : valid;
      const unsigned row = row_of_token<kRing>(kv, call, at.b, at.g, token);
      rows[place] = number >= at.begin && number < at.end ? row : kNoRow;
    }
  }
  // Lanes 0 to 15 copy the scales of 16 keys, the others those of their values.
  __device__ __forceinline__ void fetch_scales(const unsigned (&row)[Plan::kTokenTiles], unsigned to) const {
    // Those of a row are 4 or 8 bytes for heads of up to 128, and 12 or 16 for larger ones.
    using Word = std::conditional_t<Plan::kScaleBytes == 8, uint2, unsigned>;
    const unsigned bytes = Plan::kInt4 ? static_cast<unsigned>(kv.head_size) / 16 : 4;
    const char* const scales = kept(static_cast<const char*>(lane() < 16 ? kv.key_scales : kv.value_scales));
#pragma unroll
    for (int t = 0; t < Plan::kTokenTiles; ++t) {
      to += t == 0 ? static_cast<unsigned>(lane() / 16 * kTileTokens + lane() % 16) * Plan::kScaleBytes
                   : 16 * Plan::kScaleBytes;
#pragma unroll
      for (unsigned i = 0; i < Plan::kScaleBytes; i += sizeof(Word)) {
        const bool inside = row[t] != kNoRow && i < bytes;
        copy_async_word<Word>(to + i, scales + static_cast<uint64_t>(row[t]) * bytes + i, inside);
      }
    }
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

// The scales of 16 tokens of i4 as pairs of adjacent tokens, in the places that the tokens have in an operand
// b: lane l has tokens l % 4 * 2 and the next, and those 8 further.
template <class Plan>
struct DecodeScalePairs {
  static constexpr int kWords = Plan::kInt4 ? static_cast<int>(Plan::kScaleBytes) / 4 : 1;
  unsigned word[4][kWords];  // tokens 0, 1, 8, 9 of this lane

  explicit __device__ __forceinline__ DecodeScalePairs([[maybe_unused]] const unsigned char* from) {
    if constexpr (Plan::kInt4) {
#pragma unroll
      for (int i = 0; i < 4 * kWords; ++i) {
        const unsigned which = static_cast<unsigned>(i / kWords),
                       token = threadIdx.x % 4 * 2 + which % 2 + which / 2 * 8;
        word[which][i % kWords] =
            reinterpret_cast<const unsigned*>(from + token * Plan::kScaleBytes)[i % kWords];
      }
    }
  }
  // Those of group `group` of the first two tokens, or of the others.
  __device__ __forceinline__ unsigned operator()(int others, int group) const {
    const unsigned first = word[2 * others][group / 2], second = word[2 * others + 1][group / 2];
    return group % 2 ? high_halves(first, second) : low_halves(first, second);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
