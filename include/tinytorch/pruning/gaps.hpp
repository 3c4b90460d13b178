// GapMatrix: a sparse matrix [N, K] as numbers with the distance of each from the one before, in four bits.
//
//   GapMatrix s = to_gaps(weight);     // weight [N, K]
//   Tensor back = s.dense();           // the same numbers
//
// With 16-bit numbers an entry has 20 bits, whatever its column: at a density of one half this is 0.63 of the
// dense matrix (a bitmap: 0.56), at 0.2 it is 0.26 (0.26), at 0.05 it is 0.11 (0.11). It is made for GPUs: a
// warp reads whole lines of entries and finds their columns by a sum over its lanes, so that every lane has
// as many numbers to multiply as every other. Runs of more than 15 zeros take an entry of the number 0 each.
#pragma once

#include <tinytorch/backend/sparse_view.hpp>
#include <tinytorch/pruning/sparse_parts.hpp>

namespace tinytorch::inline TT_BUILD {

class GapMatrix {
 public:
  GapMatrix() = default;
  // values [entries] of any dtype, gaps u8 [entries / 2], offsets i64 [N + 1], as backend::GapView describes
  // them. Throws TT-PRUNE-05 unless they fit together.
  GapMatrix(Tensor values, Tensor gaps, Tensor offsets, int64_t columns, TT_LOC)
      : values_(std::move(values)),
        gaps_(std::move(gaps)),
        offsets_(std::move(offsets)),
        columns_(columns),
        rows_(offsets_.defined() && offsets_.rank() == 1 ? offsets_.size(0) - 1 : 0) {
    // Kernels count rows and the entries of a row in 32 bits.
    const bool shapes = columns >= 0 && columns <= INT32_MAX - 8 && rows_ <= INT32_MAX && values_.defined() &&
                        values_.rank() == 1 && values_.is_contiguous() &&
                        pruning::is_part(gaps_, DType::u8, {values_.numel() / 2});
    pruning::require_part(shapes && pruning::are_offsets(offsets_, rows_, values_.numel(), loc) && fit(loc),
                          "gap",
                          "values [entries], gaps u8 [entries / 2], offsets i64 [N + 1], multiples of 8; "
                          "numbers other than 0 lie "
                          "below column K, and the entries behind them at most 7 columns beyond",
                          loc);
    values_ = pruning::aligned_part(values_, loc), gaps_ = pruning::aligned_part(gaps_, loc);
  }

  bool defined() const { return values_.defined(); }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t entries() const { return values_.numel(); }
  DType dtype() const { return values_.dtype(); }
  Device device() const { return values_.device(); }
  const Tensor& values() const { return values_; }
  const Tensor& gaps() const { return gaps_; }
  const Tensor& offsets() const { return offsets_; }
  int64_t bytes() const {
    return pruning::bytes_of_part(values_) + pruning::bytes_of_part(gaps_) + pruning::bytes_of_part(offsets_);
  }
  GapMatrix to(Device device, TT_LOC) const {
    GapMatrix moved = *this;
    moved.values_ = values_.to(device, loc), moved.gaps_ = gaps_.to(device, loc);
    moved.offsets_ = offsets_.to(device, loc);
    return moved;
  }
  // The matrix [N, K] on the same device.
  Tensor dense(TT_LOC) const {
    const Tensor values = values_.to(cpu, loc), out = zeros({rows_, columns_}, dtype(), cpu, loc);
    const auto* const from = static_cast<const uint8_t*>(values.raw());
    const size_t element = size_of(dtype());
    for_each_entry(loc, [&](int64_t n, int64_t column, int64_t i) {
      if (column < columns_)
        std::memcpy(static_cast<uint8_t*>(out.raw()) + static_cast<size_t>(n * columns_ + column) * element,
                    from + static_cast<size_t>(i) * element, element);
      return true;
    });
    return out.to(device(), loc);
  }
  backend::GapView view() const {
    return {values_.view_of().data,
            static_cast<const uint8_t*>(gaps_.view_of().data),
            static_cast<const int64_t*>(offsets_.view_of().data),
            dtype(),
            rows_,
            columns_,
            entries()};
  }

