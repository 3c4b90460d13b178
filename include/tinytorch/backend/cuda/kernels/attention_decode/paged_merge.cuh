// Adds the sums of a query row that several blocks have computed, for attention on tensor cores
// (attention_decode/paged_tensor.cuh). Sums are relative to a power of two, their top m_s:
//
//   out = sum_s 2^(m_s - m) o_s / sum_s 2^(m_s - m) w_s
//
// A part is a split or a section (attention_decode/splits.cuh). The order of additions depends on the number
// of a split alone: the number of splits of another sequence changes no bit. Either all warps of a block
// merge a row, or, if there are many rows of few parts, one warp.
//
// The last block of a sequence and a head merges: each block counts its arrival in memory of the cache. That
// saves a kernel, which would take as long as the attention to a short sequence. A step with more query rows
// than a block has, or memory without such counters, has a kernel of its own for the merge.
#pragma once

#include <tinytorch/backend/cuda/kernels/attention_decode/paged_tiles.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kMergeWarps = 8;

// The sums of a query row over some of its tokens: the weight, and those of four adjacent columns, which this
// lane has, relative to 2^top. Without tokens, adding them changes nothing, and adding to them copies.
struct DecodeSums {
  static constexpr float kNone = -std::numeric_limits<float>::infinity();
  float top = kNone, weight = 0, sum[4] = {};

  __device__ __forceinline__ void add(const DecodeSums& other) {
    const float next = fmaxf(top, other.top), shift = next == kNone ? 0.0f : next,  // 2^-infinity is 0
        own = exp2_approx(top - shift), its = exp2_approx(other.top - shift);
    top = next, weight = fmaf(its, other.weight, __fmul_rn(own, weight));
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] = fmaf(its, other.sum[i], __fmul_rn(own, sum[i]));
  }
};

// Reads part `part` of a row's sums [parts][kPartialHead + D], columns d to d + 3, or gives none. Other
// blocks wrote them, so they are read from L2: the L1 cache of this multiprocessor may hold older bytes.
__device__ __forceinline__ DecodeSums read_part(const float* partial, int part, int D, int d, bool exists) {
  DecodeSums x;
  if (!exists) return x;
  const float* const from = partial + static_cast<int64_t>(part) * (kPartialHead + D);
  const float2 head = __ldcg(reinterpret_cast<const float2*>(from));
  const float4 sum = d < D ? __ldcg(reinterpret_cast<const float4*>(from + kPartialHead + d)) : float4{};
  x.top = head.x, x.weight = head.y;
  x.sum[0] = sum.x, x.sum[1] = sum.y, x.sum[2] = sum.z, x.sum[3] = sum.w;
  return x;
}

// Writes four adjacent columns of a row.
__device__ __forceinline__ void write_average(const StepRows<float>& out, int64_t at, const DecodeSums& row) {
  const float inverse = 1 / row.weight;  // not used if there is no weight
  float x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = row.weight == 0 ? 0.0f : __fmul_rn(row.sum[i], inverse);
  out.write_columns(at, x);
}

// A row of so many splits is merged by all warps of a block.
inline constexpr int kSplitsOfBlock = 33;
// Parts whose loads are on the way together.
inline constexpr int kPartsAhead = 8;

// Sums of splits [first, end) of a section.
__device__ __forceinline__ DecodeSums sums_of_splits(const float* partial, int first, int end, int D, int d) {
  DecodeSums all;
#pragma unroll 1
  for (; first < end; first += kPartsAhead) {
    DecodeSums x[kPartsAhead];
#pragma unroll
    for (int i = 0; i < kPartsAhead; ++i) x[i] = read_part(partial, first + i, D, d, first + i < end);
#pragma unroll
    for (const DecodeSums& part : x) all.add(part);
  }
  return all;
}

// The sums of all parts of a row. by_section: they are those of sections.
__device__ __forceinline__ DecodeSums sums_of_row(const float* partial, int parts, bool by_section, int D,
                                                  int d) {
  if (by_section) return sums_of_splits(partial, 0, parts, D, d);
  DecodeSums all;
#pragma unroll 1
  for (int section = 0; first_of_section(section) < parts; ++section)
    all.add(
        sums_of_splits(partial, first_of_section(section), min(parts, first_of_section(section + 1)), D, d));
  return all;
}

