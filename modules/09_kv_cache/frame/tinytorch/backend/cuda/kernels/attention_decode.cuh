// Attention to a cache on CUDA (contract: backend/cpu/attention_decode.hpp): the tokens of a sequence are
// divided into splits of kDecodeSplit, one block each; this header launches them and merges their sums.
//
// The frame of a course header: it has the given parts, and includes the functions of task 9.15.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/attention_decode/paged.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The number of splits of a sequence of `length` tokens: kDecodeSplit of the tokens that the cache still
// holds each, the last one the rest; at least 1.
__host__ __device__ inline int64_t splits_of(const KvView& kv, int64_t length) {
  const int64_t splits = (kv.held(length) + kDecodeSplit - 1) / kDecodeSplit;
  return splits > 0 ? splits : 1;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/attention_decode.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// attention_paged_kernel with a block for each sequence, head of keys, group of kRows query rows and split:
// call.splits splits, and call.row_groups groups of the most rows that a sequence has, which are
// kv.most_rows * call.shared. Then merge_splits_kernel with a block for each row and head of `out`; if there
// is only one split, the first kernel writes the results itself, and partial is empty.
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
    call.splits = splits_of(kv, kv.longest);
    if (kv.head_size > 256) {
      fail("TT-SHAPE-04",
           "attention to a cache: heads of " + std::to_string(kv.head_size) +
               " features are longer than 256, the limit of the CUDA kernels\n  hint: use more "
               "and smaller heads, or the CPU");
    }
    if constexpr (std::is_same_v<K, Int4> || std::is_same_v<K, Float8>) {
      fail("TT-DTYPE-02",
           std::string("attention to a cache of ") + name_of(kv.format) +
               " is not part of this course's kernels\n  hint: use a cache of f32, f64, bf16, f16 or i8");
    } else {
      if (kv.head_size <= 64) return launch_decode<A, K, 64, 4, false>(out, q, kv, call);
      launch_decode<A, K, 256, 4, false>(out, q, kv, call);
    }
  });
}

void append_and_attend(const View& out, const View& q, const View& k, const View& v, const KvView& kv,
                       double scale, int64_t window) {
  kv_append(kv, k, v);
  attention_decode(out, q, kv, scale, window);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
