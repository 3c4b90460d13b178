// Optimizer steps over many parameters at once, in place (contract: backend/cpu/optimizer.hpp).
//
// optimizer_slots.cuh walks over the elements; here are the rule of SGD and the gradient norm; Adam's is
// shared with the CPU (backend/optimizer_rules.hpp). Clipping: the sum of squares of each chunk, then one
// block adds the sums in order; the factor stays on the device and the step applies it. Limit: memory
// bandwidth.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/kernels/optimizer_slots.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/optimizer_rules.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kTotalNormThreads = 1024;

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
  __device__ __forceinline__ void operator()(T& p, T g, T& velocity, T&, T&) const {
    const T gradient = factor * g + weight_decay * p;
    if constexpr (kMomentum) {
      velocity = momentum * velocity + gradient;
      p -= lr * (own * gradient + past * velocity);
    } else {
      p -= lr * gradient;
    }
  }
};

// --- gradient norm ---

// partial[block] = sum of squares of the block's chunk.
template <class T>
static __global__ void __launch_bounds__(slots::kOptimizerThreads)
    gradient_squares_kernel(const __grid_constant__ slots::SlotTable table, double* partial) {
  const int s = slots::slot_of_block(table);
  const T* g = static_cast<const T*>(table.slot[s].gradient);
  const int64_t chunk = static_cast<int64_t>(blockIdx.x) - table.first_chunk[s];
  int64_t first = chunk * slots::kOptimizerChunk;
  const int64_t last = std::min(first + slots::kOptimizerChunk, table.slot[s].count);
  double sum = 0;
  if (table.vector[s]) {
    const int64_t whole = last - last % slots::kOptimizerEach;
#pragma unroll 4
    for (int64_t i = first + static_cast<int64_t>(threadIdx.x) * slots::kOptimizerEach; i < whole;
         i += slots::kOptimizerThreads * slots::kOptimizerEach) {
      Compute<T> v[slots::kOptimizerEach];
      load(v, g + i);
#pragma unroll
      for (const Compute<T> value : v) sum += static_cast<double>(value) * static_cast<double>(value);
    }
    first = whole;
  }
  for (int64_t i = first + threadIdx.x; i < last; i += slots::kOptimizerThreads) {
    const auto value = static_cast<double>(to<Compute<T>>(g[i]));
    sum += value * value;
  }
  sum = block_reduce<slots::kOptimizerThreads>(sum, Sum());
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

template <class T>
using SgdPlain = SgdRule<T, false>;
template <class T>
using SgdMomentum = SgdRule<T, true>;

void sgd_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const SgdStep& step, bool clip) {
  slots::step_all<SgdPlain>(slots, scalars.as<const double>(), step, 0, clip);
  slots::step_all<SgdMomentum>(slots, scalars.as<const double>(), step, 0, clip);
}
void adam_step_all(std::span<const OptimizerSlot> slots, const View& scalars, const AdamStep& step,
                   bool clip) {
  slots::step_all<slots::OnDevice<AdamRule>::Rule>(slots, scalars.as<const double>(), step, 0, clip);
}

void sgd_step(const View& parameter, const View& gradient, const View& velocity, const SgdStep& step) {
  const OptimizerSlot slot{parameter, gradient, {velocity, {}}, {}, {}, step.weight_decay};
  const std::span<const OptimizerSlot> one(&slot, 1);
  velocity.data ? slots::step_all<SgdMomentum>(one, nullptr, step, 0, false)
                : slots::step_all<SgdPlain>(one, nullptr, step, 0, false);
}
void adam_step(const View& parameter, const View& gradient, const View& m, const View& v,
               const AdamStep& step) {
  const OptimizerSlot slot{parameter, gradient, {m, v}, {}, {}, step.weight_decay};
  slots::step_all<slots::OnDevice<AdamRule>::Rule>(std::span<const OptimizerSlot>(&slot, 1), nullptr, step,
                                                   step.step, false);
}

void gradient_factor(const View& scalars, std::span<const View> gradients, double limit) {
  int64_t chunks = 0;
  for (const View& g : gradients) chunks += slots::chunks_of(g.numel());
  const DeviceScratch<double> partial(chunks);
  int64_t written = 0;
  for (const DType t : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    dispatch_stored(t, [&]<class T>(T*) {
      slots::TableFiller filler([&](const slots::SlotTable& table, int count) {
        launch(gradient_squares_kernel<T>,
               {dim3(static_cast<unsigned>(count)), dim3(slots::kOptimizerThreads)}, table,
               partial.data() + written);
        written += count;
      });
      for (const View& g : gradients) {
        if (g.dtype != t) continue;
        filler.add({nullptr, g.data, {}, nullptr, nullptr, g.numel(), 0}, slots::aligned_for_each(g), true);
      }
      filler.flush();
    });
  }
  launch(gradient_factor_kernel, {dim3(1), dim3(kTotalNormThreads)}, scalars.as<double>(), partial.data(),
         written, limit);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
