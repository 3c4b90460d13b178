// Losses and metrics as functions of (output, target), and evaluation of a model over a loader.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <tinytorch/layers/data_loader.hpp>
#include <tinytorch/layers/training_step.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

// logits [N, V], classes i64 [N]
inline Tensor classification_loss(const Tensor& logits, const Tensor& classes) {
  return cross_entropy(logits, classes);
}

// Share of samples whose largest score is at their class: scores [..., V], classes i64 [...]. Not a number
// when the targets are no classes but numbers (floating), as of a regression; shapes that differ are
// TT-TRAIN-04.
inline double accuracy(const Tensor& scores, const Tensor& classes) {
  if (is_floating(classes.dtype())) return std::numeric_limits<double>::quiet_NaN();
  Shape samples = scores.shape();
  if (samples.size() > 0) samples.pop_back();
  if (scores.rank() == 0 || classes.dtype() != DType::i64 || classes.shape() != samples) {
    fail("TT-TRAIN-04", "accuracy: needs scores [..., V] and classes i64 [...], got " + scores.describe() +
                            " and " + classes.describe());
  }
  const NoGrad no_grad;
  const std::vector<int64_t> found = argmax(scores, -1).to_vector<int64_t>();
  const std::vector<int64_t> expected = classes.to_vector<int64_t>();
  if (expected.empty()) return 0;
  int64_t hits = 0;
  for (size_t i = 0; i < expected.size(); ++i) hits += found[i] == expected[i];
  return static_cast<double>(hits) / static_cast<double>(expected.size());
}

// Area under the ROC curve: the probability that a random positive (label not 0) has a higher score than a
// random negative, where a tie counts half. scores [N] of any floating dtype, labels i64 [N]. Not a number
// without both kinds, or with a score that is none. From the sum of the positives' ranks, ties sharing their
// mean rank (Mann and Whitney, 1947).
inline double roc_auc(const Tensor& scores, const Tensor& labels, TT_LOC) {
  if (scores.rank() != 1 || labels.dtype() != DType::i64 || labels.shape() != scores.shape()) {
    fail("TT-TRAIN-04",
         "roc_auc: needs scores [N] and labels i64 [N], got " + scores.describe() + " and " +
             labels.describe(),
         loc);
  }
  const std::vector<double> score = scores.detach().to(DType::f64).to_vector<double>();
  const std::vector<int64_t> label = labels.to_vector<int64_t>();
  if (std::ranges::any_of(score, [](double s) { return s != s; }))
    return std::numeric_limits<double>::quiet_NaN();
  std::vector<size_t> order(score.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) { return score[a] < score[b]; });
  double rank_sum = 0, positives = 0;
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    double here = 0;  // positives of this score
    for (; end < order.size() && score[order[end]] == score[order[begin]]; ++end)
      here += label[order[end]] != 0;
    rank_sum += here * static_cast<double>(begin + 1 + end) / 2;  // ranks begin + 1 to end
    positives += here;
  }
  const double negatives = static_cast<double>(score.size()) - positives;
  return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives);  // 0 / 0 without both kinds
}

struct Evaluation {
  double loss = 0, metric = 0;
  int64_t samples = 0;
};

// Means over one epoch of `loader`, in evaluation mode and without a graph. The model's mode is restored.
inline Evaluation evaluate(Module& model, DataLoader& loader, const Loss& loss,
                           const Metric& metric = accuracy) {
  const NoGrad no_grad;
  const bool was_training = model.training();
  model.eval();
  loader.set_state({});
  Evaluation sum;
  const Device device = model.device();
  for (const Batch& loaded : loader) {
    const Batch batch = loaded.to(device);
    const int64_t count = batch.inputs.size(0);
    const Tensor output = model(batch.inputs);
    sum.loss += loss(output, batch.targets).item<double>() * static_cast<double>(count);
    if (metric) sum.metric += metric(output, batch.targets) * static_cast<double>(count);
    sum.samples += count;
  }
  model.train(was_training);
  const auto n = static_cast<double>(sum.samples);
  return {sum.loss / n, metric ? sum.metric / n : std::numeric_limits<double>::quiet_NaN(), sum.samples};
}

}  // namespace tinytorch::inline TT_BUILD
