// Learning rate schedulers with PyTorch's names, which set the rate of an optimizer once per epoch.
//
//   tt::StepLR scheduler(optimizer, 30, 0.1);
//   for (int epoch = 0; epoch < 90; ++epoch) { train_one_epoch(); scheduler.step(); }
//
// A scheduler counts its steps and multiplies the rate that the optimizer had when it was constructed. A
// Schedule (schedule.hpp) is a function of the step without a state, which a Trainer takes.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <tinytorch/layers/optimizer.hpp>
#include <tinytorch/layers/schedule.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// Sets the rate to initial_lr * factor(number of steps), from the construction on. The optimizer must outlive
// the scheduler.
class LambdaLR {
 public:
  LambdaLR(Optimizer& optimizer, Schedule factor, TT_LOC)
      : optimizer_(optimizer), factor_(std::move(factor)), initial_lr_(optimizer.lr()) {
    set_steps(0, loc);
  }
  void step(TT_LOC) { set_steps(steps_ + 1, loc); }
  int64_t steps() const { return steps_; }
  // Continues after `steps` steps, for a run that resumes.
  void set_steps(int64_t steps, TT_LOC) {
    steps_ = steps;
    optimizer_.set_lr(initial_lr_ * factor_(steps_), loc);
  }
  double last_lr() const { return optimizer_.lr(); }

 private:
  Optimizer& optimizer_;
  Schedule factor_;
  double initial_lr_;
  int64_t steps_ = 0;
};

// The rate is multiplied by gamma after every `step_size` steps.
class StepLR : public LambdaLR {
 public:
  StepLR(Optimizer& optimizer, int64_t step_size, double gamma = 0.1, TT_LOC)
      : LambdaLR(optimizer, step_decay(1, step_size, gamma, loc), loc) {}
};

// The rate is multiplied by gamma when the number of steps reaches a milestone.
class MultiStepLR : public LambdaLR {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma = 0.1, TT_LOC)
      : LambdaLR(
            optimizer,
            [milestones = std::move(milestones), gamma](int64_t step) {
              const auto reached = [step](int64_t milestone) { return milestone <= step; };
              return std::pow(
                  gamma, static_cast<double>(std::count_if(milestones.begin(), milestones.end(), reached)));
            },
            loc) {}
};

// The rate is multiplied by gamma after every step.
class ExponentialLR : public LambdaLR {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma, TT_LOC)
      : LambdaLR(
            optimizer, [gamma](int64_t step) { return std::pow(gamma, static_cast<double>(step)); }, loc) {}
};

// Half a cosine from the initial rate to `lowest` at step `total`. As in PyTorch, the rate rises again in the
// `total` steps that follow. Throws TT-OPT-08 if total < 1.
class CosineAnnealingLR : public LambdaLR {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t total, double lowest = 0, TT_LOC)
      : LambdaLR(optimizer, factors(total, lowest / optimizer.lr(), loc), loc) {}

 private:
  static Schedule factors(int64_t total, double lowest, Loc loc) {
    if (total < 1) fail("TT-OPT-08", "CosineAnnealingLR: needs at least one step", loc);
    return [=](int64_t step) {
      return cosine_between(1, lowest, static_cast<double>(step) / static_cast<double>(total));
    };
  }
};

// The factor rises linearly from `first` to `last` in `total` steps, and stays there: a warm-up.
class LinearLR : public LambdaLR {
 public:
  LinearLR(Optimizer& optimizer, double first = 1.0 / 3, double last = 1, int64_t total = 5, TT_LOC)
      : LambdaLR(
            optimizer,
            [=](int64_t step) {
              if (step >= total) return last;
              return first + (last - first) * static_cast<double>(step) / static_cast<double>(total);
            },
            loc) {}
};

struct PlateauOptions {
  bool maximize = false;    // the metric is better if it is larger
  double factor = 0.1;      // of the rate
  int64_t patience = 10;    // steps without progress that are tolerated
  double threshold = 1e-4;  // a better metric differs by more than this share of the best one
  int64_t cooldown = 0;     // steps after a reduction in which none is counted
  double min_lr = 0;
};

// Multiplies the rate by `factor` when a metric has not become better in more than `patience` steps.
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& given = {})
      : options(given), optimizer_(optimizer) {}
  void step(double metric, TT_LOC) {
    const double margin = options.maximize ? 1 + options.threshold : 1 - options.threshold;
    const bool first = std::isnan(best_);
    const bool better = options.maximize ? metric > best_ * margin : metric < best_ * margin;
    if (first ? !std::isnan(metric) : better) {
      best_ = metric, without_progress_ = 0;
    } else {
      ++without_progress_;
    }
    if (cooling_ > 0) --cooling_, without_progress_ = 0;
    if (without_progress_ <= options.patience) return;
    optimizer_.set_lr(std::max(optimizer_.lr() * options.factor, options.min_lr), loc);
    cooling_ = options.cooldown, without_progress_ = 0;
  }
  double last_lr() const { return optimizer_.lr(); }

  const PlateauOptions options;

 private:
  Optimizer& optimizer_;
  double best_ = std::numeric_limits<double>::quiet_NaN();
  int64_t without_progress_ = 0, cooling_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD
