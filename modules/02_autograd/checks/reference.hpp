// Functions that the checks of this module share: tensors in any layout, their numbers, and derivatives by
// differences.
#pragma once

#include <functional>
#include <support/check.hpp>
#include <tinytorch/tensor/operators.hpp>

namespace course {

// A tensor that holds these numbers (row-major) in one of the layouts.
inline Tensor tensor_of(const Shape& shape, const Numbers& numbers, DType dtype = f64,
                        Layout layout = Layout::contiguous) {
  Values values = Values::of(dtype, shape, numbers, layout);
  const View from = values.view();
  int64_t first = 0, last = 0;  // the smallest and the largest offset of an element
  for (int d = 0; d < shape.size(); ++d) {
    const int64_t reach = (shape[d] - 1) * from.strides[d];
    (reach < 0 ? first : last) += reach;
  }
  if (shape.numel() == 0) first = last = 0;
  const Tensor memory = empty({last - first + 1}, dtype, cpu);
  std::memcpy(memory.raw(), from.as<char>() + first * static_cast<int64_t>(size_of(dtype)), memory.bytes());
  return alias(memory, shape, from.strides, -first);
}
inline Tensor random_tensor(const Shape& shape, DType dtype = f64, Layout layout = Layout::contiguous,
                            double low = -1, double high = 1) {
  Numbers numbers(static_cast<size_t>(shape.numel()));
  for (double& n : numbers) n = uniform(low, high);
  return tensor_of(shape, numbers, dtype, layout);
}

// Calls f(). If f throws, the message of the failure names the call.
template <class F>
auto call(const std::string& what, F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    if (e.code() == "TT-TODO") throw;
    throw Mismatch(what + "\n  it threw  " + e.what());
  }
}

inline Numbers numbers_of(const Tensor& t) { return t.to_vector<double>(); }

inline void expect_close(const std::string& what, const Tensor& got, const Shape& shape, const Numbers& want,
                         Tolerance tolerance = {}) {
  expect(what + ": the result is a defined tensor", got.defined(), "the result is undefined");
  expect_equal(what + ": its shape", got.shape(), shape);
  tolerance.dtype = got.dtype();
  expect_close(what, numbers_of(got), want, shape, tolerance);
}

// (f(x + h) - f(x - h)) / 2h, with an error of about 1e-10 of f.
inline double slope_of(const std::function<double(double)>& f, double x) {
  const double h = 3e-6 * std::max(1.0, std::abs(x));
  return (f(x + h) - f(x - h)) / (2 * h);
}
// The tolerance for slope_of() in f64, in rounding errors; in f32, that of a few operations.
inline double slope_roundings(DType dtype) { return dtype == f64 ? 3e6 : 16; }

}  // namespace course
