// Merges the splits of a query row for attention on tensor cores (attention_decode/paged_tensor.cuh). The
// sums of a split are relative to its largest score m_s:
//
//   out = sum_s 2^(m_s - m) o_s / sum_s 2^(m_s - m) w_s
//
// Part p of kMergeParts adds splits p, p + kMergeParts, ..., and the parts are added in order. So the order
// depends on the number of a split alone: the number of splits of another sequence changes no bit. Either
// all warps of a block merge a row, or, if there are many rows of few splits, one warp.
//
// The last block of a sequence and a head merges: each block counts its arrival in memory of the cache. That
// saves a kernel, which would take as long as the attention to a short sequence. A step with more query rows
// than a block has, or memory without such counters, has a kernel of its own for the merge.
#pragma once

#include <tinytorch/backend/cuda/kernels/attention_decode/paged_tiles.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kMergeParts = 8;

// Shared memory for the parts of a row: the sums of each column, then the weight.
template <int kHead>
using MergeMemory = float[kMergeParts][kHead + 1];

// The largest score of a row, in all lanes of a warp, of partial [splits][kPartialHead + D]. Other blocks
// wrote it, so it is read from L2: the L1 cache of this multiprocessor may hold older bytes. The result is 0
// if the score is -infinity, because 2^-infinity is 0.
__device__ __forceinline__ float largest_of_splits(const float* partial, int splits, int D) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  float top = kNone;
  for (int s = static_cast<int>(threadIdx.x) % kWarp; s < splits; s += kWarp)
    top = fmaxf(top, __ldcg(partial + static_cast<int64_t>(s) * (kPartialHead + D)));
  top = warp_reduce(top, Maximum());
  return top == kNone ? 0.0f : top;
}

// All parts of a query row, of whose sums a lane has every 32nd column.
template <int kHead>
struct MergedParts {
  static constexpr int kColumns = kHead / kWarp;
  float weight[kMergeParts] = {}, sum[kMergeParts][kColumns] = {};

  // All loads of a round are on the way together.
  __device__ __forceinline__ MergedParts(const float* partial, int splits, int D) {
    const float top = largest_of_splits(partial, splits, D);
    for (int first = 0; first < splits; first += kMergeParts) add(Round(partial, first, splits, D), top);
  }

 private:
  // One split of each part.
  struct Round {
    float largest[kMergeParts], weight[kMergeParts], sum[kMergeParts][kColumns];
    __device__ __forceinline__ Round(const float* partial, int first, int splits, int D) {
      const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
      for (int i = 0; i < kMergeParts; ++i) {
        const int s = first + i;
        const bool exists = s < splits;
        const float* const split = partial + static_cast<int64_t>(s) * (kPartialHead + D);
        largest[i] = exists ? __ldcg(split) : -std::numeric_limits<float>::infinity();
        weight[i] = exists ? __ldcg(split + 1) : 0.0f;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const int d = c * kWarp + lane;
          sum[i][c] = exists && d < D ? __ldcg(split + kPartialHead + d) : 0.0f;
        }
      }
    }
  };
  __device__ __forceinline__ void add(const Round& round, float top) {
#pragma unroll
    for (int i = 0; i < kMergeParts; ++i) {
      const float factor = exp2_approx(round.largest[i] - top);
      weight[i] = fmaf(factor, round.weight[i], weight[i]);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) sum[i][c] = fmaf(factor, round.sum[i][c], sum[i][c]);
    }
  }
};

// Rows of up to so many splits are merged by a warp.
inline constexpr int kSplitsOfWarp = 4 * kMergeParts;

template <int kHead>
__device__ __forceinline__ void merge_by_warp(const StepRows<float>& out, int64_t n, int64_t h,
                                              const float* partial, int splits, int D) {
  const MergedParts<kHead> parts(partial, splits, D);
  float weight = 0, sum[kHead / kWarp] = {};
#pragma unroll
  for (int p = 0; p < kMergeParts; ++p) {
    weight += parts.weight[p];
#pragma unroll
    for (int c = 0; c < kHead / kWarp; ++c) sum[c] += parts.sum[p][c];
  }
#pragma unroll
  for (int c = 0; c < kHead / kWarp; ++c) {
    const int d = c * kWarp + static_cast<int>(threadIdx.x) % kWarp;
    if (d < D) out.write(n * out.row + h * out.head + d * out.col, weight == 0 ? 0.0f : sum[c] / weight);
  }
}

