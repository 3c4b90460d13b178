// Optimizer steps over many parameters at once, in place (contracts: backend/cpu/optimizer.hpp).
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.27.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kStepThreads = 256;
inline constexpr int64_t kStepChunk = 8 * kStepThreads;  // elements of a block

// Parameters of one launch: a kernel's arguments may have 32764 bytes since CUDA 12.1, before 4096.
#if TINYTORCH_CUDA_SIM || CUDART_VERSION >= 12010
inline constexpr int kStepSlots = 256;
#else
inline constexpr int kStepSlots = 32;
#endif

template <class C>
struct StepSlot {
  Stored<C> parameter, gradient, first, second, rounded;  // first, second: SGD's velocity, or Adam's m and v
  int64_t* step;                                          // null: the launcher knows the number of the step
  int64_t count;
  double weight_decay;
};
template <class C>
struct StepTable {
  StepSlot<C> slot[kStepSlots];
  int first_block[kStepSlots + 1];  // of each slot: it has blocks first_block[s] ... first_block[s + 1] - 1
  int slots;
};

// --- the rules: what happens to one element ---

template <class C>
struct SgdRule {
  using Step = SgdStep;
  C factor, lr, momentum, decay;
  bool nesterov, skip;
};
template <class C>
struct AdamRule {
  using Step = AdamStep;
  C factor;             // of gradients
  C rate, scale;        // lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
  C beta1, one_less_1;  // beta1, 1 - beta1
  C beta2, one_less_2;  // beta2, 1 - beta2
  C eps, keep, decay;   // keep: of the parameter (AdamW); decay: of it, added to the gradient (Adam)
  bool skip;            // the norm of the gradients is not finite: nothing is to change
};

template <class C>
__device__ void prepare(SgdRule<C>& rule, const SgdStep& step, double lr, double factor, double weight_decay,
                        int64_t) {
  rule = {static_cast<C>(factor),       static_cast<C>(lr), static_cast<C>(step.momentum),
          static_cast<C>(weight_decay), step.nesterov,      false};
}

template <class C>
__device__ void update(const SgdRule<C>& rule, C& p, C g, C& velocity, C&) {
  const C gradient = rule.factor * g + rule.decay * p;
  velocity = rule.momentum * velocity + gradient;
  p -= rule.lr * (rule.nesterov ? gradient + rule.momentum * velocity : velocity);
}

// Functions of the tasks that the kernels below call: prepare for Adam's rule, and slot_of_block.
template <class C>
__device__ void prepare(AdamRule<C>& rule, const AdamStep& step, double lr, double factor,
                        double weight_decay, int64_t t);
template <class C>
__device__ int slot_of_block(const StepTable<C>& table);

// --- kernels ---

// Runs before the step. A thread for each slot counts the slot's step and makes its rule. The number must not
// be counted by the blocks that step the slot: some would read it before, some after. Without `scalars` the
// learning rate is the step's.
template <class C, class Rule>
static __global__ void __launch_bounds__(kStepSlots)
    begin_step_kernel(const __grid_constant__ StepTable<C> table, Rule* rules, const double* scalars,
                      typename Rule::Step step, int64_t number, bool clip) {
  const int s = static_cast<int>(threadIdx.x);
  if (s >= table.slots) return;
  const double factor = clip ? scalars[kGradientFactor] : 1.0;
  rules[s].skip = factor != factor;
  if (factor != factor) return;
  int64_t* const counter = table.slot[s].step;
  if (counter) *counter = number = *counter + 1;
  prepare(rules[s], step, scalars ? scalars[kLearningRate] : step.lr, factor, table.slot[s].weight_decay,
          number);
}

// partial[block] = the sum of squares of the block's chunk of gradient.
template <class C>
static __global__ void __launch_bounds__(kStepThreads)
    gradient_squares_kernel(const __grid_constant__ StepTable<C> table, double* partial) {
  const int s = slot_of_block(table);
  const StepSlot<C>& slot = table.slot[s];
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - table.first_block[s]) * kStepChunk;
  const int64_t end = std::min(begin + kStepChunk, slot.count);
  double sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kStepThreads) {
    const auto g = static_cast<double>(slot.gradient.read(i));
    sum += g * g;
  }
  sum = block_reduce<kStepThreads>(sum, Sum());
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(kStepThreads)
    gradient_factor_kernel(double* scalars, const double* partial, int64_t count, double limit) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kStepThreads) sum += partial[i];
  const double norm = std::sqrt(block_reduce<kStepThreads>(sum, Sum()));
  if (threadIdx.x != 0) return;
  scalars[kGradientNorm] = norm;
  // norm - norm is NaN when the norm is not finite.
  scalars[kGradientFactor] = norm - norm != 0 ? norm - norm : (norm > limit ? limit / norm : 1.0);
}

