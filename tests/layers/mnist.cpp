// Training on real handwriting: 8,000 images of MNIST's test file are the training set, the other 2,000 the
// test set. The seeds are fixed.
//
// The data are not part of the repository (tests/support/data.hpp lists where they are searched).
#include <doctest/doctest.h>

#include <cmath>
#include <support/few.hpp>
#include <tinytorch/io/idx.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/trainer.hpp>
#include <tinytorch/tinytorch.hpp>

#include <support/data.hpp>
#include <support/sanitized.hpp>

namespace tt = tinytorch;

namespace {

struct Split {
  tt::Tensor images, labels;  // f32 [N, 1, 28, 28] in [0, 1], i64 [N]
};

const char* const kImages = "mnist/t10k-images-idx3-ubyte.gz";

Split load(int64_t from, int64_t to) {
  const std::string images = test::data_file(kImages);
  const std::string labels = test::data_file("mnist/t10k-labels-idx1-ubyte.gz");
  const tt::Tensor x = tt::load_idx(images), y = tt::load_idx(labels);
  REQUIRE(x.shape() == tt::Shape{10000, 28, 28});
  REQUIRE(y.shape() == tt::Shape{10000});
  return {tt::unsqueeze(tt::slice(x, 0, from, to).to(tt::f32), 1) / 255,
          tt::slice(y, 0, from, to).to(tt::i64)};
}

struct Result {
  double accuracy = 0, seconds = 0;
};

// Under a sanitizer, training runs two epochs on a quarter of the images.
Result train(tt::Module& model, int64_t epochs, double lr, double weight_decay,
             const tt::Augmentation& augment) {
  if (test::kSanitized) epochs = 2;
  const Split training = load(0, test::kSanitized ? 2000 : 8000), held_out = load(8000, 10000);
  tt::DataLoader loader(training.images, training.labels,
                        {.batch_size = 64, .shuffle = true, .seed = 1, .workers = 1, .augment = augment});
  tt::DataLoader test(held_out.images, held_out.labels, {.batch_size = 500});
  tt::AdamW optimizer(model.named_parameters(), {.weight_decay = weight_decay});
  std::vector<tt::Tensor> before;
  for (const tt::Tensor& p : model.parameters()) before.push_back(p.detach().clone());
  tt::Trainer trainer(model, optimizer, loader, tt::classification_loss,
                      {.epochs = epochs, .schedule = tt::one_cycle(lr, epochs * loader.batches_per_epoch())});
  Result result;
  for (const tt::EpochReport& r : trainer.fit(&test)) result = {r.eval_metric, result.seconds + r.seconds};
  const tt::Tensors after = model.parameters();
  for (size_t i = 0; i < after.size(); ++i) {
    INFO("parameter ", i);
    const float least = test::kSanitized ? 0.01f : 0.05f;
    CHECK(tt::norm(after[i].detach() - before[i]).item() > least * tt::norm(before[i]).item());
  }
  MESSAGE(model.parameter_count(), " parameters, ", epochs, " epochs: ", 100 * result.accuracy, " % in ",
          result.seconds, " s of training");
  return result;
}

}  // namespace

TEST_CASE("MNIST: a multilayer perceptron reaches 95 %" * test::needs_data(kImages) * test::takes_minutes()) {
  tt::manual_seed(1);
  tt::Sequential model(tt::Flatten(), tt::Linear(784, 128), tt::ReLU(), tt::Linear(128, 10));
  const Result result =
      train(model, 6, 4e-3, 0.01, tt::random_affine({.degrees = 8, .shift = 1, .scale = 0.1}));
  CHECK(result.accuracy >= (test::kSanitized ? 0.5 : 0.95));
}

TEST_CASE("MNIST: a convolution net reaches 98 % within 90 s of training" * test::needs_data(kImages) *
          test::takes_minutes()) {
  tt::manual_seed(1);
  tt::Sequential model(tt::Conv2d(1, 8, 3, {.padding = 1}, false), tt::BatchNorm2d(8), tt::ReLU(),
                       tt::MaxPool2d(2), tt::Conv2d(8, 16, 3, {.padding = 1}, false), tt::BatchNorm2d(16),
                       tt::ReLU(), tt::MaxPool2d(2), tt::Conv2d(16, 32, 3, {.padding = 1}, false),
                       tt::BatchNorm2d(32), tt::ReLU(), tt::MaxPool2d(2), tt::Flatten(),
                       tt::Linear(32 * 3 * 3, 10));
  const Result result =
      train(model, 4, 1e-2, 0.02, tt::random_affine({.degrees = 10, .shift = 2, .scale = 0.1, .shear = 0.1}));
  CHECK(result.accuracy >= (test::kSanitized ? 0.5 : 0.98));
  CHECK(result.seconds <= 90);
}
