// Attention to a cache on CUDA (contract: backend/cpu/attention_decode.hpp): the tokens of a sequence are
// divided into splits, one block each, so that a single long sequence fills the device. This header chooses
// the kernel of the splits, and merges their sums if that is the kernel for any device, whose splits have a
// fixed length; attention_decode/paged_merge.cuh merges those of tensor cores.
//
// The sums of a split are relative to its largest score m_s:  out = sum_s 2^(m_s - m) o_s / sum_s 2^(m_s - m)
// w_s. Which warp adds a split, and in which order, depends on the number of the split alone, so that the
// number of splits of another sequence changes no bit.
// Source: Dao et al., "Flash-Decoding for long-context inference", 2023.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/attention/heads.cuh>
#include <tinytorch/backend/cuda/kernels/attention_decode/paged_tensor.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// One block per query row. A warp has every eighth split, and a lane every 32nd column of the head.
template <class A, int kHead>
static __global__ void __launch_bounds__(kMergeWarps* kWarp)
    merge_splits_kernel(StepRows<A> out, const A* partial, const __grid_constant__ KvView kv,
                        const __grid_constant__ DecodeCall call) {
  constexpr int kColumns = kHead / kWarp;
  __shared__ A tops[kMergeWarps], meeting[kMergeWarps][kHead + 1];
  start_next_kernel();
  wait_for_previous_kernel();
  const int64_t D = kv.head_size, H = kv.groups * call.shared, n = blockIdx.x / H, h = blockIdx.x % H;
  const int64_t b = sequence_of(kv, n), size = kPartialHead + D;
  if (n >= kv.first_row[b + 1]) return;
  const int splits = static_cast<int>((kv.held(kv.lengths[b]) + call.split_tokens - 1) / call.split_tokens),
            warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const A* const from = partial + (n * H + h) * call.splits * size;
  A top = DecodeRow<A, 1>::kNone;
  for (int s = static_cast<int>(threadIdx.x); s < splits; s += kMergeWarps * kWarp)
    top = from[s * size] > top ? from[s * size] : top;
  top = warp_reduce<kWarp>(top, Maximum());
  if (lane == 0) tops[warp] = top;
  __syncthreads();
#pragma unroll
  for (const A x : tops) top = x > top ? x : top;
  if (top == DecodeRow<A, 1>::kNone) top = 0;  // 2^-infinity is 0
  A weight = 0, sum[kColumns] = {};
#pragma unroll 4
  for (int s = warp; s < splits; s += kMergeWarps) {
    const A* const split = from + s * size;
    const A factor = exp2_of(split[0] - top);
    weight += factor * split[1];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int d = c * kWarp + lane;
      if (d < D) sum[c] += factor * split[kPartialHead + d];
    }
  }
  if (lane == 0) meeting[warp][kHead] = weight;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) meeting[warp][c * kWarp + lane] = sum[c];
  __syncthreads();
  for (int d = static_cast<int>(threadIdx.x); d < D; d += kMergeWarps * kWarp) {
    DecodeRow<A, 1> row;
    for (int w = 0; w < kMergeWarps; ++w) row.weight += meeting[w][kHead], row.sum[0] += meeting[w][d];
    out.write(n * out.row + h * out.head + d * out.col, row.result());
  }
}

// The operands of a step. k and v are null if the step's own tokens are in the cache already.
struct DecodeOperands {
  const View &out, &q, &k, &v;
  const KvView& kv;
};

// Numbers that hold the sums of so many parts of each row until they are merged.
inline int64_t partial_size(const DecodeOperands& x, int64_t parts) {
  return parts > 1 ? x.q.shape[0] * x.q.shape[1] * parts * (kPartialHead + x.kv.head_size) : 0;
}

// The kernels for any device. A block computes kRows query rows.
template <class A, class K, int kHead, int kRows, bool kVector>
void launch_decode(const DecodeOperands& x, DecodeCall call) {
  if (x.k.data) kv_append(x.kv, x.k, x.v);
  call.split_tokens = kDecodeSplit;
  call.splits = std::max<int64_t>(1, ceil_div(x.kv.held(x.kv.longest), call.split_tokens));
  call.row_groups = row_groups(x.kv, x.q.shape[0], call.shared, kRows);
  const DeviceScratch<A> partial(partial_size(x, call.splits));
  const int64_t blocks = call.splits * call.row_groups.count * x.kv.groups;
  launch(attention_paged_kernel<A, K, kHead, kRows, kVector>,
         {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kDecodeThreads), .early = true},
         partial.data(), StepRows<A>(x.out), StepRows<A>(x.q), x.kv, call);
  if (call.splits == 1) return;
  launch(merge_splits_kernel<A, kHead>,
         {.grid = dim3(static_cast<unsigned>(x.q.shape[0] * x.q.shape[1])),
          .block = dim3(kMergeWarps * kWarp),
          .early = true},
         StepRows<A>(x.out), static_cast<const A*>(partial.data()), x.kv, call);
}

