// Differences between two captures of one function.
#include <doctest/doctest.h>

#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/acceleration/signature.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

std::optional<std::string> difference(const tt::TensorFunction& f, const tt::TensorFunction& g) {
  const auto a = tt::capture(f, {tt::Tensor(tt::ones({4, 4}))}),
             b = tt::capture(g, {tt::Tensor(tt::ones({4, 4}))});
  return tt::first_difference(a.graph, a.graph.steps.size(), b.graph);
}
}  // namespace

TEST_CASE("equal functions are equal, also if they make their constants anew") {
  const tt::TensorFunction f = [](const Tensors& x) {
    return Tensors{tt::softmax(x[0] * 0.5 + tt::eye(4), -1)};
  };
  CHECK(!difference(f, f));
}

TEST_CASE("each kind of change is found") {
  const tt::TensorFunction f = [](const Tensors& x) { return Tensors{tt::clamp(x[0] * 0.5, 0, 1)}; };
  const auto text = [&](const tt::TensorFunction& g) { return difference(f, g).value_or("equal"); };
  CHECK(text([](const Tensors& x) { return Tensors{tt::clamp(x[0] + 0.5, 0, 1)}; }) ==
        "step 0 was 'mul' and is now 'add'");
  CHECK(text([](const Tensors& x) { return Tensors{x[0] * 0.5}; }) ==
        "step 1 was 'clamp' and is now the end");
  CHECK(text([](const Tensors& x) { return Tensors{tt::exp(tt::clamp(x[0] * 0.5, 0, 1))}; }) ==
        "step 2 was the end and is now 'exp'");
  CHECK(text([](const Tensors& x) { return Tensors{tt::clamp(x[0] * 0.5, 0, 2)}; }).find("another number") !=
        std::string::npos);
  CHECK(text([](const Tensors& x) { return Tensors{tt::clamp(x[0] * 0.25, 0, 1)}; }).find("constant") !=
        std::string::npos);
  CHECK(text([](const Tensors& x) { return Tensors{tt::clamp(x[0] * x[0], 0, 1)}; }).find("operands") !=
        std::string::npos);
}

TEST_CASE(
    "graphs of one form may have other sizes, numbers and constants, but no other operations or wiring") {
  const auto form = [](const tt::TensorFunction& f, int64_t n) {
    return tt::capture(f, {tt::Tensor(tt::ones({n, 4}))});
  };
  const tt::TensorFunction f = [](const Tensors& x) {
    return Tensors{tt::clamp(x[0] * (1.0 / static_cast<double>(x[0].size(0))), 0, 1) + x[0].sum({0})};
  };
  const auto a = form(f, 3), b = form(f, 5);
  const auto unlike = [&](const auto& g) {
    return tt::first_difference(a.graph, a.graph.steps.size(), g.graph, tt::Sameness::form);
  };
  CHECK(!unlike(b));
  CHECK(tt::first_difference(a.graph, a.graph.steps.size(), b.graph));
  CHECK(unlike(form([](const Tensors& x) { return Tensors{tt::clamp(x[0] + 1, 0, 1) + x[0].sum({0})}; }, 5)));
  CHECK(unlike(
      form([](const Tensors& x) { return Tensors{tt::clamp(x[0] * x[0], 0, 1) + x[0].sum({0})}; }, 5)));
  CHECK(unlike(form([](const Tensors& x) { return Tensors{tt::clamp(x[0] * 0.5, 0, 1) + x[0].sum()}; }, 5)));
}
