#include <tinytorch/layers/optimizer.hpp>

#include <memory>
#include <support/device.hpp>
#include <support/errors.hpp>
#include <tinytorch/layers/adagrad.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/clip.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/lion.hpp>
#include <tinytorch/layers/muon.hpp>
#include <tinytorch/layers/rmsprop.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/layers/weight_average.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

// An optimizer that subtracts lr from every element with a gradient, to test the base class alone.
struct Descend : tt::Optimizer {
  explicit Descend(const tt::NamedTensors& p, double decay = 0)
      : Optimizer(p, 0.5, decay, {"calls"}, tt::Loc::current()) {}

 protected:
  void update(Slot& slot, const tt::Tensor&) override {
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
  CHECK_FALSE(a.grad().defined());
}

TEST_CASE("a parameter may have any contiguous memory order, and its gradient another") {
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16}) {
    for (const bool adam : {false, true}) {
      const auto run = [&](tt::Tensor p, const tt::Tensor& g) {
        p.requires_grad_();
        std::unique_ptr<tt::Optimizer> optimizer;
        if (adam) {
          optimizer = std::make_unique<tt::Adam>(tt::NamedTensors{{"p", p}}, tt::AdamOptions{.lr = 0.1});
        } else {
          optimizer = std::make_unique<tt::SGD>(tt::NamedTensors{{"p", p}},
                                                tt::SgdOptions{.lr = 0.1, .momentum = 0.9});
        }
        for (int i = 0; i < 3; ++i) {
          p.set_grad(g);
          optimizer->step();
        }
        return p.to_vector<double>();
      };
      const tt::Tensor x = tt::randn({5, 7}, dtype), g = tt::randn({5, 7}, dtype).t();
      const std::vector<double> want = run(x.t().contiguous(), g.contiguous());
      CHECK(run(x.clone().t(), g) == want);
      CHECK(run(x.clone().t(), g.contiguous()) == want);
      CHECK(run(x.t().contiguous(), g) == want);
    }
  }
}

TEST_CASE("a step counts as a write: backward throws for a graph that saved the parameter") {
  tt::Tensor a = leaf({1, 2});
  const tt::Tensor loss = tt::sum(a * a);
  Descend optimizer({{"a", a}});
  a.set_grad(tt::ones({2}));
  optimizer.step();
  CHECK(message_of([&] { loss.backward(); }).rfind("TT-GRAD-02", 0) == 0);
}

