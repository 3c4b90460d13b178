// The area under the ROC curve with its interval, where nearly equal scores count as equal.
//
// A pair of a positive and a negative counts 1 if the positive's score is higher by more than `margin`, half
// within the margin, else 0; the area is the mean over all pairs. It equals the mean of the usual areas (Mann
// and Whitney, 1947) with all positives moved down and up by the margin. The interval is a bootstrap over
// samples within each kind (Efron, 1979), so that every draw has both kinds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <tinytorch/benchmarking/bootstrap.hpp>
#include <vector>

namespace tinymlperf::judge {

class Auc {
 public:
  // labels: not 0 for positives. A score that is not finite is on the wrong side of all others.
  Auc(const std::vector<double>& scores, const std::vector<int64_t>& labels, double margin = 0)
      : labels_(labels) {
    if (scores.size() != labels.size())
      throw std::invalid_argument("an area under the curve needs a score for each label: " +
                                  std::to_string(scores.size()) + " for " + std::to_string(labels.size()));
    for (size_t i = 0; i < labels.size(); ++i) (labels[i] != 0 ? positives_ : negatives_).push_back(i);
    if (positives_.empty() || negatives_.empty())
      throw std::invalid_argument("an area under the curve needs samples of both kinds");
    lowered_ = ordered(scores, -margin);
    raised_ = ordered(scores, margin);
  }

  double area() const { return area(std::vector<int32_t>(labels_.size(), 1)); }

  tinytorch::statistics::Interval interval(const tinytorch::statistics::BootstrapOptions& options = {
                                               .draws = 2000}) const {
    std::vector<int32_t> drawn(labels_.size());
    return tinytorch::statistics::bootstrap(
        area(),
        [&](tinytorch::Generator& random) {
          std::fill(drawn.begin(), drawn.end(), 0);
          for (const auto* kind : {&positives_, &negatives_})
            for (size_t i = 0; i < kind->size(); ++i) ++drawn[(*kind)[random.below(kind->size())]];
          return area(drawn);
        },
        options);
  }

 private:
  // Samples by rising score, and the end of each run of equal scores.
  struct Order {
    std::vector<size_t> samples, ends;
  };
  Order ordered(const std::vector<double>& scores, double shift) const {
    std::vector<double> moved(scores.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      const bool positive = labels_[i] != 0;
      const double wrong = positive ? -INFINITY : INFINITY;
      moved[i] = !std::isfinite(scores[i]) ? wrong : scores[i] + (positive ? shift : 0);
    }
    Order order;
    order.samples.resize(moved.size());
    std::iota(order.samples.begin(), order.samples.end(), size_t{0});
    std::ranges::sort(order.samples, [&](size_t a, size_t b) { return moved[a] < moved[b]; });
    for (size_t i = 1; i <= moved.size(); ++i)
      if (i == moved.size() || moved[order.samples[i]] != moved[order.samples[i - 1]])
        order.ends.push_back(i);
    return order;
  }
  // Each sample counts as often as it was drawn.
  double area(const std::vector<int32_t>& drawn) const {
    return (area(lowered_, drawn) + area(raised_, drawn)) / 2;
  }
  double area(const Order& order, const std::vector<int32_t>& drawn) const {
    double won = 0, negatives = 0, positives = 0;
    for (size_t begin = 0, run = 0; run < order.ends.size(); begin = order.ends[run++]) {
      double here[2] = {0, 0};
      for (size_t i = begin; i < order.ends[run]; ++i)
        here[labels_[order.samples[i]] != 0] += drawn[order.samples[i]];
      won += here[1] * (negatives + here[0] / 2);
      negatives += here[0], positives += here[1];
    }
    return won / (negatives * positives);
  }

  std::vector<int64_t> labels_;
  std::vector<size_t> positives_, negatives_;
  Order lowered_, raised_;
};

}  // namespace tinymlperf::judge
