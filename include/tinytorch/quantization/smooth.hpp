// SmoothQuant: moves outliers from the activations to the weights, before both are quantized to 8 bits.
//
//   Y = X W^T = (X / s) (W s)^T,      s_j = max|X_j|^alpha / max|W_j|^(1 - alpha)
//
// Activations have a few channels that are tens of times larger than the others, and one scale for a tensor
// or a token leaves the others a few codes. Weights have no such channels, so they can carry a part:
// alpha = 0.5 makes both maxima of a channel equal. Dividing costs nothing at run time, because the
// layer before, a norm or a linear layer, takes 1 / s into its own weight and bias.
// Source: Xiao et al., "SmoothQuant: accurate and efficient post-training quantization for large language
// models", 2022.
#pragma once

#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/norm.hpp>
#include <tinytorch/quantization/affine.hpp>

namespace tinytorch::inline TT_BUILD {

// max|x_j| over all dimensions but the last: x [..., K] -> f32 [K]. Zeros if there are no rows.
inline Tensor channel_max(const Tensor& x, TT_LOC) {
  const NoGrad no_grad;
  const Tensor values = calibration_values("channel_max", x, loc);
  const int64_t K = values.size(-1, loc);
  if (values.numel() == 0) return zeros({K}, DType::f32, cpu, loc);
  return max(abs(values.reshape({-1, K})), {0});
}

// s f32 [K] from max|X_j| [K] and max|W_j| [K]. A channel whose maximum is 0 on either side has s = 1. Throws
// TT-CALIB-01 unless the maxima are finite, TT-CALIB-03 unless 0 <= alpha <= 1, and TT-SHAPE-02 for other
// shapes.
inline Tensor smoothing_scales(const Tensor& activation_max, const Tensor& weight_max, double alpha = 0.5,
                               TT_LOC) {
  require_defined("smoothing_scales", loc, activation_max, weight_max);
  if (!(alpha >= 0 && alpha <= 1)) {
    fail("TT-CALIB-03", "smoothing_scales: alpha is from 0 to 1, got " + std::to_string(alpha), loc);
  }
  if (activation_max.rank() != 1 || activation_max.shape() != weight_max.shape()) {
    fail("TT-SHAPE-02",
         "smoothing_scales: " + describe_operands({activation_max, weight_max}) +
             "\n  rule: two vectors [K] of maxima",
         loc);
  }
  const std::vector<double> x = activation_max.to_vector<double>(), w = weight_max.to_vector<double>();
  std::vector<float> s(x.size(), 1.0f);
  for (size_t j = 0; j < x.size(); ++j) {
    if (!std::isfinite(x[j]) || !std::isfinite(w[j]))
      fail("TT-CALIB-01", "smoothing_scales: the maximum of channel " + std::to_string(j) + " is not finite",
           loc);
    if (x[j] > 0 && w[j] > 0) s[j] = static_cast<float>(std::pow(x[j], alpha) / std::pow(w[j], 1 - alpha));
  }
  return from_data(s, {static_cast<int64_t>(s.size())}, cpu, loc);
}

// Divides what makes the channels by s [K] and multiplies what reads them by s, in place. makers: tensors
// whose first dimension is K (a norm's weight and bias, or weight [K, ...] and bias [K] of the linear layer
// before). readers: weights [N, K]. All of one device; undefined tensors, as a missing bias, are skipped.
inline void fold_scales_(const Tensors& makers, const Tensors& readers, const Tensor& s, TT_LOC) {
  const NoGrad no_grad;
  require_defined("fold_scales_", loc, s);
  const int64_t K = s.numel();
  for (const Tensor& t : makers) {
    if (t.defined() && (t.rank() < 1 || t.size(0) != K))
      fail("TT-SHAPE-02",
           "fold_scales_: " + t.describe() + " does not make " + std::to_string(K) + " channels", loc);
  }
  for (const Tensor& t : readers) {
    if (t.defined() && (t.rank() != 2 || t.size(1) != K))
      fail("TT-SHAPE-02",
           "fold_scales_: " + t.describe() + " does not read " + std::to_string(K) + " channels", loc);
  }
  const auto scale = [&](Tensor t, const Shape& shape, bool divide) {
    const Tensor by = s.to(t.device()).reshape(shape);
    const Tensor exact = t.detach().to(is_16_bit(t.dtype()) ? DType::f32 : t.dtype());
    const Tensor factor = by.to(exact.dtype());
    t.copy_((divide ? exact / factor : exact * factor).to(t.dtype()), loc);
  };
  for (const Tensor& t : makers) {
    Shape along = t.defined() ? Shape::filled(t.rank(), 1) : Shape{};
    if (t.defined()) along[0] = K, scale(t, along, true);
  }
  for (const Tensor& t : readers) {
    if (t.defined()) scale(t, {1, K}, false);
  }
}

// The common part: max|W_j| over all readers of the channels, then s, then the folding. Returns s [K].
inline Tensor smooth_channels_(const Tensors& makers, const Tensors& readers, const Tensor& activation_max,
                               double alpha, Loc loc) {
  const NoGrad no_grad;
  Tensor weight_max;
  for (const Tensor& w : readers) {
    const Tensor own = channel_max(w, loc);
    weight_max = weight_max.defined() ? maximum(weight_max, own, loc) : own;
  }
  const Tensor s = smoothing_scales(activation_max.to(cpu, loc), weight_max, alpha, loc);
  fold_scales_(makers, readers, s, loc);
  return s;
}

// Smooths the input of `readers`, all the linear layers that read the output of `before` and its only
// readers (queries, keys and values; gate and up). activation_max [K]: max|X_j| of that output, as
// InputStatistics::abs_max() gives it. The model computes the same function as before, up to rounding. After
// a Linear this holds only if nothing but a ReLU is between the layers. Returns s [K].
inline Tensor smooth_(LayerNorm& before, std::initializer_list<Linear*> readers, const Tensor& activation_max,
                      double alpha = 0.5, TT_LOC) {
  Tensors weights;
  for (Linear* const r : readers) weights.push_back(r->weight);
  return smooth_channels_({before.weight, before.bias}, weights, activation_max, alpha, loc);
}
inline Tensor smooth_(RMSNorm& before, std::initializer_list<Linear*> readers, const Tensor& activation_max,
                      double alpha = 0.5, TT_LOC) {
  Tensors weights;
  for (Linear* const r : readers) weights.push_back(r->weight);
  return smooth_channels_({before.weight}, weights, activation_max, alpha, loc);
}
inline Tensor smooth_(Linear& before, std::initializer_list<Linear*> readers, const Tensor& activation_max,
                      double alpha = 0.5, TT_LOC) {
  Tensors weights;
  for (Linear* const r : readers) weights.push_back(r->weight);
  return smooth_channels_({before.weight, before.bias}, weights, activation_max, alpha, loc);
}

}  // namespace tinytorch::inline TT_BUILD