template <int kHead>
void merge_splits(const DecodeOperands& x, const float* partial, const DecodeCall& call) {
  const int64_t rows = x.q.shape[0] * x.q.shape[1];
  const bool by_warps = call.by_section || call.parts < kSplitsOfBlock;
  launch(by_warps ? merge_long_splits_kernel<kHead, kMergeWarps> : merge_long_splits_kernel<kHead, 1>,
         {.grid = dim3(static_cast<unsigned>(by_warps ? ceil_div(rows, kMergeWarps) : rows)),
          .block = dim3(kMergeWarps * kWarp),
          .early = true},
         StepRows<float>(x.out), partial, x.kv, call, rows);
}

// The way to divide a step: the size of spans, and how many blocks share a multiprocessor.
struct DecodeGrid {
  unsigned span_shift;
  int64_t blocks_each;
};

// The grid that is expected to take the least time for `lines` rows of work of so many splits, where `most`
// blocks fit each of the multiprocessors. The unit of time is that of a long split, which the blocks of a
// multiprocessor share. A block alone takes at least two of them, because its instructions wait for each
// other, and one to begin.
inline DecodeGrid best_decode_grid(int64_t lines, int64_t splits, int64_t multiprocessors, int64_t most) {
  DecodeGrid best{0, most};
  double least = std::numeric_limits<double>::infinity();
  for (int64_t each = most; each > 0; --each) {
    for (unsigned shift = 0; shift <= kMostSpanShift; ++shift) {
      const int64_t spans = spans_of(splits, shift), blocks = lines * spans,
                    rounds = ceil_div(blocks, multiprocessors * each),
                    sharing = blocks > multiprocessors ? each : 1;
      const double size = shift >= kUnitShift     ? static_cast<double>(std::min(
                                                        units_of(splits), int64_t{1} << (shift - kUnitShift)))
                          : splits > kShortSplits ? 1
                                                  : 0.25 * (1 << shift),
                   time = static_cast<double>(rounds) *
                          (std::max(static_cast<double>(sharing) * size, 2 * size) + 1);
      if (time < least) least = time, best = {shift, each};
      if (spans == 1) break;
    }
  }
  return best;
}

// Appends within the kernel, and merges in its last blocks, if a block has all query rows of its sequence.
template <class Plan>
bool launch_decode_tensor(const DecodeOperands& x, DecodeCall call) {
  LaunchConfig config{dim3(1), dim3(kDecodeThreads), Plan::kSharedBytes};
  if (!fits_shared_memory(config)) return false;
  call.split_tokens = Plan::kSplit;
  call.splits = splits_of(x.kv.held(x.kv.longest), call.split_tokens);
  call.row_groups = row_groups(x.kv, x.q.shape[0], call.shared, Plan::kRows);
  const DeviceProperties& device = properties(current_device());
  const int64_t lines = call.row_groups.count * x.kv.groups,
                most = resident_blocks(attention_paged_tensor_kernel<Plan>, config) / device.multiprocessors;
  const DecodeGrid grid = best_decode_grid(lines, call.splits, device.multiprocessors, most);
  if constexpr (!std::is_void_v<typename Plan::WithFewerBlocks>) {
    if (grid.blocks_each < most) return launch_decode_tensor<typename Plan::WithFewerBlocks>(x, call);
  }
  call.heads = FastDivide(static_cast<uint32_t>(call.shared));
  call.page = FastDivide(static_cast<uint32_t>(x.kv.page));
  call.ring = FastDivide(static_cast<uint32_t>(std::max<int64_t>(1, x.kv.ring)));
  call.arrivals = call.row_groups.each == 1 ? x.kv.arrivals : nullptr;
  const int64_t spans = spans_of(call.splits, grid.span_shift);
  call.span_shift = grid.span_shift, call.spans = static_cast<unsigned>(lines * spans);
  call.by_section = Plan::kAddsSections && (spans == 1 || grid.span_shift >= kUnitShift + kSectionShift);
  call.parts = call.by_section ? sections_of(call.splits) : call.splits;
  config.grid.x =
      static_cast<unsigned>(std::min<int64_t>(call.spans, device.multiprocessors * grid.blocks_each));
  // More blocks would fit otherwise, and those of a kernel that starts early would meet on few
  // multiprocessors.
  if (grid.blocks_each < most)
    config.shared_bytes = round_up(device.shared_per_multiprocessor / (grid.blocks_each + 1) + 1, 128);
  config.early = true;
  const bool appends = x.k.data && call.row_groups.each == 1;
  if (x.k.data && !appends) kv_append(x.kv, x.k, x.v);
  DecodeStepRows step{StepRows<float>(x.out), StepRows<float>(x.q), StepRows<float>(appends ? x.k : x.q),
                      StepRows<float>(appends ? x.v : x.q)};
  if (!appends) step.k.data = nullptr;
  const DeviceScratch<float> partial(partial_size(x, call.parts));
  launch(attention_paged_tensor_kernel<Plan>, config, partial.data(), step, x.kv, call);
  if (call.parts > 1 && !call.arrivals) merge_splits<Plan::kHead>(x, partial.data(), call);
  return true;
}

