// group_norm and its gradient, mostly by the kernels of batch_norm.cuh (contract:
// backend/cpu/group_norm.hpp).
#pragma once

#include <tinytorch/backend/cuda/kernels/batch_norm.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Coefficients of group_norm per sample and channel: b = rstd weight, c = bias.
template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    group_norm_coefficients(Compute<T>* b, Compute<T>* c, const Compute<T>* rstd, const T* weight,
                            const T* bias, int64_t runs, int64_t channels, int64_t group_c) {
  using C = Compute<T>;
  const int64_t r = global_thread_index();
  if (r >= runs) return;
  const int64_t channel = r % channels;
  b[r] = rstd[r / group_c] * (weight ? to<C>(weight[channel]) : C(1));
  c[r] = bias ? to<C>(bias[channel]) : C(0);
}

// Coefficients of dx of group_norm; a warp computes those of one group of one sample.
template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    group_norm_grad_coefficients(Compute<T>* a, Compute<T>* b, Compute<T>* c, const double2* sums,
                                 const Compute<T>* rstd, const T* weight, int64_t groups, int64_t channels,
                                 int64_t group_c, double length) {
  using C = Compute<T>;
  const int64_t thread = global_thread_index(), group = thread / kWarp, lane = thread % kWarp;
  const bool inside = group < groups;
  double sum = 0, dot = 0;
  for (int64_t k = lane; inside && k < group_c; k += kWarp) {
    const int64_t r = group * group_c + k;
    const double w = weight ? static_cast<double>(to<C>(weight[r % channels])) : 1.0;
    sum += w * sums[r].x;
    dot += w * sums[r].y;
  }
  sum = warp_reduce(sum, Sum());
  dot = warp_reduce(dot, Sum());
  const double scale = inside ? static_cast<double>(rstd[group]) : 0.0;
  for (int64_t k = lane; inside && k < group_c; k += kWarp) {
    const int64_t r = group * group_c + k;
    a[r] = static_cast<C>(scale * (weight ? static_cast<double>(to<C>(weight[r % channels])) : 1.0));
    b[r] = static_cast<C>(-scale * scale * scale * dot / length);
    c[r] = static_cast<C>(-scale * sum / length);
  }
}

// dweight and dbias of group_norm: sums over the samples in order.
template <class C>
static __global__ void __launch_bounds__(kPlaneBlock)
    group_norm_parameter_grads(C* dweight, C* dbias, const double2* sums, const C* rstd, int64_t samples,
                               int64_t channels, int64_t group_c) {
  const int64_t c = global_thread_index();
  if (c >= channels) return;
  double weight = 0, bias = 0;
  for (int64_t r = c; r < samples * channels; r += channels) {
    weight += sums[r].y * static_cast<double>(rstd[r / group_c]);
    bias += sums[r].x;
  }
  if (dweight) dweight[c] = static_cast<C>(weight);
  if (dbias) dbias[c] = static_cast<C>(bias);
}

void group_norm(const View& out, const View& mean, const View& rstd, const View& x, int64_t groups,
                const View& weight, const View& bias, double eps) {
  if (out.numel() == 0) return;
  const ChannelShape shape(x);
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    using C = Compute<T>;
    const ContiguousInput<T> in(x), w(weight), b(bias);
    ContiguousOutput<T> result(out);
    const int64_t group_c = shape.C / groups, runs = shape.N * shape.C;
    // The statistics of a group of a sample are those of a channel: x is viewed as [1, N groups, C / groups
    // S].
    channel_statistics<T>(mean.as<C>(), rstd.as<C>(), in.data(), {1, shape.N * groups, group_c * shape.S},
                          eps);
    const DeviceScratch<C> k(2 * runs);
    launch(group_norm_coefficients<T>, over(runs, kPlaneBlock), k.data(), k.data() + runs, rstd.as<const C>(),
           w.data(), b.data(), runs, shape.C, group_c);
    apply_coefficients<T>(result.data(), nullptr, in.data(),
                          {nullptr, k.data(), k.data() + runs, mean.as<const C>(), true, group_c}, shape);
    result.write_back();
  });
}

void group_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy, const View& x,
                     const View& mean, const View& rstd, int64_t groups, const View& weight) {
  const ChannelShape shape(x);
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    using C = Compute<T>;
    const ContiguousInput<T> grad(dy), in(x), w(weight);
    ContiguousOutput<T> result(dx);
    ContiguousOutput<C> to_weight(dweight), to_bias(dbias);
    const int64_t group_c = shape.C / groups, runs = shape.N * shape.C;
    const DeviceScratch<double2> sums(runs);
    const DeviceScratch<C> k(3 * runs);
    C *const a = k.data(), *const b = a + runs, *const c = b + runs;
    const C *const center = mean.as<const C>(), *const scale = rstd.as<const C>();
    gradient_sums<T>(sums.data(), grad.data(), in.data(), center, group_c, {1, runs, shape.S}, 1);
    if (dweight.data || dbias.data) {
      launch(group_norm_parameter_grads<C>, over(shape.C, kPlaneBlock), to_weight.data(), to_bias.data(),
             sums.data(), scale, shape.N, shape.C, group_c);
    }
    if (dx.data) {
      launch(group_norm_grad_coefficients<T>, over(shape.N * groups * kWarp, kPlaneBlock), a, b, c,
             sums.data(), scale, w.data(), shape.N * groups, shape.C, group_c,
             static_cast<double>(group_c * shape.S));
      apply_coefficients<T>(result.data(), grad.data(), in.data(), {a, b, c, center, true, group_c}, shape);
    }
    result.write_back();
    to_weight.write_back();
    to_bias.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
