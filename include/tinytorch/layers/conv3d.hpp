// Conv3d, MaxPool3d, AvgPool3d and AdaptiveAvgPool3d: layers of volumes [N, C, D, H, W].
//
//   x [N, C, D, H, W], weight [O, C / groups, KD, KH, KW], bias [O] -> y [N, O, D', H', W']
//   D' = (D + 2 padding - dilation (KD - 1) - 1) / stride + 1, and so on
//
// Weights and bias are initialized uniformly on [-1/sqrt(fan_in), 1/sqrt(fan_in)], fan_in = C / groups KD KH
// KW.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

class Conv3d : public Module {
 public:
  Conv3d(int64_t in_channels, int64_t out_channels, Size3d kernel, Conv3dOptions conv_options = {},
         bool with_bias = true, Generator& generator = default_generator(), TT_LOC)
      : options(conv_options) {
    options.bias = options.bias && with_bias;
    if (options.groups < 1 || in_channels % options.groups != 0 || out_channels % options.groups != 0) {
      fail("TT-NN-12",
           "Conv3d: " + std::to_string(in_channels) + " input and " + std::to_string(out_channels) +
               " output channels cannot be split into " + std::to_string(options.groups) + " groups",
           loc);
    }
    const int64_t width = in_channels / options.groups;
    const Shape shape{out_channels, width, kernel.depth, kernel.height, kernel.width};
    weight = add_parameter("weight", empty(shape, f32, default_device(), loc));
    const int64_t fan_in = std::max<int64_t>(1, width * kernel.depth * kernel.height * kernel.width);
    const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
    init::uniform(weight, -bound, bound, generator);
    if (!options.bias) return;
    bias = add_parameter("bias", empty({out_channels}));
    init::uniform(bias, -bound, bound, generator);
  }
  Tensor forward(const Tensor& x) override { return conv3d(x, weight, bias, options); }

  Conv3dOptions options;
  Tensor weight;  // [O, C / groups, KD, KH, KW]
  Tensor bias;    // [O]; undefined without a bias
};

class MaxPool3d : public Module {
 public:
  explicit MaxPool3d(Size3d kernel = 2, Size3d stride = 0, Size3d padding = 0, bool ceil_mode = false)
      : options{kernel, stride, padding, ceil_mode} {}
  // MaxPool3d({1, 2, 2}): depth, height and width of the window.
  explicit MaxPool3d(const int64_t (&kernel)[3], Size3d stride = 0, Size3d padding = 0,
                     bool ceil_mode = false)
      : MaxPool3d(Size3d(kernel[0], kernel[1], kernel[2]), stride, padding, ceil_mode) {}
  Tensor forward(const Tensor& x) override { return max_pool3d(x, options); }
  Pool3dOptions options;
};

class AvgPool3d : public Module {
 public:
  explicit AvgPool3d(Size3d kernel = 2, Size3d stride = 0, Size3d padding = 0, bool ceil_mode = false)
      : options{kernel, stride, padding, ceil_mode} {}
  // AvgPool3d({1, 2, 2}): depth, height and width of the window.
  explicit AvgPool3d(const int64_t (&kernel)[3], Size3d stride = 0, Size3d padding = 0,
                     bool ceil_mode = false)
      : AvgPool3d(Size3d(kernel[0], kernel[1], kernel[2]), stride, padding, ceil_mode) {}
  Tensor forward(const Tensor& x) override { return avg_pool3d(x, options); }
  Pool3dOptions options;
};

// Averages a volume of any size into `out` values. 1 is global average pooling.
class AdaptiveAvgPool3d : public Module {
 public:
  explicit AdaptiveAvgPool3d(Size3d size = 1) : out(size) {}
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool3d(x, out); }
  Size3d out;
};

}  // namespace tinytorch::inline TT_BUILD
