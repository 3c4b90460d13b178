// Attention on tensor cores: what its kernels share. Rows of one kind (queries, or keys) stay with a block,
// 16 with a warp; columns (keys, or queries) pass by in tiles of 64. The layout in which one product leaves a
// warp's scores is the one in which the next wants its left side, so they never leave its registers.
#pragma once

#include <algorithm>
#include <limits>
#include <tinytorch/backend/cuda/device/warpgroup.cuh>
#include <tinytorch/backend/cuda/kernels/attention_pipeline.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A warp's 16 rows of a tile as left sides of products: kept in registers, or read each time.
template <int kHead, bool kKept>
struct LeftRows {
  unsigned tile;
  unsigned kept[kKept ? kHead / 16 : 1][4];

  explicit __device__ __forceinline__ LeftRows(unsigned t) : tile(t) {}
  __device__ __forceinline__ void keep() {
    if constexpr (kKept) {
#pragma unroll
      for (int k = 0; k < kHead / 16; ++k) load(kept[k], k);
    }
  }
  // Values 16 k to 16 k + 15 of each row.
  __device__ __forceinline__ void read(unsigned (&a)[4], int k) const {
    if constexpr (kKept) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = kept[k][i];
    } else {
      load(a, k);
    }
  }

 private:
  __device__ __forceinline__ void load(unsigned (&a)[4], int k) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
    load_matrices(a, tile + Tile<kHead, kTensorRows>::place(warp * 16 + lane % 16, 2 * k + lane / 16));
  }
};

// A warp's scores: 16 rows, of which lane l has l / 4 and l / 4 + 8, and of each 8 columns 2 (l % 4) and the
// next. The sums over rows of kHead values are held alike.
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

// Two floats as neighbours of a 16-bit register pair.
template <class T>
__device__ __forceinline__ unsigned pack_pair(float low, float high) {
  const float pair[2] = {low, high};
  T narrow[2];
  convert_elements(narrow, pair);
  unsigned word;
  memcpy(&word, narrow, sizeof(word));
  return word;
}
// Scores in the operands' dtype, as left sides: 16 columns each.
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

// Products by single warps (compute capability 8.0), which wait for each.
struct WarpProducts {
  // score [16, 64] = rows tile^T
  template <class T, int kHead, bool kKept>
  static __device__ __forceinline__ void scores(Scores& score, const LeftRows<kHead, kKept>& rows,
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
        load_matrices(b, tile + Tile<kHead, kTensorColumns>::place(n * 16 + lane % 8 + lane / 16 * 8,
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
        load_transposed(b, tile + Tile<kHead, kTensorColumns>::place(n * 16 + lane % 16, d + lane / 16));
        multiply_add<T>(sum[d], score.a[n], b[0], b[1]);
        multiply_add<T>(sum[d + 1], score.a[n], b[2], b[3]);
      }
    }
  }
  template <int kPending, int kCount>
  static __device__ __forceinline__ void await(float (&)[kCount][4]) {}
};

// The same by warpgroups (compute capability 9.0, kHead a multiple of 64), which go on meanwhile; by warps in
// code that was compiled for other devices.
struct GroupProducts {
  template <class T, int kHead, bool kKept>
  static __device__ __forceinline__ void scores(Scores& score, const LeftRows<kHead, kKept>& rows,
                                                unsigned tile) {
    if constexpr (!kHasWarpgroups) return WarpProducts::scores<T>(score, rows, tile);
    const SharedMatrix right(tile), left(rows.tile + threadIdx.x / (4 * kWarp) * (64 * 128));
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kHead / 16; ++k) {
      const unsigned panel = static_cast<unsigned>(k / 4), bytes = static_cast<unsigned>(k % 4 * 32);
      const SharedMatrix b = right.after(panel * Tile<kHead, kTensorColumns>::kPanelBytes + bytes);
      if constexpr (kKept) {
        multiply_group<T, false>(score, rows.kept[k], b, k > 0);
      } else {
        const SharedMatrix a = left.after(panel * Tile<kHead, kTensorRows>::kPanelBytes + bytes);
        multiply_group<T>(score, a, b, k > 0);
      }
    }
    wgmma_commit();
  }
  template <class T, int kHead>
  static __device__ __forceinline__ void add(RowSums<kHead>& sum, const PackedScores& score, unsigned tile) {
    if constexpr (!kHasWarpgroups) return WarpProducts::add<T, kHead>(sum, score, tile);
    const SharedMatrix right(tile);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < kHead / 64; ++d) {
      const unsigned panel = static_cast<unsigned>(d) * Tile<kHead, kTensorColumns>::kPanelBytes;
#pragma unroll
      for (int k = 0; k < kTensorColumns / 16; ++k) {
        multiply_group<T, true>(reinterpret_cast<Scores&>(sum[d * 8]), score.a[k],
                                right.after(panel + static_cast<unsigned>(k * 16 * 128)), true);
      }
    }
    wgmma_commit();
  }
  // x is there, and so is all but the newest kPending.
  template <int kPending, int kCount>
  static __device__ __forceinline__ void await(float (&x)[kCount][4]) {
    wgmma_wait<kPending>();
    fence_operands(x);
  }
};

