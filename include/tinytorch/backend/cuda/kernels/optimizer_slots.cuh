// Walks over the elements of many parameters at once, for optimizer steps: the table of a launch, the kernels
// that apply a rule to each element, and their launcher.
//
// A table of parameters is an argument of the launch. Their elements are cut into chunks of one block each,
// so one launch fills the device for any sizes. Each element of parameter, gradient and state is read and
// written once. First, a thread per parameter increments the step counter and computes a rule from the
// learning rate; both are in device memory, so a replayed graph uses current values. Limit: memory bandwidth.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <type_traits>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cuda::slots {

inline constexpr int kOptimizerThreads = 256, kOptimizerEach = 4;
inline constexpr int64_t kOptimizerChunk = 8 * kOptimizerThreads * kOptimizerEach;  // elements per block

// Parameters per launch. Kernel arguments may have 32764 bytes since CUDA 12.1, and 4096 bytes before.
#if TINYTORCH_CUDA_SIM || CUDART_VERSION >= 12010
inline constexpr int kTableSlots = 256;
#else
inline constexpr int kTableSlots = 48;
#endif

struct TableSlot {
  void* parameter;
  const void* gradient;
  void* state[3];
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

// A rule of backend/optimizer_rules.hpp in the form that these kernels use.
template <class T, class Shared>
struct DeviceRule {
  static constexpr int kStates = Shared::kStates;
  using Step = typename Shared::Step;
  Shared shared;
  T factor;  // of the gradient
  bool skip;

  __device__ void prepare(const Step& step, double lr, double f, double weight_decay, int64_t number) {
    factor = static_cast<T>(f);
    shared.prepare(step, lr, weight_decay, number);
  }
  __device__ __forceinline__ void operator()(T& p, T g, T& a, T& b, T& c) const {
    shared(p, factor * g, a, b, c);
  }
};
template <template <class> class Shared>
struct OnDevice {
  template <class T>
  using Rule = DeviceRule<T, Shared<T>>;
};

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
  T p[kEach], g[kEach], state[3][kEach] = {};
  load(p, static_cast<T*>(slot.parameter) + i);
  if (full_precision_gradient) {
    load(g, static_cast<const T*>(slot.gradient) + i);
  } else {
    load(g, static_cast<const N*>(slot.gradient) + i);
  }
#pragma unroll
  for (int s = 0; s < Rule::kStates; ++s) load(state[s], static_cast<T*>(slot.state[s]) + i);
#pragma unroll
  for (int k = 0; k < kEach; ++k) rule(p[k], g[k], state[0][k], state[1][k], state[2][k]);
  store(static_cast<T*>(slot.parameter) + i, p);
#pragma unroll
  for (int s = 0; s < Rule::kStates; ++s) store(static_cast<T*>(slot.state[s]) + i, state[s]);
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

inline int64_t chunks_of(int64_t count) { return ceil_div(count, kOptimizerChunk); }

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
         aligned_for_each(s.state[1]) && aligned_for_each(s.state[2]) && aligned_for_each(s.rounded);
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
                {s.state[0].data, s.state[1].data, s.state[2].data},
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

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::slots
