// Attention of a few new tokens to one split of a cache's tokens, by one block. The merge of the splits is in
// attention_decode.cuh.
//
// A warp reads the key and the value of a token once, whole rows at a time, for up to kRows queries that
// share them. Each warp keeps a softmax of its own over every fourth token, so that the warps meet only once,
// at the end. Source: Dao et al., "Flash-Decoding for long-context inference", 2023.
//
// Task 9.13: DecodeRow::add, DecodeRow::merge, attention_paged_kernel. The given parts of this header are in
// modules/09_kv_cache/frame/tinytorch/backend/cuda/kernels/attention_decode/paged.cuh, which includes this
// file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Adds a token with this score and these columns of its value. With a larger score than all before, weight
// and sum are first multiplied by 2^(largest before - score).
template <class A, int kCount>
__device__ void DecodeRow<A, kCount>::add(A score, const A (&value)[kCount]) {
  if (score > largest) {
    const A factor = exp2_of(largest - score);  // 0 at the first token
    largest = score;
    weight *= factor;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] *= factor;
  }
  const A p = exp2_of(score - largest);
  weight += p;
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] += p * value[i];
}

// Adds the tokens of another softmax, which has a largest score of its own, or no token.
template <class A, int kCount>
__device__ void DecodeRow<A, kCount>::merge(const DecodeRow& other) {
  const A top = other.largest > largest ? other.largest : largest;
  if (top == kNone) return;  // neither has a token
  const A own = exp2_of(largest - top), theirs = exp2_of(other.largest - top);
  largest = top;
  weight = own * weight + theirs * other.weight;
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] = own * sum[i] + theirs * other.sum[i];
}

// The block's rows over the held tokens of numbers at.begin to at.end (DecodePlace). All of a block without
// rows, or of a later split without tokens, returns at once.
//
//   1. This lane's columns of the queries: lane, lane + 32, ... below D, times call.scale; zeros for rows
//   that
//      do not exist.
//   2. Warp w takes tokens begin + w, begin + w + kDecodeWarps, ...: where it lies (token_of, run, row_of),
//      its key and value (read_columns); for each row the dot product over all lanes, warp_reduce(x, Sum()),
//      which all lanes call; and if the row sees the token, state[r].add.
//   3. Each warp writes [largest, weight, its columns] of each row to shared memory; barrier.
//   4. A thread for each column of each row merges the warps in their order, and write_column()s the result,
//      for rows that exist and columns below D.
//
// Row r is at position length - count + at.token(call, r), and sees tokens up to there, less than call.window
// away if call.window > 0.
template <class A, class K, int kHead, int kRows, bool kVector>
static __global__ void __launch_bounds__(kDecodeThreads)
    attention_paged_kernel(A* partial, StepRows<A> out, StepRows<A> q, const __grid_constant__ KvView kv,
                           const __grid_constant__ DecodeCall call) {
  constexpr int kColumns = kHead / kWarp;
  __shared__ A meeting[kDecodeWarps][kRows][kPartialHead + kHead];
  const DecodePlace at(kv, call, kRows);
  if (!at.exists(call, 0) || (at.begin >= at.end && at.split > 0)) return;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  A query[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      const int64_t d = lane + c * kWarp;
      const bool there = at.exists(call, r) && d < kv.head_size;
      query[r][c] = there ? q.at(at.row(call, r), at.head(call, r), d) * static_cast<A>(call.scale) : A(0);
    }
  }
  DecodeRow<A, kColumns> state[kRows];
  for (int64_t i = at.begin + warp; i < at.end; i += kDecodeWarps) {
    const int64_t t = kv.token_of(i, at.length);
    const int64_t row = kv.row_of(kv.run(at.b, t, t + 1), at.g);
    A key[kColumns], value[kColumns];
    read_columns<K>(key, kv.keys, kv.key_scales, row, kv.head_size);
    read_columns<K>(value, kv.values, kv.value_scales, row, kv.head_size);
    for (int r = 0; r < kRows; ++r) {
      const int64_t position = at.length - at.count + at.token(call, r);
      A dot = 0;
      for (int c = 0; c < kColumns; ++c) dot += query[r][c] * key[c];
      const A score = warp_reduce(dot, Sum());
      const bool seen = t <= position && (call.window == 0 || position - t < call.window);
      if (seen) state[r].add(score, value);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    if (lane == 0) meeting[warp][r][0] = state[r].largest, meeting[warp][r][1] = state[r].weight;
    for (int c = 0; c < kColumns; ++c) meeting[warp][r][kPartialHead + lane + c * kWarp] = state[r].sum[c];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kHead; i += kDecodeThreads) {
    const int r = i / kHead, d = i % kHead;
    if (!at.exists(call, r) || d >= kv.head_size) continue;
    DecodeRow<A, 1> all;
    for (int w = 0; w < kDecodeWarps; ++w)
      all.merge({meeting[w][r][0], meeting[w][r][1], {meeting[w][r][kPartialHead + d]}});
    write_column(partial, out, kv, call, at, r, d, all);
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
