#include <tinytorch/transformer/mlp.hpp>

#include "layers.hpp"

using namespace course;

TEST_CASE("4.9 an up projection, an activation, a down projection") {
  const std::pair<Activation, const char*> all[] = {{Activation::relu, "relu"},
                                                    {Activation::gelu_tanh, "gelu_tanh"},
                                                    {Activation::gelu, "gelu"},
                                                    {Activation::silu, "silu"},
                                                    {Activation::none, "none"}};
  for (const auto& [fn, name] : all) {
    Mlp layer(3, 7, fn);
    randomize(layer);
    const Tensor x = random_tensor({2, 5, 3}, f64, 3);
    expect_close(std::string("Mlp, C 3, F 7, ") + name + ", x [2, 5, 3]", layer(x),
                 mlp_of(Parameters(layer), numbers_of(x), 3, fn), {2, 5, 3}, {.roundings = 200});
  }
}

TEST_CASE("4.9 SwiGLU: the first half is the gate") {
  for (const bool bias : {false, true}) {
    SwiGlu layer(3, 5, bias);
    randomize(layer);
    const Tensor x = random_tensor({2, 4, 3}, f64, 2);
    const Parameters p(layer);
    const Numbers both = linear_of(p.below("gate_up"), numbers_of(x), 3);
    Numbers h;
    for (size_t row = 0; row < both.size(); row += 10) {
      for (size_t i = 0; i < 5; ++i) h.push_back(silu_of(both[row + i]) * both[row + 5 + i]);
    }
    expect_close(std::string("SwiGlu, C 3, F 5, x [2, 4, 3]") + (bias ? ", with bias" : ""), layer(x),
                 linear_of(p.below("down"), h, 5), {2, 4, 3}, {.roundings = 200});
  }
}

TEST_CASE("4.9 each token is computed alone: not a bit changes when another token does") {
  Mlp layer(4, 6);
  SwiGlu gated(4, 6);
  const NoGrad no_grad;
  const Tensor x = random_tensor({1, 5, 4});
  Tensor other = x.clone();
  slice(other, 1, 2, 3).fill_(7);
  for (Module* m : {static_cast<Module*>(&layer), static_cast<Module*>(&gated)}) {
    const Tensor a = (*m)(x), b = (*m)(other);
    expect("token 2 of 5 changes: tokens 0, 1, 3 and 4 keep their bits",
           numbers_of(slice(a, 1, 0, 2)) == numbers_of(slice(b, 1, 0, 2)) &&
               numbers_of(slice(a, 1, 3)) == numbers_of(slice(b, 1, 3)));
  }
}

TEST_CASE("4.9 every parameter gets a gradient") {
  Mlp layer(4, 6);
  (layer(random_tensor({2, 3, 4})) * random_tensor({2, 3, 4})).sum().backward();
  expect_gradients("Mlp", layer);
  SwiGlu gated(4, 6, true);
  (gated(random_tensor({2, 3, 4})) * random_tensor({2, 3, 4})).sum().backward();
  expect_gradients("SwiGlu", gated);
}
