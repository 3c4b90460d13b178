// Window2d: the sliding window of convolution and pooling.
//
// Output position o reads input positions i = o * stride - padding + k * dilation for taps k = 0 .. kernel -
// 1; positions outside [0, input) are padding. Output size:
//   (input + 2 padding - dilation (kernel - 1) - 1) / stride + 1
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend {

// Largest kernel, stride, padding or dilation, so that no position of a window overflows.
inline constexpr int64_t kMaxWindow = int64_t{1} << 28;

struct Window2d {
  int64_t kernel_h = 1, kernel_w = 1, stride = 1, padding = 0, dilation = 1;
};

// Number of outputs along one side; 0 or less if the window does not fit.
TT_HOST_DEVICE constexpr int64_t window_outputs(int64_t input, int64_t kernel, const Window2d& w) {
  const int64_t last = input + 2 * w.padding - 1;  // last position that a window may cover
  if (last < 0 || kernel - 1 > last / w.dilation) return 0;
  return (last - w.dilation * (kernel - 1)) / w.stride + 1;
}

// Outputs [first, last) for which the tap at `shift` (k * dilation - padding) is inside [0, input).
struct TapRange {
  int64_t first, last;
};
constexpr TapRange taps_inside(int64_t shift, int64_t input, int64_t outputs, int64_t stride) {
  int64_t first = shift < 0 ? -shift : 0, last = input > shift ? input - shift : 0;
  if (stride != 1) {  // two divisions cost as much as a short row
    first = ceil_div(first, stride);
    last = ceil_div(last, stride);
  }
  const int64_t stop = last < outputs ? last : outputs;
  return {first < stop ? first : stop, stop};
}

// All sizes of one convolution.
struct ConvShape {
  Window2d window;
  int64_t N, C, H, W, M, OH, OW, groups;
  int64_t group_c, group_m, K, outputs;  // channels per group, patch length, OH * OW

  ConvShape(const View& x, const View& y, const Window2d& w, int64_t g)
      : window(w),
        N(x.shape[0]),
        C(x.shape[1]),
        H(x.shape[2]),
        W(x.shape[3]),
        M(y.shape[1]),
        OH(y.shape[2]),
        OW(y.shape[3]),
        groups(g),
        group_c(C / g),
        group_m(M / g),
        K(group_c * w.kernel_h * w.kernel_w),
        outputs(OH * OW) {}
  bool depthwise() const { return groups > 1 && group_c == 1; }
};

}  // namespace tinytorch::inline TT_BUILD::backend