// Called by all lanes of a warp.
__device__ __forceinline__ void merge_by_warp(const StepRows<float>& out, int64_t n, int64_t h,
                                              const float* partial, int parts, bool by_section, int D) {
#pragma unroll 1
  for (int d = 4 * static_cast<int>(threadIdx.x % kWarp); d < D; d += 4 * kWarp)
    write_average(out, n * out.row + h * out.head + d * out.col,
                  sums_of_row(partial, parts, by_section, D, d));
}

// Sums in shared memory: those of kHead columns, then top and weight.
template <int kHead>
__device__ __forceinline__ DecodeSums read_sums(const float* from, int d) {
  const float2 head = *reinterpret_cast<const float2*>(from + kHead);
  DecodeSums x{head.x, head.y, {}};
  load(x.sum, from + d);
  return x;
}

// Shared memory of a merge.
template <int kHead>
struct alignas(16) MergeMemory {
  float sections[kMergeWarps][kHead + 4];  // of a row: the sums of each column, then top and weight
  int is_last;
};

// Called by all kWarps warps of a block, for parts that are splits. Each warp has a section at a time.
template <int kHead, int kWarps>
__device__ __forceinline__ void merge_by_block(const StepRows<float>& out, int64_t n, int64_t h,
                                               const float* partial, int splits, int D,
                                               MergeMemory<kHead>& memory) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp,
            sections = sections_of(splits), own = 4 * static_cast<int>(threadIdx.x);
  DecodeSums all;
#pragma unroll 1
  for (int first = 0; first < sections; first += kWarps) {
    const int section = first + warp;
    float* const to = memory.sections[warp];
#pragma unroll 1
    for (int d = 4 * lane; d < kHead; d += 4 * kWarp) {
      const DecodeSums x = sums_of_splits(partial, first_of_section(section),
                                          min(splits, first_of_section(section + 1)), D, d);
      store(to + d, x.sum);
      if (d == 0) *reinterpret_cast<float2*>(to + kHead) = {x.top, x.weight};
    }
    __syncthreads();
#pragma unroll 1
    for (int w = 0; w < kWarps && own < D; ++w) all.add(read_sums<kHead>(memory.sections[w], own));
    __syncthreads();  // the next sections may overwrite these
  }
  if (own < D) write_average(out, n * out.row + h * out.head + own * out.col, all);
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
  const int parts = at.parts(call), spans = spans_of(at.own_splits, call.span_shift);
  if (parts == 1) return;  // its block has written the result
  if (!arrives_last(call.arrivals + at.b * kv.groups + at.g, spans, memory.is_last)) return;
  // A load takes long while other blocks stream the cache, so each warp has rows of its own if it can.
  const bool by_warps = call.by_section || at.rows >= Plan::kWarps || parts < kSplitsOfBlock;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, D = static_cast<int>(kv.head_size);
#pragma unroll 1
  for (int r = by_warps ? warp : 0; r < at.rows; r += by_warps ? Plan::kWarps : 1) {
    const float* const sums = partial + static_cast<int64_t>(at.line(r)) * call.parts * (kPartialHead + D);
    if (by_warps)
      merge_by_warp(out, at.row(r), at.head(r), sums, parts, call.by_section, D);
    else
      merge_by_block<Plan::kHead, Plan::kWarps>(out, at.row(r), at.head(r), sums, parts, D, memory);
  }
}

// A block merges kRows of the step's `rows` query rows: a warp each, or all warps one, whose parts are
// splits.
template <int kHead, int kRows>
static __global__ void __launch_bounds__(kMergeWarps* kWarp)
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
             splits = static_cast<int>(splits_of(kv.held(kv.lengths[b]), call.split_tokens)),
             parts = call.by_section ? sections_of(splits) : splits;
  if (parts == 1) return;  // its block has written the result
  const float* const sums = partial + line * call.parts * (kPartialHead + D);
  if constexpr (kRows > 1)
    merge_by_warp(out, n, h, sums, parts, call.by_section, D);
  else
    merge_by_block<kHead, kMergeWarps>(out, n, h, sums, parts, D, memory);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
