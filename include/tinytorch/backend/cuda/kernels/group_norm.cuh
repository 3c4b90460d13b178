// group_norm and its gradient by the channel kernels of kernels/batch_norm.cuh (contracts:
// backend/cpu/batch_norm.hpp).
#pragma once

#include <tinytorch/backend/cuda/kernels/batch_norm.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void group_norm(const View& out, const View& mean, const View& rstd, const View& x, int64_t groups,
                const View& weight, const View& bias, double eps) {
  if (out.numel() == 0) return;
  const ChannelShape shape(x);
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    using C = Compute<T>;
    const ContiguousInput<T> in(x), w(weight), b(bias);
    ContiguousOutput<T> result(out);
    const int64_t group_c = shape.C / groups, runs = shape.N * shape.C;
    // A group of one sample is a channel of a batch of one.
    moments<T>(mean.as<C>(), rstd.as<C>(), in.data(), {1, shape.N * groups, group_c * shape.S}, eps);
    const DeviceScratch<C> k(2 * runs);
    launch(group_norm_coefficients<T>, over(runs, kPlaneBlock), k.data(), k.data() + runs, rstd.as<const C>(),
           w.data(), b.data(), runs, shape.C, group_c);
    combine<T>(result.data(), nullptr, in.data(),
               {nullptr, k.data(), k.data() + runs, mean.as<const C>(), true, group_c}, shape);
    result.finish();
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
    products<T>(sums.data(), grad.data(), in.data(), center, group_c, {1, runs, shape.S}, 1);
    if (dweight.data || dbias.data) {
      launch(group_norm_parameter_grads<C>, over(shape.C, kPlaneBlock), to_weight.data(), to_bias.data(),
             sums.data(), scale, shape.N, shape.C, group_c);
    }
    if (dx.data) {
      launch(group_norm_grad_coefficients<T>, over(shape.N * groups * kWarp, kPlaneBlock), a, b, c,
             sums.data(), scale, w.data(), shape.N * groups, shape.C, group_c,
             static_cast<double>(group_c * shape.S));
      combine<T>(result.data(), grad.data(), in.data(), {a, b, c, center, true, group_c}, shape);
    }
    result.finish();
    to_weight.finish();
    to_bias.finish();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
