// One optimizer step: forward and backward passes of one or several batches, clipping, and the update.
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.19. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/layers/batch_source.hpp>
#include <tinytorch/layers/clip.hpp>
#include <tinytorch/layers/gradient_sum.hpp>
#include <tinytorch/layers/optimizer.hpp>
#include <tinytorch/layers/schedule.hpp>

namespace tinytorch::inline TT_BUILD {

// The mean loss of a batch, as a tensor of one element.
using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;
// The mean of a metric over the samples of a batch.
using Metric = std::function<double(const Tensor& output, const Tensor& target)>;

// The value of a number that was not measured.
inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

struct StepOptions {
  Schedule schedule{};   // rate by optimizer step; if empty, the optimizer's rate is kept
  double clip_norm = 0;  // largest gradient norm; 0: no clipping
  Metric metric{};       // if given, its sum is reported too
};
struct StepReport {
  int64_t samples = 0;
  double loss_sum = 0, metric_sum = 0;  // sums over samples: the mean of a batch times its number of samples
  double lr = 0;
  double gradient_norm = kNotMeasured;  // before clipping
};

inline StepReport training_step(Module& model, Optimizer& optimizer, std::span<const Batch> batches,
                                const Loss& loss, int64_t step, const StepOptions& options = {},
                                GradientSum* sums = nullptr, TT_LOC);  // task 3.19

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/layers/training_step.hpp>
