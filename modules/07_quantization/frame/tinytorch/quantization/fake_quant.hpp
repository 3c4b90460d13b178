// Fake quantization: rounds to the values of codes, but stays in floating point, so that a network can be
// trained to work with few bits (quantization-aware training, QAT).
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.11. It is cut
// from the library's header by modules/frames.py.
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
  inline void run(const Tensors& in, Tensors& out) const override;  // task 7.11

  Save saves() const override { return Save::inputs; }
  inline Tensors vjp(const Saved& saved, const Tensors& grads) const override;  // task 7.11
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
// Task 7.11.
inline Tensor learned_step_quantize(const Tensor& x, const Tensor& step, int32_t low, int32_t high, TT_LOC);

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

  Tensor quantized_weight() const;  // task 7.11

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

#include <tasks/quantization/fake_quant.hpp>
