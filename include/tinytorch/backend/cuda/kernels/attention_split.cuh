// Attention to a cache on CUDA (contract: backend/cpu/attention_decode.hpp): the tokens of a sequence are
// divided into splits of kDecodeSplit, one block each, so that a single long sequence fills the device; this
// header merges their sums.
//
// The sums of a split are relative to its largest score m_s:  out = sum_s 2^(m_s - m) o_s / sum_s 2^(m_s - m)
// w_s. They are added in the order of the splits, whose borders depend on the position alone, so that the
// number of splits of another sequence changes no bit.
// Source: Dao et al., "Flash-Decoding for long-context inference", 2023.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/attention_heads.cuh>
#include <tinytorch/backend/cuda/kernels/attention_paged.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// One block per query row; a thread has columns of the head.
template <class A>
static __global__ void __launch_bounds__(kDecodeThreads)
    merge_splits_kernel(StepRows<A> out, const A* partial, const __grid_constant__ KvView kv,
                        const __grid_constant__ DecodeCall call) {
  const int64_t D = kv.head_size, H = kv.groups * call.shared, n = blockIdx.x / H, h = blockIdx.x % H;
  const int64_t b = sequence_of(kv, n), last = kv.first_row[b + 1];
  if (n >= last) return;
  const int64_t splits = (kv.held(kv.lengths[b]) + kDecodeSplit - 1) / kDecodeSplit;
  const A* const from = partial + (n * H + h) * call.splits * (kPartialHead + D);
  for (int64_t d = threadIdx.x; d < D; d += kDecodeThreads) {
    DecodeRow<A, 1> row;
    for (int64_t s = 0; s < splits; ++s) {
      const A* const split = from + s * (kPartialHead + D);
      row.merge({split[0], split[1], {split[kPartialHead + d]}});
    }
    out.write(n * out.row + h * out.head + d * out.col, row.result());
  }
}

template <class A, class K, int kHead, int kRows, bool kVector>
void launch_decode(const View& out, const View& q, const KvView& kv, DecodeCall call) {
  const int64_t N = q.shape[0], H = q.shape[1];
  call.row_groups = ceil_div(kv.most_rows * call.shared, kRows);
  const int64_t blocks = call.splits * call.row_groups * kv.groups * kv.batch;
  const DeviceScratch<A> partial(call.splits > 1 ? N * H * call.splits * (kPartialHead + kv.head_size) : 0);
  launch(attention_paged_kernel<A, K, kHead, kRows, kVector>,
         {dim3(static_cast<unsigned>(blocks)), dim3(kDecodeThreads)}, partial.data(), StepRows<A>(out),
         StepRows<A>(q), kv, call);
  if (call.splits == 1) return;
  launch(merge_splits_kernel<A>, {dim3(static_cast<unsigned>(N * H)), dim3(kDecodeThreads)}, StepRows<A>(out),
         static_cast<const A*>(partial.data()), kv, call);
}

void attention_decode(const View& out, const View& q, const KvView& kv, double scale, int64_t window) {
  if (out.numel() == 0) return;
  dispatch_cache(q.dtype, kv, [&]<class A, class K>(A*, K*) {
    DecodeCall call{};
    call.shared = q.shape[1] / kv.groups;
    call.window = window;
    call.scale = scale * std::numbers::log2e;
    call.splits = std::max<int64_t>(1, ceil_div(kv.held(kv.longest), kDecodeSplit));
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