// Puts slots into tables, and calls run(table, its blocks) for each full one and, by flush(), for the last.
template <class C, class Run>
class StepTables {
 public:
  explicit StepTables(Run run) : run_(std::move(run)) {}
  void add(const StepSlot<C>& slot) {
    if (table_.slots == kStepSlots || table_.first_block[table_.slots] > (1 << 29)) flush();
    const int s = table_.slots++;
    table_.slot[s] = slot;
    table_.first_block[s + 1] = table_.first_block[s] + static_cast<int>(ceil_div(slot.count, kStepChunk));
  }
  void flush() {
    if (table_.slots > 0) run_(table_, table_.first_block[table_.slots]);
    table_.slots = 0;
  }

 private:
  Run run_;
  StepTable<C> table_{};
};

template <class C>
Stored<C> stored(const View& v) {
  return {v.data, v.dtype};
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/optimizer.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline void check_slots(std::span<const OptimizerSlot> slots) {
  for (const OptimizerSlot& s : slots) {
    const DType p = s.parameter.dtype, narrow = s.rounded.data ? s.rounded.dtype : s.gradient.dtype;
    if (s.gradient.dtype != p && s.gradient.dtype != narrow) {
      fail("TT-OPT-01", std::string("an optimizer step: gradient ") + name_of(s.gradient.dtype) +
                            " does not match parameter " + name_of(p) + " and " + name_of(narrow));
    }
    if (p != narrow && !(p == DType::f32 && is_16_bit(narrow))) {
      fail("TT-OPT-02", std::string("an optimizer step of ") + name_of(p) + " with " + name_of(narrow) +
                            "\n  hint: parameters are f32 or f64; 16-bit ones have an f32 copy");
    }
    if (p != DType::f32 && p != DType::f64) {
      fail("TT-OPT-02", std::string("an optimizer step: parameters must be f32 or f64, got ") + name_of(p) +
                            "\n  hint: keep an f32 copy of 16-bit parameters and step that");
    }
  }
}

template <template <class> class Rule>
void step_all(std::span<const OptimizerSlot> slots, const double* scalars,
              const typename Rule<float>::Step& step, int64_t number, bool clip) {
  check_slots(slots);
  step_slots<float, Rule<float>>(slots, scalars, step, number, clip);
  step_slots<double, Rule<double>>(slots, scalars, step, number, clip);
}

void sgd_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const SgdStep& step, bool clip) {
  step_all<SgdRule>(slots, scalars.as<const double>(), step, 0, clip);
}
void adam_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                   bool clip) {
  step_all<AdamRule>(slots, scalars.as<const double>(), step, 0, clip);
}

// One parameter, whose step and learning rate the host knows.
void sgd_step(const View& parameter, const View& gradient, const View& velocity, const SgdStep& step) {
  const OptimizerSlot slot{parameter, gradient, {velocity, {}}, {}, {}, step.weight_decay};
  step_all<SgdRule>(std::span<const OptimizerSlot>(&slot, 1), nullptr, step, 0, false);
}
void adam_step(const View& parameter, const View& gradient, const View& m, const View& v,
               const AdamStep& step) {
  const OptimizerSlot slot{parameter, gradient, {m, v}, {}, {}, step.weight_decay};
  step_all<AdamRule>(std::span<const OptimizerSlot>(&slot, 1), nullptr, step, step.step, false);
}

void gradient_factor(const View& scalars, std::span<const View> gradients, double limit) {
  int64_t blocks = 0, written = 0;
  for (const View& g : gradients) blocks += ceil_div(g.numel(), kStepChunk);
  const DeviceScratch<double> partial(blocks);
  const auto add_squares = [&]<class C>(C*) {
    const auto run = [&](const StepTable<C>& table, int count) {
      launch(gradient_squares_kernel<C>, {dim3(static_cast<unsigned>(count)), dim3(kStepThreads)}, table,
             partial.data() + written);
      written += count;
    };
    StepTables<C, decltype(run)> tables(run);
    for (const View& g : gradients) {
      if ((g.dtype == DType::f64) != std::is_same_v<C, double>) continue;
      tables.add({{}, stored<C>(g), {}, {}, {}, nullptr, g.numel(), 0});
    }
    tables.flush();
  };
  add_squares(static_cast<float*>(nullptr));
  add_squares(static_cast<double*>(nullptr));
  launch(gradient_factor_kernel, {dim3(1), dim3(kStepThreads)}, scalars.as<double>(), partial.data(), written,
         limit);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
