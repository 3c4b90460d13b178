// Optimizer steps over many parameters at once, in place (contract: backend/cpu/optimizer.hpp).
//
// A table of parameters is an argument of the launch. Their elements are cut into chunks of one block each,
// so one launch fills the device for any sizes. Each element of parameter, gradient and state is read and
// written once. First, a thread per parameter increments the step counter and computes scalars from the
// learning rate; both are in device memory, so a replayed graph uses current values. Clipping: the sum of
// squares of each chunk, then one block adds the sums in order; the factor stays on the device and the step
// applies it. Limit: memory bandwidth.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kOptimizerThreads = 256, kOptimizerEach = 4;
inline constexpr int64_t kOptimizerChunk = 8 * kOptimizerThreads * kOptimizerEach;  // elements per block
inline constexpr int kTotalNormThreads = 1024;

// Parameters per launch. Kernel arguments may have 32764 bytes since CUDA 12.1, and 4096 bytes before.
#if TINYTORCH_CUDA_SIM || CUDART_VERSION >= 12010
inline constexpr int kTableSlots = 256;
#else
inline constexpr int kTableSlots = 48;
#endif

struct TableSlot {
  void* parameter;
  const void* gradient;
  void* state[2];
  void* rounded;
  int64_t* step;  // counter; null: the launcher passes the number of the step
  int64_t count;
  double weight_decay;
};
struct SlotTable {
  TableSlot slot[kTableSlots];
  int first_chunk[kTableSlots + 1];
  bool vector[kTableSlots];  // all arrays allow vectorized accesses of 4 elements
  // True if the gradient has the parameter's dtype, not the 16-bit dtype.
  bool full_precision_gradient[kTableSlots];
  int slots;
};

// The slot to which the block's chunk belongs.
__device__ __forceinline__ int slot_of_block(const SlotTable& table) {
  const int chunk = static_cast<int>(blockIdx.x);
  int low = 0, high = table.slots;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (table.first_chunk[middle] <= chunk ? low : high) = middle;
  }
  return low;
}

// --- rules: the update of one element ---

template <class T, bool kMomentum>
struct SgdRule {
  static constexpr int kStates = kMomentum ? 1 : 0;
  using Step = SgdStep;
  T factor, lr, momentum, weight_decay, own, past;
  bool skip;

  __device__ void prepare(const SgdStep& step, double rate, double f, double decay, int64_t) {
    factor = static_cast<T>(f);
    lr = static_cast<T>(rate);
    momentum = static_cast<T>(step.momentum);
    weight_decay = static_cast<T>(decay);
    own = step.nesterov ? T(1) : T(0);
    past = step.nesterov ? momentum : T(1);
  }
  __device__ __forceinline__ void operator()(T& p, T g, T& velocity, T&) const {
    const T gradient = factor * g + weight_decay * p;
    if constexpr (kMomentum) {
      velocity = momentum * velocity + gradient;
      p -= lr * (own * gradient + past * velocity);
    } else {
      p -= lr * gradient;
    }
  }
};

template <class T>
struct AdamRule {
  static constexpr int kStates = 2;
  using Step = AdamStep;
  T factor, rate, scale, beta1, rest1, beta2, rest2, eps, keep, decay;
  bool skip;

  __device__ void prepare(const AdamStep& step, double lr, double f, double weight_decay, int64_t number) {
    const auto t = static_cast<double>(number);
    factor = static_cast<T>(f);
    rate = static_cast<T>(lr / (1 - std::pow(step.beta1, t)));
    scale = static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, t)));
    beta1 = static_cast<T>(step.beta1);
    rest1 = static_cast<T>(1 - step.beta1);
    beta2 = static_cast<T>(step.beta2);
    rest2 = static_cast<T>(1 - step.beta2);
    eps = static_cast<T>(step.eps);
    keep = static_cast<T>(step.decoupled ? 1 - lr * weight_decay : 1.0);
    decay = static_cast<T>(step.decoupled ? 0.0 : weight_decay);
  }
  __device__ __forceinline__ void operator()(T& p, T g, T& m, T& v) const {
    const T gradient = factor * g + decay * p;
    m = beta1 * m + rest1 * gradient;
    v = beta2 * v + rest2 * gradient * gradient;
    p = keep * p - rate * m / (std::sqrt(v) * scale + eps);
  }
};

