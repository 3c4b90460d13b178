// Attention of a few new tokens to one split of a cache's tokens, by one block. The merge of the splits is in
// attention_split.cuh.
//
// The block looks up the rows of its tokens once. A group of lanes then reads the row of a key and of a value
// by words of 16 bytes, four tokens ahead, and keeps an online softmax of its own: the groups meet only at
// the end of the block. Queries that share a head of keys are computed together, up to kRows of them. Which
// token a group reads, and the order of all sums, depend on the position of the token alone: the bits of a
// result do not depend on the batch, on the length of the step, or on where the pages lie.
// Limit: bytes of the keys and values over bandwidth.
// Source: Dao et al., "Flash-Decoding for long-context inference", 2023.
#pragma once

#include <limits>
#include <numbers>
#include <tinytorch/backend/cuda/kernels/kv_append.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kDecodeThreads = 128, kDecodeSplit = 256;

// A call: query rows of a sequence and a head of keys are numbered by token, then by query head.
struct DecodeCall {
  int64_t shared;      // query heads of a head of keys: H / G
  int64_t window;      // > 0: tokens that a query sees, its own included
  int64_t splits;      // splits of the longest sequence
  int64_t row_groups;  // groups of kRows rows of the sequence with most rows
  double scale;        // of the scores, as exponents of 2
};

__device__ __forceinline__ float exp2_of(float x) { return exp2_approx(x); }
__device__ __forceinline__ double exp2_of(double x) { return exp2(x); }

// The lanes that read a row of up to kHead elements of K: each has kChunks words of kEach adjacent elements.
template <class K, int kHead>
struct DecodeLanes {
  static constexpr int kEach = 16 / static_cast<int>(sizeof(K));
  static constexpr int kLanes = kHead / kEach < kWarp ? kHead / kEach : kWarp;
  static constexpr int kChunks = kHead / (kEach * kLanes), kCount = kEach * kChunks;
  static constexpr int kGroups = kDecodeThreads / kLanes;

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  static __device__ __forceinline__ int column(int i) {
    return (i / kEach * kLanes + lane()) * kEach + i % kEach;
  }
  // kVector: D is kHead or a multiple of kEach, and rows are aligned to 16 bytes.
  template <bool kVector, class A>
  static __device__ __forceinline__ void read(A (&x)[kCount], const K* row, int64_t D) {
    if constexpr (kVector) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        A part[kEach] = {};
        if (column(c * kEach) < D) load(part, row + column(c * kEach));
#pragma unroll
        for (int i = 0; i < kEach; ++i) x[c * kEach + i] = part[i];
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = column(i) < D ? to<A>(row[column(i)]) : A(0);
    }
  }
};

// The online softmax of one query row, of which a lane has kCount columns.
template <class A, int kCount>
struct DecodeRow {
  static constexpr A kNone = -std::numeric_limits<A>::infinity();
  A largest = kNone, weight = 0, sum[kCount] = {};

  __device__ __forceinline__ void raise(A top) {
    const A factor = top == largest ? A(1) : exp2_of(largest - top);
    largest = top;
    weight *= factor;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] *= factor;
  }
  __device__ __forceinline__ void merge(const DecodeRow& other) {
    const A top = other.largest > largest ? other.largest : largest;
    raise(top);
    // Without a largest score, the other sums are 0, or NaN from scores that are NaN.
    const A factor = other.largest == kNone ? A(1) : exp2_of(other.largest - top);
    weight += factor * other.weight;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] += factor * other.sum[i];
  }
};

// The softmax sums of a row over a split, [largest, weight, sum [D]], for attention_split.cuh.
inline constexpr int64_t kPartialHead = 2;

template <class A, class K, int kHead, int kRows, bool kVector>
static __global__ void __launch_bounds__(kDecodeThreads)
    attention_paged_kernel(A* partial, StepRows<A> out, StepRows<A> q, const __grid_constant__ KvView kv,
                           const __grid_constant__ DecodeCall call) {
  using Lanes = DecodeLanes<K, kHead>;
  using Row = DecodeRow<A, Lanes::kCount>;
  constexpr int kAhead = 4;
  __shared__ int64_t rows_of_tokens[kDecodeSplit];
  __shared__ A meeting[kDecodeThreads / kWarp][kRows][kHead + 2];
  const int64_t split = blockIdx.x % call.splits, line = blockIdx.x / call.splits;
  const int64_t row_group = line % call.row_groups, g = line / call.row_groups % kv.groups,
                b = line / call.row_groups / kv.groups, D = kv.head_size;
  const int64_t first_row = kv.first_row[b], count = kv.first_row[b + 1] - first_row, length = kv.lengths[b],
                r0 = row_group * kRows;
  const int64_t begin = split * kDecodeSplit;
  const int64_t end = begin + kDecodeSplit < length ? begin + kDecodeSplit : length;
  if (r0 >= count * call.shared || (begin >= end && split > 0)) return;

  for (int64_t t = begin + threadIdx.x; t < end; t += kDecodeThreads) {
    const bool gone = kv.ring > 0 && t >= kv.sinks && t < kv.first_kept(length);
    rows_of_tokens[t - begin] = gone ? -1 : kv.row_of(kv.run(b, t, t + 1), g);
  }
  A query[kRows][Lanes::kCount];
  int64_t first[kRows], last[kRows];  // tokens that a row sees
  Row state[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const bool exists = r0 + r < count * call.shared;
    const int64_t n = (r0 + r) / call.shared, position = length - count + n;
    last[r] = exists ? position + 1 : 0;
    first[r] = call.window > 0 && position >= call.window ? position - call.window + 1 : 0;
#pragma unroll
    for (int i = 0; i < Lanes::kCount; ++i) {
      const int c = Lanes::column(i);
      query[r][i] = exists && c < D ? q.at(first_row + n, g * call.shared + (r0 + r) % call.shared, c) *
                                          static_cast<A>(call.scale)
                                    : A(0);
    }
  }
  __syncthreads();

  const int group = static_cast<int>(threadIdx.x) / Lanes::kLanes;
  const K *const keys = static_cast<const K*>(kv.keys), *const values = static_cast<const K*>(kv.values);
  const int tokens = static_cast<int>(end - begin);
  for (int t0 = 0; t0 < tokens;
       t0 += Lanes::kGroups * kAhead) {  // the same number of turns for all lanes of a warp
    A key[kAhead][Lanes::kCount], value[kAhead][Lanes::kCount], score[kRows][kAhead];
    A value_scale[kAhead];
    bool there[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int t = t0 + a * Lanes::kGroups + group;
      const int64_t row = t < tokens ? rows_of_tokens[t] : -1;
      there[a] = row >= 0;
      const int64_t at = (there[a] ? row : 0) * D;
      if (there[a]) {
        Lanes::template read<kVector>(key[a], keys + at, D);
        Lanes::template read<kVector>(value[a], values + at, D);
      } else {
#pragma unroll
        for (int i = 0; i < Lanes::kCount; ++i) key[a][i] = value[a][i] = A(0);
      }
      value_scale[a] = 1;
      A key_scale = 1;
      if constexpr (std::is_same_v<K, int8_t>) {
        key_scale = there[a] ? static_cast<A>(kv.key_scales[row]) : A(0);
        value_scale[a] = there[a] ? static_cast<A>(kv.value_scales[row]) : A(0);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        A dot = 0;
#pragma unroll
        for (int i = 0; i < Lanes::kCount; ++i) dot += query[r][i] * key[a][i];
        score[r][a] = warp_reduce<Lanes::kLanes>(dot, Sum()) * key_scale;
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      A top = state[r].largest;
      bool seen[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int64_t t = begin + t0 + a * Lanes::kGroups + group;
        seen[a] = there[a] && t >= first[r] && t < last[r];
        if (seen[a] && score[r][a] > top) top = score[r][a];
      }
      state[r].raise(top);
      const A shift = top == Row::kNone ? A(0) : top;  // 2^-infinity is 0
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const A p = exp2_of(score[r][a] - shift);
        state[r].weight += seen[a] ? p : A(0);
        const A factor = p * value_scale[a];
#pragma unroll
        for (int i = 0; i < Lanes::kCount; ++i)
          state[r].sum[i] = seen[a] ? state[r].sum[i] + factor * value[a][i] : state[r].sum[i];
      }
    }
  }

  // The groups of a warp meet by shuffles, the warps in shared memory.
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int step = Lanes::kLanes; step < kWarp; step *= 2) {
      const Row other = shuffle_xor(state[r], step);
      // Both lanes add the sums of the upper lane to those of the lower one, so that they have the same bits.
      const bool upper = (lane & step) != 0;
      Row low = upper ? other : state[r];
      low.merge(upper ? state[r] : other);
      state[r] = low;
    }
    if (lane < Lanes::kLanes) {
      if (lane == 0) meeting[warp][r][0] = state[r].largest, meeting[warp][r][1] = state[r].weight;
#pragma unroll
      for (int i = 0; i < Lanes::kCount; ++i) meeting[warp][r][2 + Lanes::column(i)] = state[r].sum[i];
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kHead; i += kDecodeThreads) {
    const int r = i / kHead, d = i % kHead;
    if (r0 + r >= count * call.shared || d >= D) continue;
    DecodeRow<A, 1> row{meeting[0][r][0], meeting[0][r][1], {meeting[0][r][2 + d]}};
    for (int w = 1; w < kDecodeThreads / kWarp; ++w)
      row.merge(DecodeRow<A, 1>{meeting[w][r][0], meeting[w][r][1], {meeting[w][r][2 + d]}});
    const int64_t n = first_row + (r0 + r) / call.shared, h = g * call.shared + (r0 + r) % call.shared;
    if (call.splits == 1) {
      const A y = row.weight == A(0) ? A(0) : row.sum[0] / row.weight;
      out.write(n * out.row + h * out.head + d * out.col, y);
      continue;
    }
    A* const to_split =
        partial + ((n * kv.groups * call.shared + h) * call.splits + split) * (kPartialHead + D);
    if (d == 0) to_split[0] = row.largest, to_split[1] = row.weight;
    to_split[kPartialHead + d] = row.sum[0];
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
