// Shared code of the tensor-core attention kernels. Rows of one kind (queries or keys) stay in a block, 16
// per warp; columns (keys or queries) are processed in tiles of 64. The accumulator layout of one product is
// the A-operand layout of the next, so scores never leave a warp's registers.
#pragma once

#include <algorithm>
#include <limits>
#include <tinytorch/backend/cuda/device/warpgroup.cuh>
#include <tinytorch/backend/cuda/kernels/attention/pipeline.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A warp's 16 rows of a tile as the A operand of products: in registers, or loaded from shared memory for
// each product.
template <int kHead, bool kInRegisters>
struct OperandA {
  unsigned tile;
  unsigned registers[kInRegisters ? kHead / 16 : 1][4];

  explicit __device__ __forceinline__ OperandA(unsigned t) : tile(t) {}
  __device__ __forceinline__ void load_registers() {
    if constexpr (kInRegisters) {
#pragma unroll
      for (int k = 0; k < kHead / 16; ++k) load(registers[k], k);
    }
  }
  // Loads values 16 k to 16 k + 15 of each row.
  __device__ __forceinline__ void read(unsigned (&a)[4], int k) const {
    if constexpr (kInRegisters) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = registers[k][i];
    } else {
      load(a, k);
    }
  }

 private:
  __device__ __forceinline__ void load(unsigned (&a)[4], int k) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
    load_matrices(a, tile + Tile<kHead, kTensorRows>::offset(warp * 16 + lane % 16, 2 * k + lane / 16));
  }
};

// A warp's accumulator of 16 rows: lane l has rows l / 4 and l / 4 + 8, and of each 8 columns the columns 2
// (l % 4) and 2 (l % 4) + 1. RowSums have the same layout for rows of kHead values.
using Scores = float[kTensorColumns / 8][4];
template <int kHead>
using RowSums = float[kHead / 8][4];

template <int kCount>
__device__ __forceinline__ void clear(float (&sum)[kCount][4]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[n][i] = 0;
  }
}

// Scores in the operands' dtype as A operands of 16 columns each.
struct PackedScores {
  unsigned a[kTensorColumns / 16][4];
};
template <class T>
__device__ __forceinline__ PackedScores pack_scores(const Scores& x) {
  PackedScores out;
#pragma unroll
  for (int k = 0; k < kTensorColumns / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const pair = &x[2 * k + i / 2][i % 2 * 2];
      out.a[k][i] = pack_pair<T>(pair[0], pair[1]);
    }
  }
  return out;
}

// Products by mma.sync of single warps (compute capability 8.0), which are synchronous.
struct MmaProducts {
  // score [16, 64] = rows tile^T
  template <class T, int kHead, bool kInRegisters>
  static __device__ __forceinline__ void scores(Scores& score, const OperandA<kHead, kInRegisters>& rows,
                                                unsigned tile) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    clear(score);
#pragma unroll
    for (int k = 0; k < kHead / 16; ++k) {
      unsigned a[4];
      rows.read(a, k);
#pragma unroll
      for (int n = 0; n < kTensorColumns / 16; ++n) {
        unsigned b[4];
        load_matrices(b, tile + Tile<kHead, kTensorColumns>::offset(n * 16 + lane % 8 + lane / 16 * 8,
                                                                    2 * k + lane / 8 % 2));
        multiply_add<T>(score[2 * n], a, b[0], b[1]);
        multiply_add<T>(score[2 * n + 1], a, b[2], b[3]);
      }
    }
  }
  // sum [16, kHead] += score tile
  template <class T, int kHead>
  static __device__ __forceinline__ void add(RowSums<kHead>& sum, const PackedScores& score, unsigned tile) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int n = 0; n < kTensorColumns / 16; ++n) {
#pragma unroll
      for (int d = 0; d < kHead / 8; d += 2) {
        unsigned b[4];
        load_transposed(b, tile + Tile<kHead, kTensorColumns>::offset(n * 16 + lane % 16, d + lane / 16));
        multiply_add<T>(sum[d], score.a[n], b[0], b[1]);
        multiply_add<T>(sum[d + 1], score.a[n], b[2], b[3]);
      }
    }
  }
  template <int kPending, int kCount>
  static __device__ __forceinline__ void wait(float (&)[kCount][4]) {}
};