// By what multiplies, and for how many values of a head: single warps wait for each product anyway, and
// devices that have no others have less shared memory.
template <class Products, int kHead>
inline constexpr int kPlaces = std::is_same_v<Products, GroupProducts>&& kHead <= 128 ? 4 : 2;

// Which rows a block has: 128 of one head from row `first` on; `row` is this lane's first one, and row + 8
// its second. Blocks of one head follow each other.
struct TensorBlock {
  int first, row, head, batch;
  __device__ __forceinline__ TensorBlock(int64_t rows, int64_t heads, bool last_first) {
    const unsigned tiles = static_cast<unsigned>(rows + kTensorRows - 1) / kTensorRows,
                   line = blockIdx.x / tiles, number = blockIdx.x % tiles;
    first = static_cast<int>((last_first ? tiles - 1 - number : number) * kTensorRows);
    row = first + static_cast<int>(threadIdx.x / kWarp * 16 + threadIdx.x % kWarp / 4);
    head = static_cast<int>(line % static_cast<unsigned>(heads));
    batch = static_cast<int>(line / static_cast<unsigned>(heads));
  }
};

// x, which the compiler is to keep: in the loop over tiles it would rather work it out again each time.
__device__ __forceinline__ int kept(int x) {
#ifdef __CUDA_ARCH__
  asm("" : "+r"(x));
#endif
  return x;
}
// Which columns the rows of a block see: some rows, and all rows. range_of(row): an IndexRange, whose ends
// grow with the row.
struct SeenColumns {
  int first, last, all_first, all_last;
  int group_first, group_last;      // by some of the warpgroup's 64 rows
  int mine_first[2], mine_last[2];  // by the lane's two rows
  template <class F>
  __device__ __forceinline__ SeenColumns(const TensorBlock& at, int64_t rows, F&& range_of) {
    const IndexRange top = range_of(at.first),
                     bottom = range_of(std::min<int64_t>(at.first + kTensorRows, rows) - 1);
    first = static_cast<int>(top.first / kTensorColumns * kTensorColumns);
    last = static_cast<int>(bottom.last);
    all_first = kept(static_cast<int>(bottom.first)), all_last = kept(static_cast<int>(top.last));
    const int group = __shfl_sync(kAllLanes, at.first + static_cast<int>(threadIdx.x) / 128 * 64, 0);
    group_first = static_cast<int>(range_of(group).first);
    group_last = static_cast<int>(range_of(std::min<int64_t>(group + 64, rows) - 1).last);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const IndexRange mine = range_of(at.row + 8 * r);
      mine_first[r] = static_cast<int>(mine.first), mine_last[r] = static_cast<int>(mine.last);
    }
  }
  // Where a group's loop ends. It may do without the last tile, unless all meet at every tile; the first, at
  // which all meet, it begins.
  __device__ __forceinline__ int end_for_group(bool may_leave) const {
    return may_leave ? std::max(group_last, std::min(last, first + 1)) : last;
  }
  __device__ __forceinline__ bool by_all(int c0) const {
    return c0 >= all_first && c0 + kTensorColumns <= all_last;
  }
};
// Scores of columns that their row does not see become -inf.
__device__ __forceinline__ void hide(Scores& score, const SeenColumns& seen, int c0) {
  const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int low = seen.mine_first[r] - c0 - pair, high = seen.mine_last[r] - c0 - pair;
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

// What dropout keeps of a lane's scores, a bit each: bit 4 n + i for score[n][i]. Where rows are queries,
// four neighbouring columns share a block of random words; where they are keys, neighbours have blocks of
// their own. row, column: numbers of the lane's first row and of the tile's first column, queries among all
// of the call.
template <bool kRowsAreQueries>
__device__ __forceinline__ unsigned kept_by_dropout(const AttentionCall& call, int64_t row, int64_t column) {
  const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
  unsigned kept = 0;
#pragma unroll 1  // it is rarely asked for, and registers are few
  for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t r = row + i / 2 * 8, c = column + n * 8 + pair + i % 2;
      const bool keeps = kRowsAreQueries ? call.keeps(r, c) : call.keeps(c, r);
      kept |= static_cast<unsigned>(keeps) << (4 * n + i);
    }
  }
  return kept;
}
// 0 where a score is dropped, also of NaN.
__device__ __forceinline__ void drop(Scores& x, unsigned kept, float scale) {
#pragma unroll
  for (int n = 0; n < kTensorColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[n][i] = (kept >> (4 * n + i) & 1 ? x[n][i] : 0.0f) * scale;
  }
}

