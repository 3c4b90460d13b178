// Gates are the conditions that a milestone must meet. Each prints one line:
//
//   ok - the loss fell                 not ok - the loss fell: expected at most 0.5, got 2.3
//
// They test not only the result but also how it was computed: whether every parameter has a gradient, whether
// every weight changed, whether a step follows its formula. Values are copied out of the tensors and compared
// with a reference in double, so that a student's header never tests itself.
#pragma once

#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>

namespace milestone {

namespace tt = tinytorch;
using Numbers = std::vector<double>;

inline std::string shown(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

inline double norm(const Numbers& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}
// The larger one, or NaN if one of them is NaN.
inline double larger(double a, double b) { return a >= b || std::isnan(a) ? a : b; }
inline Numbers difference(const Numbers& a, const Numbers& b) {
  Numbers out;
  for (size_t i = 0; i < a.size(); ++i) out.push_back(a[i] - b.at(i));
  return out;
}

// A copy of the current values of each tensor.
inline std::vector<Numbers> values_of(const tt::NamedTensors& tensors) {
  std::vector<Numbers> all;
  for (const tt::NamedTensor& t : tensors) all.push_back(t.tensor.to_vector<double>());
  return all;
}

class Gates {
 public:
  void check(const std::string& name, bool holds, const std::string& expected, const std::string& got) {
    if (holds)
      std::printf("ok - %s\n", name.c_str());
    else
      std::printf("not ok - %s: expected %s, got %s\n", name.c_str(), expected.c_str(), got.c_str());
    passed_ += holds, failed_ += !holds;
  }
  // Both fail if the value is NaN.
  void at_most(const std::string& name, double value, double bound) {
    check(name, value <= bound, "at most " + shown(bound), shown(value));
  }
  void at_least(const std::string& name, double value, double bound) {
    check(name, value >= bound, "at least " + shown(bound), shown(value));
  }

  // Tests, after a backward pass, that every parameter has a gradient that is finite and not all zero.
  void gradients_arrived(const tt::NamedTensors& parameters) {
    std::string without;
    for (const tt::NamedTensor& p : parameters) {
      const tt::Tensor gradient = p.tensor.grad();
      const double size = gradient.defined() ? norm(gradient.to_vector<double>()) : 0;
      if (!(size > 0) || !std::isfinite(size)) without += (without.empty() ? "" : ", ") + p.name;
    }
    check("every parameter has a gradient", without.empty(), "a gradient that is finite and not all zero",
          "none in " + without);
  }

  // Tests that the change of each parameter since `before` is at least a share of its norm then. A parameter
  // that began at zero must have changed.
  void parameters_moved(const tt::NamedTensors& parameters, const std::vector<Numbers>& before,
                        double share) {
    const std::vector<Numbers> now = values_of(parameters);
    double least = HUGE_VAL;
    std::string where;
    for (size_t i = 0; i < now.size(); ++i) {
      const double way = norm(difference(now[i], before[i])), length = norm(before[i]);
      const double moved = length > 0 ? way / length : (way > 0 ? HUGE_VAL : 0);
      if (!(moved >= least) && !std::isnan(least)) least = moved, where = parameters[i].name;
    }
    check("every parameter changed", least >= share, "at least " + shown(share) + " of its initial norm",
          shown(least) + " in " + where);
  }

  int exit_code() const { return failed_ == 0 && passed_ > 0 ? 0 : 1; }

 private:
  int passed_ = 0, failed_ = 0;
};

// An element of a parameter with the two numbers of optimizer state that belong to it.
struct Trained {
  double value = 0, first = 0, second = 0;
};

// The reference step of AdamW (layers/adam.hpp), with its default options.
struct AdamWByHand {
  double lr;
  void operator()(Trained& p, double gradient, int step) const {
    constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8, kDecay = 0.01;
    p.first = kBeta1 * p.first + (1 - kBeta1) * gradient;
    p.second = kBeta2 * p.second + (1 - kBeta2) * gradient * gradient;
    const double mean = p.first / (1 - std::pow(kBeta1, step));
    const double square = p.second / (1 - std::pow(kBeta2, step));
    p.value -= lr * kDecay * p.value + lr * mean / (std::sqrt(square) + kEps);
  }
};

// Makes `steps` steps of the optimizer on one batch, and the same steps by rule(trained, gradient, step) in
// double, with steps counted from 1. Returns the largest difference of an element, divided by the largest
// change of an element.
template <class Optimizer, class Loss, class Rule>
double distance_from_hand(Optimizer& optimizer, const tt::NamedTensors& parameters, const Loss& loss,
                          const Rule& rule, int steps = 3) {
  const std::vector<Numbers> before = values_of(parameters);
  std::vector<std::vector<Trained>> hand(before.size());
  for (size_t k = 0; k < before.size(); ++k) {
    for (const double value : before[k]) hand[k].push_back({value});
  }
  for (int step = 1; step <= steps; ++step) {
    optimizer.zero_grad();
    loss().backward();
    for (size_t k = 0; k < hand.size(); ++k) {
      const tt::Tensor gradient = parameters[k].tensor.grad();
      const Numbers g = gradient.defined() ? gradient.to_vector<double>() : Numbers(hand[k].size());
      for (size_t i = 0; i < hand[k].size(); ++i) rule(hand[k][i], g.at(i), step);
    }
    optimizer.step();
  }
  const std::vector<Numbers> now = values_of(parameters);
  double worst = 0, longest = 0;
  for (size_t k = 0; k < hand.size(); ++k) {
    for (size_t i = 0; i < hand[k].size(); ++i) {
      worst = larger(worst, std::abs(now[k][i] - hand[k][i].value));
      longest = std::max(longest, std::abs(hand[k][i].value - before[k][i]));
    }
  }
  return worst / longest;
}

// Runs a milestone and returns its exit code, which is 0 if all gates passed. An exception is a failed gate.
// One thread is used, because the tensors are small, and on a busy machine waiting for another thread takes
// longer than the work.
template <class Program>
int run(Program&& program) {
  tt::set_thread_count(1);
  Gates gates;
  try {
    program(gates);
  } catch (const std::exception& error) {
    gates.check("the program ran without an error", false, "no error", error.what());
  }
  return gates.exit_code();
}

}  // namespace milestone
