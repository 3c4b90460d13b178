// Anomaly detection with an autoencoder (Koizumi et al., 2019). A net that compresses the sound of healthy
// machines to a few numbers learns to reconstruct only such sounds, so a large reconstruction error indicates
// a fault. The training data have no faults. The test clips have a separate seed, which may be kept secret.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <tinytorch/data/machine_sounds.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/trainer.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
namespace ms = tt::machine_sounds;

tt::Sequential layer(int64_t in, int64_t out) {
  return tt::Sequential(tt::Linear(in, out), tt::BatchNorm1d(out), tt::ReLU());
}

// [B, 640] -> [B, code] -> [B, 640]
tt::Sequential autoencoder(int64_t hidden, int64_t code) {
  return tt::Sequential(layer(ms::kInputs, hidden), layer(hidden, hidden), layer(hidden, code),  //
                        layer(code, hidden), layer(hidden, hidden), tt::Linear(hidden, ms::kInputs));
}

// Area under the ROC curve for clips with one fault against all healthy clips.
double area_of(ms::Fault fault, const tt::Tensor& scores, const ms::MachineSounds& sounds) {
  const std::vector<double> all = scores.to_vector<double>();
  const std::vector<int64_t> faults = sounds.faults.to_vector<int64_t>();
  std::vector<double> kept;
  std::vector<int64_t> labels;
  for (size_t i = 0; i < all.size(); ++i) {
    if (faults[i] != ms::none && faults[i] != fault) continue;
    kept.push_back(all[i]), labels.push_back(faults[i] == fault);
  }
  return tt::roc_auc(tt::from_data(kept), tt::from_data(labels));
}

int main(int argc, char** argv) {
  int64_t clips = 400, epochs = 20, hidden = 128, code = 8;
  uint64_t seed = 1, test_seed = 20240;
  double required = 0.88;
  CLI::App app("Train an autoencoder on the sound of healthy machines");
  app.add_option("--clips", clips, "Training clips of 12 windows")
      ->capture_default_str()
      ->check(CLI::Range(10, 100000));
  app.add_option("--epochs", epochs, "Epochs")->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_option("--hidden", hidden, "Width of the hidden layers")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  app.add_option("--code", code, "Size of the code, the output of the encoder")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  app.add_option("--seed", seed, "Seed of training data and weights")->capture_default_str();
  app.add_option("--test-seed", test_seed, "Seed of the 500 test clips")->capture_default_str();
  app.add_option("--require", required, "Exit with 1 below this area under the ROC curve")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const auto start = std::chrono::steady_clock::now();
  const ms::MachineSounds train = ms::normal(clips, seed), test = ms::mixed(500, test_seed);
  const std::chrono::duration<double> playing = std::chrono::steady_clock::now() - start;
  tt::DataLoader loader(train.windows, train.windows, {.batch_size = 64, .shuffle = true, .seed = seed});

  tt::manual_seed(seed);
  tt::Sequential model = autoencoder(hidden, code);
  tt::AdamW optimizer(model.named_parameters());
  const tt::Loss loss = [](const tt::Tensor& restored, const tt::Tensor& heard) {
    return tt::mse_loss(restored, heard);
  };
  tt::Trainer trainer(
      model, optimizer, loader, loss,
      {.epochs = epochs, .schedule = tt::one_cycle(3e-3, epochs * loader.batches_per_epoch()), .metric = {}});
  std::printf("%lld parameters, %lld clips, %.0f clips/s generated\n",
              static_cast<long long>(model.parameter_count()), static_cast<long long>(clips),
              static_cast<double>(clips + 500) / playing.count());
  double seconds = 0;
  for (const tt::EpochReport& report : trainer.fit()) seconds += report.seconds;

  const tt::NoGrad no_grad;
  model.eval();
  const tt::Tensor error = model(test.windows) - test.windows;              // [N * 12, 640]
  const tt::Tensor scores = ms::clip_scores(tt::mean(error * error, {1}));  // [N]
  const double reached = tt::roc_auc(scores, test.labels);
  const char* names[] = {"", "whistle", "missing tooth", "looseness", "friction", "unsteady"};
  for (const ms::Fault fault : {ms::whistle, ms::missing_tooth, ms::looseness, ms::friction, ms::unsteady}) {
    std::printf("  %-13s %.3f\n", names[fault], area_of(fault, scores, test));
  }
  std::printf("area under the ROC curve %.4f after %.1f s of training\n", reached, seconds);
  return reached >= required ? 0 : 1;
}
