#include <tinytorch/layers/lion.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/trajectory.hpp>

namespace tt = tinytorch;

TEST_CASE("Lion equals its definition for ten steps") {
  const int cases = test::check_trajectories(
      "rules", {"lion"}, 1e-12, 4e-6,
      [](const tt::NamedTensors& p, const nlohmann::json& c) -> std::unique_ptr<tt::Optimizer> {
        return std::make_unique<tt::Lion>(p,
                                          tt::LionOptions{.lr = c["lr"], .weight_decay = c["weight_decay"]});
      });
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
