// Pooling of images [N, C, H, W] and of sequences [N, C, L], which takes the maximum or the mean of each
// window, and Flatten.
#pragma once

#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Size2d kernel = 2, Size2d stride = 0, Size2d padding = 0, bool ceil_mode = false)
      : options{kernel, stride, padding, ceil_mode} {}
  // MaxPool2d({3, 2}): the height and the width of the window.
  explicit MaxPool2d(const int64_t (&kernel)[2], Size2d stride = 0, Size2d padding = 0,
                     bool ceil_mode = false)
      : MaxPool2d(Size2d(kernel[0], kernel[1]), stride, padding, ceil_mode) {}
  Tensor forward(const Tensor& x) override { return max_pool2d(x, options); }
  Pool2dOptions options;
};

class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Size2d kernel = 2, Size2d stride = 0, Size2d padding = 0, bool ceil_mode = false)
      : options{kernel, stride, padding, ceil_mode} {}
  // AvgPool2d({3, 2}): the height and the width of the window.
  explicit AvgPool2d(const int64_t (&kernel)[2], Size2d stride = 0, Size2d padding = 0,
                     bool ceil_mode = false)
      : AvgPool2d(Size2d(kernel[0], kernel[1]), stride, padding, ceil_mode) {}
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, options); }
  Pool2dOptions options;
};

// Averages an image of any size into out_h x out_w values. 1 x 1 is global average pooling.
class AdaptiveAvgPool2d : public Module {
 public:
  // One number makes the result square.
  explicit AdaptiveAvgPool2d(Size2d out = 1) : height(out.height), width(out.width) {}
  explicit AdaptiveAvgPool2d(const int64_t (&out)[2]) : height(out[0]), width(out[1]) {}
  AdaptiveAvgPool2d(int64_t out_h, int64_t out_w) : height(out_h), width(out_w) {}
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool2d(x, height, width); }
  int64_t height, width;
};

class AdaptiveMaxPool2d : public Module {
 public:
  // One number makes the result square.
  explicit AdaptiveMaxPool2d(Size2d out = 1) : height(out.height), width(out.width) {}
  explicit AdaptiveMaxPool2d(const int64_t (&out)[2]) : height(out[0]), width(out[1]) {}
  AdaptiveMaxPool2d(int64_t out_h, int64_t out_w) : height(out_h), width(out_w) {}
  Tensor forward(const Tensor& x) override { return adaptive_max_pool2d(x, height, width); }
  int64_t height, width;
};

// Pooling of sequences [N, C, L].
class MaxPool1d : public Module {
 public:
  explicit MaxPool1d(int64_t kernel = 2, int64_t stride = 0, int64_t padding = 0, bool ceil_mode = false)
      : options{kernel, stride, padding, ceil_mode} {}
  Tensor forward(const Tensor& x) override { return max_pool1d(x, options); }
  Pool1dOptions options;
};
class AvgPool1d : public Module {
 public:
  explicit AvgPool1d(int64_t kernel = 2, int64_t stride = 0, int64_t padding = 0, bool ceil_mode = false)
      : options{kernel, stride, padding, ceil_mode} {}
  Tensor forward(const Tensor& x) override { return avg_pool1d(x, options); }
  Pool1dOptions options;
};

// [N, ...] -> [N, product of the rest]
class Flatten : public Module {
 public:
  Tensor forward(const Tensor& x) override { return flatten(x, 1); }
};

}  // namespace tinytorch::inline TT_BUILD
