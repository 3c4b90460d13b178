#include <tinytorch/quantization/calibration_scope.hpp>

#include <doctest/doctest.h>

#include <stdexcept>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
namespace q = tinytorch::quantization;

namespace {

struct Net : tt::Module {
  tt::Linear first{8, 12}, second{12, 3};
  tt::Dropout dropout{0.5};
  Net() { add("first", first), add("second", second), add("dropout", dropout); }
  tt::Tensor forward(const tt::Tensor& x) override { return second(dropout(tt::relu(first(x)))); }
};

}  // namespace

TEST_CASE("hooks see the inputs of their layers, and are gone at the end of the scope") {
  Net net;
  const tt::Tensor x = tt::ones({2, 8});
  int first = 0, second = 0, other = 0;
  net.dropout.on_call([&](const tt::Tensor&) { ++other; });
  try {
    q::CallHooks hooks;
    hooks.add(net.first, [&](const tt::Tensor& t) { first += t.shape() == tt::Shape{2, 8}; });
    hooks.add(net.second, [&](const tt::Tensor& t) { second += t.shape() == tt::Shape{2, 12}; });
    net(x);
    CHECK(first == 1);
    CHECK(second == 1);
    throw std::runtime_error("an error");
  } catch (const std::runtime_error&) {
  }
  net(x);
  CHECK(first == 1);
  CHECK(second == 1);
  CHECK(other == 2);  // a hook of another layer stays
}
