// OpCase: one operation, described once for every reader: tests of values, derivatives and costs
// (support/check.hpp), tests against PyTorch (tensor/functions.cpp, golden/make_ops.py), tests of CUDA
// kernels, the benchmark (bench_ops), and PyTorch beside it (peers/ops_torch.py). The lists are in
// support/cases/.
//
//   OP("F.silu(x)", silu(x)).exact([](double x) { return x * sigmoid_exact(x); }, 13, -8, 8).bench("x")
//
// The string is the call in PyTorch, beside the same call in C++. Both name their tensors x, y, z, u and v.
// Python programs read the rows as text (support/op_list.py).
#pragma once

#include <cmath>
#include <optional>
#include <sstream>
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
using tt::backend::BinaryFn;
using tt::backend::UnaryFn;

inline const std::vector<DType> kFloating = {tt::f32, tt::f64, tt::bf16, tt::f16};
inline const std::vector<DType> kNumbers = {tt::f32, tt::f64, tt::bf16, tt::f16,
                                            tt::i8,  tt::u8,  tt::i32,  tt::i64};
inline const std::vector<DType> kAnything = {tt::f32, tt::f64, tt::bf16, tt::f16,    tt::i8,
                                             tt::u8,  tt::i32, tt::i64,  tt::boolean};

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

struct Operand {
  std::function<Shape(int64_t n)> shape;
  double low = -3, high = 3;                 // range of floating values, uniform on [low, high)
  std::function<double(double)> nudge = {};  // moves values away from kinks and poles for the gradient check
  std::optional<DType> dtype = {};           // a fixed dtype, for indices and masks
  std::function<int64_t(int64_t n)> below = {};  // range of indices, uniform on [0, below(n))
  bool distinct = false;                         // all values differ, for operations that depend on order
};

enum class ResultType { same, boolean, i64, widened };  // widened: integers and bool give i64

// Results of an operation: one tensor, several, or a pair.
struct Outputs {
  Tensors list;
  Outputs(const Tensor& t) : list{t} {}
  Outputs(const Tensors& ts) : list(ts) {}
  Outputs(const tt::ValuesAndIndices& v) : list{v.values, v.indices} {}
  Outputs(const tt::NormalizedSum& n) : list{n.normalized, n.sum} {}
};
using Run = void (*)(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& u, const Tensor& v);
using Call = Outputs (*)(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& u, const Tensor& v);

// A row of the benchmark. operands: names of bench::Inputs' tensors, in the order x, y, z, u, v.
struct Timed {
  std::string name;
  std::vector<std::string> operands;
  bool backward = false;  // forward and backward
};

struct OpCase {
  std::string name;       // what messages say; a case of OP has its function's name
  std::string text = {};  // the call as C++ text; a case that is not of OP has none
  Run run = nullptr;      // the call whose result is destroyed at once, as in an expression
  Call call = nullptr;
  std::string torch = {};  // the call in PyTorch
  bool golden = true;      // whether golden/ops.safetensors has cases of the call
  std::vector<Timed> timed = {};

  // A unary function: its name in the kernels, its parameters there, its value and derivative in double.
  std::optional<UnaryFn> unary_fn = {};
  double p0 = 0, p1 = 0;
  double (*unary)(double) = nullptr;
  std::optional<BinaryFn> grad_fn = {};  // null if the derivative is made of other operations
  double (*slope)(double) = nullptr;
  bool slope_of_result = false;  // the derivative is a function of the result, not of the argument
  // A binary function: its name in the kernels, and its value in double.
  std::optional<BinaryFn> binary_fn = {};
  double (*binary)(double, double) = nullptr;

  std::vector<Operand> operands = {};
  std::function<Tensor(const Tensors&)> forward = {};
  std::function<Array(const std::vector<Array>&)> oracle = {};
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

  // --- properties of a row; each returns the case with the property ---

