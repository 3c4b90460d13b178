// BitmapMatrix: a sparse matrix [N, K] with one bit for each element and the numbers other than 0.
//
//   BitmapMatrix s = to_bitmap(weight);     // weight [N, K]
//   Tensor back = s.dense();                // the same numbers
//
// A bit costs 1/32 of an f32, so this format is smaller than the dense one from 4 % zeros on, where an index
// for each number needs a third (16 bits) or a half (32 bits) of zeros. A processor with AVX-512 spreads
// numbers by a mask of bits in one instruction, so no index is decoded.
#pragma once

#include <bit>
#include <tinytorch/backend/sparse_view.hpp>
#include <tinytorch/pruning/sparse_parts.hpp>

namespace tinytorch::inline TT_BUILD {

class BitmapMatrix {
 public:
  BitmapMatrix() = default;
  // values [nnz] of any dtype, bits i64 [N, ceil(K / 64)], offsets i64 [N + 1], as backend::BitmapView
  // describes them. Throws TT-PRUNE-05 unless they fit together.
  BitmapMatrix(Tensor values, Tensor bits, Tensor offsets, int64_t columns, TT_LOC)
      : values_(std::move(values)),
        bits_(std::move(bits)),
        offsets_(std::move(offsets)),
        columns_(columns),
        rows_(bits_.defined() && bits_.rank() == 2 ? bits_.size(0) : 0) {
    const bool shapes = columns >= 0 && values_.defined() && values_.rank() == 1 && values_.is_contiguous() &&
                        pruning::is_part(bits_, DType::i64, {rows_, (columns + 63) / 64});
    pruning::require_part(shapes && are_counts(loc), "bitmap",
                          "values [nnz], bits i64 [N, ceil(K / 64)] with 0 beyond K, offsets i64 [N + 1] "
                          "that count the bits of the rows before",
                          loc);
  }

  bool defined() const { return values_.defined(); }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t nnz() const { return values_.numel(); }
  DType dtype() const { return values_.dtype(); }
  Device device() const { return values_.device(); }
  const Tensor& values() const { return values_; }
  const Tensor& bits() const { return bits_; }
  const Tensor& offsets() const { return offsets_; }
  int64_t bytes() const {
    return pruning::bytes_of_part(values_) + pruning::bytes_of_part(bits_) + pruning::bytes_of_part(offsets_);
  }
  BitmapMatrix to(Device device, TT_LOC) const {
    BitmapMatrix moved = *this;
    moved.values_ = values_.to(device, loc), moved.bits_ = bits_.to(device, loc);
    moved.offsets_ = offsets_.to(device, loc);
    return moved;
  }
  // The matrix [N, K] on the same device.
  Tensor dense(TT_LOC) const {
    const BitmapMatrix here = to(cpu, loc);
    const Tensor out = zeros({rows_, columns_}, dtype(), cpu, loc);
    auto* const to = static_cast<uint8_t*>(out.raw());
    const auto* from = static_cast<const uint8_t*>(here.values_.raw());
    const size_t element = size_of(dtype());
    const backend::BitmapView v = here.view();
    for (int64_t n = 0; n < rows_; ++n) {
      for (int64_t w = 0; w < v.words(); ++w) {
        for (uint64_t rest = v.bits[n * v.words() + w]; rest != 0; rest &= rest - 1, from += element) {
          const int64_t k = w * 64 + std::countr_zero(rest);
          std::memcpy(to + static_cast<size_t>(n * columns_ + k) * element, from, element);
        }
      }
    }
    return out.to(device(), loc);
  }
  backend::BitmapView view() const {
    return {values_.view_of().data,
            static_cast<const uint64_t*>(bits_.view_of().data),
            static_cast<const int64_t*>(offsets_.view_of().data),
            dtype(),
            rows_,
            columns_,
            nnz()};
  }

 private:
  bool are_counts(Loc loc) const {
    if (!pruning::are_offsets(offsets_, rows_, values_.numel(), loc)) return false;
    const Tensor bits = bits_.to(cpu, loc), offsets = offsets_.to(cpu, loc);
    const int64_t words = (columns_ + 63) / 64;
    const auto* word = static_cast<const uint64_t*>(bits.raw());
    const auto* const at = offsets.data<int64_t>();
    const uint64_t beyond = columns_ % 64 == 0 ? 0 : ~uint64_t{0} << (columns_ % 64);
    for (int64_t n = 0; n < rows_; ++n) {
      int64_t count = 0;
      for (int64_t w = 0; w < words; ++w, ++word) {
        count += std::popcount(*word);
        if (w + 1 == words && (*word & beyond) != 0) return false;
      }
      if (count != at[n + 1] - at[n]) return false;
    }
    return true;
  }

  Tensor values_, bits_, offsets_;
  int64_t columns_ = 0, rows_ = 0;
};

// w [N, K] of any dtype -> the elements that are not 0 (NaN is kept), on the device of w.
inline BitmapMatrix to_bitmap(const Tensor& w, TT_LOC) {
  const NoGrad no_grad;
  const pruning::KeptElements from("to_bitmap", w, loc);
  const int64_t words = (from.K + 63) / 64;
  const Tensor values = empty({from.count()}, w.dtype(), cpu, loc),
               bits = zeros({from.N, words}, DType::i64, cpu, loc),
               offsets = zeros({from.N + 1}, DType::i64, cpu, loc);
  auto* to = static_cast<uint8_t*>(values.raw());
  auto* const word = static_cast<uint64_t*>(bits.raw());
  const size_t element = from.element();
  int64_t count = 0;
  for (int64_t n = 0; n < from.N; ++n) {
    for (int64_t k = 0; k < from.K; ++k) {
      if (!from.at(n, k)) continue;
      word[n * words + k / 64] |= uint64_t{1} << (k % 64);
      std::memcpy(to, from.bytes() + static_cast<size_t>(n * from.K + k) * element, element);
      to += element, ++count;
    }
    offsets.data<int64_t>()[n + 1] = count;
  }
  return BitmapMatrix(values, bits, offsets, from.K, loc).to(w.device(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
