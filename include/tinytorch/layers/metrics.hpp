// Losses and metrics of (output, target), and the evaluation of a model on the data of a loader.
#pragma once

#include <limits>
#include <tinytorch/layers/data_loader.hpp>
#include <tinytorch/layers/training_step.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

// logits [N, V], classes i64 [N]
inline Tensor classification_loss(const Tensor& logits, const Tensor& classes) {
  return cross_entropy(logits, classes);
}

// The fraction of samples whose largest score is that of their class: scores [..., V], classes i64 [...]. NaN
// if the targets are floating point, as in a regression. Throws TT-TRAIN-04 if the shapes do not match.
TT_API double accuracy(const Tensor& scores, const Tensor& classes);

// Area under the ROC curve: the probability that a random positive (label not 0) has a higher score than a
// random negative, where a tie counts half. scores [N] of any floating dtype, labels i64 [N]. NaN if there
// are no positives or no negatives, or if a score is NaN. It is computed from the sum of the ranks of the
// positives, where equal scores share their mean rank (Mann and Whitney, 1947).
TT_API double roc_auc(const Tensor& scores, const Tensor& labels, TT_LOC);

struct Evaluation {
  double loss = 0, metric = 0;
  int64_t samples = 0;
};

// Mean loss and metric over one epoch of `loader`, which starts at its first batch. Runs in evaluation mode
// without a graph, and restores the model's mode.
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

#if TT_BODIES(LAYERS)
#include <algorithm>
#include <numeric>

namespace tinytorch::inline TT_BUILD {

TT_API double accuracy(const Tensor& scores, const Tensor& classes) {
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

TT_API double roc_auc(const Tensor& scores, const Tensor& labels, Loc loc) {
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
    double here = 0;  // number of positives with this score
    for (; end < order.size() && score[order[end]] == score[order[begin]]; ++end)
      here += label[order[end]] != 0;
    rank_sum += here * static_cast<double>(begin + 1 + end) / 2;  // ranks begin + 1 to end
    positives += here;
  }
  const double negatives = static_cast<double>(score.size()) - positives;
  return (rank_sum - positives * (positives + 1) / 2) /
         (positives * negatives);  // 0 / 0 = NaN if one kind is missing
}

}  // namespace tinytorch::inline TT_BUILD
#endif
