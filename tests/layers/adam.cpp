#include <tinytorch/layers/adam.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;

TEST_CASE("Adam and AdamW match PyTorch for ten steps with every option") {
  const nlohmann::json golden = read_golden("layers");
  for (const nlohmann::json& c : golden["adam"]) {
    for (tt::DType dtype : {tt::f64, tt::f32}) {
      INFO("case ", " ", c["kind"].dump(), " ", c["weight_decay"].dump(), " ", c["eps"].dump(), " ",
           tt::name_of(dtype));
      tt::Tensor p = tt::from_data(golden["start"].get<std::vector<double>>()).to(dtype);
      p.requires_grad_();
      const tt::AdamOptions options{.lr = c["lr"],
                                    .beta1 = c["beta1"],
                                    .beta2 = c["beta2"],
                                    .eps = c["eps"],
                                    .weight_decay = c["weight_decay"]};
      std::unique_ptr<tt::Optimizer> optimizer;
      if (c["kind"] == "adam") optimizer = std::make_unique<tt::Adam>(tt::NamedTensors{{"p", p}}, options);
      if (c["kind"] == "adamw") optimizer = std::make_unique<tt::AdamW>(tt::NamedTensors{{"p", p}}, options);
      for (size_t step = 0; step < 10; ++step) {
        p.set_grad(tt::from_data(golden["gradients"][step].get<std::vector<double>>()).to(dtype));
        optimizer->step();
        check_values(p.to_vector<double>(), c["values"][step], dtype == tt::f64 ? 1e-12 : 4e-6);
      }
    }
  }
}

TEST_CASE("AMSGrad matches PyTorch for ten steps, with coupled and decoupled decay") {
  const nlohmann::json golden = read_golden("layers");
  int cases = 0;
  for (const nlohmann::json& c : golden["rules"]) {
    const bool coupled = c["kind"] == "amsgrad";
    if (!coupled && c["kind"] != "amsgradw") continue;
    ++cases;
    for (tt::DType dtype : {tt::f64, tt::f32}) {
      INFO("case ", c["kind"].dump(), " ", tt::name_of(dtype));
      tt::Tensor p = tt::from_data(golden["start"].get<std::vector<double>>()).to(dtype);
      p.requires_grad_();
      const tt::AdamOptions options{.lr = c["lr"],
                                    .beta1 = c["beta1"],
                                    .beta2 = c["beta2"],
                                    .eps = c["eps"],
                                    .weight_decay = c["weight_decay"],
                                    .amsgrad = true};
      std::unique_ptr<tt::Optimizer> optimizer =
          std::make_unique<tt::AdamW>(tt::NamedTensors{{"p", p}}, options);
      if (coupled) optimizer = std::make_unique<tt::Adam>(tt::NamedTensors{{"p", p}}, options);
      for (size_t step = 0; step < 10; ++step) {
        p.set_grad(tt::from_data(golden["gradients"][step].get<std::vector<double>>()).to(dtype));
        optimizer->step();
        check_values(p.to_vector<double>(), c["values"][step], dtype == tt::f64 ? 1e-12 : 4e-6);
      }
      CHECK(optimizer->state_dict().count("p.max_exp_avg_sq") == 1);
    }
  }
  CHECK(cases == 2);
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
