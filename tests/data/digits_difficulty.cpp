// Difficulty of the synthetic digits: a linear model fails, two layers are much better but do not reach 100
// %, and a convolutional network is better by more than a percentage point. Seeds are fixed; each network is
// trained on the same 6,000 samples.
#include <doctest/doctest.h>

#include <support/sanitized.hpp>
#include <tinytorch/data/digits.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/trainer.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

// Accuracy of `net` on 2,000 unseen digits after training, in percent.
double accuracy_after_training(tt::Module& net, int64_t epochs, double lr) {
  static const tt::Digits training = tt::digits(test::kSanitized ? 600 : 6000, 101),
                          unseen = tt::digits(2000, 202);
  tt::DataLoaderOptions batches;
  batches.batch_size = 50, batches.shuffle = true, batches.seed = 3;
  tt::DataLoader loader(training.images, training.labels, batches);
  batches.batch_size = 200, batches.shuffle = false;
  tt::DataLoader test(unseen.images, unseen.labels, batches);
  tt::Adam optimizer(net.named_parameters());
  tt::TrainerOptions options;
  options.epochs = epochs;
  options.schedule = tt::one_cycle(lr, epochs * loader.batches_per_epoch());
  options.progress = nullptr;
  tt::Trainer trainer(net, optimizer, loader, tt::classification_loss, options);
  trainer.fit();
  return 100 * tt::evaluate(net, test, tt::classification_loss).metric;
}

}  // namespace

TEST_CASE("digits: a linear model fails, two layers are better, convolutions are best") {
  tt::manual_seed(1);
  tt::Sequential linear(tt::Flatten(), tt::Linear(784, 10));
  tt::Sequential mlp(tt::Flatten(), tt::Linear(784, 128), tt::ReLU(), tt::Linear(128, 10));
  tt::Sequential conv(tt::Conv2d(1, 6, 5, {.padding = 2}), tt::ReLU(), tt::MaxPool2d(2), tt::Conv2d(6, 16, 5),
                      tt::ReLU(), tt::MaxPool2d(2), tt::Flatten(), tt::Linear(400, 64), tt::ReLU(),
                      tt::Linear(64, 10));
  const double of_linear = accuracy_after_training(linear, 6, 5e-3);
  const double of_mlp = accuracy_after_training(mlp, 6, 3e-3);
  const double of_conv = accuracy_after_training(conv, 3, 5e-3);
  MESSAGE("linear " << of_linear << " %, two layers " << of_mlp << " %, convolutions " << of_conv << " %");
  if (test::kSanitized) {  // only a tenth of the samples is used
    CHECK(of_mlp > 30);
    return;
  }
  CHECK(of_linear > 40);  // pixel positions carry some information, but not enough
  CHECK(of_linear < 85);
  CHECK(of_mlp > 85);
  CHECK(of_mlp < 99.5);
  CHECK(of_conv > 95);
  CHECK(of_conv > of_mlp + 1);
}
