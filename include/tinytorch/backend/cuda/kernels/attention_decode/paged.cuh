// Attention of a few new tokens to one split of a cache's tokens, by one block (merge: attention_decode.cuh).
// The block looks up the rows of its tokens once. A group of lanes then reads the row of a key and of a value
// by words of 16 bytes, four tokens ahead, with an online softmax of its own; the groups meet at the end of
// the block, which computes up to kRows queries that share a head of keys. The order of all sums depends on
// the tokens' positions alone: bits depend neither on the batch, the step nor the pages. Limit: bytes of the
// keys and values over bandwidth. Source: Dao et al., "Flash-Decoding for long-context inference", 2023.
#pragma once

#include <numbers>
#include <tinytorch/backend/cuda/kernels/attention_decode/online_row.cuh>
#include <tinytorch/backend/cuda/kernels/attention_decode/row_groups.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kDecodeThreads = 128, kDecodeSplit = 256;

// A call: query rows of a sequence and a head of keys are numbered by token, then by query head.
struct DecodeCall {
  int64_t shared;                // query heads of a head of keys: H / G
  int64_t window;                // > 0: tokens that a query sees, its own included
  int64_t splits;                // splits of the longest sequence
  int64_t split_tokens;          // of a split
  RowGroups row_groups;          // of as many rows as a block computes
  double scale;                  // of the scores, as exponents of 2
  unsigned spans, span_shift;    // of the kernel for tensor cores, as all below (attention_decode/splits.cuh)
  bool by_section;               // blocks have whole sections
  int64_t parts;                 // sums of a row of the longest sequence: those of its splits or sections
  FastDivide page, ring, heads;  // heads: shared, as a divisor
  int32_t* arrivals;  // [B, G] if the last block of a sequence and a head merges its splits, else null
};

// The numbers of 8 bits in the lowest two bytes of a word.
template <class A>
__device__ __forceinline__ void float8_pair(A& first, A& second, unsigned word) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  unsigned halves;  // every number of 8 bits is a half
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(word)));
  Half low, high;
  low.bits = static_cast<uint16_t>(halves), high.bits = static_cast<uint16_t>(halves >> 16);
  first = to<float>(low), second = to<float>(high);
#else
  Float8 low, high;
  low.bits = static_cast<uint8_t>(word), high.bits = static_cast<uint8_t>(word >> 8);
  first = static_cast<float>(low), second = static_cast<float>(high);
#endif
}

// The lanes that read a row of up to kHead elements of K: each has kChunks words of kEach adjacent elements.
template <class K, int kHead>
struct DecodeLanes {
  static constexpr int kEach = 16 / static_cast<int>(sizeof(K));
  static constexpr int kLanes = kHead / kEach < kWarp ? kHead / kEach : kWarp;
  static constexpr int kChunks = kHead / (kEach * kLanes), kCount = kEach * kChunks;
  static constexpr int kGroups = kDecodeThreads / kLanes;
  static constexpr bool kScaled = std::is_same_v<K, int8_t> || std::is_same_v<K, Float8>;

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  static __device__ __forceinline__ int column(int i) {
    return (i / kEach * kLanes + lane()) * kEach + i % kEach;
  }
  // Row `at` of a plane. kVector: D is kHead or a multiple of kEach, and rows are aligned to 16 bytes.
  template <bool kVector, class A>
  static __device__ __forceinline__ void read(A (&x)[kCount], const void* plane, int64_t at, int64_t D) {
    const K* const row = static_cast<const K*>(plane) + at * D;
    if constexpr (kVector) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        A part[kEach] = {};
        if (column(c * kEach) < D) load_words(part, row + column(c * kEach));
#pragma unroll
        for (int i = 0; i < kEach; ++i) x[c * kEach + i] = part[i];
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = column(i) < D ? to<A>(row[column(i)]) : A(0);
    }
  }
  // The factor of this lane's elements.
  template <class A>
  static __device__ __forceinline__ A scale(const void* scales, int64_t at, int64_t) {
    return kScaled ? static_cast<A>(static_cast<const float*>(scales)[at]) : A(1);
  }

 private:
  template <class A>
  static __device__ __forceinline__ void load_words(A (&x)[kEach], const K* from) {
    if constexpr (std::is_same_v<K, Float8>) {
      const uint4 words = *reinterpret_cast<const uint4*>(from);
      const unsigned each[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
      for (int i = 0; i < kEach; i += 2) float8_pair(x[i], x[i + 1], each[i / 4] >> i % 4 * 8);
    } else {
      load(x, from);
    }
  }
};

