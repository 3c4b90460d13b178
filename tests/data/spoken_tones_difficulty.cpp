// Difficulty of the synthetic words: a linear model on the features fails, a small depthwise-separable
// network trained on the same clips is much better. examples/keyword_spotting.cpp states what a larger
// network reaches with more clips. Seeds are fixed.
#include <doctest/doctest.h>

#include <support/sanitized.hpp>
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

namespace {

// Accuracy of `net` on 500 unseen clips after training, in percent.
double accuracy_after_training(tt::Module& net, int64_t epochs, double lr) {
  static const tt::SpokenTones training = tt::spoken_tones(test::kSanitized ? 200 : 2000, 101),
                               unseen = tt::spoken_tones(test::kSanitized ? 100 : 500, 202);
  tt::DataLoader loader(training.features, training.labels, {.batch_size = 40, .shuffle = true, .seed = 3});
  tt::DataLoader test(unseen.features, unseen.labels, {.batch_size = 250});
  tt::Adam optimizer(net.named_parameters());
  tt::TrainerOptions options;
  options.epochs = epochs;
  options.schedule = tt::one_cycle(lr, epochs * loader.batches_per_epoch());
  options.progress = nullptr;
  tt::Trainer(net, optimizer, loader, tt::classification_loss, options).fit();
  return 100 * tt::evaluate(net, test, tt::classification_loss).metric;
}

tt::Sequential separable(int64_t channels) {
  return tt::Sequential(tt::Conv2d(channels, channels, 3, {.padding = 1, .groups = channels}, false),
                        tt::BatchNorm2d(channels), tt::ReLU(), tt::Conv2d(channels, channels, 1, {}, false),
                        tt::BatchNorm2d(channels), tt::ReLU());
}

}  // namespace

TEST_CASE("spoken tones: a linear model fails, a convolutional network is much better") {
  tt::manual_seed(1);
  tt::Sequential linear(tt::Flatten(), tt::Linear(490, 12));
  tt::Sequential sliding(tt::Conv2d(1, 16, 5, {.stride = 2, .padding = 2}, false), tt::BatchNorm2d(16),
                         tt::ReLU(), separable(16), tt::MaxPool2d(2), separable(16),
                         tt::AdaptiveAvgPool2d(6, 1), tt::Flatten(), tt::Linear(96, 12));
  const double of_linear = accuracy_after_training(linear, 8, 5e-3);
  const double of_sliding = accuracy_after_training(sliding, 5, 1.2e-2);
  MESSAGE("linear " << of_linear << " %, depthwise-separable " << of_sliding << " %");
  if (test::kSanitized) return;  // only a tenth of the clips is used
  CHECK(of_linear > 25);         // 12 classes: chance is 8.3 %
  CHECK(of_linear < 70);
  CHECK(of_sliding > 65);
  CHECK(of_sliding > of_linear + 10);
}
