// Elementwise loops with an operand that is transposed relative to the result: a transposed matrix, a
// permuted tensor.
//
// Along a row of the result, each element of such an operand is in another cache line. So the result is cut
// into tiles. A tile of the transposed operand is transposed into a buffer that stays in the L1 and L2
// caches, and the rows of the tile are computed from the buffer. Tiles are tall: a kilobyte of each column of
// the operand is read sequentially, which prefetchers follow (tiles of 64 x 64 floats took twice as long as
// those of 256 x 32).
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/loops/function_kernels.hpp>
#include <tinytorch/backend/cpu/loops/non_temporal.hpp>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/backend/cpu/loops/transpose.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kTransposeRows = 256, kTransposeCols = 32;
inline constexpr int64_t kMaxTransposeCols = 48;  // widest last tile of a row: no tile is narrow
inline constexpr int64_t kTiledElements = 4096;   // smaller results stay in the L1 cache in any order

// The dimension along which v, of collapsed shape and strides, is contiguous if that is not the last one; or
// -1.
inline int transposed_dimension(const Shape& shape, const Strides& v) {
  const int last = shape.size() - 1;
  if (v[last] <= 1 || shape[last] < 8) return -1;
  for (int d = last - 1; d >= 0; --d) {
    if (v[d] == 1 && shape[d] >= 8) return d;
  }
  return -1;
}

// Loop over tiles of the result.
class TileLoop {
 public:
  TileLoop(const ElementwiseCall& call, bool non_temporal)
      : call_(call), bytes_(call.bytes()), shape_(call.out.shape) {
    const size_t operands = call.operands();
    strides_[0] = call.out.strides;
    for (size_t k = 1; k < operands; ++k) strides_[k] = stretch(call.operand(k), call.out.shape);
    collapse(shape_, strides_, operands);
    for (size_t k = 1; k < operands && down_ < 0; ++k) down_ = transposed_dimension(shape_, strides_[k]);
    for (size_t k = 1; k < operands; ++k)
      transposed_[k] = down_ >= 0 && strides_[k][down_] == 1 && strides_[k].back() > 1;
    // Non-temporal stores must write whole cache lines: a line that is written in two parts costs more than
    // an ordinary store.
    whole_rows_ = down_ >= 0 && strides_[0][down_] == shape_.back() && shape_.back() <= kMaxTransposeCols;
    non_temporal_ = non_temporal && (whole_rows_ || shape_.back() * bytes_ % 64 == 0);
  }

  // True if the result is contiguous along its last dimension, and an input is transposed.
  bool applies() const { return down_ >= 0 && strides_[0].back() == 1; }

  void run() const {
    Shape outer = shape_;
    outer[down_] = outer.back() = 1;
    const int64_t rows = shape_[down_], cols = shape_.back();
    const int64_t high = ceil_div(rows, kTransposeRows);
    const int64_t wide =
        std::max<int64_t>(1, (cols + 2 * kTransposeCols - kMaxTransposeCols - 1) / kTransposeCols);
    constexpr int64_t kGrain = std::max<int64_t>(1, kElementwiseGrain / (kTransposeRows * kTransposeCols));
    parallel_for(outer.numel() * high * wide, kGrain, [&](int64_t begin, int64_t end) {
      Buffers buffers;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task / wide % high * kTransposeRows, col = task % wide * kTransposeCols;
        int64_t first[kMostOperands], index[kMaxRank];
        for (size_t k = 0; k < call_.operands(); ++k) {
          first[k] = locate(outer, strides_[k], task / wide / high, index) + row * strides_[k][down_] +
                     col * strides_[k].back();
        }
        const bool last = task % wide == wide - 1;
        tile(first, std::min(kTransposeRows, rows - row), last ? cols - col : kTransposeCols, buffers);
      }
      if (non_temporal_) stream_fence();
    });
  }

 private:
  struct Buffers {
    // Buffers for a tile of each input, in the input's dtype.
    alignas(64) char tile[kMostInputs][kTransposeRows * kMaxTransposeCols * sizeof(double)];
    // Buffers for rows that are computed together, of operands that are not used in place. They stay in the
    // L1 cache.
    alignas(64) char rows[kMostOperands][kPackBytes];
  };
  using Tiles = View[kMostOperands];  // the tile of each operand: in place, or transposed into a buffer

  // Computes one tile. first: offset of the tile in each operand.
  void tile(const int64_t (&first)[kMostOperands], int64_t rows, int64_t cols, Buffers& buffers) const {
    Tiles at;
    for (size_t k = 0; k < call_.operands(); ++k) {
      const View& v = call_.operand(k);
      at[k] = {element_at(v, first[k]), v.dtype, {rows, cols}, {strides_[k][down_], strides_[k].back()}};
      if (!transposed_[k]) continue;
      dispatch_size(size_of(v.dtype), [&]<size_t kBytes>(std::integral_constant<size_t, kBytes>) {
        using Element = SignedOf<kBytes>;
        copy_transposed(reinterpret_cast<Element*>(buffers.tile[k - 1]), cols, at[k].as<const Element>(),
                        strides_[k].back(), rows, cols);
      });
      at[k] = {buffers.tile[k - 1], v.dtype, {rows, cols}, {cols, 1}};
    }
    const int64_t together = pack_length(call_.dtype()) / kMaxTransposeCols;
    for (int64_t r = 0; r < rows; r += together) compute(at, r, std::min(together, rows - r), cols, buffers);
  }

  // Computes n rows of a tile, from `row` on.
  void compute(const Tiles& at, int64_t row, int64_t n, int64_t cols, Buffers& buffers) const {
    const DType dtype = call_.dtype();
    const auto direct = [&](size_t k) { return at[k].dtype == dtype && at[k].strides[1] == 1; };
    Sources source = {};
    int64_t step[kMostOperands] = {};  // bytes between rows
    for (size_t k = 1; k < call_.operands(); ++k) {
      source[k - 1] = direct(k) ? element_at(at[k], row * at[k].strides[0]) : buffers.rows[k];
      step[k] = (direct(k) ? at[k].strides[0] : cols) * bytes_;
      if (direct(k)) continue;
      if (transposed_[k]) {
        read_flat(buffers.rows[k], dtype, at[k], row * cols, n * cols);
      } else {
        pack(buffers.rows[k], dtype, at[k], row * cols, n * cols);
      }
    }
    const bool in_place = direct(0) && !non_temporal_;
    char* const to = in_place ? element_at(at[0], row * at[0].strides[0]) : buffers.rows[0];
    step[0] = (in_place ? at[0].strides[0] : cols) * bytes_;
    call_.kernel.rows(to, source, n, cols, step, call_.parameters);
    if (in_place) return;
    if (!non_temporal_) return unpack(at[0], row * cols, buffers.rows[0], dtype, n * cols);
    const int64_t pieces = whole_rows_ ? 1 : n, bytes = n * cols * bytes_ / pieces;
    for (int64_t r = 0; r < pieces; ++r)
      stream_copy(element_at(at[0], (row + r) * at[0].strides[0]), buffers.rows[0] + r * bytes, bytes);
  }

  ElementwiseCall call_;
  int64_t bytes_;    // of a value that the kernel computes
  bool whole_rows_;  // a tile is as wide as the result, whose rows are adjacent
  bool non_temporal_;
  Shape shape_;  // collapsed
  Strides strides_[kMostOperands];
  int down_ = -1;                        // the dimension of the rows of a tile
  bool transposed_[kMostOperands] = {};  // is contiguous along that dimension
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
