// Losses, each fused with what precedes it, and their gradients (contracts and formulas:
// backend/cpu/loss.hpp).
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.22.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/functors.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kLossThreads = 256;

// The arguments that all rows of a call share.
template <class C>
struct CrossEntropyCall {
  const int64_t* target;
  int64_t target_step, ignored, V;
  C smoothing;         // s
  const double* used;  // how many targets are not ignored, where the loss is their mean; else null
  explicit CrossEntropyCall(const View& logits, const View& targets, const CrossEntropyParameters& p,
                            const double* count)
      : target(targets.as<const int64_t>()),
        target_step(targets.strides[0]),
        ignored(p.ignore_index),
        V(logits.shape[1]),
        smoothing(static_cast<C>(p.label_smoothing)),
        used(count) {}
  // The target of row n, or -1 where the row does not count.
  __device__ int64_t target_of(int64_t n) const {
    const int64_t t = target[n * target_step];
    return t != ignored && t >= 0 && t < V ? t : -1;
  }
  // The factor of the gradient of the loss: 1, or 1 / (targets that count) for the mean.
  __device__ C share() const { return used ? C(1) / static_cast<C>(std::max(1.0, *used)) : C(1); }
};

// *used = how many targets are not ignored. One block.
static __global__ void __launch_bounds__(kLossThreads)
    count_targets_kernel(double* used, const int64_t* target, int64_t step, int64_t ignored, int64_t N) {
  double count = 0;
  for (int64_t n = threadIdx.x; n < N; n += kLossThreads) count += target[n * step] != ignored ? 1 : 0;
  count = block_reduce<kLossThreads>(count, Sum());
  if (threadIdx.x == 0) *used = count;
}

// loss = the sum of all losses, in double and in a fixed order, divided by *used if there is one (no target:
// 0 / 0); or for no reduction, where `each`, a copy. One block.
template <class C>
static __global__ void __launch_bounds__(kLossThreads)
    finish_loss_kernel(const __grid_constant__ Elements<C> loss, const C* losses, int64_t N,
                       const double* used, double divisor, bool each) {
  double sum = 0;
  for (int64_t n = threadIdx.x; n < N; n += kLossThreads) {
    if (each) loss.write(loss.place(n), losses[n]);
    sum += static_cast<double>(losses[n]);
  }
  sum = block_reduce<kLossThreads>(sum, Sum());
  if (threadIdx.x == 0 && !each) loss.write(0, static_cast<C>(sum / (used ? *used : divisor)));
}

inline LaunchConfig loss_grid(int64_t rows) {
  return {dim3(static_cast<unsigned>(rows)), dim3(kLossThreads)};
}

// The number of targets that count, on the device, where the loss is their mean.
class UsedTargets {
 public:
  UsedTargets(const View& target, const CrossEntropyParameters& p) : count_(1) {
    if (p.reduction != LossReduction::mean) return;
    used_ = count_.data();
    launch(count_targets_kernel, {dim3(1), dim3(kLossThreads)}, used_, target.as<const int64_t>(),
           target.strides[0], p.ignore_index, static_cast<int64_t>(target.shape[0]));
  }
  const double* data() const { return used_; }

 private:
  DeviceScratch<double> count_;
  double* used_ = nullptr;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/loss.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void cross_entropy(const View& loss, const View& lse, const View& logits, const View& target,
                   const CrossEntropyParameters& parameters) {
  cross_entropy_with_grad(loss, lse, {}, logits, target, parameters, 1);
}

void cross_entropy_grad(const View& dx, const View& grad, const View& logits, const View& target,
                        const View& lse, const CrossEntropyParameters& parameters) {
  dispatch_floating(logits.dtype, [&]<class C>(C*) {
    const UsedTargets used(target, parameters);
    launch(cross_entropy_grad_kernel<C>, loss_grid(logits.shape[0]), Elements<C>(dx), Elements<C>(grad),
           parameters.reduction == LossReduction::none ? 1 : 0, Elements<C>(logits),
           CrossEntropyCall<C>(logits, target, parameters, used.data()), lse.as<const C>());
  });
}

// --- losses of one element each ---

template <class C>
static __global__ void __launch_bounds__(kLossThreads)
    pointwise_loss_kernel(PointwiseLoss fn, C* losses, const __grid_constant__ Elements<C> x,
                          const __grid_constant__ Elements<C> target) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kLossThreads + threadIdx.x;
  if (i >= x.count) return;
  const C a = x.read(x.place(i)), t = target.read(target.place(i));
  losses[i] = fn == PointwiseLoss::mse ? loss_value<PointwiseLoss::mse>(a, t)
                                       : loss_value<PointwiseLoss::bce_with_logits>(a, t);
}

template <class C>
static __global__ void __launch_bounds__(kLossThreads)
    pointwise_loss_grad_kernel(PointwiseLoss fn, const __grid_constant__ Elements<C> dx,
                               const __grid_constant__ Elements<C> dtarget,
                               const __grid_constant__ Elements<C> grad, bool each,
                               const __grid_constant__ Elements<C> x,
                               const __grid_constant__ Elements<C> target, C scale) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kLossThreads + threadIdx.x;
  if (i >= x.count) return;
  const bool mse = fn == PointwiseLoss::mse;
  const C a = x.read(x.place(i)), t = target.read(target.place(i));
  const C g = grad.read(each ? grad.place(i) : 0) * scale;
  if (dx.exists()) {
    dx.write(dx.place(i), g * (mse ? loss_derivative<PointwiseLoss::mse>(a, t)
                                   : loss_derivative<PointwiseLoss::bce_with_logits>(a, t)));
  }
  if (dtarget.exists()) {
    dtarget.write(dtarget.place(i), g * (mse ? loss_target_derivative<PointwiseLoss::mse>(a, t)
                                             : loss_target_derivative<PointwiseLoss::bce_with_logits>(a, t)));
  }
}

void pointwise_loss(PointwiseLoss fn, const View& loss, const View& x, const View& target,
                    LossReduction reduction) {
  const int64_t n = x.numel();
  dispatch_floating(x.dtype, [&]<class C>(C*) {
    const DeviceScratch<C> losses(n);
    launch(pointwise_loss_kernel<C>, over(n, kLossThreads), fn, losses.data(), Elements<C>(x),
           Elements<C>(target));
    launch(finish_loss_kernel<C>, {dim3(1), dim3(kLossThreads)}, Elements<C>(loss), losses.data(), n,
           static_cast<const double*>(nullptr),
           reduction == LossReduction::mean ? static_cast<double>(n) : 1.0, reduction == LossReduction::none);
  });
}

void pointwise_loss_grad(PointwiseLoss fn, const View& dx, const View& dtarget, const View& grad,
                         const View& x, const View& target, LossReduction reduction) {
  const int64_t n = x.numel();
  dispatch_floating(x.dtype, [&]<class C>(C*) {
    const C scale = reduction == LossReduction::mean ? C(1) / static_cast<C>(n) : C(1);
    launch(pointwise_loss_grad_kernel<C>, over(n, kLossThreads), fn, Elements<C>(dx), Elements<C>(dtarget),
           Elements<C>(grad), reduction == LossReduction::none, Elements<C>(x), Elements<C>(target), scale);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
