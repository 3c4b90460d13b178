// Fusion: which steps become one, why others do not, and that random graphs keep their bits and their peak.
#include <doctest/doctest.h>

#include <support/random_function.hpp>
#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/acceleration/executable.hpp>
#include <tinytorch/acceleration/fusion.hpp>
#include <tinytorch/autograd/grad_mode.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

tt::Fused fused(const tt::TensorFunction& f, const Tensors& x, tt::FusionOptions options = {}) {
  options.kernels = tt::RegionKernels::interpreted;
  return tt::fuse(tt::capture(f, x).graph, options);
}
std::vector<std::string> names(const tt::OpGraph& graph) {
  std::vector<std::string> all;
  for (const tt::GraphStep& s : graph.steps) all.push_back(s.op->name());
  return all;
}
bool refused(const tt::Fused& f, const std::string& reason) {
  return std::ranges::any_of(
      f.refused, [&](const tt::NotFused& n) { return n.reason.find(reason) != std::string::npos; });
}
using Names = std::vector<std::string>;
}  // namespace

TEST_CASE("a chain becomes one step, and values that others read are results of it") {
  const tt::Fused f = fused(
      [](const Tensors& x) {
        const Tensor a = tt::exp(x[0]), b = a * 2 + x[0];
        return Tensors{a, tt::tanh(b)};
      },
      {tt::randn({4, 5})});
  CHECK(names(f.graph) == Names{"fused(exp, mul, add, tanh)"});
  CHECK(f.graph.steps[0].outputs.size() == 2);
  CHECK(f.graph.steps[0].cost.bytes == 4 * (20 + 1 + 40));
  CHECK(f.refused.empty());
}

TEST_CASE("a step between that is not elementwise keeps its neighbours apart, and no cycle arises") {
  const tt::Fused f = fused(
      [](const Tensors& x) {
        const Tensor a = x[0] + 1;
        const Tensor s = tt::softmax(a, -1);
        return Tensors{a * s};  // a and the product would both be before and after softmax
      },
      {tt::randn({4, 5})});
  CHECK(names(f.graph) == Names{"add", "softmax", "mul"});
  CHECK(refused(f, "needs a result of the group earlier"));
  CHECK(refused(f, "softmax is not elementwise"));
}

TEST_CASE("other shapes, types and layouts are not fused, and the reason is given") {
  const Tensors x = {tt::randn({4, 5}), tt::randn({5})};
  CHECK(
      refused(fused([](const Tensors& t) { return Tensors{t[0] + tt::exp(t[1])}; }, x), "different shapes"));
  CHECK(refused(fused([](const Tensors& t) { return Tensors{tt::exp(t[0]).to(tt::i32) + 1}; }, x),
                "cast is not elementwise"));
  const tt::Fused transposed = fused(
      [](const Tensors& t) {
        const Tensor a = tt::exp(t[0]);
        return Tensors{a.t().contiguous() * tt::exp(a.t()).contiguous()};
      },
      {tt::randn({5, 5})});
  CHECK(transposed.graph.kernels() > 1);
}

TEST_CASE("a step has no more operands and results than a compiled kernel takes") {
  const auto most = [](const tt::Fused& f) {
    size_t count = 0;
    for (const tt::GraphStep& s : f.graph.steps) count = std::max({count, s.inputs.size(), s.outputs.size()});
    return count;
  };
  Tensors many;
  for (int k = 0; k < 70; ++k) many.push_back(tt::randn({3}));
  const tt::Fused sum = fused(
      [](const Tensors& x) {
        Tensor y = x[0];
        for (size_t k = 1; k < x.size(); ++k) y = y + x[k];
        return Tensors{y};
      },
      many);
  CHECK(sum.graph.steps.size() == 3);  // 32, then 31 and the sum so far, then the other 7
  CHECK(most(sum) == tt::backend::kKernelOperands);
  CHECK(refused(sum, "at most 32 operands"));
  const tt::Fused powers = fused(
      [](const Tensors& x) {
        Tensors all{x[0] * x[0]};
        for (int k = 0; k < 40; ++k) all.push_back(all.back() * x[0]);
        return all;
      },
      {many[0]});
  CHECK(powers.graph.steps.size() == 2);
  CHECK(most(powers) == tt::backend::kKernelOperands);
}

TEST_CASE("a merge that raises the peak above the budget is refused") {
  // Fusing `late` with the last step keeps the large operand of `late` alive across the product.
  const tt::TensorFunction f = [](const Tensors& x) {
    const Tensor wide = tt::cat({x[0], x[0]}, 0) * 1;                // [200, 100]
    const Tensor late = wide.slice(0, 0, 100) + wide.slice(0, 100);  // [100, 100]
    const Tensor big = tt::cat({x[0], x[0], x[0]}, 0);
    const Tensor r = big.sum({0}, true).expand({100, 100}).contiguous();
    return Tensors{tt::matmul(r, r) + late};
  };
  const Tensors x = {tt::randn({100, 100})};
  const tt::Fused free = fused(f, x, {.memory_budget = int64_t{1} << 40});
  const tt::Fused tight = fused(f, x);
  CHECK(tight.peak_after <= tight.peak_before);
  CHECK(free.peak_after > tight.peak_after);
  CHECK(refused(tight, "the budget is"));
}

TEST_CASE("random graphs: equal bits, and the peak never rises") {
  const uint64_t seed = test::fresh_seed();
  INFO("TINYTORCH_TEST_SEED=", seed);
  const tt::NoGrad guard;
  for (uint64_t k = 0; k < 60; ++k) {
    const int operations = k % 6 == 5 ? 200 : 1 + static_cast<int>(k);
    const test::RandomFunction f(seed + k, operations, false);
    const int64_t n = 2 + static_cast<int64_t>((seed + k) % 37);
    const Tensors x = {tt::rand({n, n}) - 0.5, tt::rand({n, n}) - 0.5};
    auto captured = tt::capture(f, x);
    const int64_t kernels = captured.graph.kernels();
    tt::Fused out = tt::fuse(std::move(captured.graph), {.kernels = tt::RegionKernels::interpreted});
    REQUIRE(out.peak_after <= out.peak_before);
    REQUIRE(out.peak_after == tt::liveness(out.graph).peak());
    REQUIRE(out.graph.kernels() <= kernels);
    tt::Executable executable(std::move(out.graph));
    const Tensors again = {tt::rand({n, n}) - 0.5, tt::rand({n, n}) - 0.5};
    const Tensors want = f(again);
    Tensors got;
    for (const Tensor& t : want) got.push_back(tt::empty(t.shape(), t.dtype()));
    executable.run(again, got);
    for (size_t r = 0; r < want.size(); ++r) REQUIRE(got[r].to_vector() == want[r].to_vector());
  }
}
