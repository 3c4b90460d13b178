// Weights and masks as plain numbers, and masks by their definition.
#pragma once

#include <07_quantization/checks/planted_layer.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace course {

inline Numbers numbers(const Tensor& t) { return t.detach().to(f64).to_vector<double>(); }
inline Tensor of_numbers(const Numbers& x, const Shape& shape) { return Tensor(from_data(x, shape)).to(f32); }
inline Tensor random_tensor(const Shape& shape, double size = 1) {
  return of_numbers(Values::random(f32, shape, Layout::contiguous, -size, size).numbers(), shape);
}

// 0 for the `count` smallest of each `together` neighbours, else 1. Of equal scores the first go first, and a
// NaN is greater than all numbers.
inline Numbers mask_by_definition(const Numbers& scores, size_t together, size_t count) {
  Numbers keep(scores.size(), 1);
  for (size_t first = 0; first < scores.size(); first += together) {
    for (size_t gone = 0; gone < count; ++gone) {
      size_t least = first + together;
      for (size_t i = first; i < first + together; ++i) {
        if (keep[i] == 0) continue;
        if (least == first + together || scores[i] < scores[least] ||
            (std::isnan(scores[least]) && !std::isnan(scores[i])))
          least = i;
      }
      keep[least] = 0;
    }
  }
  return keep;
}
inline Numbers magnitudes(Numbers x) {
  for (double& v : x) v = std::abs(v);
  return x;
}
inline Numbers times(Numbers x, const Numbers& mask) {
  for (size_t i = 0; i < x.size(); ++i) x[i] = mask[i] == 0 ? 0 : x[i];
  return x;
}
inline double count_of(const Numbers& mask) {
  double n = 0;
  for (const double v : mask) n += v != 0 ? 1 : 0;
  return n;
}

// A mask has the shape of its weight, dtype bool, and exactly these elements.
inline void expect_mask(const std::string& what, const Tensor& got, const Numbers& want, const Shape& shape) {
  expect(what + ": a mask is bool", got.dtype() == DType::boolean, "its dtype is another one");
  expect_equal(what + ": the mask has the shape of the weight", got.shape(), shape);
  const Numbers mask = numbers(got);
  expect_equal(what + ": the number of kept elements", count_of(mask), count_of(want));
  for (size_t i = 0; i < want.size(); ++i)
    expect_equal(what + ": whether element " + shown(i) + " is kept", mask[i] != 0, want[i] != 0);
}

}  // namespace course
