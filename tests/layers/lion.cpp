#include <tinytorch/layers/lion.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;

TEST_CASE("Lion equals its definition for ten steps") {
  const nlohmann::json golden = read_golden("layers");
  int cases = 0;
  for (const nlohmann::json& c : golden["rules"]) {
    if (c["kind"] != "lion") continue;
    ++cases;
    for (tt::DType dtype : {tt::f64, tt::f32}) {
      INFO("case ", cases, " ", tt::name_of(dtype));
      tt::Tensor p = tt::from_data(golden["start"].get<std::vector<double>>()).to(dtype);
      p.requires_grad_();
      tt::Lion optimizer({{"p", p}}, {.lr = c["lr"], .weight_decay = c["weight_decay"]});
      for (size_t step = 0; step < 10; ++step) {
        p.set_grad(tt::from_data(golden["gradients"][step].get<std::vector<double>>()).to(dtype));
        optimizer.step();
        check_values(p.to_vector<double>(), c["values"][step], dtype == tt::f64 ? 1e-12 : 4e-6);
      }
    }
  }
  CHECK(cases == 1);
}

TEST_CASE("every element of Lion's first step moves by the rate") {
  tt::Tensor p = tt::zeros({3}).requires_grad_();
  tt::Lion optimizer({{"p", p}}, {.lr = 0.5});
  p.set_grad(tt::from_data({1e-6f, -1e6f, 0.f}));
  optimizer.step();
  CHECK(p.to_vector() == std::vector<float>{-0.5f, 0.5f, 0});
}

TEST_CASE("Lion throws for invalid options") {
  const tt::NamedTensors p{{"p", tt::zeros({1}).requires_grad_()}};
  CHECK(message_of([&] { tt::Lion o(p, {.beta1 = 1}); }).rfind("TT-OPT-07", 0) == 0);
  CHECK(message_of([&] { tt::Lion o(p, {.beta2 = -0.1}); }).rfind("TT-OPT-07", 0) == 0);
}