 private:
  // f(row, column, entry) for all entries, until it returns false.
  template <class F>
  bool for_each_entry(Loc loc, F&& f) const {
    const Tensor gaps = gaps_.to(cpu, loc), offsets = offsets_.to(cpu, loc);
    backend::GapView v;
    v.gaps = static_cast<const uint8_t*>(gaps.raw());
    const auto* const at = offsets.data<int64_t>();
    for (int64_t n = 0; n < rows_; ++n) {
      int64_t column = -1;
      for (int64_t i = at[n]; i < at[n + 1]; ++i) {
        column += v.gap(i) + 1;
        if (!f(n, column, i)) return false;
      }
    }
    return true;
  }
  bool fit(Loc loc) const {
    using View = backend::GapView;
    const NoGrad no_grad;
    const Tensor offsets = offsets_.to(cpu, loc), values = values_.to(cpu, loc);
    const Tensor stored = ne(values, zeros(Shape{}, dtype(), cpu, loc), loc);
    for (int64_t n = 0; n <= rows_; ++n)
      if (offsets.data<int64_t>()[n] % View::kEach != 0) return false;
    const auto* const is_stored = static_cast<const bool*>(stored.raw());
    return for_each_entry(loc, [&](int64_t, int64_t column, int64_t i) {
      return column < columns_ || (!is_stored[i] && column < columns_ + View::kEach - 1);
    });
  }

  Tensor values_, gaps_, offsets_;
  int64_t columns_ = 0, rows_ = 0;
};

namespace pruning {
// Calls add(element, gap) for each entry of row n, in order; element -1 is the number 0.
template <class F>
void for_each_gap(const KeptElements& from, int64_t n, F&& add) {
  using View = backend::GapView;
  int64_t entries = 0, before = -1;
  for (int64_t k = 0; k < from.K; ++k) {
    if (!from.at(n, k)) continue;
    for (; k - before > View::kFarthest + 1; before += View::kFarthest + 1, ++entries)
      add(-1, View::kFarthest);
    add(n * from.K + k, k - before - 1);
    before = k, ++entries;
  }
  for (; entries % View::kEach != 0; ++entries) add(-1, 0);
}
}  // namespace pruning

// w [N, K] of any dtype -> the elements that are not 0 (NaN is kept), on the device of w.
inline GapMatrix to_gaps(const Tensor& w, TT_LOC) {
  const NoGrad no_grad;
  const pruning::KeptElements from("to_gaps", w, loc);
  const Tensor offsets = zeros({from.N + 1}, DType::i64, cpu, loc);
  auto* const at = offsets.data<int64_t>();
  for (int64_t n = 0; n < from.N; ++n) {
    at[n + 1] = at[n];
    pruning::for_each_gap(from, n, [&](int64_t, int64_t) { ++at[n + 1]; });
  }
  const int64_t entries = at[from.N];
  const Tensor values = zeros({entries}, w.dtype(), cpu, loc),
               gaps = zeros({entries / 2}, DType::u8, cpu, loc);
  const size_t element = from.element();
  auto* to = static_cast<uint8_t*>(values.raw());
  auto* const codes = static_cast<uint8_t*>(gaps.raw());
  int64_t i = 0;
  for (int64_t n = 0; n < from.N; ++n) {
    pruning::for_each_gap(from, n, [&](int64_t index, int64_t gap) {
      if (index >= 0) std::memcpy(to, from.bytes() + static_cast<size_t>(index) * element, element);
      codes[i / 2] = static_cast<uint8_t>(codes[i / 2] | gap << (i % 2 * 4));
      to += element, ++i;
    });
  }
  return GapMatrix(values, gaps, offsets, from.K, loc).to(w.device(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
