#include <tinytorch/layers/adagrad.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/trajectory.hpp>

namespace tt = tinytorch;

TEST_CASE("Adagrad matches PyTorch for ten steps, with and without decays and a start of the sum") {
  const int cases = test::check_trajectories(
      "rules", {"adagrad"}, 1e-12, 4e-6,
      [](const tt::NamedTensors& p, const nlohmann::json& c) -> std::unique_ptr<tt::Optimizer> {
        return std::make_unique<tt::Adagrad>(
            p, tt::AdagradOptions{.lr = c["lr"],
                                  .lr_decay = c["lr_decay"],
                                  .weight_decay = c["weight_decay"],
                                  .initial_accumulator_value = c["initial_accumulator_value"],
                                  .eps = c["eps"]});
      });
  CHECK(cases == 2);
}

TEST_CASE("Adagrad throws for invalid options") {
  const tt::NamedTensors p{{"p", tt::zeros({1}).requires_grad_()}};
  CHECK(message_of([&] { tt::Adagrad o(p, {.lr_decay = -1}); }).rfind("TT-OPT-07", 0) == 0);
  CHECK(message_of([&] { tt::Adagrad o(p, {.initial_accumulator_value = -1}); }).rfind("TT-OPT-07", 0) == 0);
}