  // A unary function: its value in double, FLOPs per element, and the range of arguments.
  OpCase exact(UnaryFn fn, double (*value)(double), double flops_each, double low, double high) const;
  // A binary function, whose operands broadcast.
  OpCase exact(BinaryFn fn, double (*value)(double, double), double flops_each) const;
  OpCase parameters(double a, double b = 0) const {
    return with([=](OpCase& c) { c.p0 = a, c.p1 = b; });
  }
  // The kernel of g f'(v), and f'(v): v is the argument x, or the result y = f(x).
  OpCase derivative_at_x(BinaryFn fn, double (*value)(double)) const {
    return with([=](OpCase& c) { c.grad_fn = fn, c.slope = value; });
  }
  OpCase derivative_at_y(BinaryFn fn, double (*value)(double)) const {
    return derivative_at_x(fn, value).with([](OpCase& c) { c.slope_of_result = true; });
  }
  // The gradient check moves arguments away from kinks and poles.
  OpCase nudged(std::function<double(double)> nudge) const {
    return with([&](OpCase& c) { c.operands[0].nudge = std::move(nudge); });
  }
  // Errors are relative to the argument, because the function's terms cancel where its value is small.
  OpCase relative_to_argument() const;
  OpCase of(const std::vector<DType>& accepted) const {
    return with([&](OpCase& c) { c.dtypes = accepted; });
  }
  // The result is bool and has no derivative.
  OpCase gives_bool() const {
    return of(kAnything).with([](OpCase& c) { c.result = ResultType::boolean, c.differentiable = false; });
  }
  OpCase range_of(size_t operand, double low, double high) const {
    return with([&](OpCase& c) { c.operands[operand].low = low, c.operands[operand].high = high; });
  }
  // The range of both operands is so narrow that some values in bf16 and f16 are equal.
  OpCase with_ties() const { return range_of(0, -1.5, 3).range_of(1, -1.5, 3); }
  // Rows of the benchmark. inputs: "m weight row". The default name is the function's.
  OpCase bench(const std::string& inputs, const std::string& row = "") const {
    return timed_with(inputs, row.empty() ? name : row, false);
  }
  OpCase bench_grad(const std::string& inputs, const std::string& row = "") const {
    return timed_with(inputs, row.empty() ? name : row, true);
  }
  // The call is timed only: its result is random, or other rows of the function have the golden values.
  OpCase only_timed() const {
    return with([](OpCase& c) { c.golden = false; });
  }

  template <class F>
  OpCase with(F change) const {
    OpCase c = *this;
    change(c);
    return c;
  }

 private:
  OpCase timed_with(const std::string& inputs, const std::string& row, bool backward) const {
    Timed t{row, {}, backward};
    std::istringstream words(inputs);
    for (std::string word; words >> word;) t.operands.push_back(word);
    return with([&](OpCase& c) { c.timed.push_back(std::move(t)); });
  }
};

// clang-format off
#define OP_OPERANDS                                                                                        \
  [[maybe_unused]] const ::tinytorch::Tensor &x, [[maybe_unused]] const ::tinytorch::Tensor &y,            \
      [[maybe_unused]] const ::tinytorch::Tensor &z, [[maybe_unused]] const ::tinytorch::Tensor &u,        \
      [[maybe_unused]] const ::tinytorch::Tensor &v
#define OP(pytorch, ...)                                                                                   \
  ::cases::op_case(#__VA_ARGS__, pytorch,                                                                  \
      [](OP_OPERANDS) { using namespace tinytorch; (void)(__VA_ARGS__); },                                 \
      [](OP_OPERANDS) -> ::cases::Outputs { using namespace tinytorch; return __VA_ARGS__; })
// clang-format on
inline OpCase op_case(const char* text, const char* torch, Run run, Call call) {
  OpCase c;
  c.text = text, c.torch = torch, c.run = run, c.call = call;
  c.name = c.text.substr(0, c.text.find('('));
  c.forward = [call](const Tensors& in) {
    const auto at = [&](size_t i) { return i < in.size() ? in[i] : Tensor(); };
    return call(at(0), at(1), at(2), at(3), at(4)).list[0];
  };
  return c;
}

inline OpCase OpCase::exact(UnaryFn fn, double (*value)(double), double flops_each, double low,
                            double high) const {
  return with([=](OpCase& c) {
    c.unary_fn = fn, c.unary = value;
    c.operands = {{.shape = mat(), .low = low, .high = high}};
    c.oracle = [value](const std::vector<Array>& in) { return oracle::map(in[0], value); };
    c.flops = [=](const std::vector<Array>&, const Array& out) {
      return flops_each * static_cast<double>(out.values.size());
    };
  });
}
inline OpCase OpCase::exact(BinaryFn fn, double (*value)(double, double), double flops_each) const {
  return with([=](OpCase& c) {
    c.binary_fn = fn, c.binary = value;
    c.operands = {{.shape = [](int64_t n) { return Shape{2, n, 1}; }}, {.shape = mat()}};  // -> [2, n, 3]
    c.oracle = [value](const std::vector<Array>& in) { return oracle::map2(in[0], in[1], value); };
    c.flops = [=](const std::vector<Array>&, const Array& out) {
      return flops_each * static_cast<double>(out.values.size());
    };
  });
}
inline OpCase OpCase::relative_to_argument() const {
  return with([exact = oracle](OpCase& c) {
    c.oracle = [exact](const std::vector<Array>& in) {
      Array out = exact(in);
      for (double x : in[0].values) out.magnitude.push_back(std::abs(x));
      return out;
    };
  });
}

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
