// PruningMasks: the masks of a model's parameters, which an optimizer keeps.
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.2. It is cut
// from the library's header by modules/frames.py.
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
  void prune(const NamedTensor& parameter, const Tensor& mask, TT_LOC);  // task 8.2
  // Sets all removed elements to 0 again: of the parameters, and of the state of optimizers that keep them.
  void apply() const {
    const NoGrad no_grad;
    for (const auto& [name, entry] : *entries_) apply(entry);
  }
  void keep_in(Optimizer& optimizer, TT_LOC);         // task 8.2
  void rewind(const StateDict& state, TT_LOC) const;  // task 8.2

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

#include <tasks/pruning/masks.hpp>
