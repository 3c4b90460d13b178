// Array: a block of values for kernel tests. Values are rounded to the dtype before any reference sees them;
// `gaps` lays them out with strides that no kernel can take for contiguous.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <tinytorch/backend/cpu/pack.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace test {

using namespace tinytorch;

enum class Layout { dense, gaps };

class Array {
 public:
  Array(DType dtype, const Shape& shape, Layout layout = Layout::dense)
      : dtype_(dtype), shape_(shape), strides_(Strides::filled(shape.size(), 0)) {
    int64_t step = layout == Layout::gaps ? 2 : 1;
    for (int d = shape.size() - 1; d >= 0; --d) {
      strides_[d] = step;
      step *= shape[d] + (layout == Layout::gaps ? 1 : 0);
    }
    bytes_.assign(static_cast<size_t>(step + 8) * size_of(dtype), 0x7e);
  }
  // Uniform in [low, high), rounded to the dtype.
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
    backend::View v{bytes_.data(), dtype_, shape_, strides_};
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

 private:
  DType dtype_;
  Shape shape_;
  Strides strides_;
  std::vector<unsigned char> bytes_;
};

inline constexpr DType kFloating[] = {f32, f64, bf16, f16};

// |got - want| within `steps` roundings of the arithmetic (f32 for 16-bit types) at magnitude `scale`, plus
// one rounding of the stored type. NaN equals NaN.
inline void check_close(const std::vector<double>& got, const std::vector<double>& want, DType dtype,
                        double steps, double scale = 1) {
  REQUIRE(got.size() == want.size());
  const double arithmetic = epsilon_of(dtype == f64 ? f64 : f32);
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) || std::isinf(want[i])) {
      CHECK_MESSAGE((std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i]), "element ", i, " is ",
                    got[i], ", expected ", want[i]);
      continue;
    }
    const double allowed = steps * arithmetic * (scale + std::abs(want[i])) +
                           epsilon_of(dtype) * std::abs(want[i]) + (dtype == f16 ? 1e-7 : 0);
    CHECK_MESSAGE(std::abs(got[i] - want[i]) <= allowed, "element ", i, " is ", got[i], ", expected ",
                  want[i], " (", name_of(dtype), ")");
  }
}

}  // namespace test
