// A convolution net on generated digits (LeCun et al., 1998). The same weights are applied at every position
// of the image, so a stroke learned in one corner is recognized in all of them. Random shifts and rotations
// augment the training data.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <tinytorch/data/digits.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/trainer.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

// Convolution, batch norm, ReLU, and pooling to half the resolution: [B, in, H, W] -> [B, out, H / 2, W / 2].
tt::Sequential stage(int64_t in, int64_t out) {
  return tt::Sequential(tt::Conv2d(in, out, 3, {.padding = 1}, false), tt::BatchNorm2d(out), tt::ReLU(),
                        tt::MaxPool2d(2));
}

int main(int argc, char** argv) {
  int64_t samples = 4000, epochs = 4;
  uint64_t seed = 1;
  double required = 0.93;
  CLI::App app("Train a convolution net on generated digits");
  app.add_option("--samples", samples, "Training images")
      ->capture_default_str()
      ->check(CLI::Range(100, 1000000));
  app.add_option("--epochs", epochs, "Epochs")->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_option("--seed", seed, "Seed of data and weights")->capture_default_str();
  app.add_option("--require", required, "Exit with 1 below this test accuracy")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const tt::Digits train = tt::digits(samples, seed), test = tt::digits(1000, seed + 1);
  tt::DataLoader loader(train.images, train.labels,
                        {.batch_size = 50,
                         .shuffle = true,
                         .seed = seed,
                         .workers = 1,
                         .augment = tt::random_affine({.degrees = 8, .shift = 1.5})});
  tt::DataLoader test_loader(test.images, test.labels, {.batch_size = 250});

  tt::manual_seed(seed);
  tt::Sequential model(stage(1, 8),    // [B,  8, 14, 14]
                       stage(8, 16),   // [B, 16,  7,  7]
                       tt::Flatten(),  // [B, 784]
                       tt::Linear(784, 64), tt::ReLU(), tt::Linear(64, 10));
  tt::AdamW optimizer(model.named_parameters());
  tt::Trainer trainer(
      model, optimizer, loader, tt::classification_loss,
      {.epochs = epochs, .schedule = tt::one_cycle(8e-3, epochs * loader.batches_per_epoch())});
  std::printf("%lld parameters, %lld images\n", static_cast<long long>(model.parameter_count()),
              static_cast<long long>(samples));
  const double reached = trainer.fit(&test_loader).back().eval_metric;
  std::printf("test accuracy %.2f %%\n", 100 * reached);
  return reached >= required ? 0 : 1;
}
