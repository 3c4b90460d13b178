// Keyword spotting with a DS-CNN (Zhang et al., "Hello Edge", 2017). A depthwise convolution (one filter per
// channel) and a 1 x 1 convolution replace one filter for every pair of channels, with a ninth of the work
// for 3 x 3 filters. The data are ten words of an invented language, "unknown" and "silence". The test set
// has a separate seed, which may be kept secret.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <tinytorch/data/spoken_tones.hpp>
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

// [B, C, H, W] -> [B, C, H, W]
tt::Sequential separable(int64_t channels) {
  return tt::Sequential(tt::Conv2d(channels, channels, 3, {.padding = 1, .groups = channels}, false),
                        tt::BatchNorm2d(channels), tt::ReLU(),  //
                        tt::Conv2d(channels, channels, 1, {}, false), tt::BatchNorm2d(channels), tt::ReLU());
}

// The last pooling layer averages all frequency bands, but keeps six groups of frames, because the order of
// sounds matters: "saito" is not "tosai".
tt::Sequential ds_cnn(int64_t channels, int64_t blocks) {
  tt::Sequential net(tt::Conv2d(1, channels, 5, {.stride = 2, .padding = 2}, false),  // [B, C, 25, 5]
                     tt::BatchNorm2d(channels), tt::ReLU(), separable(channels),
                     tt::MaxPool2d(2));  // [B, C, 12, 2]
  for (int64_t block = 1; block < blocks; ++block) net.append(separable(channels));
  net.append(tt::AdaptiveAvgPool2d(6, 1))
      .append(tt::Flatten())
      .append(tt::Linear(6 * channels, tt::kSpokenClasses));
  return net;
}

int main(int argc, char** argv) {
  int64_t samples = 4000, epochs = 6, channels = 32, blocks = 3;
  uint64_t seed = 1, test_seed = 20240;
  double required = 0.88;
  CLI::App app("Train a DS-CNN on generated words");
  app.add_option("--samples", samples, "Training clips")
      ->capture_default_str()
      ->check(CLI::Range(100, 1000000));
  app.add_option("--epochs", epochs, "Epochs")->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_option("--channels", channels, "Width of the net")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--blocks", blocks, "Depthwise-separable blocks")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--seed", seed, "Seed of training data and weights")->capture_default_str();
  app.add_option("--test-seed", test_seed, "Seed of the 2,000 test clips")->capture_default_str();
  app.add_option("--require", required, "Exit with 1 below this test accuracy")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const auto start = std::chrono::steady_clock::now();
  const tt::SpokenTones train = tt::spoken_tones(samples, seed), test = tt::spoken_tones(2000, test_seed);
  const std::chrono::duration<double> speaking = std::chrono::steady_clock::now() - start;
  tt::DataLoader loader(train.features, train.labels, {.batch_size = 50, .shuffle = true, .seed = seed});
  tt::DataLoader test_loader(test.features, test.labels, {.batch_size = 250});

  tt::manual_seed(seed);
  tt::Sequential model = ds_cnn(channels, blocks);
  tt::AdamW optimizer(model.named_parameters());
  tt::Trainer trainer(
      model, optimizer, loader, tt::classification_loss,
      {.epochs = epochs, .schedule = tt::one_cycle(8e-3, epochs * loader.batches_per_epoch())});
  std::printf("%lld parameters, %lld clips, %.0f clips/s generated\n",
              static_cast<long long>(model.parameter_count()), static_cast<long long>(samples),
              static_cast<double>(samples + 2000) / speaking.count());
  double seconds = 0;
  for (const tt::EpochReport& report : trainer.fit()) seconds += report.seconds;
  const double reached = tt::evaluate(model, test_loader, tt::classification_loss).metric;
  std::printf("test accuracy %.2f %% after %.1f s of training\n", 100 * reached, seconds);
  return reached >= required ? 0 : 1;
}
