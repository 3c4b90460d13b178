// A fused step as a primitive: specs, cost and results.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/acceleration/region.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::backend::PointwiseStep;

// exp(x) + y, of which both exp(x) and the sum are results.
tt::FusedPointwise exp_plus() {
  auto program = std::make_shared<tt::backend::PointwiseProgram>();
  program->inputs = {tt::f32, tt::f32};
  program->steps.push_back(
      {PointwiseStep::Kind::unary, static_cast<uint8_t>(tt::backend::UnaryFn::exp), tt::f32, {0, -1, -1}});
  program->steps.push_back(
      {PointwiseStep::Kind::binary, static_cast<uint8_t>(tt::backend::BinaryFn::add), tt::f32, {2, 1, -1}});
  program->outputs = {2, 3};
  tt::FusedPointwise op;
  op.program = std::move(program);
  op.shape = {4, 3};
  op.parts = "fused(exp, add)";
  op.work = 132;
  return op;
}
}  // namespace

TEST_CASE("a fused step has several results, a broadcast operand, and the cost of its parts") {
  const tt::FusedPointwise op = exp_plus();
  const tt::Tensor x = tt::randn({4, 3}), y = tt::randn({3});
  const tt::Tensors out = tt::apply_all(op, {x, y});
  REQUIRE(out.size() == 2);
  CHECK(out[0].to_vector() == tt::exp(x).to_vector());
  CHECK(out[1].to_vector() == (tt::exp(x) + y).to_vector());
  CHECK(op.flops({x, y}, out) == 132);
  CHECK(std::string(op.clone()->name()) == "fused(exp, add)");
  CHECK(!op.differentiable());
}
