// AWQ (activation-aware weight quantization): multiplies the weights of channels with large inputs by s_j
// before rounding, and divides the inputs by s_j, so that these weights are rounded more finely.
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.15. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/quantization/granularity.hpp>
#include <tinytorch/quantization/input_statistics.hpp>

namespace tinytorch::inline TT_BUILD {

struct AwqWeight {
  ScaledCodes weight;       // of W s
  Tensor channel_scales;    // s, f32 [K]. Divide the input by it, or fold 1 / s into the norm before.
  double exponent = 0;      // a
  double output_error = 0;  // squared error of X W^T over the calibration rows
};

inline Tensor awq_scales(const Tensor& abs_mean, double a, TT_LOC);                      // task 7.15
inline double output_error(const Tensor& W, const Tensor& changed, const Tensor& gram);  // task 7.15

// The values f32 [N, K] by which the given weight is replaced: those of the codes, divided by s.
inline Tensor dequantize(const AwqWeight& q, TT_LOC) { return dequantize(q.weight, loc) / q.channel_scales; }

inline AwqWeight awq(const Tensor& weight, const InputStatistics& inputs,
                     const ScaleOptions& o = {.bits = 4, .granularity = Granularity::group, .group = 64},
                     TT_LOC);  // task 7.15

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/quantization/awq.hpp>