// --- kernels ---

// Increments the step counter of each slot and computes its rule. Without `scalars` the learning rate is
// step.lr.
template <class Rule>
static __global__ void __launch_bounds__(kTableSlots)
    prepare_step_kernel(const __grid_constant__ SlotTable table, Rule* rules, const double* scalars,
                        typename Rule::Step step, int64_t number, bool clip) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= table.slots) return;
  const double factor = clip ? scalars[kGradientFactor] : 1.0;
  Rule rule;
  rule.skip = factor != factor;
  if (!rule.skip) {
    int64_t* const counter = table.slot[i].step;
    if (counter) *counter = number = *counter + 1;
    rule.prepare(step, scalars ? scalars[kLearningRate] : step.lr, factor, table.slot[i].weight_decay,
                 number);
  }
  rules[i] = rule;
}

// Updates kEach elements of the slot's arrays from element i on. N: dtype of 16-bit gradients and of the
// rounded parameter; T if there are none.
template <class T, class N, int kEach, class Rule>
__device__ __forceinline__ void step_elements(const TableSlot& slot, bool full_precision_gradient, int64_t i,
                                              const Rule& rule) {
  T p[kEach], g[kEach], first[kEach] = {}, second[kEach] = {};
  load(p, static_cast<T*>(slot.parameter) + i);
  if (full_precision_gradient) {
    load(g, static_cast<const T*>(slot.gradient) + i);
  } else {
    load(g, static_cast<const N*>(slot.gradient) + i);
  }
  if constexpr (Rule::kStates > 0) load(first, static_cast<T*>(slot.state[0]) + i);
  if constexpr (Rule::kStates > 1) load(second, static_cast<T*>(slot.state[1]) + i);
#pragma unroll
  for (int k = 0; k < kEach; ++k) rule(p[k], g[k], first[k], second[k]);
  store(static_cast<T*>(slot.parameter) + i, p);
  if constexpr (Rule::kStates > 0) store(static_cast<T*>(slot.state[0]) + i, first);
  if constexpr (Rule::kStates > 1) store(static_cast<T*>(slot.state[1]) + i, second);
  if constexpr (!std::is_same_v<T, N>) {
    if (slot.rounded) store(static_cast<N*>(slot.rounded) + i, p);
  }
}

template <class T, class N, class Rule>
static __global__ void __launch_bounds__(kOptimizerThreads)
    step_all_kernel(const __grid_constant__ SlotTable table, const Rule* rules) {
  const int s = slot_of_block(table);
  const TableSlot slot = table.slot[s];
  const Rule rule = rules[s];
  if (rule.skip) return;
  const bool full_precision_gradient = std::is_same_v<T, N> || table.full_precision_gradient[s];
  const int64_t chunk = static_cast<int64_t>(blockIdx.x) - table.first_chunk[s];
  int64_t first = chunk * kOptimizerChunk;
  const int64_t last = std::min(first + kOptimizerChunk, slot.count);
  if (table.vector[s]) {
    const int64_t whole = last - last % kOptimizerEach;
    for (int64_t i = first + static_cast<int64_t>(threadIdx.x) * kOptimizerEach; i < whole;
         i += kOptimizerThreads * kOptimizerEach) {
      step_elements<T, N, kOptimizerEach>(slot, full_precision_gradient, i, rule);
    }
    first = whole;
  }
  for (int64_t i = first + threadIdx.x; i < last; i += kOptimizerThreads) {
    step_elements<T, N, 1>(slot, full_precision_gradient, i, rule);
  }
}

