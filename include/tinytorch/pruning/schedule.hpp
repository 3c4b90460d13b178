// Schedules of pruning: sparsity as a function of the step, and pruning in rounds.
//
//   SparsitySchedule s = cubic_sparsity(0, 0.9, 100, 1000);     // fast first, slow at the end
//   iterative_prune(model, {.sparsity = 0.9, .rounds = 5, .rewind = initial}, [&](PruningMasks& masks) {
//   train });
//
// Sources: Zhu and Gupta, "To prune, or not to prune", 2017 (cubic); Frankle and Carbin, "The lottery ticket
// hypothesis", 2019 (rounds with rewind).
#pragma once

#include <functional>
#include <tinytorch/pruning/magnitude.hpp>
#include <tinytorch/pruning/masks.hpp>

namespace tinytorch::inline TT_BUILD {

using SparsitySchedule = std::function<double(int64_t step)>;

// The sparsity is 0 before step `at`, and `sparsity` from then on.
inline SparsitySchedule one_shot_sparsity(double sparsity, int64_t at = 0, TT_LOC) {
  require_sparsity("one_shot_sparsity", sparsity, loc);
  return [=](int64_t step) { return step < at ? 0.0 : sparsity; };
}

// `first` up to step `begin`, then last + (first - last) (1 - t)^3, where t rises from 0 at `begin` to 1 at
// `end`, and `last` from there on. Throws TT-PRUNE-02 for begin >= end, or first > last.
inline SparsitySchedule cubic_sparsity(double first, double last, int64_t begin, int64_t end, TT_LOC) {
  require_sparsity("cubic_sparsity", first, loc), require_sparsity("cubic_sparsity", last, loc);
  if (begin >= end || first > last) {
    fail("TT-PRUNE-02",
         "cubic_sparsity: rises from step `begin` to a later step `end`, from `first` to no less", loc);
  }
  return [=](int64_t step) {
    const double t =
        std::clamp(static_cast<double>(step - begin) / static_cast<double>(end - begin), 0.0, 1.0);
    return last + (first - last) * (1 - t) * (1 - t) * (1 - t);
  };
}

// After round r (1 to rounds) the density is (1 - sparsity)^(r / rounds): each round keeps the same share.
inline double sparsity_of_round(double sparsity, int64_t round, int64_t rounds) {
  return 1 - std::pow(1 - sparsity, static_cast<double>(round) / static_cast<double>(rounds));
}

struct IterativeOptions {
  double sparsity = 0.9;
  int64_t rounds = 5;
  MaskScope scope = MaskScope::global;
  StateDict rewind{};  // clones of values to which kept weights return after each round; empty: they stay
};

// In each round: train(masks), then remove the smallest weights of the model (and rewind the others); after
// the last round train(masks) once more. train makes its optimizer and calls masks.keep_in(optimizer). Throws
// TT-PRUNE-02 for settings out of range.
template <class Train>
PruningMasks iterative_prune(Module& model, const IterativeOptions& o, Train&& train, TT_LOC) {
  require_sparsity("iterative_prune", o.sparsity, loc);
  if (o.rounds < 1) fail("TT-PRUNE-02", "iterative_prune: needs at least one round", loc);
  PruningMasks masks;
  const NamedTensors weights = prunable(model);
  for (int64_t round = 1; round <= o.rounds; ++round) {
    train(masks);
    Tensors values;
    for (const NamedTensor& p : weights) values.push_back(p.tensor);
    // Removed weights are 0, so they are the first to go again, and masks grow by the difference.
    const Tensors next =
        magnitude_masks(values, sparsity_of_round(o.sparsity, round, o.rounds), o.scope, loc);
    for (size_t i = 0; i < weights.size(); ++i) masks.prune(weights[i], next[i], loc);
    if (!o.rewind.empty()) masks.rewind(o.rewind, loc);
  }
  train(masks);
  return masks;
}

}  // namespace tinytorch::inline TT_BUILD