// A row of i4. A lane has a word of four bytes: four numbers of the first half of a group, and four of the
// second one.
template <int kHead>
struct DecodeLanes<Int4, kHead> {
  static constexpr int kCount = 8, kLanes = kHead / kCount, kGroups = kDecodeThreads / kLanes;
  static_assert(kLanes <= kWarp);

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  static __device__ __forceinline__ int column(int i) {
    return lane() / 4 * static_cast<int>(kKvGroup) + i / 4 * 16 + lane() % 4 * 4 + i % 4;
  }
  template <bool, class A>
  static __device__ __forceinline__ void read(A (&x)[kCount], const void* plane, int64_t at, int64_t D) {
    if (lane() / 4 * kKvGroup >= D) return;
    const int64_t groups = ceil_div(D, kKvGroup);
    const unsigned word = static_cast<const unsigned*>(plane)[at * groups * 4 + lane()];
    // A number n of 0 to 15 in the last bits of a float of 2^23 gives 2^23 + n, without a conversion.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned byte = word >> 8 * i;
      x[i] = std::bit_cast<float>((byte & 0xfu) | 0x4b000000u) - (0x1p23f + 8);
      x[i + 4] = std::bit_cast<float>((byte & 0xf0u) | 0x49000000u) - (0x1p19f + 8);  // 2^19 + n
    }
  }
  template <class A>
  static __device__ __forceinline__ A scale(const void* scales, int64_t at, int64_t D) {
    if (lane() / 4 * kKvGroup >= D) return A(0);
    return to<A>(static_cast<const BFloat16*>(scales)[at * ceil_div(D, kKvGroup) + lane() / 4]);
  }
};

// A block computes rows r0 to r0 + kRows of sequence b and head g of the keys, over the
// held tokens of numbers [begin, end).
struct DecodePlace {
  int64_t split, b, g, r0, first_row, count, length, held, begin, end;

  __device__ __forceinline__ DecodePlace(const KvView& kv, const DecodeCall& call, int rows) {
    split = blockIdx.x % call.splits;
    const int64_t line = blockIdx.x / call.splits;
    const RowGroup<int64_t> group(kv, call.row_groups, call.shared, rows, line);
    b = group.b, g = group.g, r0 = group.r0;
    first_row = kv.first_row[b];
    count = kv.first_row[b + 1] - first_row;
    length = kv.lengths[b];
    held = kv.held(length);
    begin = split * kDecodeSplit;
    end = begin + kDecodeSplit < held ? begin + kDecodeSplit : held;
  }
  __device__ __forceinline__ bool exists(const DecodeCall& call, int r) const {
    return r0 + r < count * call.shared;
  }
  __device__ __forceinline__ int64_t token(const DecodeCall& call, int r) const {
    return (r0 + r) / call.shared;
  }
  __device__ __forceinline__ int64_t row(const DecodeCall& call, int r) const {
    return first_row + token(call, r);
  }
  __device__ __forceinline__ int64_t head(const DecodeCall& call, int r) const {
    return g * call.shared + (r0 + r) % call.shared;
  }
};

// The rows of the block: queries, the tokens [first, last) that each sees, and its softmax.
template <class A, class K, int kHead, int kRows>
struct DecodeRows {
  using Lanes = DecodeLanes<K, kHead>;
  using Row = DecodeRow<A, Lanes::kCount>;
  // Tokens that a group of lanes reads before it uses the first; more do not fit the registers.
  static constexpr int kAhead = Lanes::kCount * kRows > 32 ? 2 : 4;
  // Tokens that are added at once, relative to the largest of their scores: as many for every kRows, because
  // bits depend on it.
  static constexpr int kAtOnce = Lanes::kCount > 8 ? 2 : 4;
  static_assert(kAhead % kAtOnce == 0);
  A query[kRows][Lanes::kCount];
  int64_t first[kRows], last[kRows];
  Row state[kRows];