// partial[block] = sum of squares of the block's chunk.
template <class T>
static __global__ void __launch_bounds__(kOptimizerThreads)
    gradient_squares_kernel(const __grid_constant__ SlotTable table, double* partial) {
  const int s = slot_of_block(table);
  const T* g = static_cast<const T*>(table.slot[s].gradient);
  const int64_t chunk = static_cast<int64_t>(blockIdx.x) - table.first_chunk[s];
  int64_t first = chunk * kOptimizerChunk;
  const int64_t last = std::min(first + kOptimizerChunk, table.slot[s].count);
  double sum = 0;
  if (table.vector[s]) {
    const int64_t whole = last - last % kOptimizerEach;
#pragma unroll 4
    for (int64_t i = first + static_cast<int64_t>(threadIdx.x) * kOptimizerEach; i < whole;
         i += kOptimizerThreads * kOptimizerEach) {
      Compute<T> v[kOptimizerEach];
      load(v, g + i);
#pragma unroll
      for (const Compute<T> value : v) sum += static_cast<double>(value) * static_cast<double>(value);
    }
    first = whole;
  }
  for (int64_t i = first + threadIdx.x; i < last; i += kOptimizerThreads) {
    const auto value = static_cast<double>(to<Compute<T>>(g[i]));
    sum += value * value;
  }
  sum = block_reduce<kOptimizerThreads>(sum, Sum());
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(kTotalNormThreads)
    gradient_factor_kernel(double* scalars, const double* partial, int64_t count, double limit) {
  double sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += kTotalNormThreads) sum += partial[i];
  const double norm = std::sqrt(block_reduce<kTotalNormThreads>(sum, Sum()));
  if (threadIdx.x != 0) return;
  scalars[kGradientNorm] = norm;
  // norm - norm is NaN if the norm is not finite.
  scalars[kGradientFactor] = norm - norm != 0 ? norm - norm : (norm > limit ? limit / norm : 1.0);
}

// --- launchers ---

inline int64_t chunks_of(int64_t count) { return (count + kOptimizerChunk - 1) / kOptimizerChunk; }

// Fills tables with slots, and calls run(table, number of chunks) for each full table; flush() runs the last
// one.
template <class Run>
class TableFiller {
 public:
  explicit TableFiller(Run run) : run_(std::move(run)) {}
  void add(const TableSlot& slot, bool vector, bool full_precision_gradient) {
    if (slot.count == 0 && !slot.step) return;
    const int64_t chunks = table_.first_chunk[table_.slots] + chunks_of(slot.count);
    if (table_.slots == kTableSlots || chunks > (int64_t{1} << 30)) {
      flush();
      return add(slot, vector, full_precision_gradient);
    }
    const int i = table_.slots++;
    table_.slot[i] = slot;
    table_.vector[i] = vector;
    table_.full_precision_gradient[i] = full_precision_gradient;
    table_.first_chunk[i + 1] = static_cast<int>(chunks);
  }
  void flush() {
    if (table_.slots > 0) run_(table_, table_.first_chunk[table_.slots]);
    table_.slots = 0;
  }

 private:
  Run run_;
  SlotTable table_{};
};

inline bool aligned_for_each(const View& v) {
  const uintptr_t access = std::min<uintptr_t>(16, size_of(v.dtype) * kOptimizerEach);
  return reinterpret_cast<uintptr_t>(v.data) % access == 0;
}
inline bool aligned_for_each(const OptimizerSlot& s) {
  return aligned_for_each(s.parameter) && aligned_for_each(s.gradient) && aligned_for_each(s.state[0]) &&
         aligned_for_each(s.state[1]) && aligned_for_each(s.rounded);
}

// The 16-bit dtype of a slot, or the parameter's dtype if it has none.
inline DType low_precision_dtype(const OptimizerSlot& s) {
  return s.rounded.data ? s.rounded.dtype : s.gradient.dtype;
}

template <class T, class N, class Rule>
void step_slots(std::span<const OptimizerSlot> slots, const double* scalars, const typename Rule::Step& step,
                int64_t number, bool clip) {
  TableFiller filler([&](const SlotTable& table, int chunks) {
    const DeviceScratch<Rule> rules(table.slots);
    launch(prepare_step_kernel<Rule>, {dim3(1), dim3(kTableSlots)}, table, rules.data(), scalars, step,
           number, clip);
    launch(step_all_kernel<T, N, Rule>, {dim3(static_cast<unsigned>(chunks)), dim3(kOptimizerThreads)}, table,
           rules.data());
  });
  for (const OptimizerSlot& s : slots) {
    if (s.parameter.dtype != dtype_of<T> || low_precision_dtype(s) != dtype_of<N>) continue;
    if ((s.state[0].data != nullptr) != (Rule::kStates > 0)) continue;
    filler.add({s.parameter.data,
                s.gradient.data,
                {s.state[0].data, s.state[1].data},
                s.rounded.data,
                s.step.as<int64_t>(),
                s.parameter.numel(),
                s.weight_decay},
               aligned_for_each(s), s.gradient.dtype == dtype_of<T>);
  }
  filler.flush();
}

