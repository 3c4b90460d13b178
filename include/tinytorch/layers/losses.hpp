// Losses as objects that keep their options, in PyTorch's spelling.
//
//   tt::CrossEntropyLoss loss({.label_smoothing = 0.1});
//   loss(net(x), target).backward();
//
// Each calls the function of its formula (tensor/functions.hpp, tensor/ops/composed_losses.hpp). They have no
// parameters, so they are no modules, and a Sequential does not take them.
#pragma once

#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

// The losses of x and a target of its shape whose only option is the reduction.
template <Tensor (*loss)(const Tensor&, const Tensor&, Reduction, Loc)>
class ReducedLoss {
 public:
  explicit ReducedLoss(Reduction how = Reduction::mean) : reduction(how) {}
  Tensor operator()(const Tensor& x, const Tensor& target, TT_LOC) const {
    return loss(x, target, reduction, loc);
  }
  Reduction reduction;
};
using MSELoss = ReducedLoss<mse_loss>;                   // (x - target)^2
using L1Loss = ReducedLoss<l1_loss>;                     // |x - target|
using BCELoss = ReducedLoss<binary_cross_entropy>;       // x: probabilities
using BCEWithLogitsLoss = ReducedLoss<bce_with_logits>;  // x: logits

class CrossEntropyLoss {
 public:
  explicit CrossEntropyLoss(const CrossEntropyOptions& given = {}) : options(given) {}
  Tensor operator()(const Tensor& logits, const Tensor& target, TT_LOC) const {
    return cross_entropy(logits, target, options, loc);
  }
  CrossEntropyOptions options;
};

// x: logarithms of probabilities, as of log_softmax
class NLLLoss {
 public:
  explicit NLLLoss(const NllOptions& given = {}) : options(given) {}
  Tensor operator()(const Tensor& x, const Tensor& target, TT_LOC) const {
    return nll_loss(x, target, options, loc);
  }
  NllOptions options;
};

class KLDivLoss {
 public:
  explicit KLDivLoss(const KlOptions& given = {}) : options(given) {}
  Tensor operator()(const Tensor& x, const Tensor& target, TT_LOC) const {
    return kl_div(x, target, options, loc);
  }
  KlOptions options;
};

class HuberLoss {
 public:
  explicit HuberLoss(double limit = 1, Reduction how = Reduction::mean) : delta(limit), reduction(how) {}
  Tensor operator()(const Tensor& x, const Tensor& target, TT_LOC) const {
    return huber_loss(x, target, delta, reduction, loc);
  }
  double delta;
  Reduction reduction;
};

class SmoothL1Loss {
 public:
  explicit SmoothL1Loss(double limit = 1, Reduction how = Reduction::mean) : beta(limit), reduction(how) {}
  Tensor operator()(const Tensor& x, const Tensor& target, TT_LOC) const {
    return smooth_l1_loss(x, target, beta, reduction, loc);
  }
  double beta;
  Reduction reduction;
};

class TripletMarginLoss {
 public:
  explicit TripletMarginLoss(const TripletOptions& given = {}) : options(given) {}
  Tensor operator()(const Tensor& anchor, const Tensor& positive, const Tensor& negative, TT_LOC) const {
    return triplet_margin_loss(anchor, positive, negative, options, loc);
  }
  TripletOptions options;
};

class CosineEmbeddingLoss {
 public:
  explicit CosineEmbeddingLoss(double limit = 0, Reduction how = Reduction::mean)
      : margin(limit), reduction(how) {}
  Tensor operator()(const Tensor& x, const Tensor& y, const Tensor& target, TT_LOC) const {
    return cosine_embedding_loss(x, y, target, margin, reduction, loc);
  }
  double margin;
  Reduction reduction;
};

}  // namespace tinytorch::inline TT_BUILD
