// SmoothQuant: moves outliers from the activations to the weights, before both are quantized to 8 bits.
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.9. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/norm.hpp>
#include <tinytorch/quantization/affine.hpp>

namespace tinytorch::inline TT_BUILD {

inline Tensor channel_max(const Tensor& x, TT_LOC);  // task 7.9
inline Tensor smoothing_scales(const Tensor& activation_max, const Tensor& weight_max, double alpha = 0.5,
                               TT_LOC);                                                            // task 7.9
inline void fold_scales_(const Tensors& makers, const Tensors& readers, const Tensor& s, TT_LOC);  // task 7.9
inline Tensor smooth_channels_(const Tensors& makers, const Tensors& readers, const Tensor& activation_max,
                               double alpha, Loc loc);  // task 7.9

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

#include <tasks/quantization/smooth.hpp>