// Both, where rows are queries.
__device__ __forceinline__ void drop_of_queries(Scores& x, const AttentionCall& call, int64_t row,
                                                int64_t column) {
  drop(x, kept_by_dropout<true>(call, row, column), static_cast<float>(call.mask.scale));
}

// Four neighbouring lanes trade words: lane j's word i becomes lane i's word j.
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
// The block's rows below `end`, times a factor, to memory; factor[r]: of the lane's row r. Four lanes have a
// row together; they trade, so that each writes 16 bytes at once.
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

// Whether rows of x can be moved 16 bytes at a time.
inline bool has_whole_pieces(const View& x) {
  const auto aligned = [](int64_t elements) { return elements % 8 == 0; };
  return x.strides[3] == 1 && x.shape[3] % 8 == 0 && aligned(x.strides[0]) && aligned(x.strides[1]) &&
         aligned(x.strides[2]) && reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}
// Calls f.operator()<kHead, Products, kDrops>() for the smallest kHead up to kMost that holds the call's
// heads; kDrops: with dropout, whose registers the others do not have to spare. False, as f says where a
// block has too little shared memory, where the plain kernels have to do it.
template <int kMost, class F>
bool on_tensor_cores(const AttentionCall& call, std::initializer_list<const View*> tensors, F&& f) {
  constexpr int64_t kMostRows = int64_t{1} << 30;  // they count rows in int, and a row's bytes in unsigned
  if (!has_tensor_cores() || call.D > kMost || !(call.rules.scale > 0)) return false;
  if (call.T > kMostRows || call.S > kMostRows) return false;
  for (const View* x : tensors) {
    if (!has_whole_pieces(*x) || x->strides[2] < 0 || x->strides[2] > kMostRows) return false;
  }
  const auto run = [&]<int kHead, class Products>() {
    return call.drops() ? f.template operator()<kHead, Products, true>()
                        : f.template operator()<kHead, Products, false>();
  };
  const auto choose = [&]<int kHead>() {
    return has_warpgroups() ? run.template operator()<kHead, GroupProducts>()
                            : run.template operator()<kHead, WarpProducts>();
  };
  if (call.D <= 32) return run.template operator()<32, WarpProducts>();
  if (call.D <= 64) return choose.template operator()<64>();
  if (call.D <= 128) return choose.template operator()<128>();
  if constexpr (kMost > 128) return choose.template operator()<256>();
  return false;
}
inline bool fits_shared_memory(const LaunchConfig& config) {
  return config.shared_bytes + kTileAlignment <= properties(current_device()).shared_per_block_optin;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
