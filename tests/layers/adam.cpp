#include <tinytorch/layers/adam.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/trajectory.hpp>

namespace tt = tinytorch;

TEST_CASE("Adam and AdamW match PyTorch for ten steps with every option") {
  const int cases = test::check_trajectories(
      "adam", {}, 1e-12, 4e-6,
      [](const tt::NamedTensors& p, const nlohmann::json& c) -> std::unique_ptr<tt::Optimizer> {
        const tt::AdamOptions options{.lr = c["lr"],
                                      .beta1 = c["beta1"],
                                      .beta2 = c["beta2"],
                                      .eps = c["eps"],
                                      .weight_decay = c["weight_decay"]};
        if (c["kind"] == "adam") return std::make_unique<tt::Adam>(p, options);
        return std::make_unique<tt::AdamW>(p, options);
      });
  CHECK(cases == 6);
}

TEST_CASE("AMSGrad matches PyTorch for ten steps, with coupled and decoupled decay") {
  const int cases = test::check_trajectories(
      "rules", {"amsgrad", "amsgradw"}, 1e-12, 4e-6,
      [](const tt::NamedTensors& p, const nlohmann::json& c) -> std::unique_ptr<tt::Optimizer> {
        const tt::AdamOptions options{.lr = c["lr"],
                                      .beta1 = c["beta1"],
                                      .beta2 = c["beta2"],
                                      .eps = c["eps"],
                                      .weight_decay = c["weight_decay"],
                                      .amsgrad = true};
        if (c["kind"] == "amsgrad") return std::make_unique<tt::Adam>(p, options);
        return std::make_unique<tt::AdamW>(p, options);
      });
  CHECK(cases == 2);
  const tt::NamedTensors p{{"p", tt::zeros({1}).requires_grad_()}};
  CHECK(tt::Adam(p, {.amsgrad = true}).state_dict().count("p.max_exp_avg_sq") == 1);
  CHECK(tt::AdamW(p, {.amsgrad = true}).state_dict().count("p.max_exp_avg_sq") == 1);
}

TEST_CASE("AdamW decays weights by default, Adam does not") {
  tt::Tensor a = tt::ones({1}, tt::f64).requires_grad_(), b = tt::ones({1}, tt::f64).requires_grad_();
  tt::Adam adam({{"a", a}});
  tt::AdamW adamw({{"b", b}});
  a.set_grad(tt::zeros({1}, tt::f64));
  b.set_grad(tt::zeros({1}, tt::f64));
  adam.step();
  adamw.step();
  CHECK(a.item<double>() == 1);
  CHECK(b.item<double>() == doctest::Approx(1 - 1e-3 * 0.01).epsilon(1e-15));
}

TEST_CASE("Adam throws for invalid options") {
  const tt::NamedTensors p{{"p", tt::zeros({1}).requires_grad_()}};
  CHECK(message_of([&] { tt::Adam o(p, {.beta1 = 1}); }).rfind("TT-OPT-07", 0) == 0);
  CHECK(message_of([&] { tt::AdamW o(p, {.eps = -1}); }).rfind("TT-OPT-07", 0) == 0);
}
