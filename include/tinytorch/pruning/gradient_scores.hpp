// Scores from gradients: movement and Taylor, summed over the batches of a training or calibration run.
//
//   GradientScores scores(prunable(model), GradientScore::movement);
//   for (...) { loss.backward(); scores.add(); optimizer.step(); }
//   masks.prune(p, mask_of_scores(scores.of(p.name), 0.5));
//
// movement: - sum of w dL/dw. It is large for weights that training moves away from 0, and below 0 for those
// that it moves towards 0; magnitudes only tell where weights are, which for a fine-tuned model is where they
// were before. taylor: sum of (w dL/dw)^2. To first order w dL/dw is what the loss loses without w; squares
// are summed, because batches of both signs must not cancel.
//
// Sums over the weights of channels and heads rank structured groups: ShrinkOptions::scores = scores.all().
// Sources: Sanh, Wolf, Rush, "Movement pruning", 2020; Molchanov et al., "Importance estimation for neural
// network pruning", 2019.
#pragma once

#include <map>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/pruning/magnitude.hpp>

namespace tinytorch::inline TT_BUILD {

enum class GradientScore : uint8_t { movement, taylor };

class GradientScores {
 public:
  // The scores begin as zeros: f64 with the shapes of the parameters, on their devices.
  explicit GradientScores(const NamedTensors& parameters, GradientScore kind, TT_LOC)
      : parameters_(parameters), kind_(kind) {
    for (const NamedTensor& p : parameters_) {
      require_defined("GradientScores", loc, p.tensor);
      scores_[p.name] = zeros(p.tensor.shape(), DType::f64, p.tensor.device(), loc);
    }
  }

  // Adds the scores of the gradients that backward() left; call it before the optimizer's step, which moves
  // the weights. A parameter without a gradient adds 0. Throws TT-PRUNE-03 if none has one, or if a parameter
  // has another shape than at the beginning.
  void add(TT_LOC) {
    const NoGrad no_grad;
    bool any = false;
    for (const NamedTensor& p : parameters_) {
      const Tensor gradient = p.tensor.grad();
      Tensor& score = scores_.at(p.name);
      if (!(score.shape() == p.tensor.shape()))
        refuse("'" + p.name + "' has another shape now\n  hint: make new scores after shrink()", loc);
      if (!gradient.defined()) continue;
      any = true;
      const Tensor change = p.tensor.detach().to(DType::f64, loc) * gradient.detach().to(DType::f64, loc);
      score = kind_ == GradientScore::movement ? score - change : score + change * change;
    }
    if (!any) refuse("no parameter has a gradient\n  hint: call it after backward()", loc);
    ++batches_;
  }

  // The scores of a parameter, f64. Throws TT-PRUNE-03 for an unknown name.
  const Tensor& of(const std::string& name, TT_LOC) const {
    const auto found = scores_.find(name);
    if (found == scores_.end()) refuse("there is no parameter '" + name + "'", loc);
    return found->second;
  }
  const std::map<std::string, Tensor>& all() const { return scores_; }
  int64_t batches() const { return batches_; }

  // A mask for each parameter, in their order: each loses the share `sparsity`, or all together do. Throws
  // TT-PRUNE-04 if a global threshold removed all of a parameter.
  Tensors masks(double sparsity, MaskScope scope = MaskScope::layer, TT_LOC) const {
    const NoGrad no_grad;
    Tensors out, flat;
    for (const NamedTensor& p : parameters_) {
      const Tensor& s = scores_.at(p.name);
      if (scope == MaskScope::layer)
        out.push_back(mask_of_scores(s, sparsity, loc));
      else
        flat.push_back(s.to(cpu, loc).reshape({s.numel()}));
    }
    if (scope == MaskScope::layer || flat.empty()) return out;
    const Tensor keep = mask_of_scores(cat(flat, 0, loc), sparsity, loc);
    int64_t at = 0;
    for (const NamedTensor& p : parameters_) {
      const int64_t n = p.tensor.numel();
      const Tensor mask = keep.slice(0, at, at + n).clone().reshape(p.tensor.shape());
      at += n;
      if (n > 0 && sparsity_of(mask, loc) == 1) {
        fail("TT-PRUNE-04",
             "GradientScores: a global sparsity of " + std::to_string(sparsity) + " removes all of '" +
                 p.name + "'\n  hint: prune less, or by layer",
             loc);
      }
      out.push_back(mask.to(p.tensor.device(), loc));
    }
    return out;
  }

 private:
  [[noreturn]] static void refuse(const std::string& what, Loc loc) {
    fail("TT-PRUNE-03", "GradientScores: " + what, loc);
  }

  NamedTensors parameters_;
  GradientScore kind_;
  std::map<std::string, Tensor> scores_;
  int64_t batches_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD
