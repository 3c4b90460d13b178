// A multilayer perceptron on generated digits: supervised learning in one page.
//
//   data -> batches -> model -> loss -> gradients -> optimizer, and a separate test set
#include <CLI/CLI.hpp>
#include <cstdio>
#include <tinytorch/data/digits.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/trainer.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

int main(int argc, char** argv) {
  int64_t samples = 8000, epochs = 5;
  uint64_t seed = 1;
  double required = 0.88;
  CLI::App app("Train a multilayer perceptron on generated digits");
  app.add_option("--samples", samples, "Training images")
      ->capture_default_str()
      ->check(CLI::Range(100, 1000000));
  app.add_option("--epochs", epochs, "Epochs")->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_option("--seed", seed, "Seed of data and weights")->capture_default_str();
  app.add_option("--require", required, "Exit with 1 below this test accuracy")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  // Another seed gives other handwriting, so the test set is disjoint from the training set.
  const tt::Digits train = tt::digits(samples, seed), test = tt::digits(1000, seed + 1);
  tt::DataLoader loader(train.images, train.labels, {.batch_size = 50, .shuffle = true, .seed = seed});
  tt::DataLoader test_loader(test.images, test.labels, {.batch_size = 500});

  tt::manual_seed(seed);
  tt::Sequential model(tt::Flatten(),  // [B, 1, 28, 28] -> [B, 784]
                       tt::Linear(784, 128), tt::ReLU(),
                       tt::Linear(128, 10));  // [B, 10]: one score per digit
  tt::AdamW optimizer(model.named_parameters());
  tt::Trainer trainer(
      model, optimizer, loader, tt::classification_loss,
      {.epochs = epochs, .schedule = tt::one_cycle(4e-3, epochs * loader.batches_per_epoch())});
  std::printf("%lld parameters, %lld images\n", static_cast<long long>(model.parameter_count()),
              static_cast<long long>(samples));
  const double reached = trainer.fit(&test_loader).back().eval_metric;
  std::printf("test accuracy %.2f %%\n", 100 * reached);
  return reached >= required ? 0 : 1;
}
