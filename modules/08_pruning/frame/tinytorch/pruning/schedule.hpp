// Schedules of pruning: sparsity as a function of the step, and pruning in rounds.
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.14. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <functional>
#include <tinytorch/pruning/magnitude.hpp>
#include <tinytorch/pruning/masks.hpp>

namespace tinytorch::inline TT_BUILD {

using SparsitySchedule = std::function<double(int64_t step)>;

inline SparsitySchedule one_shot_sparsity(double sparsity, int64_t at = 0, TT_LOC);  // task 8.14
// Task 8.14.
inline SparsitySchedule cubic_sparsity(double first, double last, int64_t begin, int64_t end, TT_LOC);
inline double sparsity_of_round(double sparsity, int64_t round, int64_t rounds);  // task 8.14

struct IterativeOptions {
  double sparsity = 0.9;
  int64_t rounds = 5;
  MaskScope scope = MaskScope::global;
  StateDict rewind{};  // clones of values to which kept weights return after each round; empty: they stay
};

template <class Train>
PruningMasks iterative_prune(Module& model, const IterativeOptions& o, Train&& train, TT_LOC);  // task 8.14

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/pruning/schedule.hpp>
