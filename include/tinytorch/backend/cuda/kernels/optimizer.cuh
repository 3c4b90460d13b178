// Optimizer steps: one pass over parameter, gradient and state, each element read and written once, in place
// (backend/cpu/optimizer.hpp). Limit: memory.
#pragma once

#include <cmath>
#include <cstring>
#include <tinytorch/backend/cuda/vector.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kOptimizerThreads = 256;

// Calls update(k) for the registers of a thread's elements: loaded before, stored after, 4 at a time.
template <int kArrays, class T, class Update>
__device__ __forceinline__ void update_elements(T* const (&arrays)[kArrays], int written, int64_t n,
                                                Update&& update) {
  constexpr int kEach = 4;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kOptimizerThreads + threadIdx.x) * kEach;
  if (first >= n) return;
  T v[kArrays][kEach];
  if (first + kEach <= n) {
#pragma unroll
    for (int a = 0; a < kArrays; ++a) {
      if (arrays[a]) load(v[a], arrays[a] + first);
    }
    update(v, kEach);
#pragma unroll
    for (int a = 0; a < kArrays; ++a) {
      if (arrays[a] && a != written) store(arrays[a] + first, v[a]);
    }
  } else {
    const int count = static_cast<int>(n - first);
#pragma unroll
    for (int a = 0; a < kArrays; ++a) {
#pragma unroll
      for (int k = 0; k < kEach; ++k) v[a][k] = arrays[a] && k < count ? arrays[a][first + k] : T(0);
    }
    update(v, count);
#pragma unroll
    for (int a = 0; a < kArrays; ++a) {
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        if (arrays[a] && a != written && k < count) arrays[a][first + k] = v[a][k];
      }
    }
  }
}
inline constexpr int kGradient = 1;  // its place among the arrays: read only

template <class T>
static __global__ void __launch_bounds__(kOptimizerThreads)
    sgd_kernel(T* p, T* g, T* velocity, int64_t n, T lr, const T* replayed_lr, T momentum, T weight_decay,
               bool nesterov) {
  if (replayed_lr) lr = *replayed_lr;
  T* const arrays[] = {p, g, velocity};
  update_elements(arrays, kGradient, n, [&](T(&v)[3][4], int) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const T gradient = v[1][k] + weight_decay * v[0][k];
      if (velocity) v[2][k] = momentum * v[2][k] + gradient;
      const T step = !velocity ? gradient : (nesterov ? gradient + momentum * v[2][k] : v[2][k]);
      v[0][k] -= lr * step;
    }
  });
}

template <class T>
struct AdamScalars {
  T step_size, root_correction, beta1, rest1, beta2, rest2, eps, decay_factor, l2;
};

template <class T>
static __global__ void __launch_bounds__(kOptimizerThreads)
    adam_kernel(T* p, T* g, T* m, T* variance, int64_t n, AdamScalars<T> s, const AdamScalars<T>* replayed) {
  if (replayed) s = *replayed;
  T* const arrays[] = {p, g, m, variance};
  update_elements(arrays, kGradient, n, [&](T(&v)[4][4], int) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const T gradient = v[1][k] + s.l2 * v[0][k];
      v[2][k] = s.beta1 * v[2][k] + s.rest1 * gradient;
      v[3][k] = s.beta2 * v[3][k] + s.rest2 * gradient * gradient;
      v[0][k] =
          v[0][k] * s.decay_factor - s.step_size * v[2][k] / (sqrt(v[3][k]) * s.root_correction + s.eps);
    }
  });
}

template <class F>
void dispatch_master(DType t, F&& f) {
  if (t == DType::f64) return f(static_cast<double*>(nullptr));
  if (t == DType::f32) return f(static_cast<float*>(nullptr));
  fail("TT-DTYPE-02", "optimizer steps need f32 or f64\n  hint: 16-bit parameters have an f32 master copy");
}
inline LaunchConfig optimizer_grid(int64_t n) { return over((n + 3) / 4, kOptimizerThreads); }

void sgd_step(const View& parameter, const View& gradient, const View& velocity, const SgdStep& step) {
  dispatch_master(parameter.dtype, [&]<class T>(T*) {
    const void* const replayed = replay_memory(sizeof(T), [step](void* to) {
      const T lr = static_cast<T>(step.live_lr ? *step.live_lr : step.lr);
      std::memcpy(to, &lr, sizeof lr);
    });
    launch(sgd_kernel<T>, optimizer_grid(parameter.numel()), parameter.as<T>(), gradient.as<T>(),
           velocity.as<T>(), parameter.numel(), static_cast<T>(step.lr), static_cast<const T*>(replayed),
           static_cast<T>(step.momentum), static_cast<T>(step.weight_decay), step.nesterov);
  });
}

// In double, so that the bias corrections of a late step keep their digits.
template <class T>
AdamScalars<T> adam_scalars(const AdamStep& step) {
  const double lr = step.live_lr ? *step.live_lr : step.lr;
  const auto t = static_cast<double>(step.live_step ? *step.live_step : step.step);
  const double first = 1 - std::pow(step.beta1, t), second = 1 - std::pow(step.beta2, t);
  return {static_cast<T>(lr / first),
          static_cast<T>(1 / std::sqrt(second)),
          static_cast<T>(step.beta1),
          static_cast<T>(1 - step.beta1),
          static_cast<T>(step.beta2),
          static_cast<T>(1 - step.beta2),
          static_cast<T>(step.eps),
          static_cast<T>(step.decoupled ? 1 - lr * step.weight_decay : 1),
          static_cast<T>(step.decoupled ? 0 : step.weight_decay)};
}

void adam_step(const View& parameter, const View& gradient, const View& m, const View& v,
               const AdamStep& step) {
  dispatch_master(parameter.dtype, [&]<class T>(T*) {
    const void* const replayed = replay_memory(sizeof(AdamScalars<T>), [step](void* to) {
      const AdamScalars<T> now = adam_scalars<T>(step);
      std::memcpy(to, &now, sizeof now);
    });
    launch(adam_kernel<T>, optimizer_grid(parameter.numel()), parameter.as<T>(), gradient.as<T>(), m.as<T>(),
           v.as<T>(), parameter.numel(), adam_scalars<T>(step), static_cast<const AdamScalars<T>*>(replayed));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
