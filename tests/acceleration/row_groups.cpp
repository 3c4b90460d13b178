// Row groups: fused rows have the bits of the operations, and what cannot be fused stays as it is.
#include <doctest/doctest.h>

#include <support/row_functions.hpp>
#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/acceleration/executable.hpp>
#include <tinytorch/acceleration/row_groups.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tinytorch_tests::row_arguments;
using tinytorch_tests::RowFunction;
using tt::Tensor;
using tt::Tensors;

struct Run {
  Tensors eager, fused;
  int64_t before = 0, after = 0;  // kernels
  int row_programs = 0;
};

Run run(const tt::TensorFunction& f, const Tensors& arguments) {
  const tt::NoGrad no_grad;
  tt::Captured c = tt::capture(f, arguments);
  Run out;
  out.eager = c.outputs;
  out.before = c.graph.kernels();
  tt::OpGraph graph =
      std::move(tt::fuse(std::move(c.graph), {.kernels = tt::RegionKernels::interpreted}).graph);
  tt::fuse_rows(graph, {.kernels = tt::RegionKernels::interpreted, .everywhere = true});
  out.after = graph.kernels();
  for (const tt::GraphStep& s : graph.steps)
    out.row_programs += dynamic_cast<const tt::FusedRows*>(s.op.get()) ? 1 : 0;
  tt::Executable executable(std::move(graph));
  for (size_t k = 0; k < out.eager.size(); ++k) {
    const tt::Spec spec = executable.result_spec(k);
    out.fused.push_back(tt::empty(spec.shape, spec.dtype, tt::cpu));
  }
  executable.run(arguments, out.fused);
  return out;
}
bool same(const Run& r) {
  for (size_t k = 0; k < r.eager.size(); ++k)
    if (!tt::same_bits(r.eager[k], r.fused[k])) return false;
  return true;
}

Tensors softmax(const Tensors& x) {
  const Tensor e = tt::exp(x[0] - tt::max(x[0], {-1}, true));
  return {e / tt::sum(e, {-1}, true)};
}
}  // namespace

TEST_CASE("random functions of rows: one kernel or few, and the bits of eager operations") {
  uint64_t seed = 0;
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    for (const tt::Shape& shape :
         {tt::Shape{3, 4, 17}, tt::Shape{1, 97}, tt::Shape{129, 2}, tt::Shape{5, 1, 33}, tt::Shape{2, 20011},
          tt::Shape{7001, 3}, tt::Shape{31}, tt::Shape{16, 16}}) {
      for (int round = 0; round < 4; ++round) {
        const Run r = run(RowFunction{++seed}, row_arguments(shape, dtype, tt::cpu));
        INFO(seed, " ", tt::name_of(dtype), " ", shape.str());
        CHECK(same(r));
        CHECK(r.row_programs >= 1);
        CHECK(r.after < r.before);
      }
    }
  }
}

TEST_CASE("a softmax, a norm and the logarithm of a sum are one step each") {
  const Tensors x{tt::randn({6, 5, 40}), tt::randn({40}), tt::randn({40})};
  const auto norm = [](const Tensors& in) {
    const Tensor d = in[0] - tt::mean(in[0], {-1}, true), v = tt::mean(d * d, {-1}, true);
    return Tensors{d * tt::rsqrt(v + 1e-5) * in[1] + in[2]};
  };
  const auto lse = [](const Tensors& in) {
    const Tensor m = tt::max(in[0], {-1});
    return Tensors{tt::log(tt::sum(tt::exp(in[0] - tt::unsqueeze(m, -1)), {-1})) + m};
  };
  const auto over_two = [](const Tensors& in) { return Tensors{in[0] / tt::sum(in[0], {-2, -1}, true)}; };
  for (const tt::TensorFunction& f : {tt::TensorFunction(softmax), tt::TensorFunction(norm),
                                      tt::TensorFunction(lse), tt::TensorFunction(over_two)}) {
    const Run r = run(f, x);
    CHECK(same(r));
    CHECK(r.after == 1);
    CHECK(r.row_programs == 1);
  }
}

TEST_CASE("NaN, infinities and zeros of both signs") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tt::from_data<float>({1, 2, kNan, 4, 0.f, -0.f, -0.f, 0.f, kInfinity, 1, 2, 3, -kInfinity,
                                         -kInfinity, -kInfinity, -kInfinity},
                                        {4, 4}, tt::cpu);
  const Run r = run(softmax, {x});
  CHECK(r.row_programs == 1);
  CHECK(same(r));
}

