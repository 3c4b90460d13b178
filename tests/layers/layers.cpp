// The umbrella header of layers/ is enough to define a model, load data and train.
#include <doctest/doctest.h>

#include <tinytorch/layers/layers.hpp>

namespace tt = tinytorch;

TEST_CASE("with layers.hpp alone a Sequential is trained by a Trainer") {
  tt::manual_seed(1);
  const tt::Tensor x = tt::randn({64, 3}, tt::f32, tt::cpu);
  const tt::Tensor y = tt::sum(x, {1}, true) * 2.0 + 1.0;
  tt::Sequential net(tt::Linear(3, 8), tt::Tanh(), tt::Dropout(0.0), tt::Linear(8, 1));
  tt::AdamW optimizer(net.named_parameters(), {.lr = 0.02});
  tt::DataLoader loader(x, y, {.batch_size = 16, .shuffle = true});
  const auto squared_error = [](const tt::Tensor& output, const tt::Tensor& target) {
    return tt::mean(tt::square(output - target));
  };
  tt::Trainer trainer(net, optimizer, loader, squared_error,
                      {.epochs = 40, .schedule = tt::cosine(0.02, 160), .metric = {}, .progress = nullptr});
  const std::vector<tt::EpochReport> reports = trainer.fit();
  REQUIRE(reports.size() == 40);
  CHECK(reports.back().train_loss < 0.1 * reports.front().train_loss);
  CHECK(tt::evaluate(net, loader, squared_error, {}).samples == 64);
}
