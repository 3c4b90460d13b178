// Attention to a cache on CUDA (contract: backend/cpu/attention_decode.hpp): the tokens of a sequence are
// divided into splits of a fixed length, one block each, so that a single long sequence fills the device;
// this header merges their sums.
//
// The sums of a split are relative to its largest score m_s:  out = sum_s 2^(m_s - m) o_s / sum_s 2^(m_s - m)
// w_s. Which warp adds a split, and in which order, depends on the number of the split alone, so that the
// number of splits of another sequence changes no bit.
// Source: Dao et al., "Flash-Decoding for long-context inference", 2023.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/attention_heads.cuh>
#include <tinytorch/backend/cuda/kernels/attention_paged_tensor.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kMergeWarps = 8;

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

// Queues the kernel of the splits, then the merge. A block computes kRows query rows.
template <class A, int kHead, class Kernel>
void launch_splits(Kernel* kernel, int rows, size_t shared_bytes, const View& out, const View& q,
                   const KvView& kv, DecodeCall call) {
  const int64_t N = q.shape[0], H = q.shape[1];
  call.splits = std::max<int64_t>(1, ceil_div(kv.held(kv.longest), call.split_tokens));
  call.row_groups = ceil_div(kv.most_rows * call.shared, rows);
  const int64_t blocks = call.splits * call.row_groups * kv.groups * kv.batch;
  const DeviceScratch<A> partial(call.splits > 1 ? N * H * call.splits * (kPartialHead + kv.head_size) : 0);
  launch(kernel,
         {.grid = dim3(static_cast<unsigned>(blocks)),
          .block = dim3(kDecodeThreads),
          .shared_bytes = shared_bytes,
          .early = true},
         partial.data(), StepRows<A>(out), StepRows<A>(q), kv, call);
  if (call.splits == 1) return;
  launch(merge_splits_kernel<A, kHead>,
         {.grid = dim3(static_cast<unsigned>(N * H)), .block = dim3(kMergeWarps * kWarp), .early = true},
         StepRows<A>(out), static_cast<const A*>(partial.data()), kv, call);
}

template <class A, class K, int kHead, int kRows, bool kVector>
void launch_decode(const View& out, const View& q, const KvView& kv, DecodeCall call) {
  call.split_tokens = kDecodeSplit;
  launch_splits<A, kHead>(attention_paged_kernel<A, K, kHead, kRows, kVector>, kRows, 0, out, q, kv, call);
}

template <class Plan>
bool launch_decode_tensor(const View& out, const View& q, const KvView& kv, DecodeCall call) {
  const LaunchConfig config{dim3(1), dim3(kDecodeThreads), Plan::kBytes};
  if (!fits_shared_memory(config)) return false;
  call.split_tokens = Plan::kSplit;
  launch_splits<float, Plan::kHead>(attention_paged_tensor_kernel<Plan>, Plan::kRows, Plan::kBytes, out, q,
                                    kv, call);
  return true;
}

// The plan depends on the types, the head size and the grouping alone, as then do the bits. Sizes are those
// that were fastest on an H100.
template <class K, class Q, int kHead>
bool launch_decode_tensor(const View& out, const View& q, const KvView& kv, const DecodeCall& call) {
  constexpr bool kWide = kIs16Bit<K>;
  if constexpr (kHead > 128) {
    return launch_decode_tensor<DecodePlan<K, Q, kHead, 1, 512, 2, 1>>(out, q, kv, call);
  } else if (call.shared > 16) {
    return launch_decode_tensor<DecodePlan<K, Q, kHead, 2, 1024, kWide ? 3 : 4, 2>>(out, q, kv, call);
  } else if constexpr (kHead > 64) {
    constexpr int kStages = kWide ? 2 : std::is_same_v<K, Int4> ? 3 : 4;
    return launch_decode_tensor<DecodePlan<K, Q, kHead, 1, 512, kStages, 3>>(out, q, kv, call);
  } else {
    return launch_decode_tensor<DecodePlan<K, Q, kHead, 1, 512, kWide ? 3 : 4, 4>>(out, q, kv, call);
  }
}

// Queries of f32 keep the arithmetic of f32. Returns false if the kernel for any device must be used.
template <class K>
bool decode_on_tensor_cores(const View& out, const View& q, const KvView& kv, const DecodeCall& call) {
  if constexpr (sizeof(K) > 2) {
    return false;
  } else {
    constexpr int64_t kMost = int64_t{1} << 30;
    const bool words = std::is_same_v<K, Int4> ? kv.head_size % 64 == 0
                                               : kv.head_size * static_cast<int64_t>(sizeof(K)) % 16 == 0;
    const bool narrow = q.dtype == DType::f16 || (q.dtype == DType::bf16 && !std::is_same_v<K, Half>);
    if (!narrow || !words || !has_tensor_cores() || kv.longest > kMost || kv.most_rows * call.shared > kMost)
      return false;
    bool done = false;
    dispatch_head(std::max<int64_t>(kv.head_size, 64), [&]<int kHead>() {
      if constexpr (kHead >= 64) {
        if (q.dtype == DType::f16) {
          done = launch_decode_tensor<K, Half, kHead>(out, q, kv, call);
        } else if constexpr (!std::is_same_v<K, Half>) {
          done = launch_decode_tensor<K, BFloat16, kHead>(out, q, kv, call);
        }
      }
    });
    return done;
  }
}

void attention_decode(const View& out, const View& q, const KvView& kv, double scale, int64_t window) {
  if (out.numel() == 0) return;
  dispatch_cache(q.dtype, kv, [&]<class A, class K>(A*, K*) {
    DecodeCall call{};
    call.shared = q.shape[1] / kv.groups;
    call.window = window;
    call.scale = scale * std::numbers::log2e;
    if (decode_on_tensor_cores<K>(out, q, kv, call)) return;
    const bool vector = kv.head_size * static_cast<int64_t>(sizeof(K)) % 16 == 0;
    dispatch_head(std::max<int64_t>(kv.head_size, 64), [&]<int kHead>() {
      if constexpr (kHead >= 64) {
        if constexpr (!std::is_same_v<K, Int4>) {  // whose rows are always words
          if (!vector) return launch_decode<A, K, kHead, 4, false>(out, q, kv, call);
        }
        if constexpr (std::is_same_v<A, float>) {
          if (kv.most_rows * call.shared == 1) return launch_decode<A, K, kHead, 1, true>(out, q, kv, call);
        }
        launch_decode<A, K, kHead, 4, true>(out, q, kv, call);
      }
    });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
