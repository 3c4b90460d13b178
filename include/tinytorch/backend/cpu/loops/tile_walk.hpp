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

// Loop over tiles of the result. Operand 0 is out, the others are inputs.
template <class T, size_t kInputs>
class TileLoop {
 public:
  TileLoop(Kernel<T> kernel, const View& out, const View (&in)[kInputs], const double* parameters,
           bool non_temporal)
      : kernel_(kernel), parameters_(parameters), shape_(out.shape) {
    operand_[0] = out;
    strides_[0] = out.strides;
    for (size_t k = 1; k <= kInputs; ++k) {
      operand_[k] = in[k - 1];
      strides_[k] = stretch(in[k - 1], out.shape);
    }
    collapse(shape_, strides_, kInputs + 1);
    for (size_t k = 1; k <= kInputs && down_ < 0; ++k) down_ = transposed_dimension(shape_, strides_[k]);
    for (size_t k = 1; k <= kInputs; ++k)
      transposed_[k] = down_ >= 0 && strides_[k][down_] == 1 && strides_[k].back() > 1;
    // Non-temporal stores must write whole cache lines: a line that is written in two parts costs more than
    // an ordinary store.
    const int64_t row_bytes = shape_.back() * static_cast<int64_t>(sizeof(T));
    whole_rows_ = down_ >= 0 && strides_[0][down_] == shape_.back() && shape_.back() <= kMaxTransposeCols;
    non_temporal_ = non_temporal && (whole_rows_ || row_bytes % 64 == 0);
  }

  // True if the result is contiguous along its last dimension, and an input is transposed.
  bool applies() const { return down_ >= 0 && strides_[0].back() == 1; }

  void run() const {
    Shape outer = shape_;
    outer[down_] = outer.back() = 1;
    const int64_t rows = shape_[down_], cols = shape_.back();
    const int64_t high = (rows + kTransposeRows - 1) / kTransposeRows;
    const int64_t wide =
        std::max<int64_t>(1, (cols + 2 * kTransposeCols - kMaxTransposeCols - 1) / kTransposeCols);
    constexpr int64_t kGrain = std::max<int64_t>(1, kElementwiseGrain / (kTransposeRows * kTransposeCols));
    parallel_for(outer.numel() * high * wide, kGrain, [&](int64_t begin, int64_t end) {
      Buffers buffers;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task / wide % high * kTransposeRows, col = task % wide * kTransposeCols;
        int64_t first[kInputs + 1], index[kMaxRank];
        for (size_t k = 0; k <= kInputs; ++k) {
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
  // Rows that are computed together: operands that are not used in place pass through buffers in the L1
  // cache.
  static constexpr int64_t kTogether = kPackLength<T> / kMaxTransposeCols;
  struct Buffers {
    // Buffers for a tile of each input, in the input's dtype.
    alignas(64) double tile[kInputs][kTransposeRows * kMaxTransposeCols];
    alignas(64) T rows[kInputs + 1][kTogether * kMaxTransposeCols];
  };

  // Computes one tile. first: offset of the tile in each operand.
  void tile(const int64_t (&first)[kInputs + 1], int64_t rows, int64_t cols, Buffers& buffers) const {
    View at[kInputs + 1];  // the tile of each operand: in place, or transposed into a buffer
    for (size_t k = 0; k <= kInputs; ++k) {
      const View& v = operand_[k];
      char* const data = v.template as<char>() + first[k] * static_cast<int64_t>(size_of(v.dtype));
      at[k] = {data, v.dtype, {rows, cols}, {strides_[k][down_], strides_[k].back()}};
      if (!transposed_[k]) continue;
      dispatch(v.dtype, [&]<class From>(From*) {
        From* const to = reinterpret_cast<From*>(buffers.tile[k - 1]);
        copy_transposed(to, cols, reinterpret_cast<const From*>(data), strides_[k].back(), rows, cols);
      });
      at[k] = {buffers.tile[k - 1], v.dtype, {rows, cols}, {cols, 1}};
    }
    for (int64_t r = 0; r < rows; r += kTogether)
      compute(at, r, std::min(kTogether, rows - r), cols, buffers.rows);
  }

  // Computes n rows of a tile, from `row` on.
  void compute(const View (&at)[kInputs + 1], int64_t row, int64_t n, int64_t cols,
               T (&buffers)[kInputs + 1][kTogether * kMaxTransposeCols]) const {
    const auto direct = [&](size_t k) { return at[k].dtype == dtype_of<T> && at[k].strides[1] == 1; };
    const T* source[kInputs];
    int64_t step[kInputs];  // row strides
    for (size_t k = 1; k <= kInputs; ++k) {
      source[k - 1] = direct(k) ? at[k].template as<T>() + row * at[k].strides[0] : buffers[k];
      step[k - 1] = direct(k) ? at[k].strides[0] : cols;
      if (!direct(k)) {
        dispatch(at[k].dtype, [&]<class From>(From*) {
          for (int64_t r = 0; r < n; ++r) {
            convert_run(buffers[k] + r * cols, 1,
                        at[k].template as<const From>() + (row + r) * at[k].strides[0], at[k].strides[1],
                        cols);
          }
        });
      }
    }
    const bool in_place = direct(0) && !non_temporal_;
    T* const to = in_place ? at[0].template as<T>() + row * at[0].strides[0] : buffers[0];
    for (int64_t r = 0; r < n; ++r) {
      kernel_(to + r * (in_place ? at[0].strides[0] : cols), source, cols, parameters_);
      for (size_t k = 0; k < kInputs; ++k) source[k] += step[k];
    }
    if (in_place) return;
    if (non_temporal_ && whole_rows_)
      return stream_copy(at[0].template as<T>() + row * at[0].strides[0], buffers[0],
                         n * cols * static_cast<int64_t>(sizeof(T)));
    dispatch(at[0].dtype, [&]<class To>(To*) {
      for (int64_t r = 0; r < n; ++r) {
        To* const out = at[0].template as<To>() + (row + r) * at[0].strides[0];
        if (non_temporal_) {
          stream_copy(out, buffers[0] + r * cols, cols * static_cast<int64_t>(sizeof(T)));
        } else {
          convert_run(out, 1, buffers[0] + r * cols, 1, cols);
        }
      }
    });
  }

  Kernel<T> kernel_;
  const double* parameters_;
  bool whole_rows_;  // a tile is as wide as the result, whose rows are adjacent
  bool non_temporal_;
  Shape shape_;  // collapsed
  Strides strides_[kInputs + 1];
  View operand_[kInputs + 1];
  int down_ = -1;                      // the dimension of the rows of a tile
  bool transposed_[kInputs + 1] = {};  // is contiguous along that dimension
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