// Products by wgmma of warpgroups (compute capability 9.0, kHead a multiple of 64), which are asynchronous.
// Code that is compiled for other devices uses MmaProducts.
struct WgmmaProducts {
  template <class T, int kHead, bool kInRegisters>
  static __device__ __forceinline__ void scores(Scores& score, const OperandA<kHead, kInRegisters>& rows,
                                                unsigned tile) {
    if constexpr (!kHasWarpgroups) return MmaProducts::scores<T>(score, rows, tile);
    const SharedMatrix matrix_b(tile), matrix_a(rows.tile + threadIdx.x / (4 * kWarp) * (64 * 128));
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kHead / 16; ++k) {
      const unsigned panel = static_cast<unsigned>(k / 4), bytes = static_cast<unsigned>(k % 4 * 32);
      const SharedMatrix b = matrix_b.after(panel * Tile<kHead, kTensorColumns>::kPanelBytes + bytes);
      if constexpr (kInRegisters) {
        multiply_group<T, false>(score, rows.registers[k], b, k > 0);
      } else {
        const SharedMatrix a = matrix_a.after(panel * Tile<kHead, kTensorRows>::kPanelBytes + bytes);
        multiply_group<T>(score, a, b, k > 0);
      }
    }
    wgmma_commit();
  }
  template <class T, int kHead>
  static __device__ __forceinline__ void add(RowSums<kHead>& sum, const PackedScores& score, unsigned tile) {
    if constexpr (!kHasWarpgroups) return MmaProducts::add<T, kHead>(sum, score, tile);
    const SharedMatrix matrix_b(tile);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < kHead / 64; ++d) {
      const unsigned panel = static_cast<unsigned>(d) * Tile<kHead, kTensorColumns>::kPanelBytes;
#pragma unroll
      for (int k = 0; k < kTensorColumns / 16; ++k) {
        multiply_group<T, true>(reinterpret_cast<Scores&>(sum[d * 8]), score.a[k],
                                matrix_b.after(panel + static_cast<unsigned>(k * 16 * 128)), true);
      }
    }
    wgmma_commit();
  }
  // Waits until x and all other products except the newest kPending are complete.
  template <int kPending, int kCount>
  static __device__ __forceinline__ void wait(float (&x)[kCount][4]) {
    wgmma_wait<kPending>();
    fence_operands(x);
  }
};

// Pipeline stages of a kind of products. mma is synchronous, so two stages suffice, and devices without
// wgmma have less shared memory.
template <class Products, int kHead>
inline constexpr int kPipelineStages = std::is_same_v<Products, WgmmaProducts>&& kHead <= 128 ? 4 : 2;

// The rows of a block: 128 rows of one head from `first` on. This lane has rows `row` and row + 8.
// Consecutive blocks belong to the same head; with `reversed` they start with the last rows.
struct TensorBlock {
  int first, row, head, batch;
  __device__ __forceinline__ TensorBlock(int64_t rows, int64_t heads, bool reversed) {
    const unsigned tiles = ceil_div(static_cast<unsigned>(rows), unsigned{kTensorRows}),
                   line = blockIdx.x / tiles, number = blockIdx.x % tiles;
    first = static_cast<int>((reversed ? tiles - 1 - number : number) * kTensorRows);
    row = first + static_cast<int>(threadIdx.x / kWarp * 16 + threadIdx.x % kWarp / 4);
    head = static_cast<int>(line % static_cast<unsigned>(heads));
    batch = static_cast<int>(line / static_cast<unsigned>(heads));
  }
};