// The size of splits and tiles depends on the types, the head size and the grouping alone, and columns of a
// product do not mix, so bits do not depend on the number of rows that a block computes. Sizes are those that
// were fastest on an H200: a kernel that spills registers there is slower than one with fewer blocks.
template <class K, class Q, int kHead>
bool launch_decode_tensor(const DecodeOperands& x, const DecodeCall& call) {
  constexpr bool kOf16Bits = kIs16Bit<K>, kInt4 = std::is_same_v<K, Int4>;
  const bool one_tile = x.kv.most_rows * call.shared <= 8;
  if constexpr (kHead > 128) {
    if (one_tile) return launch_decode_tensor<DecodePlan<K, Q, kHead, 1, 512, 2, 1>>(x, call);
    return launch_decode_tensor<DecodePlan<K, Q, kHead, 2, 512, 2, 1>>(x, call);
  } else if constexpr (kHead > 64) {
    if (one_tile)
      return launch_decode_tensor<DecodePlan<K, Q, kHead, 1, 512, kOf16Bits ? 3 : 2, kInt4 ? 3 : 2>>(x, call);
    return launch_decode_tensor<DecodePlan<K, Q, kHead, 2, 512, 3, 2>>(x, call);
  } else {
    if (one_tile) return launch_decode_tensor<DecodePlan<K, Q, kHead, 1, 512, 3, 4>>(x, call);
    return launch_decode_tensor<DecodePlan<K, Q, kHead, 2, 512, 3, 3>>(x, call);
  }
}

// Queries of f32 keep the arithmetic of f32. Returns false if the kernel for any device must be used.
template <class K>
bool decode_on_tensor_cores(const DecodeOperands& x, const DecodeCall& call) {
  [[maybe_unused]] const KvView& kv = x.kv;
  [[maybe_unused]] const DType queries = x.q.dtype;
  if constexpr (sizeof(K) > 2) {
    return false;
  } else {
    constexpr int64_t kMost = int64_t{1} << 30;
    const bool words = std::is_same_v<K, Int4> ? kv.head_size % 64 == 0
                                               : kv.head_size * static_cast<int64_t>(sizeof(K)) % 16 == 0;
    const bool narrow = queries == DType::f16 || (queries == DType::bf16 && !std::is_same_v<K, Half>);
    if (!narrow || !words || !has_tensor_cores() || kv.longest > kMost || x.q.shape[0] * call.shared > kMost)
      return false;
    bool done = false;
    dispatch_head(std::max<int64_t>(kv.head_size, 64), [&]<int kHead>() {
      if constexpr (kHead >= 64) {
        if (queries == DType::f16) {
          done = launch_decode_tensor<K, Half, kHead>(x, call);
        } else if constexpr (!std::is_same_v<K, Half>) {
          done = launch_decode_tensor<K, BFloat16, kHead>(x, call);
        }
      }
    });
    return done;
  }
}

void append_and_attend(const View& out, const View& q, const View& k, const View& v, const KvView& kv,
                       double scale, int64_t window) {
  if (out.numel() == 0) return;
  const DecodeOperands x{out, q, k, v, kv};
  dispatch_cache(q.dtype, kv, [&]<class A, class K>(A*, K*) {
    DecodeCall call{};
    call.shared = q.shape[1] / kv.groups;
    call.window = window;
    call.scale = scale * std::numbers::log2e;
    if (decode_on_tensor_cores<K>(x, call)) return;
    const bool vector = kv.head_size * static_cast<int64_t>(sizeof(K)) % 16 == 0;
    dispatch_head(std::max<int64_t>(kv.head_size, 64), [&]<int kHead>() {
      if constexpr (kHead >= 64) {
        if constexpr (!std::is_same_v<K, Int4>) {  // whose rows are always words
          if (!vector) return launch_decode<A, K, kHead, 4, false>(x, call);
        }
        if constexpr (std::is_same_v<A, float>) {
          if (kv.most_rows * call.shared == 1) return launch_decode<A, K, kHead, 1, true>(x, call);
        }
        launch_decode<A, K, kHead, 4, true>(x, call);
      }
    });
  });
}

void attention_decode(const View& out, const View& q, const KvView& kv, double scale, int64_t window) {
  append_and_attend(out, q, View{}, View{}, kv, scale, window);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
