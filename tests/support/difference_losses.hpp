// Losses of a difference e = x - t by their definitions, in double.
#pragma once

#include <cmath>
#include <support/check.hpp>
#include <tinytorch/backend/difference_loss.hpp>
#include <tinytorch/backend/parameters.hpp>
#include <vector>

namespace test {

using tinytorch::backend::DifferenceLoss;
using tinytorch::backend::LossReduction;

inline constexpr LossReduction kLossReductions[] = {LossReduction::mean, LossReduction::sum,
                                                    LossReduction::none};
// l1_loss, huber_loss with two limits, and smooth_l1_loss with beta 0.25
inline constexpr DifferenceLoss kDifferenceLosses[] = {{}, {1, 1}, {2.5, 1}, {0.25, 4}};

struct DifferenceLosses {
  std::vector<double> loss, by_x, by_target;
};
// grad: the gradient of the loss, one number or one for each element.
inline DifferenceLosses difference_losses(const DifferenceLoss& p, const std::vector<double>& x,
                                          const std::vector<double>& t, const std::vector<double>& grad,
                                          LossReduction reduction) {
  DifferenceLosses out;
  const auto n = static_cast<double>(x.size());
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double e = x[i] - t[i], size = std::abs(e), sign = (e > 0) - (e < 0);
    const bool quadratic = p.delta > 0 && size <= p.delta;
    const double limit = p.delta > 0 ? p.delta : 1;
    const double far = p.delta > 0 ? p.delta * (size - p.delta / 2) : size;
    const double weight = reduction == LossReduction::none   ? grad[i]
                          : reduction == LossReduction::mean ? grad[0] / n
                                                             : grad[0];
    out.loss.push_back(p.factor * (quadratic ? e * e / 2 : far));
    out.by_x.push_back(weight * p.factor * (quadratic ? e : limit * sign));
    out.by_target.push_back(-out.by_x.back());
    total += out.loss.back();
  }
  if (reduction != LossReduction::none) out.loss = {reduction == LossReduction::mean ? total / n : total};
  return out;
}

}  // namespace test
