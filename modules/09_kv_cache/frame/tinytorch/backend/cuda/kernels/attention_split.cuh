// Attention to a cache on CUDA (contract: backend/cpu/attention_decode.hpp): the tokens of a sequence are
// divided into splits of kDecodeSplit, one block each; this header launches them and merges their sums.
//
// The frame of a course header: it has the given parts, and includes the functions of task 9.13.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/attention_heads.cuh>
#include <tinytorch/backend/cuda/kernels/attention_paged.cuh>

#include <tasks/backend/cuda/kernels/attention_split.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void attention_decode(const View& out, const View& q, const KvView& kv, double scale, int64_t window) {
  if (out.numel() == 0) return;
  dispatch_cache(q.dtype, kv.dtype, [&]<class A, class K>(A*, K*) {
    DecodeCall call{};
    call.shared = q.shape[1] / kv.groups;
    call.window = window;
    call.scale = scale * std::numbers::log2e;
    call.splits = splits_of(kv, kv.longest);
    const bool vector = kv.head_size * static_cast<int64_t>(sizeof(K)) % 16 == 0;
    dispatch_head(std::max<int64_t>(kv.head_size, 64), [&]<int kHead>() {
      if constexpr (kHead >= 64) {
        if (!vector) return launch_decode<A, K, kHead, 4, false>(out, q, kv, call);
        if constexpr (std::is_same_v<A, float>) {
          if (kv.most_rows * call.shared == 1) return launch_decode<A, K, kHead, 1, true>(out, q, kv, call);
        }
        launch_decode<A, K, kHead, 4, true>(out, q, kv, call);
      }
    });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
