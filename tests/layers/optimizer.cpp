#include <tinytorch/layers/optimizer.hpp>

#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/tinytorch.hpp>

#include "support/golden_file.hpp"

namespace tt = tinytorch;

namespace {

// Subtracts lr from every element that has a gradient: the base class alone, made visible.
struct Descend : tt::Optimizer {
  explicit Descend(const tt::NamedTensors& p, double decay = 0)
      : Optimizer(p, 0.5, decay, {"calls"}, tt::Loc::current()) {}

 protected:
  void update(Slot& slot, const tt::Tensor&, tt::Loc) override {
    slot.master.add_(tt::full(tt::Shape{}, -lr(), slot.master.dtype()));
    slot.state[0].add_(tt::ones(tt::Shape{}, slot.state[0].dtype()));
    slot.state[0].add_(tt::full(tt::Shape{}, slot.weight_decay, slot.state[0].dtype()));
  }
};

tt::Tensor leaf(std::vector<float> values) {
  tt::Tensor t = tt::from_data(values);
  t.requires_grad_();
  return t;
}

}  // namespace

TEST_CASE("only parameters with a gradient are updated and counted") {
  tt::Tensor a = leaf({1, 2}), b = leaf({3});
  Descend optimizer({{"a", a}, {"b", b}});
  a.set_grad(tt::ones({2}));
  optimizer.step();
  optimizer.step();
  CHECK(a.to_vector() == std::vector<float>{0, 1});
  CHECK(b.to_vector() == std::vector<float>{3});
  CHECK(optimizer.state_dict().at("a.step").item<int64_t>() == 2);
  CHECK(optimizer.state_dict().at("b.step").item<int64_t>() == 0);
  optimizer.zero_grad();
  CHECK_FALSE(a.grad());
}

TEST_CASE("a step counts as a write: a graph that saved the parameter is refused") {
  tt::Tensor a = leaf({1, 2});
  const tt::Tensor loss = tt::sum(a * a);
  Descend optimizer({{"a", a}});
  a.set_grad(tt::ones({2}));
  optimizer.step();
  CHECK(message_of([&] { loss.backward(); }).rfind("TT-GRAD-02", 0) == 0);
}

TEST_CASE("state_dict restores rate, steps and state into another optimizer") {
  tt::Tensor a = leaf({1, 2}), b = leaf({5, 6});
  Descend first({{"p", a}}), second({{"p", b}});
  a.set_grad(tt::ones({2}));
  first.step();
  first.set_lr(0.125);
  second.load_state_dict(first.state_dict());
  CHECK(second.lr() == 0.125);
  CHECK(second.state_dict().at("p.step").item<int64_t>() == 1);
  CHECK(second.state_dict().at("p.calls").to_vector() == std::vector<float>{1, 1});
  CHECK(b.to_vector() == std::vector<float>{5, 6});
  tt::StateDict wrong = first.state_dict();
  wrong.erase("p.step");
  CHECK(message_of([&] { second.load_state_dict(wrong); }).find("missing (1): p.step") != std::string::npos);
}

TEST_CASE("parameters can be left out of weight decay") {
  tt::Tensor a = leaf({1}), b = tt::zeros({1, 1});
  b.requires_grad_();
  Descend optimizer({{"bias", a}, {"weight", b}}, 0.25);
  optimizer.exclude_from_weight_decay([](const tt::NamedTensor& p) { return p.tensor.rank() < 2; });
  a.set_grad(tt::ones({1}));
  b.set_grad(tt::ones({1, 1}));
  optimizer.step();
  CHECK(optimizer.state_dict().at("bias.calls").item() == 1);
  CHECK(optimizer.state_dict().at("weight.calls").item() == 1.25);
}

TEST_CASE("16-bit parameters advance by steps smaller than their resolution") {
  tt::Tensor p = tt::ones({1}, tt::bf16);
  p.requires_grad_();
  tt::Adam optimizer({{"p", p}}, {.lr = 1e-3});
  for (int i = 0; i < 20; ++i) {
    p.set_grad(tt::ones({1}, tt::bf16));
    optimizer.step();
  }
  CHECK(optimizer.state_dict().at("p.master").dtype() == tt::f32);
  CHECK(optimizer.state_dict().at("p.master").item() == doctest::Approx(0.98).epsilon(1e-4));
  CHECK(p.item() == doctest::Approx(0.98).epsilon(4e-3));
}

TEST_CASE("impossible options are refused") {
  tt::Linear layer(2, 2);
  CHECK(message_of([] { Descend optimizer(tt::NamedTensors{}); }).rfind("TT-OPT-05", 0) == 0);
  CHECK(message_of([&] { Descend optimizer(layer.named_parameters(), -1); }).rfind("TT-OPT-04", 0) == 0);
  Descend optimizer(layer.named_parameters());
  for (double lr : {-1.0, std::nan(""), HUGE_VAL}) {
    CHECK(message_of([&] { optimizer.set_lr(lr); }).rfind("TT-OPT-03", 0) == 0);
  }
}