// Updates the slots of each combination of dtypes in turn.
template <template <class> class Rule>
void step_all(std::span<const OptimizerSlot> slots, const double* scalars,
              const typename Rule<float>::Step& step, int64_t number, bool clip) {
  for (const OptimizerSlot& s : slots) {
    const DType p = s.parameter.dtype, n = low_precision_dtype(s);
    if (s.gradient.dtype != p && s.gradient.dtype != n) {
      fail("TT-OPT-01", std::string("an optimizer step: gradient ") + name_of(s.gradient.dtype) +
                            " does not match parameter " + name_of(p) + " and " + name_of(n));
    }
    if (p != n && !(p == DType::f32 && is_16_bit(n))) {
      fail("TT-OPT-02", std::string("an optimizer step of ") + name_of(p) + " with " + name_of(n) +
                            "\n  hint: parameters are f32 or f64; 16-bit ones have an f32 copy");
    }
    if (p != DType::f32 && p != DType::f64) {
      fail("TT-OPT-02", std::string("an optimizer step: parameters must be f32 or f64, got ") + name_of(p) +
                            "\n  hint: keep an f32 copy of 16-bit parameters and step that");
    }
  }
  step_slots<float, float, Rule<float>>(slots, scalars, step, number, clip);
  step_slots<float, BFloat16, Rule<float>>(slots, scalars, step, number, clip);
  step_slots<float, Half, Rule<float>>(slots, scalars, step, number, clip);
  step_slots<double, double, Rule<double>>(slots, scalars, step, number, clip);
}
template <class T>
using SgdPlain = SgdRule<T, false>;
template <class T>
using SgdMomentum = SgdRule<T, true>;

void sgd_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const SgdStep& step, bool clip) {
  step_all<SgdPlain>(slots, scalars.as<const double>(), step, 0, clip);
  step_all<SgdMomentum>(slots, scalars.as<const double>(), step, 0, clip);
}
void adam_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                   bool clip) {
  step_all<AdamRule>(slots, scalars.as<const double>(), step, 0, clip);
}

void sgd_step(const View& parameter, const View& gradient, const View& velocity, const SgdStep& step) {
  const OptimizerSlot slot{parameter, gradient, {velocity, {}}, {}, {}, step.weight_decay};
  const std::span<const OptimizerSlot> one(&slot, 1);
  velocity.data ? step_all<SgdMomentum>(one, nullptr, step, 0, false)
                : step_all<SgdPlain>(one, nullptr, step, 0, false);
}
void adam_step(const View& parameter, const View& gradient, const View& m, const View& v,
               const AdamStep& step) {
  const OptimizerSlot slot{parameter, gradient, {m, v}, {}, {}, step.weight_decay};
  step_all<AdamRule>(std::span<const OptimizerSlot>(&slot, 1), nullptr, step, step.step, false);
}

void gradient_factor(const View& scalars, std::span<const View> gradients, double limit) {
  int64_t chunks = 0;
  for (const View& g : gradients) chunks += chunks_of(g.numel());
  const DeviceScratch<double> partial(chunks);
  int64_t written = 0;
  for (const DType t : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    dispatch_stored(t, [&]<class T>(T*) {
      TableFiller filler([&](const SlotTable& table, int count) {
        launch(gradient_squares_kernel<T>, {dim3(static_cast<unsigned>(count)), dim3(kOptimizerThreads)},
               table, partial.data() + written);
        written += count;
      });
      for (const View& g : gradients) {
        if (g.dtype != t) continue;
        filler.add({nullptr, g.data, {}, nullptr, nullptr, g.numel(), 0}, aligned_for_each(g), true);
      }
      filler.flush();
    });
  }
  launch(gradient_factor_kernel, {dim3(1), dim3(kTotalNormThreads)}, scalars.as<double>(), partial.data(),
         written, limit);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
