// Losses: cross_entropy (log-softmax and negative log-likelihood in one pass), mse_loss, bce_with_logits.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_TENSOR_BODIES
#include <tinytorch/backend/cpu/loss.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/loss.hpp>

namespace tinytorch::inline TT_BUILD {

// logits [N, V], target [N] -> loss [] or [N], and lse [N] for the derivative
struct CrossEntropy final : Primitive<CrossEntropy> {
  static constexpr const char* kName = "cross_entropy";
  CrossEntropyOptions options;
  explicit CrossEntropy(CrossEntropyOptions o) : options(o) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    require_floating(kName, in[0], loc);
    require_rank(kName, in[0], 2, "logits [N, V]", loc);
    require_index(kName, in[1], loc);
    const int64_t N = in[0].shape()[0], V = in[0].shape()[1];
    if (!(in[1].shape() == Shape{N}) || V < 1) {
      fail("TT-SHAPE-02",
           "cross_entropy: sizes differ: " + describe_operands(in) +
               "\n  rule: logits [N, V] with V >= 1, target [N]"
               "\n  hint: flatten a sequence first: logits.reshape({-1, V}), target.reshape({-1})",
           loc);
    }
    if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
      fail("TT-RANGE-08",
           "cross_entropy: label_smoothing must be from 0 to 1, got " +
               std::to_string(options.label_smoothing),
           loc);
    }
    require_targets(in[1], V, loc);
    const bool each = options.reduction == Reduction::none;
    return {{each ? Shape{N} : Shape{}, in[0].dtype()},
            {{N}, in[0].dtype() == DType::f64 ? DType::f64 : DType::f32}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 13 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], cross_entropy(out[0].view_of(), out[1].view_of(), in[0].view_of(), in[1].view_of(),
                                    cross_entropy_parameters(options)));
  }
  Save saves() const override { return Save::both; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return vjp::cross_entropy(g[0], s, options);
  }

 private:
  void require_targets(const Tensor& target, int64_t V, Loc loc) const {
    const auto message = [V, ignored = options.ignore_index](int64_t value, int64_t sample) {
      return "cross_entropy: target " + std::to_string(value) + " of sample " + std::to_string(sample) +
             " is outside [0, " + std::to_string(V) +
             ")\n  hint: classes count from 0; to leave a sample out give it ignore_index (" +
             std::to_string(ignored) + ")";
    };
    if (target.device().is_cuda()) {
      if constexpr (backend::cuda::is_built()) {
        backend::cuda::check_range(target.view_of(), V, options.ignore_index, message, loc);
      }
      return;
    }
    const int64_t* t = target.data<int64_t>();
    for (int64_t n = 0; n < target.numel(); ++n) {
      const int64_t value = t[n * target.strides()[0]];
      if ((value >= 0 && value < V) || value == options.ignore_index) continue;
      fail("TT-RANGE-05", message(value, n), loc);
    }
  }
};

// The same for training on a GPU: the gradient is made in the visit that makes the loss, so the logits are
// read once. -> loss [], lse [N], dlogits [N, V] for a gradient of 1
struct CrossEntropyTrain final : Primitive<CrossEntropyTrain> {
  static constexpr const char* kName = "cross_entropy";
  CrossEntropyOptions options;
  explicit CrossEntropyTrain(CrossEntropyOptions o) : options(o) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    Specs specs = CrossEntropy(options).infer(in, loc);
    specs.push_back({in[0].shape(), in[0].dtype()});
    return specs;
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 26 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    if constexpr (backend::cuda::is_built()) {
      backend::cuda::cross_entropy_with_grad(out[0].view_of(), out[1].view_of(), out[2].view_of(),
                                             in[0].view_of(), in[1].view_of(),
                                             cross_entropy_parameters(options), 1);
    }
  }
  Save saves() const override { return Save::outputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const Tensor& dx = s.outputs[2];
    return {g[0].impl()->unit ? dx : mul(dx, g[0]), Tensor()};
  }
};

// mse_loss and bce_with_logits: x and target of one shape -> loss [] or of that shape
struct ElementLoss final : Primitive<ElementLoss> {
  static constexpr const char* kName = "pointwise_loss";
  PointwiseLoss fn;
  Reduction reduction;
  ElementLoss(PointwiseLoss f, Reduction r) : fn(f), reduction(r) {}

  const char* name() const override { return fn == PointwiseLoss::mse ? "mse_loss" : "bce_with_logits"; }
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(name(), in, loc);
    require_floating(name(), in[0], loc);
    if (!(in[0].shape() == in[1].shape())) {  // broadcasting here has hidden too many mistakes
      fail("TT-SHAPE-02",
           std::string(name()) + ": x and target must have one shape: " + describe_operands(in) +
               "\n  hint: reshape or expand the smaller one",
           loc);
    }
    return {{reduction == Reduction::none ? in[0].shape() : Shape{}, in[0].dtype()}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return (fn == PointwiseLoss::mse ? 3 : 26) * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], pointwise_loss(fn, out[0].view_of(), in[0].view_of(), in[1].view_of(),
                                     loss_reduction(reduction)));
  }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return vjp::pointwise_loss(g[0], s, fn, reduction);
  }
};

TT_API Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyOptions options,
                            Loc loc) {
  const bool trains = grad_enabled() && tracks_grad(logits);
  if (trains && logits.device().is_cuda() && options.reduction != Reduction::none) {
    return apply(CrossEntropyTrain(options), {logits, target}, loc);
  }
  return apply(CrossEntropy(options), {logits, target}, loc);
}
TT_API Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction, Loc loc) {
  return apply(ElementLoss(PointwiseLoss::mse, reduction), {x, target}, loc);
}
TT_API Tensor bce_with_logits(const Tensor& x, const Tensor& target, Reduction reduction, Loc loc) {
  return apply(ElementLoss(PointwiseLoss::bce_with_logits, reduction), {x, target}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
