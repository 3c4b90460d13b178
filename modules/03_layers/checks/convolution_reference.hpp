// Convolution and both gradients by the definition, in double, for the checks of the CUDA kernels.
#pragma once

#include <support/check.hpp>
#include <tinytorch/backend/window.hpp>

namespace course {

struct Convolution {
  int64_t N = 1, C = 1, H = 5, W = 5, M = 1;
  backend::Window2d window{3, 3, 1, 0, 1};
  int64_t groups = 1;
  DType dtype = f32;
  Layout layout = Layout::contiguous;

  int64_t OH() const { return backend::window_outputs(H, window.kernel_h, window); }
  int64_t OW() const { return backend::window_outputs(W, window.kernel_w, window); }
  Shape x() const { return {N, C, H, W}; }
  Shape y() const { return {N, M, OH(), OW()}; }
  Shape w() const { return {M, C / groups, window.kernel_h, window.kernel_w}; }
  std::string text() const {
    std::string s = "x " + x().str() + ", weight " + w().str() + ", stride " + std::to_string(window.stride) +
                    ", padding " + std::to_string(window.padding) + ", dilation " +
                    std::to_string(window.dilation);
    if (groups != 1) s += ", groups " + std::to_string(groups);
    return s + ", " + name_of(dtype) + ", " + name_of_layout(layout);
  }
  // Calls f(position in out, position in x, position in weight) for every product of the sum.
  template <class F>
  void each(F&& f) const {
    const int64_t c_of_group = C / groups, m_of_group = M / groups;
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t m = 0; m < M; ++m) {
        for (int64_t oh = 0; oh < OH(); ++oh) {
          for (int64_t ow = 0; ow < OW(); ++ow) {
            for (int64_t c = 0; c < c_of_group; ++c) {
              for (int64_t kh = 0; kh < window.kernel_h; ++kh) {
                for (int64_t kw = 0; kw < window.kernel_w; ++kw) {
                  const int64_t h = oh * window.stride - window.padding + kh * window.dilation;
                  const int64_t v = ow * window.stride - window.padding + kw * window.dilation;
                  if (h < 0 || h >= H || v < 0 || v >= W) continue;
                  f(static_cast<size_t>(((n * M + m) * OH() + oh) * OW() + ow),
                    static_cast<size_t>(((n * C + m / m_of_group * c_of_group + c) * H + h) * W + v),
                    static_cast<size_t>(((m * c_of_group + c) * window.kernel_h + kh) * window.kernel_w +
                                        kw));
                }
              }
            }
          }
        }
      }
    }
  }
};

}  // namespace course
