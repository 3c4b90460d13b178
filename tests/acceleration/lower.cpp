// Lowering: what the report says about a graph, with and without fusion.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/acceleration/lower.hpp>
#include <tinytorch/tensor/ops.hpp>

TEST_CASE("a report counts kernels, bytes and peaks before and after") {
  namespace tt = tinytorch;
  const auto graph = [] {
    return tt::capture(
               [](const tt::Tensors& x) {
                 return tt::Tensors{tt::softmax(tt::tanh(tt::exp(x[0]) * 2) + x[0], -1)};
               },
               {tt::randn({10, 10})})
        .graph;
  };
  tt::VariantReport fused, plain;
  const tt::CompileOptions options{.kernels = tt::RegionKernels::interpreted};
  tt::lower(graph(), options, fused);
  tt::CompileOptions unfused = options;
  unfused.fuse = false;
  tt::lower(graph(), unfused, plain);
  CHECK(fused.kernels_captured == 5);
  CHECK(fused.kernels == 2);
  CHECK(plain.kernels == 5);
  CHECK(fused.bytes_moved == 400 * 4 + 4);  // x, the constant 2, the fused result twice, and the result
  CHECK(plain.peak_captured == 800);
  CHECK(plain.planned <= 800 + 64);
  CHECK(fused.planned == 800);
  CHECK(fused.str().find("kernels 5 -> 2") != std::string::npos);
  CHECK(fused.str().find("not fused: add and softmax: softmax is not elementwise") != std::string::npos);
}

TEST_CASE("results that differ in one bit are refused") {
  namespace tt = tinytorch;
  const tt::Tensor a = tt::zeros({2}), b = -tt::zeros({2});
  tt::require_same(a, a, 0, tt::Math::same_bits, tt::Loc::current());
  CHECK(errors::thrown_by([&] { tt::require_same(a, b, 1, tt::Math::same_bits, tt::Loc::current()); }).code ==
        "TT-COMPILE-06");
}