TEST_CASE("what does not follow rows is not fused with them") {
  const auto count = [](const tt::TensorFunction& f, const Tensors& x) {
    const Run r = run(f, x);
    CHECK(same(r));
    return r.row_programs;
  };
  const Tensor x = tt::randn({8, 8});
  // The sum of columns, a square matrix whose numbers of rows are read as a line, and a transposed operand.
  CHECK(count([](const Tensors& in) { return Tensors{tt::exp(in[0]) / tt::sum(in[0], {0}, true)}; }, {x}) ==
        0);
  const Run line = run([](const Tensors& in) { return Tensors{in[0] + tt::sum(in[0] * 2, {1})}; }, {x});
  CHECK(same(line));
  CHECK(line.after == 2);
  const Run across = run(
      [](const Tensors& in) { return Tensors{tt::transpose(in[0], 0, 1) + tt::sum(in[0], {1}, true)}; }, {x});
  CHECK(same(across));
  CHECK(across.row_programs == 0);
  // Matrices without rows, or whose rows have no elements, make no row program.
  CHECK(count(softmax, {tt::randn({0, 5})}) == 0);
  CHECK(count([](const Tensors& in) { return Tensors{tt::sum(in[0], {1}, true) * 2}; },
              {tt::randn({5, 0})}) == 0);
  // A sum of integers makes none.
  CHECK(count([](const Tensors& in) { return Tensors{tt::sum(in[0], {1}, true) * 2}; },
              {tt::randint(0, 5, {4, 6})}) == 0);
}

TEST_CASE("omitted operands, and reductions of a single number") {
  const Tensor x = tt::randn({512, 64}), w = tt::randn({256, 64});
  const auto f = [](const Tensors& in) {
    const Tensor y = tt::linear(in[0], in[1]);
    return Tensors{y - tt::mean(y, {-1}, true)};
  };
  CHECK(same(run(f, {x, w})));
  CHECK(same(run([](const Tensors& in) { return Tensors{tt::sum(tt::sum(in[0]), {0}) * 2}; }, {x})));
  CHECK(same(run([](const Tensors& in) { return Tensors{tt::sum(tt::sum(in[0]), {-1}) * 2}; }, {x})));
}

TEST_CASE("short rows, one more than fill tiles") {
  const auto f = [](const Tensors& in) { return Tensors{in[0] - tt::mean(in[0], {-1}, true)}; };
  for (const int64_t length : {2, 3, 7, 16, 31, 32}) {
    const int64_t each = (1 << 14) / length;
    for (const int64_t rows : {each + 1, 5 * each + 1, 3 * each - 1}) {
      const Run r = run(f, {tt::randn({rows, length})});
      CAPTURE(length);
      CAPTURE(rows);
      CHECK(r.row_programs == 1);
      CHECK(same(r));
    }
  }
}

TEST_CASE("a value that is needed outside of the group stays in memory") {
  const auto f = [](const Tensors& in) {
    const Tensor m = tt::max(in[0], {-1}, true), e = tt::exp(in[0] - m), s = tt::sum(e, {-1}, true);
    return Tensors{e / s, m, tt::matmul(e, tt::transpose(e, 0, 1)), s};
  };
  const Run r = run(f, {tt::randn({12, 31})});
  CHECK(same(r));
  CHECK(r.row_programs == 1);
}

TEST_CASE("a compiled function uses row programs for values that are larger than a cache") {
  for (const tt::Shape& shape : {tt::Shape{257, 1031}, tt::Shape{3, 40009}, tt::Shape{30011, 5}}) {
    const Tensor x = tt::randn(shape);
    auto f =
        tt::compile(tt::TensorFunction(softmax), {.kernels = tt::RegionKernels::interpreted, .strict = true});
    const tt::NoGrad no_grad;
    for (int k = 0; k < 3; ++k) CHECK(tt::same_bits(f(Tensors{x})[0], softmax({x})[0]));
    const tt::VariantReport r = f.reports()[0];
    CHECK(r.kernels == 1);
    CHECK(r.peak_fused < r.peak_captured);
  }
  auto small =
      tt::compile(tt::TensorFunction(softmax), {.kernels = tt::RegionKernels::interpreted, .strict = true});
  small(Tensors{tt::randn({4, 4})});
  CHECK(small.reports()[0].kernels > 1);
}
