#include <tinytorch/layers/eval_mode.hpp>

#include <doctest/doctest.h>

#include <stdexcept>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

struct Net : tt::Module {
  tt::Linear first{8, 12}, second{12, 3};
  tt::Dropout dropout{0.5};
  Net() { add("first", first), add("second", second), add("dropout", dropout); }
  tt::Tensor forward(const tt::Tensor& x) override { return second(dropout(tt::relu(first(x)))); }
};

}  // namespace

TEST_CASE("each module gets its own mode back, also after an error") {
  Net net;
  net.train(), net.second.eval();
  const auto modes = [&] {
    return std::vector<bool>{net.training(), net.first.training(), net.second.training(),
                             net.dropout.training()};
  };
  const std::vector<bool> before = modes();
  {
    const tt::EvalMode eval(net);
    CHECK(modes() == std::vector<bool>(4, false));
  }
  CHECK(modes() == before);
  try {
    const tt::EvalMode eval(net);
    throw std::runtime_error("an error");
  } catch (const std::runtime_error&) {
  }
  CHECK(modes() == before);
}
