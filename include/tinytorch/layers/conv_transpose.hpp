// ConvTranspose1d and ConvTranspose2d: transposed convolutions, which make sequences and images larger. Each
// element of x adds its multiple of the filter to the result.
//
//   x [N, C, H, W], weight [C, O / groups, KH, KW], bias [O] -> y [N, O, H', W']
//   H' = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1
//
// Weights and bias are initialized uniformly on [-1/sqrt(fan), 1/sqrt(fan)], fan = O / groups KH KW, as in
// PyTorch, which takes the second dimension of the weight for the fan.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

// The parameters that both layers share; `sides` is [K] or [KH, KW].
class ConvTransposeBase : public Module {
 public:
  ConvTransposeOptions options;
  Tensor weight;  // [C, O / groups, K] or [C, O / groups, KH, KW]
  Tensor bias;    // [O]; undefined without a bias

 protected:
  ConvTransposeBase(int64_t in_channels, int64_t out_channels, const Shape& sides,
                    ConvTransposeOptions conv_options, bool with_bias, Generator& generator, Loc loc)
      : options(conv_options) {
    options.bias = options.bias && with_bias;
    if (options.groups < 1 || in_channels % options.groups != 0 || out_channels % options.groups != 0) {
      fail("TT-NN-12",
           "ConvTranspose: " + std::to_string(in_channels) + " input and " + std::to_string(out_channels) +
               " output channels cannot be split into " + std::to_string(options.groups) + " groups",
           loc);
    }
    Shape shape{in_channels, out_channels / options.groups};
    for (int d = 0; d < sides.size(); ++d) shape.push_back(sides[d]);
    weight = add_parameter("weight", empty(shape, f32, default_device(), loc));
    const int64_t fan = in_channels > 0 ? weight.numel() / in_channels : 0;
    const double bound = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, fan)));
    init::uniform(weight, -bound, bound, generator);
    if (!options.bias) return;
    bias = add_parameter("bias", empty({out_channels}));
    init::uniform(bias, -bound, bound, generator);
  }
};

// x [N, C, H, W]
class ConvTranspose2d : public ConvTransposeBase {
 public:
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, KernelSize kernel,
                  ConvTransposeOptions conv_options = {}, bool with_bias = true,
                  Generator& generator = default_generator(), TT_LOC)
      : ConvTransposeBase(in_channels, out_channels, {kernel.height, kernel.width}, conv_options, with_bias,
                          generator, loc) {}
  Tensor forward(const Tensor& x) override { return conv_transpose2d(x, weight, bias, options); }
};

// x [N, C, L]
class ConvTranspose1d : public ConvTransposeBase {
 public:
  ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel,
                  ConvTransposeOptions conv_options = {}, bool with_bias = true,
                  Generator& generator = default_generator(), TT_LOC)
      : ConvTransposeBase(in_channels, out_channels, {kernel}, conv_options, with_bias, generator, loc) {}
  Tensor forward(const Tensor& x) override { return conv_transpose1d(x, weight, bias, options); }
};

}  // namespace tinytorch::inline TT_BUILD