TEST_CASE("state_dict restores rate, step counts and state into another optimizer") {
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

TEST_CASE("parameters can be excluded from weight decay") {
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

TEST_CASE("groups have their own rates and decays, and a schedule moves all rates") {
  const auto make = [](float v) { return leaf({v}); };
  tt::Tensor a = make(1), b = make(1), c = make(1);
  tt::SGD optimizer({{"body.a", a}, {"body.b", b}}, {.lr = 0.5});
  optimizer.add_group({{"head.c", c}}, {.lr = 0.125});
  CHECK(optimizer.set_group([](const tt::NamedTensor& p) { return p.name == "body.b"; },
                            {.weight_decay = 1}) == 1);
  for (tt::Tensor p : {a, b, c}) p.set_grad(tt::ones({1}));
  optimizer.step();
  CHECK(a.item() == 0.5);
  CHECK(b.item() == 0);
  CHECK(c.item() == 0.875);
  optimizer.set_lr(0.25);  // the head's rate is now 0.0625
  optimizer.step();
  CHECK(a.item() == 0.25);
  CHECK(b.item() == -0.25);
  CHECK(c.item() == 0.8125);
  // One norm limits the gradients of all groups.
  for (tt::Tensor p : {a, b, c}) p.set_grad(tt::ones({1}) * 2);
  CHECK(optimizer.step_clipped(std::sqrt(3.0)).item<double>() == doctest::Approx(std::sqrt(12.0)));
  CHECK(a.item() == doctest::Approx(0));
  CHECK(c.item() == doctest::Approx(0.75));
  CHECK(optimizer.parameters().size() == 3);
  CHECK(optimizer.state_dict().at("head.c.step").item<int64_t>() == 3);
}

TEST_CASE("a group that is refused changes nothing") {
  tt::Tensor a = leaf({1}), b = leaf({2});
  tt::SGD optimizer({{"a", a}}, {.lr = 0.5});
  const auto code = [&](const tt::NamedTensors& parameters, const tt::GroupOptions& options) {
    return message_of([&] { optimizer.add_group(parameters, options); }).substr(0, 9);
  };
  CHECK(code({{"a", b}}, {}) == "TT-OPT-12");
  CHECK(code({{"b", a}}, {}) == "TT-OPT-12");
  CHECK(code({{"b", tt::ones({1})}}, {}) == "TT-OPT-12");
  CHECK(code({{"b", b}}, {.lr = -1}) == "TT-OPT-03");
  CHECK(code({{"b", b}}, {.weight_decay = -1}) == "TT-OPT-04");
  CHECK(optimizer.parameters().size() == 1);
  tt::SGD still({{"a", a}}, {.lr = 0});
  CHECK(message_of([&] { still.add_group({{"b", b}}, {.lr = 1}); }).rfind("TT-OPT-03", 0) == 0);
}

TEST_CASE("16-bit parameters accumulate updates smaller than their spacing") {
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

TEST_CASE("optimizers throw for invalid options") {
  tt::Linear layer(2, 2);
  CHECK(message_of([] { Descend optimizer(tt::NamedTensors{}); }).rfind("TT-OPT-05", 0) == 0);
  CHECK(message_of([&] { Descend optimizer(layer.named_parameters(), -1); }).rfind("TT-OPT-04", 0) == 0);
  Descend optimizer(layer.named_parameters());
  for (double lr : {-1.0, std::nan(""), HUGE_VAL}) {
    CHECK(message_of([&] { optimizer.set_lr(lr); }).rfind("TT-OPT-03", 0) == 0);
  }
}

namespace {

// Parameters of all kinds: sizes around the vector width, bf16, f64, one without a gradient, one with a
// strided gradient.
struct Mixed {
  tt::NamedTensors parameters;
  Mixed() {
    tt::Generator generator(7);
    const auto add = [&](const char* name, const tt::Shape& shape, tt::DType dtype, bool has_gradient) {
      std::vector<double> values(static_cast<size_t>(shape.numel())), slopes(values.size());
      for (double& v : values) v = generator.uniform(-1, 1);
      for (double& v : slopes) v = generator.uniform(-1, 1);
      tt::Tensor p = tt::from_data(values, shape).to(dtype);
      p.requires_grad_();
      if (has_gradient) p.set_grad(tt::from_data(slopes, shape).to(dtype));
      parameters.push_back({name, p});
    };
    add("bias", {1}, tt::f32, true);
    add("weight", {37, 29}, tt::f32, true);
    add("unused", {5}, tt::f32, false);
    add("narrow", {1033}, tt::bf16, true);
    add("half", {64}, tt::f16, true);
    add("wide", {3, 11}, tt::f64, true);
    parameters[1].tensor.set_grad(parameters[1].tensor.grad().reshape({29, 37}).transpose(0, 1));
  }
  tt::Tensors tensors() const {
    tt::Tensors all;
    for (const tt::NamedTensor& p : parameters) all.push_back(p.tensor);
    return all;
  }
};

template <class Optimizer, class Options>
void check_clipped_step(const Options& options) {
  Mixed one, two;
  Optimizer together(one.parameters, options), apart(two.parameters, options);
  for (double limit : {0.5, 1e9}) {
    const double norm = tt::gradient_norm(one.tensors());
    CHECK(norm > 10);
    CHECK(together.step_clipped(limit).template item<double>() == doctest::Approx(norm).epsilon(1e-12));
    for (tt::Tensor p : two.tensors()) {
      const tt::DType wide =
          tt::is_16_bit(p.dtype()) ? tt::f32 : p.dtype();  // masters are not rounded to 16 bits
      if (p.grad().defined()) p.set_grad((p.grad().to(tt::f64) * std::min(1.0, limit / norm)).to(wide));
    }
    apart.step();
    for (size_t i = 0; i < one.parameters.size(); ++i) {
      const tt::DType dtype = one.parameters[i].tensor.dtype();
      const std::vector<double> a = one.parameters[i].tensor.to(tt::f64).template to_vector<double>();
      const std::vector<double> b = two.parameters[i].tensor.to(tt::f64).template to_vector<double>();
      for (size_t k = 0; k < a.size(); ++k) {
        REQUIRE(std::abs(a[k] - b[k]) <= 8 * tt::epsilon_of(dtype));
      }
    }
    for (size_t i = 0; i < one.parameters.size(); ++i) {
      const tt::Tensor p = one.parameters[i].tensor;
      if (p.grad().defined()) two.parameters[i].tensor.set_grad(p.grad());
    }
  }
  CHECK(together.state_dict().at("weight.step").template item<int64_t>() == 2);
  CHECK(together.state_dict().at("unused.step").template item<int64_t>() == 0);
}

}  // namespace

TEST_CASE("step_clipped equals clipping and then a step, for every dtype") {
  check_clipped_step<tt::AdamW>(tt::AdamOptions{.lr = 0.05, .weight_decay = 0.1});
  check_clipped_step<tt::Adam>(tt::AdamOptions{.lr = 0.05, .eps = 1e-3, .weight_decay = 0.1});
  check_clipped_step<tt::SGD>(tt::SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
  check_clipped_step<tt::SGD>(tt::SgdOptions{.lr = 0.1});
  check_clipped_step<tt::AdamW>(tt::AdamOptions{.lr = 0.05, .weight_decay = 0.1, .amsgrad = true});
  check_clipped_step<tt::RMSprop>(tt::RmsPropOptions{.lr = 0.05, .eps = 1e-3, .momentum = 0.9});
  check_clipped_step<tt::Adagrad>(tt::AdagradOptions{.lr = 0.05});
}

TEST_CASE("step_clipped with a norm that is not finite changes nothing and is not counted") {
  tt::Tensor a = leaf({1, 2}), b = leaf({3});
  a.set_grad(tt::from_data(std::vector<float>{1, std::nanf("")}));
  b.set_grad(tt::ones({1}));
  tt::AdamW optimizer({{"a", a}, {"b", b}});
  CHECK(std::isnan(optimizer.step_clipped(1).item<double>()));
  CHECK(a.to_vector() == std::vector<float>{1, 2});
  CHECK(b.to_vector() == std::vector<float>{3});
  CHECK(optimizer.state_dict().at("b.exp_avg").item() == 0);
  CHECK(optimizer.state_dict().at("b.step").item<int64_t>() == 0);
  CHECK(message_of([&] { optimizer.step_clipped(0); }).rfind("TT-OPT-09", 0) == 0);
  Descend own({{"b", b}});
  b.set_grad(tt::full(tt::Shape{1}, 4.0, tt::f32));
  CHECK(own.step_clipped(1).item<double>() == 4);
  CHECK(b.to_vector() == std::vector<float>{2.5});
}

TEST_CASE("step throws before any kernel runs if a parameter has moved to another device" *
          test::needs_devices()) {
  tt::Linear layer(4, 4);
  layer.to(tt::cpu);
  tt::SGD optimizer(layer.named_parameters(), {.lr = 0.1});
  layer.weight.set_grad(tt::ones({4, 4}, tt::f32, tt::cpu));
  layer.to(tt::cuda);
  layer.bias.set_grad(tt::ones({4}, tt::f32, tt::cuda));
  const std::string text = message_of([&] { optimizer.step(); });
  CHECK(text.rfind("TT-OPT-01: step: the gradient of 'bias', ", 0) == 0);
  CHECK(text.find("make the optimizer after net.to(...)") != std::string::npos);
}

TEST_CASE("an optimizer without update() and update_all() throws") {
  struct Nothing : tt::Optimizer {
    explicit Nothing(const tt::NamedTensors& p) : Optimizer(p, 0.5, 0, {}, tt::Loc::current()) {}
  };
  tt::Tensor a = leaf({1});
  a.set_grad(tt::ones({1}));
  Nothing optimizer({{"a", a}});
  CHECK(message_of([&] { optimizer.step(); }).rfind("TT-OPT-10", 0) == 0);
}

TEST_CASE("the constructor throws for tensors that cannot be trained, and names them") {
  const tt::Tensor w = leaf({1, 2}), other = leaf({3});
  const auto refused = [](const tt::NamedTensors& parameters) {
    return message_of([&] { tt::SGD o(parameters, {.lr = 0.1}); });
  };
  CHECK(refused({{"w", w}, {"other", other}}).empty());
  CHECK(refused({{"w", w}, {"other", other}, {"again", w}})
            .starts_with("TT-OPT-12: the optimizer was given one tensor twice, as 'w' and as 'again'"));
  CHECK(refused({{"w", w}, {"frozen", tt::ones({2})}})
            .starts_with("TT-OPT-12: the optimizer's parameter 'frozen', "));
  CHECK(refused({{"computed", w * 2}}).find("was computed by an op") != std::string::npos);
  CHECK(refused({{"none", tt::Tensor()}}).starts_with("TT-TENSOR-01"));
  CHECK(refused({{"whole", tt::ones({2}, tt::i64)}}).starts_with("TT-OPT-02"));
  struct Tied : tt::Module {
    tt::Linear a{2, 2}, b{2, 2};
    Tied() {
      b.weight = a.weight;
      add("a", a), add_parameter("shared", a.weight);
    }
  } tied;
  CHECK(refused(tied.named_parameters()).empty());
}

TEST_CASE("net.parameters() will do: the same updates, and a state under positions") {
  const auto run = [](auto&& make) {
    tt::Generator generator(7);
    tt::Linear net(3, 2);
    tt::NoGrad no_grad;
    for (tt::Tensor p : net.parameters()) {
      p.copy_(tt::randn(p.shape(), tt::f32, tt::cpu, generator));
      p.set_grad(tt::ones(p.shape()));
    }
    auto optimizer = make(net);
    optimizer.step();
    std::vector<std::string> names;
    for (const auto& entry : optimizer.state_dict()) names.push_back(entry.first);
    return std::pair(net.weight.to_vector(), names);
  };
  const auto same = [&](auto&& by_name, auto&& by_position) {
    const auto a = run(by_name), b = run(by_position);
    CHECK(a.first == b.first);
    REQUIRE(a.second.size() == b.second.size());
    CHECK(a.second.back().starts_with("weight."));
    CHECK(b.second.front().starts_with("0."));
  };
  same([](const tt::Linear& net) { return tt::SGD(net.named_parameters(), {.lr = 0.1, .momentum = 0.9}); },
       [](const tt::Linear& net) { return tt::SGD(net.parameters(), {.lr = 0.1, .momentum = 0.9}); });
  same([](const tt::Linear& net) { return tt::Adam(net.named_parameters()); },
       [](const tt::Linear& net) { return tt::Adam(net.parameters()); });
  same([](const tt::Linear& net) { return tt::AdamW(net.named_parameters()); },
       [](const tt::Linear& net) { return tt::AdamW(net.parameters()); });
  same([](const tt::Linear& net) { return tt::Adagrad(net.named_parameters()); },
       [](const tt::Linear& net) { return tt::Adagrad(net.parameters()); });
  same([](const tt::Linear& net) { return tt::RMSprop(net.named_parameters()); },
       [](const tt::Linear& net) { return tt::RMSprop(net.parameters()); });
  same([](const tt::Linear& net) { return tt::Lion(net.named_parameters(), {.lr = 0.1}); },
       [](const tt::Linear& net) { return tt::Lion(net.parameters(), {.lr = 0.1}); });
  tt::Tensor matrix = tt::ones({2, 2});
  matrix.requires_grad_();
  const tt::Muon muon(tt::Tensors{matrix});
  CHECK(muon.state_dict().contains("0.momentum_buffer"));
  const tt::WeightAverage average(tt::Linear(3, 2).parameters());
  CHECK(average.options.decay == 0.999);
}
