// Groups of steps on captured graphs. modules/06_acceleration/checks/step_groups.cpp compares them with their
// definition on random graphs, and fusion.cpp runs what becomes of them.
#include <doctest/doctest.h>

#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/acceleration/step_groups.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;
}  // namespace

TEST_CASE("groups grow along a chain, and values that others read leave them") {
  const auto c = tt::capture(
      [](const Tensors& x) {
        const Tensor a = tt::exp(x[0]), b = a * a, s = b.sum();
        return Tensors{tt::tanh(b), s};
      },
      {tt::randn({10}, tt::f32, tt::cpu)});
  tt::StepGroups groups(c.graph, 0, 64);
  CHECK(groups.peak_before() == groups.peak());
  CHECK(groups.merge(0, 1).empty());
  CHECK(groups.merge(1, 2).find("not elementwise") != std::string::npos);
  CHECK(groups.merge(1, 3).find("earlier") != std::string::npos);
  CHECK(groups.group(0) == groups.group(1));
  CHECK(groups.members(groups.group(1)) == std::vector<int>{0, 1});
  CHECK(!groups.leaves_group(c.graph.steps[0].outputs[0]));
  CHECK(groups.leaves_group(c.graph.steps[1].outputs[0]));
}