// Keeps x in a register; otherwise the compiler recomputes it in each iteration over tiles.
__device__ __forceinline__ int keep_in_register(int x) {
#ifdef __CUDA_ARCH__
  asm("" : "+r"(x));
#endif
  return x;
}
// The columns that the rows of a block see: first and last bound the columns seen by at least one row,
// all_first and all_last those seen by all rows. range_of(row) returns an IndexRange; both its ends must not
// decrease with the row.
struct SeenColumns {
  int first, last, all_first, all_last;
  int group_first, group_last;    // seen by at least one of the warpgroup's 64 rows
  int row_first[2], row_last[2];  // seen by the lane's two rows
  template <class F>
  __device__ __forceinline__ SeenColumns(const TensorBlock& at, int64_t rows, F&& range_of) {
    const IndexRange top = range_of(at.first),
                     bottom = range_of(std::min<int64_t>(at.first + kTensorRows, rows) - 1);
    first = static_cast<int>(top.first / kTensorColumns * kTensorColumns);
    last = static_cast<int>(bottom.last);
    all_first = keep_in_register(static_cast<int>(bottom.first)),
    all_last = keep_in_register(static_cast<int>(top.last));
    const int group = __shfl_sync(kAllLanes, at.first + static_cast<int>(threadIdx.x) / 128 * 64, 0);
    group_first = static_cast<int>(range_of(group).first);
    group_last = static_cast<int>(range_of(std::min<int64_t>(group + 64, rows) - 1).last);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const IndexRange mine = range_of(at.row + 8 * r);
      row_first[r] = static_cast<int>(mine.first), row_last[r] = static_cast<int>(mine.last);
    }
  }
  // End of the warpgroup's loop over tiles. With a split barrier a warpgroup may skip the last tiles if its
  // rows do not see them. It must not skip the first tile, where all threads synchronize.
  __device__ __forceinline__ int end_for_group(bool may_leave) const {
    return may_leave ? std::max(group_last, std::min(last, first + 1)) : last;
  }
  __device__ __forceinline__ bool seen_by_all(int c0) const {
    return c0 >= all_first && c0 + kTensorColumns <= all_last;
  }
};
// Sets scores of columns that their row does not see to -inf.
__device__ __forceinline__ void mask_scores(Scores& score, const SeenColumns& seen, int c0) {
  const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int low = seen.row_first[r] - c0 - pair, high = seen.row_last[r] - c0 - pair;
#pragma unroll
    for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        if (n * 8 + k < low || n * 8 + k >= high) {
          score[n][2 * r + k] = -std::numeric_limits<float>::infinity();
        }
      }
    }
  }
}

// Dropout decisions for a lane's scores: bit 4 n + i is 1 if score[n][i] is kept. If rows are queries, four
// adjacent columns share a Philox block; if rows are keys, each element has a block of its own. row, column:
// indices of the lane's first row and of the tile's first column; queries are counted over all batches and
// heads.
template <bool kRowsAreQueries>
__device__ __forceinline__ unsigned dropout_keep_bits(const AttentionCall& call, int64_t row,
                                                      int64_t column) {
  const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
  unsigned keep_bits = 0;
#pragma unroll 1  // not unrolled: dropout is rare and registers are scarce
  for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t r = row + i / 2 * 8, c = column + n * 8 + pair + i % 2;
      const bool keeps = kRowsAreQueries ? call.keeps(r, c) : call.keeps(c, r);
      keep_bits |= static_cast<unsigned>(keeps) << (4 * n + i);
    }
  }
  return keep_bits;
}
// Sets dropped scores to 0, even NaN, and scales the others.
__device__ __forceinline__ void apply_dropout(Scores& x, unsigned keep_bits, float scale) {
#pragma unroll
  for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[n][i] = (keep_bits >> (4 * n + i) & 1 ? x[n][i] : 0.0f) * scale;
  }
}

