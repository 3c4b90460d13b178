// Random pointwise programs, inputs for them, and their results by single operations.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/backend/pointwise.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tinytorch_tests {

namespace tt = tinytorch;
using namespace tinytorch::backend;

// A program in which each step could be an operation of the library: operands of one dtype, conditions that
// are bool. Functions and operands are drawn at random from all there are.
class RandomProgram {
 public:
  RandomProgram(tt::Generator& random, tt::DType compute, int inputs, int steps) : random_(random) {
    program.compute = compute;
    for (int k = 0; k < inputs; ++k) program.inputs.push_back(dtype());
    while (static_cast<int>(program.steps.size()) < steps) add();
    program.outputs = {program.values() - 1};
    for (int v = inputs; v < program.values() - 1; ++v)
      if (random.uniform() < 0.1) program.outputs.push_back(v);
  }
  PointwiseProgram program;

 private:
  int below(int n) { return static_cast<int>(random_.below(static_cast<uint64_t>(n))); }
  tt::DType dtype() {
    const int i = below(8);
    if (i == 0) return tt::boolean;
    if (program.compute == tt::f64) return tt::f64;
    return i < 5 ? tt::f32 : i < 6 ? tt::f16 : tt::bf16;
  }
  tt::DType floating() {
    for (;;)
      if (const tt::DType d = dtype(); d != tt::boolean) return d;
  }
  int push(PointwiseStep::Kind kind, int fn, tt::DType dtype, int a, int b = -1, int c = -1) {
    PointwiseStep step{kind, static_cast<uint8_t>(fn), dtype, {a, b, c}, {0, 0}};
    if (kind == PointwiseStep::Kind::unary) step.p[0] = random_.uniform(0.01, 2), step.p[1] = 2.5;
    if (kind == PointwiseStep::Kind::binary) step.p[0] = random_.uniform(0.01, 2);
    program.steps.push_back(step);
    return program.values() - 1;
  }
  // A value, mostly one of the last; converted if it has another dtype.
  int any() { return std::max(below(program.values()), below(program.values())); }
  int as(int v, tt::DType wanted) {
    return program.dtype_of_value(v) == wanted ? v : push(PointwiseStep::Kind::convert, 0, wanted, v);
  }
  void add() {
    using Kind = PointwiseStep::Kind;
    const double draw = random_.uniform();
    if (draw < 0.4) {
      const auto fn = static_cast<UnaryFn>(below(kUnaryCount));
      if (fn == UnaryFn::logical_not) {
        push(Kind::unary, static_cast<int>(fn), tt::boolean, any());
      } else {
        const tt::DType d = floating();
        push(Kind::unary, static_cast<int>(fn), d, as(any(), d));
      }
    } else if (draw < 0.8) {
      const auto fn = static_cast<BinaryFn>(below(kBinaryCount));
      const bool compares = fn >= BinaryFn::eq && fn <= BinaryFn::logical_or;
      const tt::DType d = compares ? dtype() : floating();
      const int a = as(any(), d), b = below(4) == 0 ? a : as(any(), d);
      push(Kind::binary, static_cast<int>(fn), compares ? tt::boolean : d, a, b);
    } else if (draw < 0.9) {
      const tt::DType d = dtype();
      const int condition = as(any(), tt::boolean), a = as(any(), d), b = as(any(), d);
      push(Kind::where, 0, d, condition, a, b);
    } else {
      push(Kind::convert, 0, dtype(), any());
    }
  }

  tt::Generator& random_;
};

// Views with their memory.
class Arrays {
 public:
  View contiguous(tt::DType dtype, const tt::Shape& shape) {
    View v{nullptr, dtype, shape, tt::Strides::filled(shape.size(), 0)};
    int64_t step = 1;
    for (int d = shape.size() - 1; d >= 0; --d) v.strides[d] = step, step *= shape[d];
    v.data = memory(dtype, step);
    return v;
  }
  // Random and special values in a layout that broadcasts to `shape`: contiguous, one value, a row, a column,
  // every second element, or with two dimensions exchanged.
  View input(tt::Generator& random, tt::DType dtype, const tt::Shape& shape) {
    const int rank = shape.size();
    const uint64_t layout = random.below(7);
    tt::Shape kept = shape;
    for (int d = 0; d < rank; ++d) {
      if (layout == 1 || (layout == 2 && d + 1 < rank) || (layout == 3 && d + 1 == rank)) kept[d] = 1;
    }
    const bool stepped = layout == 4, swapped = layout == 5 && rank > 1;
    View v = contiguous(dtype, kept);
    if (swapped) {
      v.strides[rank - 1] = kept[rank - 2], v.strides[rank - 2] = 1;
    }
    const int64_t elements = v.numel() * (stepped ? 2 : 1);
    v.data = memory(dtype, elements);
    if (stepped) {
      for (int64_t& s : v.strides) s *= 2;
    }
    std::vector<double> values(static_cast<size_t>(elements));
    for (double& x : values) x = dtype == tt::boolean ? static_cast<double>(random.below(2)) : value(random);
    write_flat(View{v.data, dtype, {elements}, {1}}, 0, values.data(), elements);
    return v;
  }

 private:
  void* memory(tt::DType dtype, int64_t elements) {
    bytes_.emplace_back(static_cast<size_t>(elements) * tt::size_of(dtype) + 64);
    return bytes_.back().data();
  }
  static double value(tt::Generator& random) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    static constexpr double kSpecial[] = {
        0.0, -0.0, 1e-310, -1e-42, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(), 1, -1,
        2e6, 3e38, -1e300, 88,     -104,      0.5};
    const double draw = random.uniform();
    if (draw < 0.05) return kSpecial[random.below(std::size(kSpecial))];
    return random.uniform(-2, 2) * (draw < 0.15 ? 50 : 1);
  }
  std::deque<std::vector<std::byte>> bytes_;
};

// The results of a program by single operations, each of which writes a whole tensor.
inline std::vector<View> single_operations(const PointwiseProgram& program, const std::vector<View>& in,
                                           const tt::Shape& shape, Arrays& arrays) {
  std::vector<View> values = in;
  for (const PointwiseStep& step : program.steps) {
    const View out = arrays.contiguous(step.dtype, shape);
    const auto v = [&](int k) { return values[static_cast<size_t>(step.in[k])]; };
    using enum tinytorch::backend::PointwiseKind;
    switch (step.kind) {
      case unary:
        cpu::unary(static_cast<UnaryFn>(step.fn), out, v(0), step.p[0], step.p[1]);
        break;
      case binary:
        cpu::binary(static_cast<BinaryFn>(step.fn), out, v(0), v(1), step.p[0]);
        break;
      case where:
        cpu::where(out, v(0), v(1), v(2));
        break;
      case convert:
        cpu::copy(out, v(0));
        break;
    }
    values.push_back(out);
  }
  std::vector<View> results;
  for (const int v : program.outputs) results.push_back(values[static_cast<size_t>(v)]);
  return results;
}

// The number of elements whose bits differ, where a NaN equals every NaN. The views are contiguous.
inline int64_t different_bits(const View& a, const View& b) {
  int64_t different = 0;
  const size_t size = tt::size_of(a.dtype);
  for (int64_t i = 0; i < a.numel(); ++i) {
    const size_t at = static_cast<size_t>(i) * size;
    if (std::memcmp(a.as<char>() + at, b.as<char>() + at, size) == 0) continue;
    double x = 0, y = 0;
    read_flat(&x, a, i, 1), read_flat(&y, b, i, 1);
    different += !(std::isnan(x) && std::isnan(y));
  }
  return different;
}

}  // namespace tinytorch_tests
