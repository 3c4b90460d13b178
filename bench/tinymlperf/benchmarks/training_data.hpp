// The training data of a benchmark with its loss and its validation. All of it follows from the published
// seeds; no hidden set shares a sample with it.
#pragma once

#include <functional>
#include <string>
#include <tinymlperf/benchmarks/task.hpp>
#include <tinytorch/layers/metrics.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinymlperf {

namespace tt = tinytorch;

struct TrainingData {
  tt::Tensor inputs;   // [N, the task's input...]; f32, for text i64
  tt::Tensor targets;  // N targets that the loss compares outputs with
  std::function<tt::Tensor(tt::Module&, const tt::Tensor& inputs, const tt::Tensor& targets)> loss;
  const char* metric;
  std::function<double(tt::Module&)> validate;  // higher is better; in evaluation mode

  int64_t size() const { return inputs.size(0); }
};

// Numbers of samples for the bundled models: pictures, words, clips of 12 windows, or windows of text.
struct TrainingSize {
  int64_t training, validation;
};

// The share of right answers; leaves the net in evaluation mode.
inline double accuracy_of(tt::Module& net, const tt::Tensor& inputs, const tt::Tensor& classes,
                          int64_t batch = 256) {
  const tt::NoGrad no_grad;
  net.eval();
  const int64_t n = inputs.size(0);
  double right = 0;
  for (int64_t start = 0; start < n; start += batch) {
    const int64_t end = std::min(start + batch, n);
    right += tt::accuracy(net(inputs.slice(0, start, end)), classes.slice(0, start, end)) *
             static_cast<double>(end - start);
  }
  return right / static_cast<double>(n);
}

namespace detail {

inline TrainingData classes_to_learn(const tt::Tensor& inputs, const tt::Tensor& classes,
                                     const tt::Tensor& held_out, const tt::Tensor& held_out_classes) {
  const auto loss = [](tt::Module& net, const tt::Tensor& x, const tt::Tensor& target) {
    return tt::cross_entropy(net(x), target);
  };
  return {inputs, classes, loss, "accuracy",
          [=](tt::Module& net) { return accuracy_of(net, held_out, held_out_classes); }};
}

}  // namespace detail

}  // namespace tinymlperf