  // rotated: room for kRows * kHead numbers in shared memory, which is used for i4 only.
  __device__ __forceinline__ void read_queries(const StepRows<A>& q, const KvView& kv, const DecodeCall& call,
                                               const DecodePlace& at, [[maybe_unused]] A* rotated) {
    if constexpr (std::is_same_v<K, Int4>) rotate_queries(rotated, q, kv, call, at);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const bool exists = at.exists(call, r);
      const int64_t position = at.length - at.count + at.token(call, r);
      last[r] = exists ? position + 1 : 0;
      first[r] = call.window > 0 && position >= call.window ? position - call.window + 1 : 0;
#pragma unroll
      for (int i = 0; i < Lanes::kCount; ++i) {
        const int c = Lanes::column(i);
        if constexpr (std::is_same_v<K, Int4>)
          query[r][i] = rotated[r * kHead + c];
        else
          query[r][i] = query_at(q, kv, call, at, r, c);
      }
    }
  }
  // 0 where there is no row or column.
  static __device__ __forceinline__ A query_at(const StepRows<A>& q, const KvView& kv, const DecodeCall& call,
                                               const DecodePlace& at, int r, int c) {
    const bool there = at.exists(call, r) && c < kv.head_size;
    return there ? q.at(at.row(call, r), at.head(call, r), c) * static_cast<A>(call.scale) : A(0);
  }
  // The queries of the block, rotated as the keys are.
  static __device__ __forceinline__ void rotate_queries(A* x, const StepRows<A>& q, const KvView& kv,
                                                        const DecodeCall& call, const DecodePlace& at) {
    const int n = static_cast<int>(hadamard_block(kv.head_size));
    const A factor = 1 / sqrt(static_cast<A>(n));
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kHead; i += kDecodeThreads)
      x[i] = query_at(q, kv, call, at, i / kHead, i % kHead) * factor;
    for (int half = 1; half < n; half *= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kRows * kHead / 2; i += kDecodeThreads) {
        const int place = i / half * 2 * half + i % half;
        const A low = x[place], high = x[place + half];
        x[place] = low + high, x[place + half] = low - high;
      }
    }
    __syncthreads();
  }

  // The next kAhead held tokens of each group of lanes; t: number of its first one, rows: where they lie, or
  // -1.
  template <bool kVector>
  __device__ __forceinline__ void attend(const KvView& kv, int64_t length, const int64_t (&rows)[kAhead],
                                         int64_t t) {
    A key[kAhead][Lanes::kCount] = {}, value[kAhead][Lanes::kCount] = {};
    A key_scale[kAhead], value_scale[kAhead], score[kRows][kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      key_scale[a] = value_scale[a] = 1;
      if (rows[a] < 0) continue;
      Lanes::template read<kVector>(key[a], kv.keys, rows[a], kv.head_size);
      Lanes::template read<kVector>(value[a], kv.values, rows[a], kv.head_size);
      key_scale[a] = Lanes::template scale<A>(kv.key_scales, rows[a], kv.head_size);
      value_scale[a] = Lanes::template scale<A>(kv.value_scales, rows[a], kv.head_size);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        A dot = 0;
#pragma unroll
        for (int i = 0; i < Lanes::kCount; ++i) dot += query[r][i] * key[a][i];
        score[r][a] =
            warp_reduce<Lanes::kLanes>(dot * key_scale[a], Sum());  // a lane of i4 has its own scale
      }
    }
#pragma unroll
    for (int i = 0; i < kRows * kAhead; i += kAtOnce)
      add_tokens(i / kAhead, i % kAhead, kv, length, rows, t, score[i / kAhead], value_scale, value);
  }

  // The groups of a warp meet: afterwards each group has the sums of all. Both lanes of a pair add the sums
  // of the upper one to those of the lower one, so that they have the same bits.
  __device__ __forceinline__ void meet() {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int step = Lanes::kLanes; step < kWarp; step *= 2) {
        state[r].meet(step, (lane & step) != 0);
      }
    }
  }

 private:
  // Adds tokens [begin, begin + kAtOnce) of those that are ahead to row r.
  __device__ __forceinline__ void add_tokens(int r, int begin, const KvView& kv, int64_t length,
                                             const int64_t (&rows)[kAhead], int64_t t,
                                             const A (&score)[kAhead], const A (&scale)[kAhead],
                                             const A (&value)[kAhead][Lanes::kCount]) {
    A top = state[r].largest;
    bool seen[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int a = begin + i;
      const int64_t token = kv.token_of(t + a * Lanes::kGroups, length);
      seen[i] = rows[a] >= 0 && token >= first[r] && token < last[r];
      if (seen[i] && score[a] > top) top = score[a];
    }
    state[r].raise(top);
    const A shift = top == Row::kNone ? A(0) : top;  // 2^-infinity is 0
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int a = begin + i;
      if (seen[i]) state[r].add(exp2_of(score[a] - shift), scale[a], value[a]);
    }
  }
};

