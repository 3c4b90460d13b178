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

// Shared memory of a merge.
template <int kHead>
struct alignas(16) MergeMemory {
  float parts[kMergeParts][kHead + 4];  // of a row: the sums of each column, then the weight
  int is_last;
};

// The largest score of a row, in all lanes of a warp, of partial [splits][kPartialHead + D]. Other blocks
// wrote it, so it is read from L2: the L1 cache of this multiprocessor may hold older bytes. The result is 0
// if the score is -infinity, because 2^-infinity is 0.
__device__ __forceinline__ float largest_of_splits(const float* partial, int splits, int D) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  float top = kNone;
#pragma unroll 1
  for (int s = static_cast<int>(threadIdx.x) % kWarp; s < splits; s += kWarp)
    top = fmaxf(top, __ldcg(partial + static_cast<int64_t>(s) * (kPartialHead + D)));
  top = warp_reduce(top, Maximum());
  return top == kNone ? 0.0f : top;
}

// Loads the sums of four adjacent columns, or zeros.
__device__ __forceinline__ void load_sums(float (&sum)[4], const float* from, bool exists) {
  const float4 x = exists ? __ldcg(reinterpret_cast<const float4*>(from)) : float4{};
  sum[0] = x.x, sum[1] = x.y, sum[2] = x.z, sum[3] = x.w;
}

// Writes four adjacent columns of a row.
__device__ __forceinline__ void write_average(const StepRows<float>& out, int64_t at, const float (&sum)[4],
                                              float weight) {
  const float inverse = weight == 0 ? 0.0f : 1 / weight;
  float x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = weight == 0 ? 0.0f : __fmul_rn(sum[i], inverse);
  out.write_columns(at, x);
}

// Rows of up to so many splits are merged by a warp. Loops are not unrolled where loads need not be on the
// way together: a merge executes each of its instructions once or twice, so fetching them is a part of its
// time.
inline constexpr int kSplitsOfWarp = 4 * kMergeParts;

template <int kHead>
__device__ __forceinline__ void merge_by_warp(const StepRows<float>& out, int64_t n, int64_t h,
                                              const float* partial, int splits, int D) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, size = static_cast<int>(kPartialHead) + D;
  const float top = largest_of_splits(partial, splits, D);
#pragma unroll 1
  for (int column = 0; column < kHead; column += 4 * kWarp) {
    float sum[kMergeParts][4] = {}, weight = 0;  // the weight of part p is in lane p
    const int d = column + 4 * lane;
    const bool inside = d < D;
#pragma unroll 1
    for (int first = 0; first < splits; first += kMergeParts) {
      const float* const round = partial + static_cast<int64_t>(first) * size;
      float x[kMergeParts][4], factor = 0;
#pragma unroll
      for (int p = 0; p < kMergeParts; ++p)
        load_sums(x[p], round + p * size + kPartialHead + d, inside && first + p < splits);
      if (lane < kMergeParts && first + lane < splits) {
        const float2 head = __ldcg(reinterpret_cast<const float2*>(round + lane * size));
        factor = exp2_approx(head.x - top);
        weight = fmaf(factor, head.y, weight);
      }
#pragma unroll
      for (int p = 0; p < kMergeParts; ++p) {
        const float its = __shfl_sync(kAllLanes, factor, p);
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[p][i] = fmaf(its, x[p][i], sum[p][i]);
      }
    }
    float all = __shfl_sync(kAllLanes, weight, 0);
#pragma unroll
    for (int p = 1; p < kMergeParts; ++p) {
      all += __shfl_sync(kAllLanes, weight, p);
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[0][i] += sum[p][i];
    }
    if (inside) write_average(out, n * out.row + h * out.head + d * out.col, sum[0], all);
  }
}

