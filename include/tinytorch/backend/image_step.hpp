// Descriptions of the operations on images that the graph compiler fuses.
//
// A convolution is followed by batch norm, sums and activations in nearly every network of images. ImageStep
// names the operation behind a primitive, like PointwiseStep for elementwise operations, and EpilogueStep is
// one operation that is applied to the result of a convolution.
#pragma once

#include <cstdint>
#include <tinytorch/backend/pointwise.hpp>

namespace tinytorch::inline TT_BUILD::backend {

// pooling: each result has the same bits in every layout of the images.
enum class ImageKind : uint8_t { convolution, channel_norm, pooling };

struct ImageStep {
  ImageKind kind = ImageKind::convolution;
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;  // of a convolution
  double eps = 0;                                             // of a batch norm with given statistics

  bool set_convolution(int64_t s, int64_t p, int64_t d, int64_t g) {
    kind = ImageKind::convolution, stride = s, padding = p, dilation = d, groups = g;
    return true;
  }
  bool set_pooling() {
    kind = ImageKind::pooling;
    return true;
  }
  bool set_channel_norm(double e) {
    kind = ImageKind::channel_norm, eps = e;
    return true;
  }
};

// An operation on the result y of a convolution. Either y = function(y, ...), a unary or binary function
// whose operand in[k] is y if it is negative, else operand in[k] of the epilogue, which has the layout of y.
// Or y = batch norm of y, with the four operands mean, var, weight and bias from `first` on; weight and bias
// may have no data. Each result is rounded to the dtype of y.
struct EpilogueStep {
  bool is_norm = false;
  PointwiseStep function;
  int first = 0;
  double eps = 0;
};

}  // namespace tinytorch::inline TT_BUILD::backend