// Dropout of scores whose rows are queries.
__device__ __forceinline__ void apply_query_dropout(Scores& x, const AttentionCall& call, int64_t row,
                                                    int64_t column) {
  apply_dropout(x, dropout_keep_bits<true>(call, row, column), static_cast<float>(call.mask.scale));
}

// Transposes a 4 x 4 matrix of words across four adjacent lanes: lane j's word i becomes lane i's word j.
__device__ __forceinline__ void transpose_quad(unsigned (&word)[4]) {
#pragma unroll
  for (int step = 2; step > 0; step /= 2) {
    const bool upper = threadIdx.x & static_cast<unsigned>(step);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & step) continue;
      const unsigned other = __shfl_xor_sync(kAllLanes, upper ? word[i] : word[i + step], step);
      (upper ? word[i] : word[i + step]) = other;
    }
  }
}
// Writes the block's rows below `end`, multiplied by factor[r] for the lane's row r. Four lanes share a row
// and exchange words, so that each lane writes 16 bytes at once.
template <class T, int kHead>
__device__ __forceinline__ void write_rows(const Heads<T>& out, const TensorBlock& at, int end, int D,
                                           const RowSums<kHead>& sum, const float (&factor)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const bool exists = at.row + 8 * r < end;
    T* const mine = out.place(at.batch, at.head, at.row + 8 * r, lane * 8);
#pragma unroll
    for (int n = 0; n < kHead / 8; n += 4) {
      unsigned word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        word[i] = pack_pair<T>(sum[n + i][2 * r] * factor[r], sum[n + i][2 * r + 1] * factor[r]);
      }
      transpose_quad(word);
      if (exists && (n + lane) * 8 < D) {
        *reinterpret_cast<uint4*>(mine + n * 8) = uint4{word[0], word[1], word[2], word[3]};
      }
    }
  }
}

// True if rows of x can be accessed 16 bytes at a time.
inline bool has_aligned_rows(const View& x) {
  const auto aligned = [](int64_t elements) { return elements % 8 == 0; };
  return x.strides[3] == 1 && x.shape[3] % 8 == 0 && aligned(x.strides[0]) && aligned(x.strides[1]) &&
         aligned(x.strides[2]) && reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}
// Calls f.operator()<kHead, Products, kDropout>() for the smallest kHead <= kMost that holds the call's
// heads. Kernels with dropout are separate, because they need more registers. Returns false if the kernels
// for any device must be used; f returns false if a block has too little shared memory.
template <int kMost, class F>
bool on_tensor_cores(const AttentionCall& call, std::initializer_list<const View*> tensors, F&& f) {
  // Kernels use int for rows and unsigned for the bytes of a row.
  constexpr int64_t kMostRows = int64_t{1} << 30;
  if (!has_tensor_cores() || call.D > kMost || !(call.rules.scale > 0)) return false;
  if (call.T > kMostRows || call.S > kMostRows) return false;
  for (const View* x : tensors) {
    if (!has_aligned_rows(*x) || x->strides[2] < 0 || x->strides[2] > kMostRows) return false;
  }
  const auto run = [&]<int kHead, class Products>() {
    return call.has_dropout() ? f.template operator()<kHead, Products, true>()
                              : f.template operator()<kHead, Products, false>();
  };
  const auto choose = [&]<int kHead>() {
    return has_warpgroups() ? run.template operator()<kHead, WgmmaProducts>()
                            : run.template operator()<kHead, MmaProducts>();
  };
  if (call.D <= 32) return run.template operator()<32, MmaProducts>();
  if (call.D <= 64) return choose.template operator()<64>();
  if (call.D <= 128) return choose.template operator()<128>();
  if constexpr (kMost > 128) return choose.template operator()<256>();
  return false;
}
inline bool fits_shared_memory(const LaunchConfig& config) {
  return config.shared_bytes + kTileAlignment <= properties(current_device()).shared_per_block_optin;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