// The sums of a split are [largest, weight], two unused numbers, and [D], which is aligned to 16 bytes.
inline constexpr int64_t kPartialHead = 4;

// Writes a column of a row: the result, or its part of the split for attention_decode.cuh.
template <class A>
__device__ __forceinline__ void write_column(A* partial, const StepRows<A>& out, const KvView& kv,
                                             const DecodeCall& call, const DecodePlace& at, int r, int d,
                                             const DecodeRow<A, 1>& row) {
  const int64_t n = at.row(call, r), h = at.head(call, r);
  if (call.splits == 1) return out.write(n * out.row + h * out.head + d * out.col, row.result());
  const int64_t line = (n * kv.groups * call.shared + h) * call.splits + at.split;
  A* const to_split = partial + line * (kPartialHead + kv.head_size);
  if (d == 0) to_split[0] = row.largest, to_split[1] = row.weight;
  to_split[kPartialHead + d] = row.sum[0];
}

template <class A, class K, int kHead, int kRows, bool kVector>
static __global__ void __launch_bounds__(kDecodeThreads)
    attention_paged_kernel(A* partial, StepRows<A> out, StepRows<A> q, const __grid_constant__ KvView kv,
                           const __grid_constant__ DecodeCall call) {
  using Rows = DecodeRows<A, K, kHead, kRows>;
  using Lanes = typename Rows::Lanes;
  constexpr int kWarps = kDecodeThreads / kWarp;
  __shared__ int64_t row_of_token[kDecodeSplit];
  __shared__ A meeting[kWarps][kRows][kPartialHead + kHead];
  start_next_kernel();
  wait_for_previous_kernel();
  const DecodePlace at(kv, call, kRows);
  if (!at.exists(call, 0) || (at.begin >= at.end && at.split > 0)) return;
  for (int64_t t = at.begin + threadIdx.x; t < at.end; t += kDecodeThreads) {
    const int64_t token = kv.token_of(t, at.length);
    row_of_token[t - at.begin] = kv.row_of(kv.run(at.b, token, token + 1), at.g);
  }
  Rows rows;
  rows.read_queries(q, kv, call, at, &meeting[0][0][0]);
  __syncthreads();

  const int group = static_cast<int>(threadIdx.x) / Lanes::kLanes,
            tokens = static_cast<int>(at.end - at.begin);
  for (int t0 = 0; t0 < tokens; t0 += Lanes::kGroups * Rows::kAhead) {  // as often in every lane of a warp
    int64_t next[Rows::kAhead];
#pragma unroll
    for (int a = 0; a < Rows::kAhead; ++a) {
      const int t = t0 + a * Lanes::kGroups + group;
      next[a] = t < tokens ? row_of_token[t] : -1;
    }
    rows.template attend<kVector>(kv, at.length, next, at.begin + t0 + group);
  }
  rows.meet();

  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (lane >= Lanes::kLanes) continue;
    if (lane == 0) meeting[warp][r][0] = rows.state[r].largest, meeting[warp][r][1] = rows.state[r].weight;
#pragma unroll
    for (int i = 0; i < Lanes::kCount; ++i)
      meeting[warp][r][kPartialHead + Lanes::column(i)] = rows.state[r].sum[i];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kHead; i += kDecodeThreads) {
    const int r = i / kHead, d = i % kHead;
    if (!at.exists(call, r) || d >= kv.head_size) continue;
    DecodeRow<A, 1> row;
    for (int w = 0; w < kWarps; ++w)
      row.merge({meeting[w][r][0], meeting[w][r][1], {meeting[w][r][kPartialHead + d]}});
    write_column(partial, out, kv, call, at, r, d, row);
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
