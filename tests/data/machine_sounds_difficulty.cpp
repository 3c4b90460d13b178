// Difficulty of the machine sounds: neither loudness nor the distance to the mean sound finds the faults; an
// autoencoder trained on normal machines does. Seeds are fixed.
#include <doctest/doctest.h>

#include <support/sanitized.hpp>
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

namespace {

tt::Sequential layer(int64_t in, int64_t out) {
  return tt::Sequential(tt::Linear(in, out), tt::BatchNorm1d(out), tt::ReLU());
}

// The area under the curve, where a window's score is the mean of its row's squares.
double area(const tt::Tensor& differences, const ms::MachineSounds& sounds) {
  return tt::roc_auc(ms::clip_scores(tt::mean(differences * differences, {1})), sounds.labels);
}

}  // namespace

TEST_CASE("machine sounds: no threshold on loudness finds the faults, an autoencoder does") {
  const ms::MachineSounds training = ms::normal(test::kSanitized ? 30 : 300, 101),
                          unseen = ms::mixed(test::kSanitized ? 40 : 300, 202);
  const double of_mean = tt::roc_auc(ms::clip_scores(tt::mean(unseen.windows, {1})), unseen.labels);
  const double of_peak = tt::roc_auc(ms::clip_scores(tt::max(unseen.windows, {1})), unseen.labels);
  const double of_distance = area(unseen.windows - tt::mean(training.windows, {0}, true), unseen);

  tt::manual_seed(1);
  tt::Sequential net(layer(640, 64), layer(64, 8), layer(8, 64), tt::Linear(64, 640));
  tt::DataLoader loader(training.windows, training.windows, {.batch_size = 64, .shuffle = true, .seed = 3});
  tt::Adam optimizer(net.named_parameters());
  tt::TrainerOptions options;
  options.epochs = 10, options.progress = nullptr, options.metric = {};
  options.schedule = tt::one_cycle(5e-3, options.epochs * loader.batches_per_epoch());
  const tt::Loss loss = [](const tt::Tensor& y, const tt::Tensor& x) { return tt::mse_loss(y, x); };
  tt::Trainer(net, optimizer, loader, loss, options).fit();
  net.eval();
  const tt::NoGrad no_grad;
  const double of_net = area(net(unseen.windows) - unseen.windows, unseen);
  MESSAGE("area under the curve: loudness " << of_mean << ", loudest band " << of_peak
                                            << ", distance to the mean " << of_distance << ", autoencoder "
                                            << of_net);
  if (test::kSanitized) return;  // only a tenth of the clips is used
  for (const double trivial : {of_mean, of_peak, of_distance}) {
    CHECK(trivial < 0.7);
    CHECK(trivial > 0.3);  // the opposite score does not find them either
  }
  CHECK(of_net > 0.8);
  CHECK(of_net < 0.99);
}
