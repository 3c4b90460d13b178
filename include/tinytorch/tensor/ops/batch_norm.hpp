// batch_norm, with the statistics of the batch or with given statistics, and group_norm. x is [N, C, ...].
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/batch_norm.hpp>
#include <tinytorch/backend/cpu/group_norm.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops/norm.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/batch_norm.hpp>

namespace tinytorch::inline TT_BUILD {

// Checks x [N, C, ...] and its parameters [C]; returns C.
inline int64_t require_channels(const char* op, const Tensors& in, size_t first_parameter, Loc loc) {
  require_floating(op, in[0], loc);
  if (in[0].rank() < 2) {
    fail("TT-SHAPE-04",
         std::string(op) + ": expected [N, C, ...] (rank 2 or more), got " + in[0].describe() +
             "\n  hint: insert the sample dimension with unsqueeze(0)",
         loc);
  }
  const int64_t C = in[0].shape()[1];
  require_parameters(op, in, first_parameter, C, "x [N, C, ...], every parameter [C]", loc);
  return C;
}

// A parameter [C] as [1, C, 1, ...], which broadcasts to x [N, C, ...].
inline Tensor per_channel(const Tensor& parameter, const Tensor& x) {
  if (!parameter.defined()) return parameter;
  Shape shape = Shape::filled(x.rank(), 1);
  shape[1] = x.shape()[1];
  return reshape(parameter, shape);
}
// The dimensions of x [N, C, ...] except C.
inline Dims all_but_channels(const Tensor& x) {
  Dims dims;
  for (int d = 0; d < x.rank(); ++d) {
    if (d != 1) dims.push_back(d);
  }
  return dims;
}

// x, weight, bias -> y, mean, var
struct BatchNormTrain final : Primitive<BatchNormTrain> {
  static constexpr const char* kName = "batch_norm_train";
  double eps;
  explicit BatchNormTrain(double e) : eps(e) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    const int64_t C = require_channels(kName, in, 1, loc);
    if (in[0].numel() == 0) {
      fail("TT-SHAPE-10", "batch_norm_train: an empty batch has no statistics, got " + in[0].describe(), loc);
    }
    const DType wide = statistics_dtype(in[0].dtype());
    return {{in[0].shape(), in[0].dtype(), batch_norm_layout(in[0], 0)}, {{C}, wide}, {{C}, wide}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 7 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[1], channel_moments(out[1].view_of(), out[2].view_of(), in[0].view_of()));
    TT_KERNEL(out[0], batch_norm(out[0].view_of(), in[0].view_of(), out[1].view_of(), out[2].view_of(),
                                 view_or_none(in[1]), view_or_none(in[2]), eps));
  }
  Save saves() const override { return Save::inputs_and_extras; }
  size_t differentiable_outputs() const override { return 3; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::batch_norm_train(g, s, eps); }
  Tensors composed(const Tensors& in) const override {
    const Tensor &x = in[0], wide = x.to(statistics_dtype(x.dtype()));
    const Dims dims = all_but_channels(x);
    const Tensor y = composed_norm(x, dims, eps, true);
    return {scaled_and_shifted(y, per_channel(in[1], x), per_channel(in[2], x)), mean(wide, dims),
            var(wide, dims, 0)};
  }
};

// x, mean, var, weight, bias -> y
struct BatchNormInfer final : Primitive<BatchNormInfer> {
  static constexpr const char* kName = "batch_norm_infer";
  double eps;
  explicit BatchNormInfer(double e) : eps(e) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, {in[0], in[3], in[4]}, loc);
    require_same_dtype(kName, {in[1], in[2]}, loc);
    const DType stats = in[1].dtype();
    if (stats != in[0].dtype() && stats != statistics_dtype(in[0].dtype())) {
      require_same_dtype(kName, {in[0], in[1]}, loc);
    }
    require_channels(kName, in, 1, loc);
    return {{in[0].shape(), in[0].dtype(), batch_norm_layout(in[0], 0)}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 3 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], batch_norm(out[0].view_of(), in[0].view_of(), in[1].view_of(), in[2].view_of(),
                                 view_or_none(in[3]), view_or_none(in[4]), eps));
  }
  bool image_step(backend::ImageStep& s) const override { return s.set_channel_norm(eps); }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::batch_norm_infer(g[0], s, eps); }
  Tensors composed(const Tensors& in) const override {
    const Tensor &x = in[0], mean = per_channel(in[1], x), scale = rsqrt(per_channel(in[2], x) + eps);
    const Tensor y = ((x.to(mean.dtype()) - mean) * scale).to(x.dtype());
    return {scaled_and_shifted(y, per_channel(in[3], x), per_channel(in[4], x))};
  }
};

// x, weight, bias -> y, mean, rstd [N, G]
struct GroupNormOp final : Primitive<GroupNormOp> {
  static constexpr const char* kName = "group_norm";
  int64_t groups;
  double eps;
  GroupNormOp(int64_t g, double e) : groups(g), eps(e) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    const int64_t C = require_channels(kName, in, 1, loc), N = in[0].shape()[0];
    if (groups < 1 || C % groups != 0 || (N > 0 && in[0].numel() == 0)) {
      fail("TT-SHAPE-02",
           "group_norm: " + std::to_string(groups) + " groups do not divide the channels of " +
               in[0].describe() + "\n  rule: x [N, C, ...], groups divides C, and a group has elements",
           loc);
    }
    const DType wide = statistics_dtype(in[0].dtype());
    return {{in[0].shape(), in[0].dtype()}, {{N, groups}, wide}, {{N, groups}, wide}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 8 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], group_norm(out[0].view_of(), out[1].view_of(), out[2].view_of(), in[0].view_of(),
                                 groups, view_or_none(in[1]), view_or_none(in[2]), eps));
  }
  Save saves() const override { return Save::inputs_and_extras; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::group_norm(g[0], s, groups); }
  Tensors composed(const Tensors& in) const override {
    const Tensor& x = in[0];
    const int64_t rows = x.shape()[0] * groups;
    const Tensor flat = reshape(x, {rows, rows == 0 ? 1 : x.numel() / rows});
    const Tensor y = reshape(composed_norm(flat, {1}, eps, true), x.shape());
    return {scaled_and_shifted(y, per_channel(in[1], x), per_channel(in[2], x))};
  }
};

TT_API Tensors batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                                Loc loc) {
  return apply_all(BatchNormTrain(eps), {x, weight, bias}, loc);
}
TT_API Tensor batch_norm_infer(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight,
                               const Tensor& bias, double eps, Loc loc) {
  return apply(BatchNormInfer(eps), {x, mean, var, weight, bias}, loc);
}
TT_API Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                         double eps, Loc loc) {
  return apply(GroupNormOp(groups, eps), {x, weight, bias}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
