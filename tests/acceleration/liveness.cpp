// Liveness of graphs that can be checked by hand.
#include <doctest/doctest.h>

#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/acceleration/liveness.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;
}  // namespace

TEST_CASE("a timeline sums the blocks of each step, whose last step counts") {
  const std::vector<tt::LiveBlock> blocks = {{10, 0, 2}, {5, 2, 3}, {1, 1, 1}};
  CHECK(tt::timeline(blocks, 5) == std::vector<int64_t>{10, 11, 15, 5, 0});
  CHECK(tt::peak(tt::timeline(blocks, 5)) == 15);
  CHECK(tt::peak(tt::timeline({}, 0)) == 0);
}

TEST_CASE("a value lives from its step to its last reader, also if that reads a view; results live on") {
  const auto c = tt::capture(
      [](const Tensors& x) {
        const Tensor a = tt::exp(x[0]);           // step 0, 400 bytes
        const Tensor view = a.reshape({10, 10});  // step 1: a view
        const Tensor b = tt::exp(a);              // step 2
        const Tensor s = view.sum({0});           // step 3: the last reader of a, 40 bytes
        return Tensors{b, s};
      },
      {tt::randn({100})});
  const std::vector<int> last = tt::last_uses(c.graph);
  const auto output = [&](size_t s) { return static_cast<size_t>(c.graph.steps[s].outputs[0]); };
  CHECK(last[output(0)] == 3);
  CHECK(last[output(1)] == 3);  // a view has its root's
  CHECK(last[output(2)] == 4);
  const tt::Liveness live = tt::liveness(c.graph);
  CHECK(live.timeline() == std::vector<int64_t>{400, 400, 800, 840});
  CHECK(live.peak() == 840);
}

TEST_CASE("a value that nobody reads lives during its own step; arguments and constants are not counted") {
  const Tensor big = tt::ones({1000});
  const auto c = tt::capture(
      [&](const Tensors& x) {
        tt::exp(x[0]);
        return Tensors{x[0] + big.sum()};
      },
      {tt::randn({100})});
  CHECK(tt::liveness(c.graph).timeline() == std::vector<int64_t>{400, 4, 404});
}
