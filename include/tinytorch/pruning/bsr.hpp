// BsrMatrix: a sparse matrix [N, K] as dense square blocks of 16, 32 or 64 rows and columns ("block sparse
// rows").
//
// One index of four bytes serves 256 to 4096 numbers, and a block is a small dense product, which matrix
// units compute at full speed. The price is in accuracy: a block goes only as a whole.
#pragma once

#include <tinytorch/backend/sparse_view.hpp>
#include <tinytorch/pruning/sparse_parts.hpp>

namespace tinytorch::inline TT_BUILD {

class BsrMatrix {
 public:
  BsrMatrix() = default;
  // values [blocks, B, B] of any dtype, indices i32 [blocks], offsets i64 [ceil(N / B) + 1], as
  // backend::BsrView describes them. Throws TT-PRUNE-05 unless they fit together. Values that do not begin at
  // a multiple of 16 bytes, such as a slice, are copied, because kernels on CUDA load 16 bytes at a time.
  BsrMatrix(Tensor values, Tensor indices, Tensor offsets, int64_t rows, int64_t columns, TT_LOC)
      : values_(std::move(values)),
        indices_(std::move(indices)),
        offsets_(std::move(offsets)),
        rows_(rows),
        columns_(columns) {
    const bool blocks = values_.defined() && values_.rank() == 3 && values_.size(1) == values_.size(2) &&
                        is_block(values_.size(1)) && values_.is_contiguous() && rows >= 0 && columns >= 0;
    const int64_t B = blocks ? values_.size(1) : 16, count = blocks ? values_.size(0) : 0;
    const bool fits = blocks && pruning::is_part(indices_, DType::i32, {count}) &&
                      pruning::are_offsets(offsets_, ceil_div(rows, B), count, loc) && ascend(loc);
    pruning::require_part(fits, "BSR",
                          "values [blocks, B, B] for B = 16, 32 or 64, indices i32 [blocks], which ascend in "
                          "a row of blocks and are below ceil(K / B), offsets i64 [ceil(N / B) + 1]",
                          loc);
    values_ = pruning::aligned_part(values_, loc);
  }

  static bool is_block(int64_t B) { return B == 16 || B == 32 || B == 64; }
  bool defined() const { return values_.defined(); }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t block() const { return values_.size(1); }
  int64_t blocks() const { return values_.size(0); }
  // The numbers that are stored, with the zeros inside blocks.
  int64_t stored() const { return values_.numel(); }
  DType dtype() const { return values_.dtype(); }
  Device device() const { return values_.device(); }
  const Tensor& values() const { return values_; }
  const Tensor& indices() const { return indices_; }
  const Tensor& offsets() const { return offsets_; }
  int64_t bytes() const {
    return pruning::bytes_of_part(values_) + pruning::bytes_of_part(indices_) +
           pruning::bytes_of_part(offsets_);
  }
  BsrMatrix to(Device device, TT_LOC) const {
    BsrMatrix moved = *this;
    moved.values_ = values_.to(device, loc), moved.indices_ = indices_.to(device, loc);
    moved.offsets_ = offsets_.to(device, loc);
    return moved;
  }
  // The matrix [N, K] on the same device.
  Tensor dense(TT_LOC) const {
    const BsrMatrix here = to(cpu, loc);
    const Tensor out = zeros({rows_, columns_}, dtype(), cpu, loc);
    const backend::BsrView v = here.view();
    const size_t element = size_of(dtype());
    const int64_t B = block();
    for (int64_t b = 0; b < v.block_rows(); ++b) {
      for (int64_t i = v.offsets[b]; i < v.offsets[b + 1]; ++i) {
        const int64_t first = v.columns_of[i] * B, width = std::min(B, columns_ - first);
        for (int64_t r = 0; r < std::min(B, rows_ - b * B); ++r) {
          std::memcpy(static_cast<uint8_t*>(out.raw()) +
                          static_cast<size_t>((b * B + r) * columns_ + first) * element,
                      static_cast<const uint8_t*>(v.values) + static_cast<size_t>((i * B + r) * B) * element,
                      static_cast<size_t>(width) * element);
        }
      }
    }
    return out.to(device(), loc);
  }
  backend::BsrView view() const {
    return {values_.view_of().data,
            static_cast<const int32_t*>(indices_.view_of().data),
            static_cast<const int64_t*>(offsets_.view_of().data),
            dtype(),
            rows_,
            columns_,
            block(),
            blocks()};
  }

 private:
  bool ascend(Loc loc) const {
    const Tensor indices = indices_.to(cpu, loc), offsets = offsets_.to(cpu, loc);
    const auto* const at = offsets.data<int64_t>();
    const auto* const column = indices.data<int32_t>();
    const int64_t width = ceil_div(columns_, block());
    for (int64_t b = 0; b + 1 < offsets.numel(); ++b) {
      for (int64_t i = at[b]; i < at[b + 1]; ++i) {
        if (column[i] < 0 || column[i] >= width) return false;
        if (i > at[b] && column[i] <= column[i - 1]) return false;
      }
    }
    return true;
  }

  Tensor values_, indices_, offsets_;
  int64_t rows_ = 0, columns_ = 0;
};

// w [N, K] of any dtype -> its blocks that have an element other than 0 (NaN too), on the device of w. Throws
// TT-PRUNE-01 unless block is 16, 32 or 64.
inline BsrMatrix to_bsr(const Tensor& w, int64_t block, TT_LOC) {
  const NoGrad no_grad;
  const pruning::KeptElements from("to_bsr", w, loc);
  if (!BsrMatrix::is_block(block)) {
    fail("TT-PRUNE-01", "to_bsr: blocks have 16, 32 or 64 rows and columns, got " + std::to_string(block),
         loc);
  }
  const int64_t R = ceil_div(from.N, block), C = ceil_div(from.K, block);
  const auto any = [&](int64_t r, int64_t c) {
    for (int64_t n = r * block; n < std::min((r + 1) * block, from.N); ++n)
      for (int64_t k = c * block; k < std::min((c + 1) * block, from.K); ++k)
        if (from.at(n, k)) return true;
    return false;
  };
  std::vector<int32_t> columns;
  std::vector<int64_t> rows, starts{0};
  for (int64_t r = 0; r < R; ++r) {
    for (int64_t c = 0; c < C; ++c)
      if (any(r, c)) columns.push_back(static_cast<int32_t>(c)), rows.push_back(r);
    starts.push_back(static_cast<int64_t>(columns.size()));
  }
  const auto blocks = static_cast<int64_t>(columns.size());
  const Tensor values = zeros({blocks, block, block}, w.dtype(), cpu, loc);
  const size_t element = from.element();
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t r = rows[static_cast<size_t>(i)], first = columns[static_cast<size_t>(i)] * block;
    for (int64_t n = 0; n < std::min(block, from.N - r * block); ++n) {
      std::memcpy(
          static_cast<uint8_t*>(values.raw()) + static_cast<size_t>((i * block + n) * block) * element,
          from.bytes() + static_cast<size_t>((r * block + n) * from.K + first) * element,
          static_cast<size_t>(std::min(block, from.K - first)) * element);
    }
  }
  return BsrMatrix(values, from_data(columns, {blocks}, cpu), from_data(starts, {R + 1}, cpu), from.N, from.K,
                   loc)
      .to(w.device(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
