// Kernels of losses whose elements depend on one element of x and one of the target each (the same on the
// CPU: backend/cpu/pair_loss.hpp).
//
// A loss is a type with value(x, t), slope(x, t) and target_slope(x, t) in the compute type. Sums are those
// of blocks, in double, whose number depends on the size alone, so a result has the same bits in every run.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kPairLossThreads = 256;

template <class T, class Fn>
static __global__ void __launch_bounds__(kPairLossThreads)
    pair_loss_kernel(Fn fn, T* each, double* partial, const T* x, const T* target, int64_t n) {
  using A = Compute<T>;
  double sum = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kPairLossThreads + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * kPairLossThreads) {
    const A l = fn.value(to<A>(x[i]), to<A>(target[i]));
    if (each) each[i] = to<T>(l);
    sum += static_cast<double>(l);
  }
  if (!partial) return;
  sum = block_reduce<kPairLossThreads>(sum, Sum());
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class T, class Fn>
static __global__ void __launch_bounds__(kPairLossThreads)
    pair_loss_grad_kernel(Fn fn, T* dx, T* dtarget, const T* grad, int64_t grad_step, const T* x,
                          const T* target, int64_t n, Compute<T> scale) {
  using A = Compute<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kPairLossThreads + threadIdx.x;
  if (i >= n) return;
  const A a = to<A>(x[i]), t = to<A>(target[i]), g = to<A>(grad[i * grad_step]) * scale;
  if (dx) dx[i] = to<T>(g * fn.slope(a, t));
  if (dtarget) dtarget[i] = to<T>(g * fn.target_slope(a, t));
}

// loss [] or, for LossReduction::none, of x's shape.
template <class T, class Fn>
void pair_loss(Fn fn, const View& loss, const View& x, const View& target, LossReduction reduction) {
  const int64_t n = x.numel();
  const ContiguousInput<T> a(x), t(target);
  if (reduction == LossReduction::none) {
    ContiguousOutput<T> out(loss);
    launch(pair_loss_kernel<T, Fn>, over(n, kPairLossThreads), fn, out.data(), static_cast<double*>(nullptr),
           a.data(), t.data(), n);
    return out.write_back();
  }
  const int64_t blocks = std::clamp<int64_t>(ceil_div(n, 2048), 1, 1024);
  const DeviceScratch<double> partial(blocks);
  launch(pair_loss_kernel<T, Fn>, {dim3(static_cast<unsigned>(blocks)), dim3(kPairLossThreads)}, fn,
         static_cast<T*>(nullptr), partial.data(), a.data(), t.data(), n);
  const bool all[] = {true};
  const double divisor = reduction == LossReduction::mean ? static_cast<double>(n) : 1.0;
  reduce(ReduceFn::sum, loss, {partial.data(), DType::f64, {blocks}, {1}}, all, divisor);
}

// dx and dtarget, of which either may be without data, from grad, the gradient of the loss, of its shape.
template <class T, class Fn>
void pair_loss_grad(Fn fn, const View& dx, const View& dtarget, const View& grad, const View& x,
                    const View& target, LossReduction reduction) {
  using A = Compute<T>;
  const int64_t n = x.numel();
  if (n == 0) return;
  const ContiguousInput<T> a(x), t(target), g(grad);
  ContiguousOutput<T> to_x(dx), to_target(dtarget);
  const A scale = reduction == LossReduction::mean ? A(1) / static_cast<A>(n) : A(1);
  launch(pair_loss_grad_kernel<T, Fn>, over(n, kPairLossThreads), fn, to_x.data(), to_target.data(), g.data(),
         int64_t{reduction == LossReduction::none}, a.data(), t.data(), n, scale);
  to_x.write_back();
  to_target.write_back();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