// Called by all kWarps warps of a block.
template <int kHead, int kWarps>
__device__ __forceinline__ void merge_by_block(const StepRows<float>& out, int64_t n, int64_t h,
                                               const float* partial, int splits, int D,
                                               MergeMemory<kHead>& parts) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  constexpr int kColumns = kHead / kWarp;
  const float top = largest_of_splits(partial, splits, D);
  for (int part = warp; part < kMergeParts; part += kWarps) {
    float weight = 0, sum[kColumns] = {};
#pragma unroll 4
    for (int s = part; s < splits; s += kMergeParts) {
      const float* const split = partial + static_cast<int64_t>(s) * (kPartialHead + D);
      const float factor = exp2_approx(__ldcg(split) - top);
      weight = fmaf(factor, __ldcg(split + 1), weight);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int d = c * kWarp + lane;
        if (d < D) sum[c] = fmaf(factor, __ldcg(split + kPartialHead + d), sum[c]);
      }
    }
    if (lane == 0) parts[part][kHead] = weight;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) parts[part][c * kWarp + lane] = sum[c];
  }
  __syncthreads();
  for (int d = static_cast<int>(threadIdx.x); d < D; d += kWarps * kWarp) {
    float weight = 0, sum = 0;
#pragma unroll
    for (const auto& part : parts) weight += part[kHead], sum += part[d];
    out.write(n * out.row + h * out.head + d * out.col, weight == 0 ? 0.0f : sum / weight);
  }
  __syncthreads();  // the next row may overwrite the parts
}

// True in all threads of the last of `count` blocks. What the others wrote before is visible to it. Resets
// the counter for the next kernel.
__device__ __forceinline__ bool arrives_last(int32_t* arrivals, int count) {
  __shared__ int last;
  if (count == 1) {
    __syncthreads();
    return true;
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(arrivals, 1) == count - 1;
    if (last) *arrivals = 0;
    __threadfence();
  }
  __syncthreads();
  return last != 0;
}

// Merges all rows of a block's sequence and head if this is the last of its blocks.
template <class Plan>
__device__ __forceinline__ void merge_if_last(const StepRows<float>& out, const float* partial,
                                              const KvView& kv, const DecodeCall& call, const DecodeSpan& at,
                                              MergeMemory<Plan::kHead>& parts) {
  if (!arrives_last(call.arrivals + at.b * kv.groups + at.g, spans_of(at.own_splits, call.span_shift)))
    return;
  // A load takes long while other blocks stream the cache, so each warp has rows of its own if it can.
  const bool by_warps = at.rows >= Plan::kWarps || at.own_splits <= kSplitsOfWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, D = static_cast<int>(kv.head_size);
  for (int r = by_warps ? warp : 0; r < at.rows; r += by_warps ? Plan::kWarps : 1) {
    const int64_t n = at.row(r), h = at.head(r), line = n * kv.groups * at.shared + h;
    const float* const sums = partial + line * call.splits * (kPartialHead + D);
    if (by_warps)
      merge_by_warp<Plan::kHead>(out, n, h, sums, at.own_splits, D);
    else
      merge_by_block<Plan::kHead, Plan::kWarps>(out, n, h, sums, at.own_splits, D, parts);
  }
}

// A block merges kRows of the step's `rows` query rows: a warp each, or all warps one.
template <int kHead, int kRows>
static __global__ void __launch_bounds__(kMergeParts* kWarp)
    merge_long_splits_kernel(StepRows<float> out, const float* partial, const __grid_constant__ KvView kv,
                             const __grid_constant__ DecodeCall call, int64_t rows) {
  __shared__ MergeMemory<kHead> parts;
  start_next_kernel();
  wait_for_previous_kernel();
  const int64_t H = kv.groups * call.shared,
                line = static_cast<int64_t>(blockIdx.x) * kRows + (kRows > 1 ? threadIdx.x / kWarp : 0),
                n = line / H, h = line % H;
  if (line >= rows) return;
  const int64_t b = sequence_of(kv, n);
  if (n >= kv.first_row[b + 1]) return;
  const auto D = static_cast<int>(kv.head_size),
             splits = static_cast<int>(splits_of(kv.held(kv.lengths[b]), call.split_tokens));
  const float* const sums = partial + line * call.splits * (kPartialHead + D);
  if constexpr (kRows > 1)
    merge_by_warp<kHead>(out, n, h, sums, splits, D);
  else
    merge_by_block<kHead, kMergeParts>(out, n, h, sums, splits, D, parts);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
