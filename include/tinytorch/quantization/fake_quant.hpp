// Fake quantization: rounds to the values of codes, but stays in floating point, so that a network can be
// trained to work with few bits (quantization-aware training, QAT).
//
//   y = s (clamp(round(x / s) + z, low, high) - z)
//
// The true derivative is 0 almost everywhere, because rounding is flat. The straight-through estimator takes
// rounding for the identity: dy/dx = 1 where x / s + z is inside [low, high], and 0 outside, where y does not
// follow x. The float weights ("masters") collect steps that are far smaller than s, until a code flips.
//
// The step size can be learned as well (LSQ): dy/ds = round(x/s) - x/s inside, low - z below, high - z above.
// A NaN stays NaN here, so that a training run that diverged shows it.
// Sources: Bengio et al., "Estimating or propagating gradients through stochastic neurons", 2013; Esser et
// al., "Learned step size quantization", 2020.
#pragma once

#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/quantization/granularity.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

// x of any shape, s that broadcasts to it -> y. It is composed of tensor operations, which run on every
// device.
struct FakeQuantize final : Primitive<FakeQuantize> {
  static constexpr const char* kName = "fake_quantize";
  double low, high;    // of the codes without the zero point
  double step_factor;  // multiplies the gradient of s

  FakeQuantize(int32_t least, int32_t largest, int32_t zero_point, double factor)
      : low(least - zero_point), high(largest - zero_point), step_factor(factor) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    require_floating(kName, in[0], loc);
    require_same_dtype(kName, in, loc);
    if (broadcast_or_fail(kName, in[0], in[1], loc) != in[0].shape()) {
      fail("TT-SHAPE-02",
           "fake_quantize: " + describe_operands(in) + "\n  rule: the scale broadcasts to x, not x to it",
           loc);
    }
    return {{in[0].shape(), in[0].dtype()}};
  }
  // FLOPs per element: a division, rounding, two comparisons, a product.
  double flops(const Tensors& in, const Tensors&) const override {
    return 5 * static_cast<double>(in[0].numel());
  }
  // 16-bit operands are divided in f32: a quotient of 8 digits would choose wrong codes.
  static Tensor wide(const Tensor& t) { return is_16_bit(t.dtype()) ? t.to(DType::f32) : t; }
  void run(const Tensors& in, Tensors& out) const override {
    struct Unseen : OpObserver {  // a profiler sees one operation, not its parts
      void after(const PrimitiveBase&, const Tensors&, const Tensors&, Cost) override {}
    } unseen;
    const Observing parts(unseen);
    const Tensor x = wide(in[0].detach()), s = wide(in[1].detach());
    out[0] = (clamp(round(x / s), low, high) * s).to(in[0].dtype()).contiguous();
  }

  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& saved, const Tensors& grads) const override {
    const Tensor s = wide(saved.inputs[1]), v = wide(saved.inputs[0]) / s, g = grads[0];
    const Tensor inside = logical_and(v >= low, v <= high);
    const Tensor dx = saved.needs_grad[0] ? where(inside, g, zeros_like(g)) : Tensor();
    if (!saved.needs_grad[1]) return {dx, Tensor()};
    const Tensor slope = where(inside, round(v) - v, clamp(v, low, high));
    const Tensor ds = sum_to(wide(g) * slope, saved.input_shapes[1]) * step_factor;
    return {dx, ds.to(g.dtype())};
  }
};

// x rounded to the values of codes [low, high] with scales that broadcast to x, of x's dtype: [] for one
// scale, [N, 1] for rows of a weight [N, K]. Differentiable in x and in the scales. Throws TT-SHAPE-02 for
// other shapes, TT-DTYPE-02 and TT-DTYPE-03 for other dtypes.
inline Tensor fake_quantize(const Tensor& x, const Tensor& scale, int32_t low, int32_t high,
                            int32_t zero_point = 0, TT_LOC) {
  require_defined("fake_quantize", loc, x, scale);
  return apply(FakeQuantize(low, high, zero_point, 1), {x, scale}, loc);
}
// The values of dequantize(quantize(x, s), s), with a gradient.
inline Tensor fake_quantize(const Tensor& x, const AffineScale& s, TT_LOC) {
  require_defined("fake_quantize", loc, x);
  const Tensor scale = scalar_like(static_cast<double>(s.scale), x, loc);
  return fake_quantize(x, scale, s.low, s.high, s.zero_point, loc);
}
// Fake quantization with a step size that is learned (LSQ). Its gradient is divided by sqrt(n high) for n
// values that share a step, so that steps and weights change at about the same relative rate.
inline Tensor learned_step_quantize(const Tensor& x, const Tensor& step, int32_t low, int32_t high, TT_LOC) {
  require_defined("learned_step_quantize", loc, x, step);
  const double shared =
      static_cast<double>(x.numel()) / static_cast<double>(std::max<int64_t>(step.numel(), 1));
  const double factor = 1 / std::sqrt(std::max(shared, 1.0) * high);
  return apply(FakeQuantize(low, high, 0, factor), {x, step}, loc);
}

// A linear layer that computes with a rounded weight and trains the float weight behind it. The codes have no
// zero point (any Fit but minmax), per tensor, row or group; K is a multiple of the group.
class QatLinear : public Module {
 public:
  // Copies the trained layer. With learn_step, the steps are parameters, which begin as the scales of the
  // trained weight; without, they are the scales of the current weight in each forward pass.
  explicit QatLinear(const Linear& trained, const ScaleOptions& options, bool learn_step = true, TT_LOC)
      : scales_(options), learns_(learn_step) {
    require_scale_options("QatLinear", options, loc);
    const bool grouped = options.granularity == Granularity::group;
    if (options.fit == Fit::minmax || (grouped && trained.weight.size(1) % options.group != 0)) {
      fail("TT-CALIB-03", "QatLinear: codes without a zero point, and K is a multiple of the group", loc);
    }
    weight = add_parameter("weight", trained.weight.detach().clone());
    if (trained.bias.defined()) bias = add_parameter("bias", trained.bias.detach().clone());
    if (learns_) step = add_parameter("step", current_scales(loc));
  }
  Tensor forward(const Tensor& x) override { return linear(x, quantized_weight(), bias); }

  // The weight with which forward() computes, [N, K].
  Tensor quantized_weight() const {
    const Tensor s = learns_ ? step : current_scales({});
    if (scales_.granularity != Granularity::group) return rounded(weight, s);
    const Tensor groups = weight.reshape({weight.size(0), -1, scales_.group});
    return rounded(groups, s.unsqueeze(2)).reshape(weight.shape());
  }

  Tensor weight;  // [N, K], float
  Tensor bias;    // [N]; undefined without a bias
  Tensor step;    // [1, 1], [N, 1] or [N, K / group]; undefined unless the steps are learned

 private:
  int32_t high() const { return (1 << (scales_.bits - 1)) - 1; }
  Tensor rounded(const Tensor& w, const Tensor& s) const {
    const int32_t low = scales_.fit == Fit::absmax ? -high() : -high() - 1;
    return learns_ ? learned_step_quantize(w, s, low, high()) : fake_quantize(w, s, low, high());
  }
  Tensor current_scales(Loc loc) const {
    return scaled_codes(weight, scales_, loc).scales.to(weight.dtype()).to(weight.device());
  }

  ScaleOptions scales_;
  bool learns_;
};

}  // namespace tinytorch::inline TT_BUILD
