// TwoFourMatrix: a matrix [N, K] of which each row has at most two numbers other than 0 in each group of four
// columns ("2:4"), as tensor cores read it.
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.15. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/backend/sparse_view.hpp>
#include <tinytorch/pruning/sparse_parts.hpp>

namespace tinytorch::inline TT_BUILD {

class TwoFourMatrix {
 public:
  TwoFourMatrix() = default;
  // values [N, K / 2] of any dtype, places u8 [N, 2 ceil(K / 16)] (uint16_t words), as backend::TwoFourView
  // describes them. Throws TT-PRUNE-05 unless they fit together: the two places of a group ascend.
  TwoFourMatrix(Tensor values, Tensor places, TT_LOC)
      : values_(std::move(values)), places_(std::move(places)) {
    const bool matrix =
        values_.defined() && values_.rank() == 2 && values_.size(1) % 2 == 0 && values_.is_contiguous();
    const bool fits =
        matrix && pruning::is_part(places_, DType::u8, {rows(), (columns() + 15) / 16 * 2}) && ascend(loc);
    pruning::require_part(
        fits, "2:4",
        "values [N, K / 2] with K % 4 = 0, places u8 [N, 2 ceil(K / 16)] with two ascending "
        "places for each group of four",
        loc);
  }

  bool defined() const { return values_.defined(); }
  int64_t rows() const { return values_.size(0); }
  int64_t columns() const { return values_.size(1) * 2; }
  DType dtype() const { return values_.dtype(); }
  Device device() const { return values_.device(); }
  const Tensor& values() const { return values_; }
  const Tensor& places() const { return places_; }
  int64_t bytes() const { return pruning::bytes_of_part(values_) + pruning::bytes_of_part(places_); }
  TwoFourMatrix to(Device device, TT_LOC) const {
    TwoFourMatrix moved = *this;
    moved.values_ = values_.to(device, loc), moved.places_ = places_.to(device, loc);
    return moved;
  }
  Tensor dense(TT_LOC) const;  // task 8.15
  backend::TwoFourView view() const {
    return {values_.view_of().data, static_cast<const uint16_t*>(places_.view_of().data), dtype(), rows(),
            columns()};
  }

 private:
  bool ascend(Loc loc) const {
    const Tensor places = places_.to(cpu, loc);
    const auto* const byte = static_cast<const uint8_t*>(places.raw());
    for (int64_t i = 0; i < places.numel(); ++i)
      if ((byte[i] & 3) >= (byte[i] >> 2 & 3) || (byte[i] >> 4 & 3) >= (byte[i] >> 6)) return false;
    return true;
  }

  Tensor values_, places_;
};

inline TwoFourMatrix to_two_four(const Tensor& w, TT_LOC);  // task 8.15

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/pruning/two_four.hpp>
