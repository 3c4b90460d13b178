// Attention to a cache on CUDA (contract: backend/cpu/attention_decode.hpp): the tokens of a sequence are
// divided into splits of kDecodeSplit, one block each, so that a single long sequence fills the device; this
// header merges their sums.
//
// The sums of a split are relative to its largest score m_s, as powers of 2:
//   out = sum_s 2^(m_s - m) o_s / sum_s 2^(m_s - m) w_s,     m = the largest m_s
// Source: Dao et al., "Flash-Decoding for long-context inference", 2023.
//
// Task 9.15: merge_splits_kernel. The given parts of this header are in
// modules/09_kv_cache/frame/tinytorch/backend/cuda/kernels/attention_decode.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Merges the splits of query row n, head h: block n H + h, whose threads have columns of the head.
//
// partial [N, H, call.splits, 2 + D]: m_s, w_s and o_s of each split. The sequence of row n has splits_of()
// its own length; the memory of further ones was never written. A split in which the row sees no token has
// m_s = -infinity, and w_s and o_s are 0. If that is so in all of them, the result is 0. Rows from
// first_row[batch] on belong to no sequence and are not written.
template <class A>
static __global__ void __launch_bounds__(kDecodeThreads)
    merge_splits_kernel(StepRows<A> out, const A* partial, const __grid_constant__ KvView kv,
                        const __grid_constant__ DecodeCall call) {
  constexpr A kNone = -std::numeric_limits<A>::infinity();
  const int64_t D = kv.head_size, H = kv.groups * call.shared, n = blockIdx.x / H, h = blockIdx.x % H;
  const int64_t b = sequence_of(kv, n), size = kPartialHead + D;
  if (n >= kv.first_row[b + 1]) return;
  const int64_t splits = splits_of(kv, kv.lengths[b]);
  const A* const from = partial + (n * H + h) * call.splits * size;
  A top = kNone, weight = 0;
  for (int64_t s = 0; s < splits; ++s) top = from[s * size] > top ? from[s * size] : top;
  if (top == kNone) top = 0;  // 2^-infinity is 0
  for (int64_t s = 0; s < splits; ++s) weight += exp2_of(from[s * size] - top) * from[s * size + 1];
  for (int64_t d = threadIdx.x; d < D; d += kDecodeThreads) {
    A sum = 0;
    for (int64_t s = 0; s < splits; ++s)
      sum += exp2_of(from[s * size] - top) * from[s * size + kPartialHead + d];
    out.write(n * out.row + h * out.head + d * out.col, weight == A(0) ? A(0) : sum / weight);
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
