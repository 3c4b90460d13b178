#include <tinytorch/layers/module_list.hpp>

#include <support/errors.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/tinytorch.hpp>
#include <utility>

namespace tt = tinytorch;

TEST_CASE("a ModuleList of 100 layers: access by position, names, errors, and a move of its owner") {
  struct Stack : tt::Module {
    tt::ModuleList<tt::Linear> layers;
    Stack() {
      add("layers", layers);
      for (int i = 0; i < 100; ++i) layers.append(tt::Linear(2, 2));
    }
    tt::Tensor forward(const tt::Tensor& x) override {
      tt::Tensor y = x;
      for (tt::Linear& layer : layers) y = layer(y);
      return y;
    }
  };
  Stack stack;
  CHECK(stack.layers.size() == 100);
  CHECK(stack.parameters().size() == 200);
  CHECK(stack.named_parameters()[198].name == "layers.99.weight");
  CHECK(stack.named_parameters()[198].tensor.impl() == stack.layers[99].weight.impl());
  CHECK(&std::as_const(stack).layers[99] == &stack.layers[99]);
  for (const tt::Linear& layer : std::as_const(stack).layers) CHECK(layer.weight.defined());
  CHECK(errors::thrown_by([&] { stack.layers[100]; }).code == "TT-NN-06");
  CHECK(errors::thrown_by([&] { stack.layers[-1]; }).code == "TT-NN-06");
  const std::vector<float> before = stack(tt::ones({1, 2})).to_vector();
  Stack moved(std::move(stack));
  CHECK(moved(tt::ones({1, 2})).to_vector() == before);
  CHECK(moved.named_parameters()[0].tensor.impl() == moved.layers[0].weight.impl());
}
