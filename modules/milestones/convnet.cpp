// A convolutional network recognizes digits (LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied
// to document recognition", 1998): the same few weights are applied at every position of the image, so a
// stroke learned in one corner is recognized everywhere.
//
//   LeNet  [1, 28, 28] -> 6 maps, pooled [6, 14, 14] -> 16 maps, pooled [16, 5, 5] -> 10    6,582 parameters
//   MLP    784 -> 32 -> 10                                                                 25,450 parameters
#include <tinytorch/data/digits.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/metrics.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>

#include "gates.hpp"

namespace tt = tinytorch;
using milestone::Numbers;

constexpr double kRate = 3e-3;
constexpr int kEpochs = 5;

// Trains on the training set and returns the accuracy on the test set.
double train(const char* title, tt::Module& model, tt::Optimizer& optimizer, tt::DataLoader& loader,
             tt::DataLoader& test_loader) {
  double accuracy = 0;
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    double sum = 0;
    for (const tt::Batch& batch : loader) {  // inputs [B, 1, 28, 28], targets i64 [B]
      optimizer.zero_grad();
      const tt::Tensor loss = tt::cross_entropy(model(batch.inputs), batch.targets);
      loss.backward();
      optimizer.step();
      sum += loss.item<double>();
    }
    accuracy = tt::evaluate(model, test_loader, tt::classification_loss).metric;
    std::printf("%-5s  %5d  %.4f  %12.1f%%\n", title, epoch,
                sum / static_cast<double>(loader.batches_per_epoch()), 100 * accuracy);
  }
  return accuracy;
}

// The largest difference between one map of the layer and its definition, over all positions of an image.
double distance_from_sum(tt::Conv2d& layer, const tt::Tensor& image, int64_t map) {
  const tt::NoGrad no_grad;
  const Numbers x = image.to_vector<double>(), w = layer.weight[map].to_vector<double>();  // [28, 28], [5, 5]
  const Numbers y = layer(image)[0][map].to_vector<double>();                              // [28, 28]
  const double bias = layer.bias[map].item<double>();
  double worst = 0;
  for (int row = 0; row < 28; ++row) {
    for (int column = 0; column < 28; ++column) {
      double sum = bias;
      for (int k = 0; k < 25; ++k) {
        const int r = row + k / 5 - 2, c = column + k % 5 - 2;
        const bool inside = r >= 0 && r < 28 && c >= 0 && c < 28;
        if (inside) sum += w[static_cast<size_t>(k)] * x[static_cast<size_t>(28 * r + c)];
      }
      worst = milestone::larger(worst, std::abs(y[static_cast<size_t>(28 * row + column)] - sum));
    }
  }
  return worst;
}

// If an image is shifted by a pixel, its features are shifted by a pixel. Returns the norm of the difference
// away from the edges.
double distance_after_shift(tt::Conv2d& layer, const tt::Tensor& image) {
  const tt::NoGrad no_grad;
  const tt::Tensor moved = tt::pad(image.slice(3, 0, 27), {{0, 0}, {0, 0}, {0, 0}, {1, 0}});
  const Numbers here = layer(image).slice(3, 4, 23).to_vector<double>();  // [1, 6, 28, 19]
  const Numbers there = layer(moved).slice(3, 5, 24).to_vector<double>();
  return milestone::norm(milestone::difference(here, there));
}

int main() {
  return milestone::run([](milestone::Gates& gates) {
    const tt::Digits train_set = tt::digits(2000, 1), test_set = tt::digits(1000, 2);
    tt::DataLoader loader(train_set.images, train_set.labels, {.batch_size = 50, .shuffle = true, .seed = 1});
    tt::DataLoader test_loader(test_set.images, test_set.labels, {.batch_size = 250});

    tt::manual_seed(1998);
    tt::Sequential mlp(tt::Flatten(), tt::Linear(784, 32), tt::ReLU(), tt::Linear(32, 10));
    const auto first = std::make_shared<tt::Conv2d>(1, 6, 5, tt::Conv2dOptions{.padding = 2});
    tt::Sequential lenet(first, tt::ReLU(), tt::MaxPool2d(2),                 // [B,  6, 14, 14]
                         tt::Conv2d(6, 16, 5), tt::ReLU(), tt::MaxPool2d(2),  // [B, 16,  5,  5]
                         tt::Flatten(), tt::Linear(400, 10));                 // [B, 400] -> [B, 10]
    tt::AdamW mlp_optimizer(mlp.named_parameters(), {.lr = kRate, .weight_decay = 0.01});
    const tt::NamedTensors parameters = lenet.named_parameters();
    tt::AdamW lenet_optimizer(parameters, {.lr = kRate, .weight_decay = 0.01});
    const std::vector<Numbers> before = milestone::values_of(parameters);

    const tt::Tensor image = test_set.images.slice(0, 0, 1);  // [1, 1, 28, 28]
    const double sum_error = distance_from_sum(*first, image, 3),
                 shift_error = distance_after_shift(*first, image);
    const tt::Batch batch = *loader.next();
    const double step_error = milestone::distance_from_hand(
        lenet_optimizer, parameters, [&] { return tt::cross_entropy(lenet(batch.inputs), batch.targets); },
        milestone::AdamWByHand{kRate});

    std::printf("model  epoch  loss    test accuracy\n");
    const double by_mlp = train("MLP", mlp, mlp_optimizer, loader, test_loader);
    const double by_lenet = train("LeNet", lenet, lenet_optimizer, loader, test_loader);

    gates.at_most("a convolution equals its definition in double", sum_error, 1e-5);
    gates.at_most("a shifted digit has shifted features", shift_error, 1e-4);
    gates.gradients_arrived(parameters);
    gates.at_most("steps of AdamW equal the reference in double", step_error, 1e-3);
    gates.parameters_moved(parameters, before, 0.1);
    gates.at_most("LeNet has fewer parameters than the MLP", static_cast<double>(lenet.parameter_count()),
                  static_cast<double>(mlp.parameter_count() - 1));
    gates.at_least("LeNet has a higher test accuracy than the MLP", by_lenet, by_mlp + 0.05);
    gates.at_least("the test accuracy of LeNet is at least 4 of 5", by_lenet, 0.8);
  });
}
