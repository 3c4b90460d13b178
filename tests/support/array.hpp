// Array: values for kernel tests. They are rounded to the dtype before a reference uses them. Layout::gaps
// has strides with gaps, which no kernel may treat as contiguous; in `transposed`, the first dimension is
// contiguous; `channels_last` stores images [N, C, H, W] as [N, H, W, C].
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace test {

using namespace tinytorch;

// offset: contiguous, but beginning inside a 16-byte word.
enum class Layout { dense, gaps, transposed, channels_last, offset };
inline constexpr Layout kLayouts[] = {Layout::dense, Layout::gaps, Layout::transposed};

class Array {
 public:
  Array(DType dtype, const Shape& shape, Layout layout = Layout::dense)
      : dtype_(dtype), shape_(shape), strides_(Strides::filled(shape.size(), 0)) {
    int64_t step = layout == Layout::gaps ? 2 : 1;
    for (int k = shape.size() - 1; k >= 0; --k) {
      constexpr int kPixels[] = {0, 2, 3, 1};
      const int d = layout == Layout::transposed                           ? shape.size() - 1 - k
                    : layout == Layout::channels_last && shape.size() == 4 ? kPixels[k]
                                                                           : k;
      strides_[d] = step;
      step *= shape[d] + (layout == Layout::gaps ? 1 : 0);
    }
    first_ = layout == Layout::offset ? 1 : 0;
    bytes_.assign(static_cast<size_t>(step + first_ + 8) * size_of(dtype), kUntouched);
  }
  // Uniform values in [low, high), rounded to the dtype.
  static Array random(DType dtype, const Shape& shape, uint64_t seed, double low = -1, double high = 1,
                      Layout layout = Layout::dense) {
    Generator generator(seed);
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (double& v : values) v = generator.uniform(low, high);
    return from(dtype, shape, values, layout);
  }
  static Array from(DType dtype, const Shape& shape, const std::vector<double>& values,
                    Layout layout = Layout::dense) {
    Array a(dtype, shape, layout);
    if (shape.numel() > 0) backend::unpack(a.view(), 0, values.data(), shape.numel());
    return a;
  }
  backend::View view() {
    backend::View v{bytes_.data() + first_byte(), dtype_, shape_, strides_};
    if (shape_.empty()) v.shape = {1}, v.strides = {1};
    return v;
  }
  std::vector<double> values() {
    std::vector<double> out(static_cast<size_t>(shape_.numel()));
    if (!out.empty()) backend::pack(out.data(), view(), 0, shape_.numel());
    return out;
  }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::vector<unsigned char>& bytes() { return bytes_; }
  size_t first_byte() const { return static_cast<size_t>(first_) * size_of(dtype_); }
  // True if the memory before and behind a contiguous array is unchanged.
  bool untouched_around() const {
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(first_byte());
    const auto end =
        begin + static_cast<std::ptrdiff_t>(static_cast<size_t>(shape_.numel()) * size_of(dtype_));
    const auto untouched = [](unsigned char byte) { return byte == kUntouched; };
    return std::all_of(bytes_.begin(), begin, untouched) && std::all_of(end, bytes_.end(), untouched);
  }

 private:
  static constexpr unsigned char kUntouched = 0x7e;
  int64_t first_ = 0;
  DType dtype_;
  Shape shape_;
  Strides strides_;
  std::vector<unsigned char> bytes_;
};

inline constexpr DType kFloating[] = {f32, f64, bf16, f16};

// Checks that |got - want| is within `steps` roundings of the compute type (f32 for 16-bit types) at
// magnitude `scale`, plus one rounding of the stored type. NaN equals NaN. The first violation is reported.
inline void check_close(const std::vector<double>& got, const std::vector<double>& want, DType dtype,
                        double steps, double scale = 1) {
  REQUIRE(got.size() == want.size());
  const double arithmetic = epsilon_of(dtype == f64 ? f64 : f32);
  const auto is_close = [&](double g, double w) {
    if (std::isnan(w) || std::isinf(w)) return std::isnan(w) ? std::isnan(g) : g == w;
    return std::abs(g - w) <= steps * arithmetic * (scale + std::abs(w)) + epsilon_of(dtype) * std::abs(w) +
                                  (dtype == f16 ? 1e-7 : 0);
  };
  size_t i = 0;
  while (i < got.size() && is_close(got[i], want[i])) ++i;
  if (i == got.size()) {
    CHECK(true);
  } else {
    FAIL_CHECK("element ", i, " of ", got.size(), " is ", got[i], ", expected ", want[i], " (",
               std::string(name_of(dtype)), ")");
  }
}

}  // namespace test
