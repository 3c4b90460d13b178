// Methods of quantize(): how the weight of a layer becomes packed rows. A method is a rounding, or what
// happens to the channels first, or both: "gptq", "awq", "awq+gptq".
//
//   nearest    each weight by the format alone (needs no calibration)
//   mse        the clip of each block that has the least squared error; with calibration, the error of a
//              column counts as the mean of its squared inputs
//   gptq       column by column, later columns make up for errors (gptq.hpp). It sees the inputs of the model
//              whose earlier layers are quantized already, so that later layers make up for those, too.
//   awq        channels with large inputs get finer weights (awq.hpp); the exponent with the least error of
//              the layer's output in this format
//   smooth     outliers of the inputs move to the weights (smooth.hpp), for activations of 8 bits
//   hadamard   inputs and weights are rotated (hadamard.hpp), by `seed`; at each call, on the CPU
//
// awq and smooth see the inputs of the float model. Their scales are folded into the layer before if it is
// known (folding.hpp). In one build, equal weights, calibration data and seed give equal bytes for any number
// of threads and, on the CPU, any division into batches. Between builds the forward pass that makes the
// inputs of layers differs in last bits (exp, tanh), and so can a code.
#pragma once

#include <tinytorch/quantization/awq.hpp>
#include <tinytorch/quantization/block_codes.hpp>
#include <tinytorch/quantization/linear.hpp>
#include <tinytorch/quantization/smooth.hpp>

namespace tinytorch::inline TT_BUILD::quantization {

enum class Channels : uint8_t { plain, awq, smooth, hadamard };
enum class Rounding : uint8_t { nearest, mse, gptq };

struct Method {
  Channels channels = Channels::plain;
  Rounding rounding = Rounding::nearest;

  bool scales() const { return channels == Channels::awq || channels == Channels::smooth; }
  bool needs_calibration() const { return scales() || rounding == Rounding::gptq; }
};

// Throws TT-QUANT-08 unless `name` is one of the methods, or one for channels and one for rounding, joined by
// "+".
inline Method method_of(const std::string& name, TT_LOC) {
  Method m;
  int channels = 0, roundings = 0;
  std::string rest = name + "+";
  for (size_t end = rest.find('+'); end != std::string::npos; rest.erase(0, end + 1), end = rest.find('+')) {
    const std::string part = rest.substr(0, end);
    const bool rounds = part == "nearest" || part == "mse" || part == "gptq";
    if (part == "mse") m.rounding = Rounding::mse;
    if (part == "gptq") m.rounding = Rounding::gptq;
    if (part == "awq") m.channels = Channels::awq;
    if (part == "smooth") m.channels = Channels::smooth;
    if (part == "hadamard") m.channels = Channels::hadamard;
    rounds ? ++roundings : ++channels;
    if (!rounds && part != "awq" && part != "smooth" && part != "hadamard") channels = 2;
  }
  if (channels <= 1 && roundings <= 1) return m;
  fail("TT-QUANT-08",
       "there is no method '" + name +
           "'\n  rule: nearest, mse, gptq, awq, smooth or hadamard; or one of the last three, +, and one of "
           "the "
           "first three, as in \"awq+gptq\"",
       loc);
}

// Scales s of the channels of a weight for AWQ, f32 [K]: the best exponent of 0, 1/20, ..., 1 for this
// format.
inline Tensor awq_scales_for(const Tensor& weight, const InputStatistics& inputs, const BlockFormat& format,
                             Loc loc) {
  constexpr int kSteps = 20;
  const Tensor W = calibration_values("awq", weight, loc), gram = inputs.gram(), mean = inputs.abs_mean();
  Tensor best;
  double least = 0;
  for (int step = 0; step <= kSteps; ++step) {
    const Tensor s = awq_scales(mean, static_cast<double>(step) / kSteps, loc);
    const double error = output_error(W, quantize(W * s, format, loc).dequantize() / s, gram);
    if (step == 0 || error < least) least = error, best = s;
  }
  return best;
}

inline Tensor channel_scales(const Method& m, const Tensor& weight, const InputStatistics& inputs,
                             const BlockFormat& format, double alpha, Loc loc) {
  if (m.channels == Channels::awq) return awq_scales_for(weight, inputs, format, loc);
  return smoothing_scales(inputs.abs_max(), channel_max(weight, loc), alpha, loc);
}

// The mean of X_j^2 [K].
inline std::vector<double> mean_squares(const InputStatistics& inputs) {
  const Tensor gram = inputs.gram();
  const int64_t K = inputs.features();
  std::vector<double> mean(static_cast<size_t>(K));
  for (int64_t j = 0; j < K; ++j)
    mean[static_cast<size_t>(j)] = gram.data<double>()[j * K + j] / static_cast<double>(inputs.rows());
  return mean;
}

// weight [N, K], after the transform of its channels -> packed rows on `device`. `inputs` are those after the
// transform; null without calibration.
inline QuantizedTensor round_weight(Rounding rounding, const Tensor& weight, const InputStatistics* inputs,
                                    const BlockFormat& format, Device device, double damping, Loc loc) {
  if (rounding == Rounding::gptq) return gptq_pack(weight, *inputs, format, damping, loc).to(device, loc);
  if (rounding == Rounding::nearest) return quantize(weight, format, loc).to(device, loc);
  const std::vector<double> importance = inputs ? mean_squares(*inputs) : std::vector<double>();
  return quantize_clipped(weight, format, importance, loc).to(device, loc);
}

}  // namespace tinytorch::inline TT_BUILD::quantization
