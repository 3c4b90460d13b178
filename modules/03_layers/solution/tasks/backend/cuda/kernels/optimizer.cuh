// Optimizer steps over many parameters at once, in place (contracts: backend/cpu/optimizer.hpp).
//
// A network has hundreds of parameters, many of them small. A launch costs microseconds, in which the device
// could have stepped a million elements: so a table of parameters travels with one launch, and blocks find
// their parameter in it. Each element of parameter, gradient and moments is read and written once; as tensor
// ops it would be about ten times. What may change from step to step (learning rate, number of the step,
// factor of the gradients) is read from the device's memory, so that a captured CUDA graph follows it.
//
// Task 3.27: prepare, update, slot_of_block, step_kernel, step_slots. The given parts of this header are in
// modules/03_layers/frame/tinytorch/backend/cuda/kernels/optimizer.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The numbers of step t (counted from 1). AdamW (step.decoupled) shrinks the parameter by 1 - lr weight_decay
// and leaves the gradient as it is; Adam adds weight_decay p to the gradient. They are found in double:
// beta2^t is close to 1 for long, and 1 - beta2^t in float would have few digits.
template <class C>
__device__ void prepare(AdamRule<C>& rule, const AdamStep& step, double lr, double factor,
                        double weight_decay, int64_t t) {
  const auto number = static_cast<double>(t);
  rule.factor = static_cast<C>(factor);
  rule.rate = static_cast<C>(lr / (1 - std::pow(step.beta1, number)));
  rule.scale = static_cast<C>(1 / std::sqrt(1 - std::pow(step.beta2, number)));
  rule.beta1 = static_cast<C>(step.beta1);
  rule.one_less_1 = static_cast<C>(1 - step.beta1);
  rule.beta2 = static_cast<C>(step.beta2);
  rule.one_less_2 = static_cast<C>(1 - step.beta2);
  rule.eps = static_cast<C>(step.eps);
  rule.keep = static_cast<C>(step.decoupled ? 1 - lr * weight_decay : 1.0);
  rule.decay = static_cast<C>(step.decoupled ? 0.0 : weight_decay);
  rule.skip = false;
}

// One element of Adam: g' = factor g + decay p,  m = beta1 m + (1 - beta1) g',  v = beta2 v + (1 - beta2)
// g'^2, p = keep p - rate m / (sqrt(v) scale + eps).
template <class C>
__device__ void update(const AdamRule<C>& rule, C& p, C g, C& m, C& v) {
  const C gradient = rule.factor * g + rule.decay * p;
  m = rule.beta1 * m + rule.one_less_1 * gradient;
  v = rule.beta2 * v + rule.one_less_2 * gradient * gradient;
  p = rule.keep * p - rule.rate * m / (std::sqrt(v) * rule.scale + rule.eps);
}

// The slot that this block works on: the last whose first_block is not above blockIdx.x. (Empty slots have
// the first_block of the next.) At most 256 slots: a binary search reads eight of them.
template <class C>
__device__ int slot_of_block(const StepTable<C>& table) {
  const int block = static_cast<int>(blockIdx.x);
  int low = 0, high = table.slots;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (table.first_block[middle] <= block ? low : high) = middle;
  }
  return low;
}

// Steps kStepChunk elements of one slot: reads p, g and what state there is, calls update(), and writes p and
// the state back, and p to `rounded` where the slot has one. A rule that says skip changes nothing. The block
// is number blockIdx.x - first_block[s] of its slot; the slot's last block has fewer elements.
template <class C, class Rule>
static __global__ void __launch_bounds__(kStepThreads)
    step_kernel(const __grid_constant__ StepTable<C> table, const Rule* rules) {
  const int s = slot_of_block(table);
  const StepSlot<C>& slot = table.slot[s];
  const Rule rule = rules[s];
  if (rule.skip) return;
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - table.first_block[s]) * kStepChunk;
  const int64_t end = std::min(begin + kStepChunk, slot.count);
  for (int64_t i = begin + threadIdx.x; i < end; i += kStepThreads) {
    C p = slot.parameter.read(i);
    C first = slot.first.exists() ? slot.first.read(i) : C(0);
    C second = slot.second.exists() ? slot.second.read(i) : C(0);
    update(rule, p, slot.gradient.read(i), first, second);
    slot.parameter.write(i, p);
    if (slot.first.exists()) slot.first.write(i, first);
    if (slot.second.exists()) slot.second.write(i, second);
    if (slot.rounded.exists()) slot.rounded.write(i, p);
  }
}

// Steps the slots whose parameters are of type C: for each table begin_step_kernel, one thread per slot of
// one block, and step_kernel, a block per chunk. scalars null and number: see adam_step.
template <class C, class Rule>
void step_slots(std::span<const OptimizerSlot> slots, const double* scalars, const typename Rule::Step& step,
                int64_t number, bool clip) {
  const auto run = [&](const StepTable<C>& table, int blocks) {
    const DeviceScratch<Rule> rules(table.slots);
    launch(begin_step_kernel<C, Rule>, {dim3(1), dim3(kStepSlots)}, table, rules.data(), scalars, step,
           number, clip);
    launch(step_kernel<C, Rule>, {dim3(static_cast<unsigned>(blocks)), dim3(kStepThreads)}, table,
           rules.data());
  };
  StepTables<C, decltype(run)> tables(run);
  for (const OptimizerSlot& s : slots) {
    if (s.parameter.dtype != dtype_of<C>) continue;
    tables.add({stored<C>(s.parameter), stored<C>(s.gradient), stored<C>(s.state[0]), stored<C>(s.state[1]),
                stored<C>(s.rounded), s.step.as<int64_t>(), s.parameter.numel(), s.weight_decay});
  }
  tables.flush();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
