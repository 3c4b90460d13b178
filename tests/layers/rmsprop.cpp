#include <tinytorch/layers/rmsprop.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/trajectory.hpp>

namespace tt = tinytorch;

TEST_CASE("RMSprop matches PyTorch for ten steps, plain, with momentum, centered, and with both") {
  const int cases = test::check_trajectories(
      "rules", {"rmsprop"}, 1e-12, 2e-5,
      [](const tt::NamedTensors& p, const nlohmann::json& c) -> std::unique_ptr<tt::Optimizer> {
        return std::make_unique<tt::RMSprop>(p, tt::RmsPropOptions{.lr = c["lr"],
                                                                   .alpha = c["alpha"],
                                                                   .eps = c["eps"],
                                                                   .weight_decay = c["weight_decay"],
                                                                   .momentum = c["momentum"],
                                                                   .centered = c["centered"]});
      });
  CHECK(cases == 4);
}

TEST_CASE("RMSprop throws for invalid options") {
  const tt::NamedTensors p{{"p", tt::zeros({1}).requires_grad_()}};
  CHECK(message_of([&] { tt::RMSprop o(p, {.alpha = 1}); }).rfind("TT-OPT-07", 0) == 0);
  CHECK(message_of([&] { tt::RMSprop o(p, {.eps = -1}); }).rfind("TT-OPT-07", 0) == 0);
  CHECK(message_of([&] { tt::RMSprop o(p, {.momentum = -0.5}); }).rfind("TT-OPT-07", 0) == 0);
}
