// Normalization of rows on the CPU: layer_norm and rms_norm, forward and backward.
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.8.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// x [..., C], weight and bias [C] or without data; mean and rstd [...] in the compute type (f32, or f64 for
// f64). Without a mean: rms_norm.
TT_API void layer_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                       const View& bias, double eps);
TT_API void rms_norm(const View& out, const View& rstd, const View& x, const View& weight, double eps);
// Any of dx, dweight, dbias may be without data. dx is the gradient plus `added`, where that has data: what
// reaches x on another way.
TT_API void layer_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy,
                            const View& x, const View& mean, const View& rstd, const View& weight,
                            const View& added = {});
TT_API void rms_norm_grad(const View& dx, const View& dweight, const View& dy, const View& x,
                          const View& rstd, const View& weight);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND) || defined(TINYTORCH_TASK)
#include <cmath>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- One row. T is float or double; sum in double. weight and bias may be null: ones and zeros.
// ----------------

// The statistics of a row that the forward pass keeps for the backward pass.
struct RowStatistics {
  double mean, rstd;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/norm.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- Given: all rows
// -------------------------------------------------------------------------------------------

TT_API void layer_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                       const View& bias, double eps) {
  if (out.numel() == 0) return;
  const int64_t C = x.shape.back();
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x), w(weight), b(bias);
    ContiguousOutput<T> to(out);
    for (int64_t r = 0; r < x.numel() / C; ++r) {
      T* const y = to.data() + r * C;
      const T* const row = in.data() + r * C;
      if (!mean.data) {
        rstd.as<T>()[r] = static_cast<T>(rms_norm_row(y, row, w.data(), C, eps));
        continue;
      }
      const RowStatistics found = layer_norm_row(y, row, w.data(), b.data(), C, eps);
      mean.as<T>()[r] = static_cast<T>(found.mean);
      rstd.as<T>()[r] = static_cast<T>(found.rstd);
    }
    to.write_back();
  });
}
TT_API void rms_norm(const View& out, const View& rstd, const View& x, const View& weight, double eps) {
  layer_norm(out, {}, rstd, x, weight, {}, eps);
}

TT_API void layer_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy,
                            const View& x, const View& mean, const View& rstd, const View& weight,
                            const View& added) {
  const int64_t C = x.shape.back(), rows = C == 0 ? 0 : x.numel() / C;
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> grad(dy), in(x), w(weight), more(added);
    ContiguousOutput<T> to(dx);
    std::vector<double> weight_sum(static_cast<size_t>(C)), bias_sum(weight_sum.size());
    for (int64_t r = 0; r < rows; ++r) {
      T* const result = dx.data ? to.data() + r * C : nullptr;
      const T *const d = grad.data() + r * C, *const row = in.data() + r * C;
      const double scale = static_cast<double>(rstd.as<const T>()[r]);
      if (mean.data) {
        layer_norm_grad_row(result, weight_sum.data(), bias_sum.data(), d, row,
                            {static_cast<double>(mean.as<const T>()[r]), scale}, w.data(), C);
      } else {
        rms_norm_grad_row(result, weight_sum.data(), d, row, scale, w.data(), C);
      }
      for (int64_t i = 0; result && more.data() && i < C; ++i) result[i] += more.data()[r * C + i];
    }
    if (dx.data) to.write_back();
    if (dweight.data) copy(dweight, {weight_sum.data(), DType::f64, {C}, {1}});
    if (dbias.data) copy(dbias, {bias_sum.data(), DType::f64, {C}, {1}});
  });
}
TT_API void rms_norm_grad(const View& dx, const View& dweight, const View& dy, const View& x,
                          const View& rstd, const View& weight) {
  layer_norm_grad(dx, dweight, {}, dy, x, {}, rstd, weight);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
