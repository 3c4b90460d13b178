// TwoFourMatrix: a matrix [N, K] of which each row has at most two numbers other than 0 in each group of four
// columns ("2:4"), as tensor cores read it.
//
//   TwoFourMatrix s = to_two_four(weight * nm_mask(weight, 2, 4));
//
// Stored are two numbers of each group and their places, two bits each: 9/16 of the bytes of bf16, and 17/32
// of f32. All rows have the same length, so that no offsets are read.
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
  // The matrix [N, K] on the same device.
  Tensor dense(TT_LOC) const {
    const TwoFourMatrix here = to(cpu, loc);
    const int64_t N = rows(), K = columns();
    const Tensor out = zeros({N, K}, dtype(), cpu, loc);
    const backend::TwoFourView v = here.view();
    const size_t element = size_of(dtype());
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t i = 0; i < K / 2; ++i) {
        const int64_t group = i / 2;
        const int place = v.places[n * v.words() + group / 4] >> (4 * (group % 4) + 2 * (i % 2)) & 3;
        std::memcpy(
            static_cast<uint8_t*>(out.raw()) + static_cast<size_t>(n * K + 4 * group + place) * element,
            static_cast<const uint8_t*>(v.values) + static_cast<size_t>(n * K / 2 + i) * element, element);
      }
    }
    return out.to(device(), loc);
  }
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

// w [N, K] of any dtype -> its elements that are not 0, on the device of w. A group with fewer than two of
// them stores zeros at its lowest free places. Throws TT-PRUNE-01 unless K is a multiple of 4 and each group
// of four has at most two.
inline TwoFourMatrix to_two_four(const Tensor& w, TT_LOC) {
  const NoGrad no_grad;
  const pruning::KeptElements from("to_two_four", w, loc);
  const int64_t N = from.N, K = from.K, words = (K + 15) / 16;
  if (K % 4 != 0) {
    fail("TT-PRUNE-01",
         "to_two_four: a row is stored in groups of four columns, and " + w.describe() + " has " +
             std::to_string(K) + "\n  hint: keep this matrix dense, or pad its columns with zeros",
         loc);
  }
  const Tensor values = zeros({N, K / 2}, w.dtype(), cpu, loc),
               places = empty({N, words * 2}, DType::u8, cpu, loc);
  auto* const word = static_cast<uint16_t*>(places.raw());
  std::fill_n(word, N * words, uint16_t{0x4444});  // places 0 and 1
  const size_t element = from.element();
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t g = 0; g < K / 4; ++g) {
      int kept[4], count = 0;
      for (int p = 0; p < 4; ++p)
        if (from.at(n, 4 * g + p)) kept[count++] = p;
      if (count > 2) {
        fail("TT-PRUNE-01",
             "to_two_four: row " + std::to_string(n) + " has " + std::to_string(count) +
                 " numbers other than 0 in columns " + std::to_string(4 * g) + " to " +
                 std::to_string(4 * g + 3) + "\n  rule: at most 2 of 4\n  hint: w * nm_mask(w, 2, 4)",
             loc);
      }
      for (int p = 0; count < 2; ++p)
        if (count == 0 || kept[0] != p) kept[count++] = p;
      if (kept[0] > kept[1]) std::swap(kept[0], kept[1]);
      uint16_t& to = word[n * words + g / 4];
      const int shift = static_cast<int>(4 * (g % 4));
      to = static_cast<uint16_t>((to & ~(0xf << shift)) | (kept[0] | kept[1] << 2) << shift);
      for (int i = 0; i < 2; ++i) {
        std::memcpy(
            static_cast<uint8_t*>(values.raw()) + static_cast<size_t>(n * K / 2 + 2 * g + i) * element,
            from.bytes() + static_cast<size_t>(n * K + 4 * g + kept[i]) * element, element);
      }
    }
  }
  return TwoFourMatrix(values, places, loc).to(w.device(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
