// Conv2d: y[n, o] = b[o] + the sum over c of the cross-correlation of x[n, c] with W[o, c].
//
//   x [N, C, H, W], weight [O, C / groups, KH, KW], bias [O] -> y [N, O, H', W']
//   H' = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1
//
// Weights and bias are initialized uniformly on [-1/sqrt(fan_in), 1/sqrt(fan_in)], fan_in = C / groups KH KW.
#pragma once

#include <tinytorch/layers/init.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

using KernelSize = Size2d;  // of a filter; a single number makes it square

class Conv2d : public Module {
 public:
  Conv2d(int64_t in_channels, int64_t out_channels, KernelSize kernel, Conv2dOptions conv_options = {},
         bool with_bias = true, Generator& generator = default_generator(), TT_LOC)
      : options(conv_options) {
    options.bias = options.bias && with_bias;
    if (options.groups < 1 || in_channels % options.groups != 0 || out_channels % options.groups != 0) {
      fail("TT-NN-12",
           "Conv2d: " + std::to_string(in_channels) + " input and " + std::to_string(out_channels) +
               " output channels cannot be split into " + std::to_string(options.groups) + " groups",
           loc);
    }
    const int64_t group_channels = in_channels / options.groups;
    const Shape shape{out_channels, group_channels, kernel.height, kernel.width};
    weight = add_parameter("weight", empty(shape, f32, default_device(), loc));
    const int64_t fan_in = group_channels * kernel.height * kernel.width;
    const double bound = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, fan_in)));
    init::uniform(weight, -bound, bound, generator);
    if (!options.bias) return;
    bias = add_parameter("bias", empty({out_channels}));
    init::uniform(bias, -bound, bound, generator);
  }
  Tensor forward(const Tensor& x) override { return conv2d(x, weight, bias, options); }

  Conv2dOptions options;
  Tensor weight;  // [O, C / groups, KH, KW]
  Tensor bias;    // [O]; undefined without a bias
};

}  // namespace tinytorch::inline TT_BUILD
