// Group normalization on the CPU, forward and backward. x is [N, C, S]; the C / G channels of a group of one
// sample are normalized together.
//
//   y = (x - mean) rstd w[c] + b[c],  rstd = 1 / sqrt(var + eps)
//
// The values of a group are contiguous, so the statistics are those of layer_norm on rows [N G, C S / G].
// Source: Wu and He, "Group normalization", 2018.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// mean, rstd [N, G] contiguous in the compute type; weight, bias [C] or without data. Any of dx, dweight,
// dbias may be without data.
TT_API void group_norm(const View& out, const View& mean, const View& rstd, const View& x, int64_t groups,
                       const View& weight, const View& bias, double eps);
TT_API void group_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy,
                            const View& x, const View& mean, const View& rstd, int64_t groups,
                            const View& weight);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <tinytorch/backend/cpu/loops/channel_runs.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/norm.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

TT_API void group_norm(const View& out, const View& mean, const View& rstd, const View& x, int64_t groups,
                       const View& weight, const View& bias, double eps) {
  if (out.numel() == 0) return;
  const ChannelShape shape(x);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x), w(weight), b(bias);
    ContiguousOutput<T> to(out);
    const int64_t group_c = shape.C / groups, length = group_c * shape.S;
    // The statistics are those of rows [N * G, length]; w and b are applied per channel here.
    parallel_for(shape.N * groups, std::max<int64_t>(1, 8192 / length), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const auto row = [length](const T* data) {
          return View{const_cast<T*>(data), dtype_of<T>, {1, length}, {length, 1}};
        };
        const auto number = [r](const View& v) { return View{v.as<T>() + r, dtype_of<T>, {1}, {1}}; };
        layer_norm(row(to.data() + r * length), number(mean), number(rstd), row(in.data() + r * length), {},
                   {}, eps);
        for (int64_t k = 0; (w.data() || b.data()) && k < group_c; ++k) {
          const int64_t c = r % groups * group_c + k;
          const T scale = w.data() ? w.data()[c] : T(1), shift = b.data() ? b.data()[c] : T(0);
          T* run = to.data() + r * length + k * shape.S;
          TT_SIMD
          for (int64_t i = 0; i < shape.S; ++i) run[i] = run[i] * scale + shift;
        }
      }
    });
    to.write_back();
  });
}

template <class T>
void group_norm_grad_as(T* dx, T* dweight, T* dbias, const T* dy, const T* x, const T* mean, const T* rstd,
                        const T* weight, const ChannelShape& shape, int64_t groups) {
  const int64_t N = shape.N, C = shape.C, group_c = C / groups;
  const double length = static_cast<double>(group_c * shape.S);
  RunCoefficients<T> k(N * C, C);
  for (int64_t r = 0; r < N * C; ++r) k.center[static_cast<size_t>(r)] = mean[r / group_c];
  std::vector<double> sum(static_cast<size_t>(N * C)), dot(sum.size());
  sum_runs<T>({RunSum::products, x, dy, k.center.data(), C}, shape, N, sum.data(), dot.data());
  std::vector<double> weight_sum(static_cast<size_t>(C)), bias_sum(weight_sum.size());
  for (int64_t g = 0; g < N * groups; ++g) {
    double group_sum = 0, group_dot = 0;
    const double scale = static_cast<double>(rstd[g]);
    for (int64_t r = g * group_c; r < (g + 1) * group_c; ++r) {
      const auto i = static_cast<size_t>(r), c = static_cast<size_t>(r % C);
      const double w = weight ? static_cast<double>(weight[c]) : 1.0;
      group_sum += w * sum[i];
      group_dot += w * dot[i];
      weight_sum[c] += dot[i] * scale;
      bias_sum[c] += sum[i];
      k.a[i] = static_cast<T>(w * scale);
    }
    for (int64_t r = g * group_c; r < (g + 1) * group_c; ++r) {
      k.b[static_cast<size_t>(r)] = static_cast<T>(-scale * scale * scale * group_dot / length);
      k.c[static_cast<size_t>(r)] = static_cast<T>(-scale * group_sum / length);
    }
  }
  for (int64_t c = 0; c < C; ++c) {
    if (dweight) dweight[c] = static_cast<T>(weight_sum[static_cast<size_t>(c)]);
    if (dbias) dbias[c] = static_cast<T>(bias_sum[static_cast<size_t>(c)]);
  }
  if (dx) combine_runs<T>(dx, dy, x, k, shape);
}

TT_API void group_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy,
                            const View& x, const View& mean, const View& rstd, int64_t groups,
                            const View& weight) {
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> grad(dy), in(x), w(weight);
    ContiguousOutput<T> to(dx), to_weight(dweight), to_bias(dbias);
    group_norm_grad_as<T>(to.data(), to_weight.data(), to_bias.data(), grad.data(), in.data(),
                          mean.as<const T>(), rstd.as<const T>(), w.data(), ChannelShape(x), groups);
    for (ContiguousOutput<T>* d : {&to, &to_weight, &to_bias}) d->write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
