// XOR: four points that no line can separate (Minsky and Papert, "Perceptrons", 1969).
//
// The same training loop runs twice. A single linear layer classifies at most three of the four points, for
// any seed; a net with one hidden layer classifies all four (Rumelhart, Hinton, Williams, 1986).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

const tt::Tensor kPoints = tt::from_data({0.f, 0.f, 0.f, 1.f, 1.f, 0.f, 1.f, 1.f}, {4, 2});
const tt::Tensor kAnswers = tt::from_data({0.f, 1.f, 1.f, 0.f}, {4, 1});

// Trains on all four points at once, and returns the number of correctly classified points.
int train(const char* title, tt::Module& model, int steps) {
  std::printf("%s, %lld parameters\n", title, static_cast<long long>(model.parameter_count()));
  tt::Adam optimizer(model.named_parameters(), {.lr = 0.05});
  for (int step = 0; step <= steps; ++step) {
    optimizer.zero_grad();
    const tt::Tensor loss = tt::bce_with_logits(model(kPoints), kAnswers);  // logits [4, 1]
    loss.backward();
    optimizer.step();
    if (step % (steps / 4) == 0) std::printf("  step %4d  loss %.4f\n", step, loss.item<double>());
  }

  tt::NoGrad no_grad;
  const std::vector<float> x = kPoints.to_vector(), expected = kAnswers.to_vector();
  const std::vector<float> p = tt::sigmoid(model(kPoints)).to_vector();
  int right = 0;
  for (size_t i = 0; i < 4; ++i) {
    const bool hit = (p[i] > 0.5f) == (expected[i] > 0.5f);
    right += hit;
    std::printf("  %g xor %g = %g   predicted %.3f%s\n", x[2 * i], x[2 * i + 1], expected[i], p[i],
                hit ? "" : "  wrong");
  }
  return right;
}

int main(int argc, char** argv) {
  uint64_t seed = 1;
  int steps = 400;
  CLI::App app("XOR: a line fails, one hidden layer succeeds");
  app.add_option("--seed", seed, "Seed of the initial weights")->capture_default_str();
  app.add_option("--steps", steps, "Optimizer steps for each model")
      ->capture_default_str()
      ->check(CLI::Range(4, 100000));
  CLI11_PARSE(app, argc, argv);

  tt::manual_seed(seed);
  tt::Linear line(2, 1);
  tt::Sequential network(tt::Linear(2, 8), tt::Tanh(), tt::Linear(8, 1));
  const int by_line = train("A line", line, steps);
  const int by_network = train("One hidden layer", network, steps);
  std::printf("correct answers: line %d of 4, hidden layer %d of 4\n", by_line, by_network);
  return by_line < 4 && by_network == 4 ? 0 : 1;
}
