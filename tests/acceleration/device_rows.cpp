// Row programs on a GPU as generated kernels, against the operations in double precision. Without a GPU there
// is no kernel, and the steps run.
#include <doctest/doctest.h>

#include <support/row_functions.hpp>
#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/acceleration/device_rows.hpp>
#include <tinytorch/tensor/ops.hpp>

using namespace tinytorch;
using namespace tinytorch::acceleration;

namespace {

// Rows less their mean, or less their largest element.
RowProgram centred(int64_t rows, int64_t length, bool by_largest = false) {
  return tinytorch_tests::rows_of_function(
      [by_largest](const Tensors& x) {
        const Tensor m = by_largest ? max(x[0], {-1}, true) : mean(x[0], {-1}, true);
        return Tensors{m, x[0] - m};
      },
      {randn({rows, length}, f32, cpu)});
}
Tensors plain_softmax(const Tensors& x) {
  const Tensor e = exp(x[0] - max(x[0], {-1}, true));
  return {e / sum(e, {-1}, true)};
}
Tensors plain_norm(const Tensors& x) {
  const Tensor d = x[0] - mean(x[0], {-1}, true), v = mean(d * d, {-1}, true);
  return {d * rsqrt(v + 0.01) * x[2] + x[3]};  // 0.01 bounds the factor by which rounding errors of d grow
}

}  // namespace

TEST_CASE("without a GPU there is no kernel, and it says why") {
  if (!backend::cuda::architecture().empty()) return;
  const Tensor x = randn({4, 8}), m = empty({4, 1}, f32, cpu), y = empty({4, 8}, f32, cpu);
  DeviceRows rows(std::make_shared<RowProgram>(centred(4, 8)), false);
  CHECK_FALSE(rows.run({m, y}, {x}));
  CHECK(rows.problem() != "");
}

TEST_CASE("the trial refuses a kernel of another program") {
  if (backend::cuda::architecture().empty()) return;
  DeviceKernels kernels("");
  const RowProgram program = centred(8, 64), other = centred(8, 64, true);
  const RowCut cut{.elements = 4, .lanes = 32, .parts = 1};
  const auto kernel = kernels.build(emit_cuda_rows(program, cut), false);
  CHECK(kernel->usable([&](const LoadedKernel& k) { return agrees_by_rows(other, cut, k); }) == nullptr);
  const auto good = kernels.build(emit_cuda_rows(other, cut), false);
  CHECK(good->usable([&](const LoadedKernel& k) { return agrees_by_rows(other, cut, k); }) != nullptr);
}

TEST_CASE("compiled functions of rows on a GPU: one kernel, near the results in double precision") {
  if (!backend::cuda::is_available()) return;
  const NoGrad no_grad;
  const bool gpu = !backend::cuda::architecture().empty();
  uint64_t seed = 500;
  const std::vector<Shape> shapes =
      gpu ? std::vector<Shape>{{3, 4, 17}, {1, 97},     {129, 2},   {1000, 128}, {64, 1024}, {300, 1023},
                               {70, 8192}, {65, 50257}, {5, 1, 33}, {2, 70000},  {100003, 3}}
          : std::vector<Shape>{{3, 4, 17}};
  for (const Shape& shape : shapes) {
    for (const DType dtype : {f32, f64, bf16, f16}) {
      const Tensors arguments = tinytorch_tests::row_arguments(shape, dtype, cuda);
      Tensors exact;
      for (const Tensor& t : arguments) exact.push_back(t.to(cpu).to(f64));
      std::vector<TensorFunction> functions{plain_softmax};
      if (dtype == f32 || dtype == f64) {  // means and variances that are rounded to 16 bits are no oracle
        functions.push_back(plain_norm);
        functions.push_back(tinytorch_tests::RowFunction{++seed});
      }
      for (size_t which = 0; which < functions.size(); ++which) {
        const TensorFunction& f = functions[which];
        Tensors in = arguments, in64 = exact;
        if (which == 1) in[3] = in[2], in64[3] = in64[2];
        INFO(shape.str(), " ", name_of(dtype), " function ", which, " seed ", seed);
        auto compiled = compile(f, {.math = Math::fast, .kernels = RegionKernels::compiled, .strict = true});
        const Tensors want = f(in64);
        for (int call = 0; call < 3; ++call) {
          const Tensors got = compiled(in);
          for (size_t k = 0; k < want.size(); ++k) CHECK(close_enough(want[k].to(dtype), got[k].to(cpu)));
        }
        const int64_t length = shape.back(), rows = arguments[0].numel() / length;
        if (which < 2) CHECK((compiled.reports()[0].kernels == 1) == has_row_kernel(rows, length));
      }
    }
  }
}
