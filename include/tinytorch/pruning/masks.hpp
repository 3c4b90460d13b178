// PruningMasks: the masks of a model's parameters, which an optimizer keeps.
//
//   PruningMasks masks;
//   for (const NamedTensor& p : prunable(model)) masks.prune(p, magnitude_mask(p.tensor, 0.5));
//   masks.keep_in(optimizer);           // from now on zeros stay zero through every step
//
// A mask on the gradient alone does not hold: Adam moves a weight by its momentum, and weight decay scales
// it, after its gradient is 0. So the mask is applied after each step, to the parameter, to its f32 copy and
// to the optimizer's state, which then has no memory of removed weights. Masks only shrink: an element that
// was removed does not come back.
#pragma once

#include <map>
#include <memory>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/layers/optimizer.hpp>
#include <tinytorch/pruning/sparsity.hpp>

namespace tinytorch::inline TT_BUILD {

// The parameters that are usually pruned: matrices and kernels of convolutions. Biases and norms are few.
inline NamedTensors prunable(const Module& model) {
  NamedTensors out;
  for (NamedTensor& p : model.named_parameters())
    if (p.tensor.rank() >= 2) out.push_back(std::move(p));
  return out;
}

class PruningMasks {
 public:
  // Adds a mask, or removes more of a parameter that has one, and sets the removed elements to 0. Throws
  // TT-PRUNE-03 unless the mask is bool with the parameter's shape.
  void prune(const NamedTensor& parameter, const Tensor& mask, TT_LOC) {
    const NoGrad no_grad;
    require_mask("prune", parameter.tensor, mask, loc);
    Entry& entry = (*entries_)[parameter.name];
    const Tensor given = mask.detach().to(parameter.tensor.device(), loc);
    entry.parameter = parameter.tensor;
    // The mask keeps its memory, so that a captured step reads the new one.
    if (entry.mask.defined())
      entry.mask.copy_(where(given, entry.mask, zeros_like(given)), loc);
    else
      entry.mask = given.clone();
    apply(entry);
  }
  // Sets all removed elements to 0 again: of the parameters, and of the state of optimizers that keep them.
  void apply() const {
    const NoGrad no_grad;
    for (const auto& [name, entry] : *entries_) apply(entry);
  }
  // Applies the masks after each step of the optimizer, also those that are added later. They live as long as
  // the optimizer. Throws TT-PRUNE-03 if it does not train a masked parameter under the same name.
  void keep_in(Optimizer& optimizer, TT_LOC) {
    const auto entries = entries_;
    const StateDict state = optimizer.state_dict();
    for (const auto& [name, entry] : *entries) {
      if (state.count(name + ".step")) continue;
      fail("TT-PRUNE-03",
           "keep_in: the optimizer has no parameter '" + name +
               "'\n  hint: pass both the parameters of model.named_parameters()",
           loc);
    }
    optimizer.after_step([entries, state] {
      const NoGrad no_grad;
      for (const auto& [name, entry] : *entries) {
        apply(entry);
        for (auto s = state.lower_bound(name + "."); s != state.end() && s->first.starts_with(name + ".");
             ++s)
          if (s->second.shape() == entry.mask.shape()) apply({s->second, entry.mask});
      }
    });
  }
  // Gives the kept elements the values of `state`, such as those of an early step ("lottery ticket"), and the
  // removed ones 0. Throws TT-NN-04 if a masked parameter is missing there.
  void rewind(const StateDict& state, TT_LOC) const {
    const NoGrad no_grad;
    for (const auto& [name, entry] : *entries_) {
      const auto found = state.find(name);
      if (found == state.end() || !(found->second.shape() == entry.mask.shape()))
        fail("TT-NN-04", "rewind: the state has no '" + name + "' of this shape", loc);
    }
    for (const auto& [name, entry] : *entries_) {
      Tensor parameter = entry.parameter;
      parameter.copy_(state.at(name), loc);
      apply(entry);
    }
  }

  // The mask of a parameter; undefined if it has none.
  Tensor find(const std::string& name) const {
    const auto found = entries_->find(name);
    return found == entries_->end() ? Tensor() : found->second.mask;
  }
  int64_t size() const { return static_cast<int64_t>(entries_->size()); }
  // The share of removed elements of all masked parameters.
  double sparsity() const {
    double removed = 0, all = 0;
    for (const auto& [name, entry] : *entries_) {
      const auto n = static_cast<double>(entry.mask.numel());
      removed += n * sparsity_of(entry.mask), all += n;
    }
    return all > 0 ? removed / all : 0;
  }

 private:
  struct Entry {
    Tensor parameter, mask;
  };
  static void apply(const Entry& entry) {
    Tensor values = entry.parameter.detach();
    values.copy_(masked(values, entry.mask));
  }

  std::shared_ptr<std::map<std::string, Entry>> entries_ = std::make_shared<std::map<std::string, Entry>>();
};

}  // namespace tinytorch::inline TT_BUILD
