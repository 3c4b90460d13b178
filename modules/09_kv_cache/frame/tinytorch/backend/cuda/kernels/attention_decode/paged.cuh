// Attention of a few new tokens to one split of a cache's tokens, by one block. The merge of the splits is in
// attention_decode.cuh.
//
// The frame of a course header: it has the given parts, and includes the functions of task 9.13.
#pragma once

#include <limits>
#include <numbers>
#include <tinytorch/backend/cuda/kernels/kv_append.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kDecodeThreads = 128, kDecodeSplit = 256;
inline constexpr int kDecodeWarps = kDecodeThreads / kWarp;

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

// The running softmax of one query row, of which a lane has kCount columns: the largest score, the sum of
// 2^(score - largest), and the sum of the values with these weights.
template <class A, int kCount>
struct DecodeRow {
  static constexpr A kNone = -std::numeric_limits<A>::infinity();
  A largest = kNone, weight = 0, sum[kCount] = {};

  __device__ void add(A score, const A (&value)[kCount]);  // task 9.13
  __device__ void merge(const DecodeRow& other);           // task 9.13
  // The first column of the result; 0 without tokens.
  __device__ __forceinline__ A result() const { return weight == A(0) ? A(0) : sum[0] / weight; }
};

// The part of the result that a block computes: rows r0 to r0 + kRows of sequence b and head g of the keys,
// over the held tokens with the numbers [begin, end).
struct DecodePlace {
  int64_t split, b, g, r0, first_row, count, length, held, begin, end;

  __device__ __forceinline__ DecodePlace(const KvView& kv, const DecodeCall& call, int rows) {
    split = blockIdx.x % call.splits;
    const int64_t line = blockIdx.x / call.splits;
    r0 = line % call.row_groups * rows;
    g = line / call.row_groups % kv.groups;
    b = line / call.row_groups / kv.groups;
    first_row = kv.first_row[b];
    count = kv.first_row[b + 1] - first_row;
    length = kv.lengths[b];
    held = kv.held(length);
    begin = split * kDecodeSplit;
    end = begin + kDecodeSplit < held ? begin + kDecodeSplit : held;
  }
  // These tell whether row r of the block exists, the number of its token among the `count` new ones of the
  // sequence, its row of the step, and its head.
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

// This lane's columns of a row of the keys or values: lane, lane + 32, ...; zeros from column D on. Integers
// are multiplied by the scale of the row.
template <class K, class A, int kCount>
__device__ __forceinline__ void read_columns(A (&x)[kCount], const void* pool, const void* scales,
                                             int64_t row, int64_t D) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  A scale = 1;
  if constexpr (std::is_same_v<K, int8_t>) scale = static_cast<A>(static_cast<const float*>(scales)[row]);
#pragma unroll
  for (int c = 0; c < kCount; ++c) {
    const int64_t d = lane + c * kWarp;
    x[c] = d < D ? to<A>(static_cast<const K*>(pool)[row * D + d]) * scale : A(0);
  }
}

// The sums of a split begin with [largest, weight], then [D].
inline constexpr int64_t kPartialHead = 2;

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

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/attention_decode/paged.cuh>
