// A multilayer perceptron reads digits (Rumelhart, Hinton, Williams, "Learning representations by
// back-propagating errors", 1986): all layers are trained together, by gradient steps with momentum.
//
//   [B, 1, 28, 28] -> [B, 784] -> W1, tanh -> [B, 32] -> W2 -> [B, 10], one score per digit
//   v = 0.9 v + g,  p -= lr v                       momentum, as in the paper
//
// A single layer cannot learn what the hidden units learn: it recognizes about two thirds of these digits.
#include <tinytorch/data/digits.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/metrics.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/sgd.hpp>

#include "gates.hpp"

namespace tt = tinytorch;

constexpr double kRate = 0.1, kMomentum = 0.9;
constexpr int kEpochs = 8;

int main() {
  return milestone::run([](milestone::Gates& gates) {
    // Another seed gives other digits: the test set has no image of the training set.
    const tt::Digits train = tt::digits(6000, 1), test = tt::digits(1000, 2);
    tt::DataLoader loader(train.images, train.labels, {.batch_size = 50, .shuffle = true, .seed = 1});
    tt::DataLoader test_loader(test.images, test.labels, {.batch_size = 250});

    tt::manual_seed(1986);
    tt::Sequential model(tt::Flatten(), tt::Linear(784, 32), tt::Tanh(), tt::Linear(32, 10));
    const tt::NamedTensors parameters = model.named_parameters();
    const std::vector<milestone::Numbers> before = milestone::values_of(parameters);
    tt::SGD optimizer(parameters, {.lr = kRate, .momentum = kMomentum});

    // Before training: the loss of the untrained model, and three steps that are compared with the reference.
    const tt::Batch first = *loader.next();
    const auto loss_of_first = [&] { return tt::cross_entropy(model(first.inputs), first.targets); };
    const double guessing = loss_of_first().item<double>();
    const double error = milestone::distance_from_hand(optimizer, parameters, loss_of_first,
                                                       [](milestone::Trained& p, double gradient, int) {
                                                         p.first = kMomentum * p.first + gradient;
                                                         p.value -= kRate * p.first;
                                                       });
    std::printf("epoch  loss    test loss  test accuracy\n");
    tt::Evaluation result;
    for (int epoch = 1; epoch <= kEpochs; ++epoch) {
      double sum = 0;
      int64_t batches = 0;
      for (const tt::Batch& batch : loader) {  // inputs [B, 1, 28, 28], targets i64 [B]
        optimizer.zero_grad();
        const tt::Tensor loss = tt::cross_entropy(model(batch.inputs), batch.targets);
        loss.backward();
        optimizer.step();
        sum += loss.item<double>(), ++batches;
      }
      result = tt::evaluate(model, test_loader, tt::classification_loss);
      std::printf("%5d  %.4f  %9.4f  %12.1f%%\n", epoch, sum / static_cast<double>(batches), result.loss,
                  100 * result.metric);
    }
    gates.at_most("the loss before training is about log 10", std::abs(guessing - std::log(10.0)), 0.2);
    gates.gradients_arrived(parameters);
    gates.at_most("steps with momentum equal the reference in double", error, 1e-3);
    gates.parameters_moved(parameters, before, 0.1);
    gates.at_least("the test accuracy is at least 5 of 6", result.metric, 5. / 6);
  });
}
