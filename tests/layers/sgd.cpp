#include <tinytorch/layers/sgd.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/trajectory.hpp>

namespace tt = tinytorch;

TEST_CASE("SGD matches PyTorch for ten steps with every option") {
  const int cases = test::check_trajectories(
      "sgd", {}, 1e-13, 2e-6,
      [](const tt::NamedTensors& p, const nlohmann::json& c) -> std::unique_ptr<tt::Optimizer> {
        return std::make_unique<tt::SGD>(p, tt::SgdOptions{.lr = c["lr"],
                                                           .momentum = c["momentum"],
                                                           .weight_decay = c["weight_decay"],
                                                           .nesterov = c["nesterov"]});
      });
  CHECK(cases == 6);
}

TEST_CASE("SGD accepts a strided gradient") {
  tt::Tensor p = tt::zeros({2, 3});
  p.requires_grad_();
  tt::SGD optimizer({{"p", p}}, {.lr = 1});
  p.set_grad(tt::from_data({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {3, 2}).t());
  optimizer.step();
  CHECK(p.to_vector() == std::vector<float>{-1, -3, -5, -2, -4, -6});
}

TEST_CASE("SGD throws for invalid options") {
  const tt::NamedTensors p{{"p", tt::zeros({1}).requires_grad_()}};
  CHECK(message_of([&] { tt::SGD o(p, {.momentum = 1}); }).rfind("TT-OPT-06", 0) == 0);
  CHECK(message_of([&] { tt::SGD o(p, {.nesterov = true}); }).rfind("TT-OPT-06", 0) == 0);
}
