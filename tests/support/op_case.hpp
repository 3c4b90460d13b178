// OpCase: the description of one operation for the value test, the gradient check, the cost check
// (support/check.hpp) and the benchmark.
//
//   inputs(n)   operands for a size parameter n; shapes grow with n, so n = 0, 1, a prime, or a tile size +-
//   1 are easy forward     the call, through the public API oracle      the same computation in plain
//   double-precision loops flops       the cost that apply() should report
#pragma once

#include <cmath>
#include <optional>
#include <support/oracle.hpp>
#include <tinytorch/tinytorch.hpp>

namespace cases {

namespace tt = tinytorch;
using oracle::Array;
using tt::Dims;
using tt::DType;
using tt::Shape;
using tt::Tensor;
using tt::Tensors;

inline const std::vector<DType> kFloating = {tt::f32, tt::f64, tt::bf16, tt::f16};
inline const std::vector<DType> kNumbers = {tt::f32, tt::f64, tt::bf16, tt::f16,
                                            tt::i8,  tt::u8,  tt::i32,  tt::i64};
inline const std::vector<DType> kAnything = {tt::f32, tt::f64, tt::bf16, tt::f16,    tt::i8,
                                             tt::u8,  tt::i32, tt::i64,  tt::boolean};

struct Operand {
  std::function<Shape(int64_t n)> shape;
  double low = -3, high = 3;                 // range of floating values, uniform on [low, high)
  std::function<double(double)> nudge = {};  // moves values away from kinks and poles for the gradient check
  std::optional<DType> dtype = {};           // a fixed dtype, for indices and masks
  std::function<int64_t(int64_t n)> below = {};  // range of indices, uniform on [0, below(n))
  bool distinct = false;                         // all values differ, for operations that depend on order
};

enum class ResultType { same, boolean, i64, widened };  // widened: integers and bool give i64

struct OpCase {
  std::string name;
  std::vector<Operand> operands;
  std::function<Tensor(const Tensors&)> forward;
  std::function<Array(const std::vector<Array>&)> oracle;
  std::vector<DType> dtypes = kFloating;
  ResultType result = ResultType::same;
  double ulps = 4;       // tolerance in epsilons of the compute type, relative to the magnitude
  double roundings = 1;  // number of roundings to the result's dtype: one per step of a composition
  bool differentiable = true;
  // The FLOPs that apply() must report; null if the operation is a composition whose parts have their own
  // tests.
  std::function<double(const std::vector<Array>& in, const Array& out)> flops = {};
  bool view = false;  // true if the operation moves no bytes
  std::vector<int64_t> sizes = {0, 1, 2, 3, 7, 31, 32, 33, 257};
  std::vector<int64_t> gradient_sizes = {0, 1, 3, 5};
};

inline DType result_dtype(const OpCase& c, DType t) {
  if (c.result == ResultType::boolean) return tt::boolean;
  if (c.result == ResultType::i64) return tt::i64;
  return c.result == ResultType::widened && !tt::is_floating(t) ? tt::i64 : t;
}

// One contiguous operand. Values are rounded to the dtype here; oracles read them back from the tensor.
inline Tensor make_operand(const Operand& o, int64_t n, DType case_dtype, tt::Generator& g,
                           bool smooth = false) {
  const DType dtype = o.dtype.value_or(case_dtype);
  const Shape shape = o.shape(n);
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  const bool integral = !tt::is_floating(dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    double v = g.uniform(o.low, o.high);
    if (integral) v = std::floor(g.uniform(dtype == tt::u8 ? 0 : -9, 10));
    if (dtype == tt::boolean) v = g.uniform() < 0.5 ? 0 : 1;
    if (o.below) v = static_cast<double>(g.below(static_cast<uint64_t>(std::max<int64_t>(1, o.below(n)))));
    if (smooth && o.nudge) v = o.nudge(v);
    values[i] = v;
  }
  if (o.distinct && !integral) {  // a grid over [low, high), shuffled
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] =
          o.low + (o.high - o.low) * (static_cast<double>(i) + 0.5) / static_cast<double>(values.size());
    }
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[g.below(i)]);
  }
  return tt::from_data(values, shape).to(dtype);
}

inline Tensors make_inputs(const OpCase& c, int64_t n, DType dtype, uint64_t seed = 1, bool smooth = false) {
  tt::Generator g(seed);
  Tensors inputs;
  for (const Operand& o : c.operands) inputs.push_back(make_operand(o, n, dtype, g, smooth));
  return inputs;
}

inline Array to_array(const Tensor& t) {
  Array a;
  a.shape = t.shape();
  a.values = t.to_vector<double>();
  return a;
}

// Short forms of shapes as functions of n.
inline std::function<Shape(int64_t)> vec() {
  return [](int64_t n) { return Shape{n}; };
}
inline std::function<Shape(int64_t)> mat(int64_t columns = 3) {
  return [=](int64_t n) { return Shape{n, columns}; };
}
inline std::function<Shape(int64_t)> cube() {
  return [](int64_t n) { return Shape{2, n, 3}; };
}

// Moves x so that |x - kink| >= margin for each kink.
inline std::function<double(double)> away_from(std::vector<double> kinks, double margin = 0.05) {
  return [=](double x) {
    for (double k : kinks) {
      if (std::abs(x - k) < margin) x = x < k ? k - margin : k + margin;
    }
    return x;
  };
}

}  // namespace cases
