// XOR (Minsky and Papert, "Perceptrons", 1969): four points that no line can separate. A hidden layer can
// separate them, and the chain rule gives the gradients that train it (Rumelhart, Hinton, Williams, 1986).
//
//   line     z = x w + b                           loss = mean of log(1 + e^z) - y z
//   network  z = tanh(x w1 + b1) w2 + b2           written with tensors and autograd, without layers
//
// The loss of the line is convex with its minimum at w = 0, b = 0, where every answer is 1/2 and the loss is
// log 2.
#include <numbers>

#include "gates.hpp"

namespace tt = tinytorch;
using milestone::Numbers;

const tt::Tensor kPoints = tt::from_data({0.f, 0.f, 0.f, 1.f, 1.f, 0.f, 1.f, 1.f}, {4, 2});
const tt::Tensor kAnswers = tt::from_data({0.f, 1.f, 1.f, 0.f}, {4, 1});
constexpr size_t kHidden = 8;
constexpr double kRate = 0.5;

tt::Tensor line(const tt::NamedTensors& p) {
  return tt::matmul(kPoints, p[0].tensor) + p[1].tensor;  // [4, 1]
}
tt::Tensor network(const tt::NamedTensors& p) {
  const tt::Tensor hidden = tt::tanh(tt::matmul(kPoints, p[0].tensor) + p[1].tensor);  // [4, H]
  return tt::matmul(hidden, p[2].tensor) + p[3].tensor;                                // [4, 1]
}

using Model = tt::Tensor(const tt::NamedTensors&);

// Makes one step of gradient descent and returns the loss before it.
double descend(tt::NamedTensors& parameters, Model& model) {
  for (tt::NamedTensor& p : parameters) p.tensor.zero_grad();
  const tt::Tensor loss = tt::bce_with_logits(model(parameters), kAnswers);
  loss.backward();
  const tt::NoGrad no_grad;
  for (tt::NamedTensor& p : parameters) p.tensor.add_(p.tensor.grad(), -kRate);
  return loss.item<double>();
}

int points_right(const Numbers& logits) {
  const Numbers answers = kAnswers.to_vector<double>();
  int right = 0;
  for (size_t i = 0; i < answers.size(); ++i) right += (logits[i] > 0) == (answers[i] > 0.5);
  return right;
}

// Trains on all four points at once and returns the last loss.
double train(const char* title, tt::NamedTensors& parameters, Model& model, int steps) {
  double loss = 0;
  for (int step = 1; step <= steps; ++step) {
    loss = descend(parameters, model);
    if (step % (steps / 4) == 0) {
      std::printf("%-9s %5d  %.5f  %d of 4\n", title, step, loss,
                  points_right(model(parameters).to_vector<double>()));
    }
  }
  return loss;
}

// The largest number of points that one of `count` random lines classifies correctly. All lines are tried at
// once.
double best_of_random_lines(int64_t count) {
  const tt::Tensor w = tt::randn({2, count}), b = tt::randn({1, count});
  const tt::Tensor sides = (tt::matmul(kPoints, w) + b) * (2 * kAnswers - 1);  // [4, count], right where > 0
  return tt::max((sides > 0).to(tt::f32).sum({0})).item<double>();
}

// The reference: the gradients of the network by the chain rule, point by point, in double.
std::vector<Numbers> gradients_by_hand(const std::vector<Numbers>& p) {
  const Numbers x = kPoints.to_vector<double>(), y = kAnswers.to_vector<double>();
  const Numbers &w1 = p[0], &b1 = p[1], &w2 = p[2], &b2 = p[3];  // [2, H], [H], [H, 1], [1]
  std::vector<Numbers> g = {Numbers(2 * kHidden), Numbers(kHidden), Numbers(kHidden), Numbers(1)};
  for (size_t i = 0; i < 4; ++i) {
    const double x0 = x[2 * i], x1 = x[2 * i + 1];
    double z = b2[0], h[kHidden];
    for (size_t j = 0; j < kHidden; ++j) {
      h[j] = std::tanh(x0 * w1[j] + x1 * w1[kHidden + j] + b1[j]);
      z += h[j] * w2[j];
    }
    const double dz = (1 / (1 + std::exp(-z)) - y[i]) / 4;
    g[3][0] += dz;
    for (size_t j = 0; j < kHidden; ++j) {
      const double before_tanh = dz * w2[j] * (1 - h[j] * h[j]);
      g[0][j] += before_tanh * x0, g[0][kHidden + j] += before_tanh * x1;
      g[1][j] += before_tanh, g[2][j] += dz * h[j];
    }
  }
  return g;
}

// The largest difference between a step by autograd and the reference step.
double distance_from_hand(tt::NamedTensors& parameters) {
  const std::vector<Numbers> before = milestone::values_of(parameters), by_hand = gradients_by_hand(before);
  descend(parameters, network);
  const std::vector<Numbers> after = milestone::values_of(parameters);
  double worst = 0;
  for (size_t k = 0; k < after.size(); ++k) {
    for (size_t i = 0; i < after[k].size(); ++i) {
      worst = milestone::larger(worst, std::abs(after[k][i] - (before[k][i] - kRate * by_hand[k].at(i))));
    }
  }
  return worst;
}

tt::NamedTensor parameter(const char* name, const tt::Shape& shape) {
  return {name, tt::randn(shape).requires_grad_()};
}

int main() {
  return milestone::run([](milestone::Gates& gates) {
    tt::manual_seed(1969);
    tt::NamedTensors flat = {parameter("w", {2, 1}), parameter("b", {1})};
    tt::NamedTensors deep = {parameter("w1", {2, kHidden}), parameter("b1", {kHidden}),
                             parameter("w2", {kHidden, 1}), parameter("b2", {1})};
    const std::vector<Numbers> before = milestone::values_of(deep);
    const double best = best_of_random_lines(10000);
    std::printf("best of 10000 random lines: %g of 4 points\n\nmodel      step  loss     right\n", best);
    const double line_loss = train("line", flat, line, 400);
    const double error = distance_from_hand(deep);
    const double network_loss = train("network", deep, network, 1000);

    gates.check("the best of 10000 lines gets 3 of 4 points", best == 3, "3", milestone::shown(best));
    gates.at_most("the trained line gets at most 3 of 4 points", points_right(line(flat).to_vector<double>()),
                  3);
    gates.at_most("the line's loss stays at log 2", std::abs(line_loss - std::numbers::ln2), 1e-3);
    gates.gradients_arrived(deep);
    gates.at_most("a step of the network equals the chain rule in double", error, 1e-5);
    gates.parameters_moved(deep, before, 0.1);
    gates.at_least("the network gets all 4 points", points_right(network(deep).to_vector<double>()), 4);
    gates.at_most("the network's loss is below 0.05", network_loss, 0.05);
  });
}
