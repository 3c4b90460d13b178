#include <tinytorch/layers/weight_average.hpp>

#include <tinytorch/layers/linear.hpp>
#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;

TEST_CASE("the average equals its definition in double, with and without warm-up") {
  for (const bool warmup : {false, true}) {
    tt::manual_seed(5);
    tt::Tensor p = tt::randn({7}).to(tt::f64).requires_grad_();
    tt::WeightAverage average({{"p", p}}, {.decay = 0.8, .warmup = warmup});
    std::vector<double> want = p.detach().to_vector<double>();
    for (int t = 0; t < 12; ++t) {
      tt::NoGrad no_grad;
      p.copy_(tt::randn({7}).to(tt::f64));
      average.update();
      const double decay = t == 0 ? 0 : (warmup ? std::min(0.8, (1.0 + t) / (10.0 + t)) : 0.8);
      const std::vector<double> now = p.to_vector<double>();
      for (size_t i = 0; i < want.size(); ++i) want[i] = decay * want[i] + (1 - decay) * now[i];
      check_values(average.state_dict().at("p").to_vector<double>(), want, 1e-14);
    }
    CHECK(average.updates() == 12);
  }
}

TEST_CASE("a net has the averages while they are in use, and its own bits again afterwards") {
  tt::Linear net(3, 2);
  tt::WeightAverage average(net.named_parameters(), {.decay = 0.5});
  average.update();
  const std::vector<float> first = net.weight.detach().to_vector();
  {
    tt::NoGrad no_grad;
    net.weight.fill_(4);
  }
  average.update();
  const std::vector<float> before = net.weight.detach().to_vector();
  {
    const auto use = average.use();
    const std::vector<float> now = net.weight.detach().to_vector();
    for (size_t i = 0; i < now.size(); ++i) CHECK(now[i] == doctest::Approx(0.5 * first[i] + 2));
    CHECK(message_of([&] { average.update(); }).rfind("TT-OPT-14", 0) == 0);
    CHECK(message_of([&] { const auto again = average.use(); }).rfind("TT-OPT-14", 0) == 0);
  }
  CHECK(net.weight.detach().to_vector() == before);
  CHECK_NOTHROW(average.update());
}

TEST_CASE("averages of 16-bit parameters have 32 bits, and move by less than a 16-bit step") {
  tt::Tensor p = tt::ones({1}, tt::bf16).requires_grad_();
  tt::WeightAverage average({{"p", p}}, {.decay = 0.999});
  average.update();
  {
    tt::NoGrad no_grad;
    p.fill_(2);
  }
  for (int i = 0; i < 100; ++i) average.update();
  CHECK(average.state_dict().at("p").dtype() == tt::f32);
  CHECK(average.state_dict().at("p").item() == doctest::Approx(2 - std::pow(0.999, 100)).epsilon(1e-4));
}

TEST_CASE("state_dict continues an average in another program") {
  tt::Tensor p = tt::ones({2}).requires_grad_();
  tt::WeightAverage one({{"p", p}}, {.decay = 0.9}), two({{"p", p}}, {.decay = 0.9});
  one.update();
  {
    tt::NoGrad no_grad;
    p.fill_(3);
  }
  one.update();
  two.load_state_dict(one.state_dict());
  CHECK(two.updates() == 2);
  one.update();
  two.update();
  CHECK(one.state_dict().at("p").to_vector() == two.state_dict().at("p").to_vector());
}

TEST_CASE("WeightAverage throws for invalid options") {
  const tt::NamedTensors p{{"p", tt::zeros({1}).requires_grad_()}};
  CHECK(message_of([&] { tt::WeightAverage a(p, {.decay = 1}); }).rfind("TT-OPT-07", 0) == 0);
  CHECK(message_of([&] { tt::WeightAverage a(tt::NamedTensors{}, {}); }).rfind("TT-OPT-05", 0) == 0);
  CHECK(message_of([&] { tt::WeightAverage a(tt::Tensors{}, {}); }).rfind("TT-OPT-05", 0) == 0);
}
