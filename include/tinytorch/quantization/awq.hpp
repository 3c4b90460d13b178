// AWQ (activation-aware weight quantization): multiplies the weights of channels with large inputs by s_j
// before rounding, and divides the inputs by s_j, so that these weights are rounded more finely.
//
//   W X = (W s) (X / s),   s_j = mean|X_j|^a,   a = the best of 0, 1/20, ..., 1
//
// A few channels have inputs tens of times larger than the others. An error in their weights costs the most,
// so they are worth a larger share of the grid. The best exponent is found by measuring the squared error of
// the output on the calibration inputs. GPTQ answers correlated inputs, AWQ answers outliers.
// Source: Lin et al., "AWQ: activation-aware weight quantization for on-device LLM compression", 2023.
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

// s [K] f32 for the exponent a, divided by the geometric middle of the largest and the smallest, so that
// weights keep their size. A channel whose inputs were all 0 has s = 1.
inline Tensor awq_scales(const Tensor& abs_mean, double a, TT_LOC) {
  std::vector<double> s = abs_mean.to_vector<double>();
  double least = std::numeric_limits<double>::infinity(), largest = 0;
  for (double& x : s) {
    if (!(x > 0)) continue;
    x = std::pow(x, a);
    least = std::min(least, x), largest = std::max(largest, x);
  }
  std::vector<float> out(s.size(), 1.0f);
  for (size_t j = 0; j < s.size(); ++j) {
    if (s[j] > 0) out[j] = static_cast<float>(s[j] / std::sqrt(least * largest));
  }
  return from_data(out, {static_cast<int64_t>(out.size())}, cpu, loc);
}

// The squared error of the outputs X W^T if W [N, K] is replaced by `changed`: the trace of E (X^T X) E^T.
inline double output_error(const Tensor& W, const Tensor& changed, const Tensor& gram) {
  const NoGrad no_grad;
  const Tensor E = W.to(DType::f64) - changed.to(DType::f64);
  return sum(matmul(E, gram) * E).item<double>();
}

// The values f32 [N, K] by which the given weight is replaced: those of the codes, divided by s.
inline Tensor dequantize(const AwqWeight& q, TT_LOC) { return dequantize(q.weight, loc) / q.channel_scales; }

// weight [N, K] -> the codes of W s and s, on the CPU. The result has the same bits for the same weight, rows
// of calibration and options.
inline AwqWeight awq(const Tensor& weight, const InputStatistics& inputs,
                     const ScaleOptions& o = {.bits = 4, .granularity = Granularity::group, .group = 64},
                     TT_LOC) {
  const NoGrad no_grad;
  constexpr int kSteps = 20;
  require_statistics("awq", weight, inputs, loc);
  const Tensor W = calibration_values("awq", weight, loc), gram = inputs.gram(), mean = inputs.abs_mean();
  AwqWeight best;
  for (int step = 0; step <= kSteps; ++step) {
    AwqWeight trial;
    trial.exponent = static_cast<double>(step) / kSteps;
    trial.channel_scales = awq_scales(mean, trial.exponent, loc);
    trial.weight = scaled_codes(W * trial.channel_scales, o, loc);
    trial.output_error = output_error(W, dequantize(trial, loc), gram);
    if (step == 0 || trial.output_error < best.output_error) best = std::move(trial);
  }
  return best;
}

}  // namespace tinytorch::inline TT_BUILD