// Called by all kWarps warps of a block.
template <int kHead, int kWarps>
__device__ __forceinline__ void merge_by_block(const StepRows<float>& out, int64_t n, int64_t h,
                                               const float* partial, int splits, int D,
                                               MergeMemory<kHead>& memory) {
  auto& parts = memory.parts;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  constexpr int kQuads = (kHead + 4 * kWarp - 1) / (4 * kWarp);  // of columns of a lane
  const float top = largest_of_splits(partial, splits, D);
#pragma unroll 1
  for (int part = warp; part < kMergeParts; part += kWarps) {
    float weight = 0, sum[kQuads][4] = {};
#pragma unroll 4
    for (int s = part; s < splits; s += kMergeParts) {
      const float* const split = partial + static_cast<int64_t>(s) * (kPartialHead + D);
      const float2 head = __ldcg(reinterpret_cast<const float2*>(split));
      const float factor = exp2_approx(head.x - top);
      weight = fmaf(factor, head.y, weight);
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        const int d = 4 * (q * kWarp + lane);
        float x[4];
        load_sums(x, split + kPartialHead + d, d < D);
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[q][i] = fmaf(factor, x[i], sum[q][i]);
      }
    }
    if (lane == 0) parts[part][kHead] = weight;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const int d = 4 * (q * kWarp + lane);
      if (d < kHead)
        *reinterpret_cast<float4*>(&parts[part][d]) = {sum[q][0], sum[q][1], sum[q][2], sum[q][3]};
    }
  }
  __syncthreads();
  const int d = 4 * static_cast<int>(threadIdx.x);
  if (d < D) {
    float weight = 0, sum[4] = {};
#pragma unroll 1
    for (int p = 0; p < kMergeParts; ++p) {
      weight += parts[p][kHead];
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] += parts[p][d + i];
    }
    write_average(out, n * out.row + h * out.head + d * out.col, sum, weight);
  }
  __syncthreads();  // the next row may overwrite the parts
}

// True in all threads of the last of `count` blocks. What the others wrote before is visible to it. Resets
// the counter for the next kernel. is_last: in shared memory.
__device__ __forceinline__ bool arrives_last(int32_t* arrivals, int count, int& is_last) {
  if (count == 1) {
    __syncthreads();
    return true;
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicAdd(arrivals, 1) == count - 1;
    if (is_last) *arrivals = 0;
    __threadfence();
  }
  __syncthreads();
  return is_last != 0;
}

// Merges all rows of a block's sequence and head if this is the last of its blocks.
template <class Plan>
__device__ __forceinline__ void merge_if_last(const StepRows<float>& out, const float* partial,
                                              const KvView& kv, const DecodeCall& call, const DecodeSpan& at,
                                              MergeMemory<Plan::kHead>& memory) {
  const int spans = spans_of(at.own_splits, call.span_shift);
  if (!arrives_last(call.arrivals + at.b * kv.groups + at.g, spans, memory.is_last)) return;
  // A load takes long while other blocks stream the cache, so each warp has rows of its own if it can.
  const bool by_warps = at.rows >= Plan::kWarps || at.own_splits <= kSplitsOfWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, D = static_cast<int>(kv.head_size);
#pragma unroll 1
  for (int r = by_warps ? warp : 0; r < at.rows; r += by_warps ? Plan::kWarps : 1) {
    const int64_t n = at.row(r), h = at.head(r), line = n * kv.groups * at.shared + h;
    const float* const sums = partial + line * call.splits * (kPartialHead + D);
    if (by_warps)
      merge_by_warp<Plan::kHead>(out, n, h, sums, at.own_splits, D);
    else
      merge_by_block<Plan::kHead, Plan::kWarps>(out, n, h, sums, at.own_splits, D, memory);
  }
}

// A block merges kRows of the step's `rows` query rows: a warp each, or all warps one.
template <int kHead, int kRows>
static __global__ void __launch_bounds__(kMergeParts* kWarp)
    merge_long_splits_kernel(StepRows<float> out, const float* partial, const __grid_constant__ KvView kv,
                             const __grid_constant__ DecodeCall call, int64_t rows) {
  __shared__ MergeMemory<kHead> memory;
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
    merge_by_block<kHead, kMergeParts>(out, n, h, sums, splits, D, memory);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
