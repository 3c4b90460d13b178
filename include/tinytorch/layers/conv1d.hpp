// Conv1d: the convolution of sequences, y[n, o] = b[o] + the sum over c of the cross-correlation of x[n, c]
// with W[o, c].
//
//   x [N, C, L], weight [O, C / groups, K], bias [O] -> y [N, O, L']
//   L' = (L + 2 padding - dilation (K - 1) - 1) / stride + 1
//
// Weights and bias are initialized uniformly on [-1/sqrt(fan_in), 1/sqrt(fan_in)], fan_in = C / groups K.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

class Conv1d : public Module {
 public:
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel, Conv1dOptions conv_options = {},
         bool with_bias = true, Generator& generator = default_generator(), TT_LOC)
      : options(conv_options) {
    options.bias = options.bias && with_bias;
    if (options.groups < 1 || in_channels % options.groups != 0 || out_channels % options.groups != 0) {
      fail("TT-NN-12",
           "Conv1d: " + std::to_string(in_channels) + " input and " + std::to_string(out_channels) +
               " output channels cannot be split into " + std::to_string(options.groups) + " groups",
           loc);
    }
    const int64_t width = in_channels / options.groups;
    weight = add_parameter("weight", empty({out_channels, width, kernel}, f32, default_device(), loc));
    const double bound = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, width * kernel)));
    init::uniform(weight, -bound, bound, generator);
    if (!options.bias) return;
    bias = add_parameter("bias", empty({out_channels}));
    init::uniform(bias, -bound, bound, generator);
  }
  Tensor forward(const Tensor& x) override { return conv1d(x, weight, bias, options); }

  Conv1dOptions options;
  Tensor weight;  // [O, C / groups, K]
  Tensor bias;    // [O]; undefined without a bias
};

}  // namespace tinytorch::inline TT_BUILD
