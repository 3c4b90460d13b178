// Convolution of images on the CPU, forward and both gradients, with groups and dilation.
//
//   out[n, m, oh, ow] = bias[m] + sum over (c, kh, kw) of weight[m, c, kh, kw] x[n, g C' + c, ih, iw]
//   ih = oh stride - padding + kh dilation, iw likewise; what lies outside of the image counts as zero.
//   C' = C / groups channels belong to a group g = m / (M / groups), M' = M / groups outputs.
//
// You write it twice. As loops over the formula; and as a matrix product: im2col lays the patch under each
// output out as a column, and weight [M', K] times columns [K, OH OW] is the output, K = C' KH KW. A patch is
// copied once and used M' times, so copying pays where a group has several outputs, and not where it has a
// few. col2im is the way back, which both makes the input's gradient and explains it. Source: Chellapilla,
// Puri, Simard, "High performance convolutional neural networks for document processing", 2006.
#pragma once

#include <tinytorch/backend/view.hpp>
#include <tinytorch/backend/window.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [N, M, OH, OW], x [N, C, H, W], weight [M, C / groups, KH, KW], bias [M] or without data. Floating
// dtypes.
TT_API void conv2d(const View& out, const View& x, const View& weight, const View& bias,
                   const Window2d& window, int64_t groups);
// dx [N, C, H, W] from dy [N, M, OH, OW].
TT_API void conv2d_grad_input(const View& dx, const View& dy, const View& weight, const Window2d& window,
                              int64_t groups);
// dw [M, C / groups, KH, KW] from dy and x.
TT_API void conv2d_grad_weight(const View& dw, const View& dy, const View& x, const Window2d& window,
                               int64_t groups);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// All arrays are dense: x[n, c, h, w] is x[((n C + c) H + h) W + w]. Sizes are in s (backend/window.hpp): N,
// C, H, W, M, OH, OW, groups, group_c = C', group_m = M', K, outputs = OH OW, and s.window with kernel_h,
// kernel_w, stride, padding, dilation.

// The formula above, every output by itself. bias may be null. Sum in double.
template <class T>
void convolve_by_loops(T* out, const T* x, const T* weight, const T* bias, const ConvShape& s) {
  const Window2d& w = s.window;
  for (int64_t n = 0; n < s.N; ++n) {
    for (int64_t m = 0; m < s.M; ++m) {
      const int64_t first_channel = m / s.group_m * s.group_c;
      for (int64_t oh = 0; oh < s.OH; ++oh) {
        for (int64_t ow = 0; ow < s.OW; ++ow) {
          double sum = bias ? static_cast<double>(bias[m]) : 0.0;
          for (int64_t c = 0; c < s.group_c; ++c) {
            for (int64_t kh = 0; kh < w.kernel_h; ++kh) {
              for (int64_t kw = 0; kw < w.kernel_w; ++kw) {
                const int64_t ih = oh * w.stride - w.padding + kh * w.dilation;
                const int64_t iw = ow * w.stride - w.padding + kw * w.dilation;
                if (ih < 0 || ih >= s.H || iw < 0 || iw >= s.W) continue;
                const T pixel = x[((n * s.C + first_channel + c) * s.H + ih) * s.W + iw];
                const T tap = weight[((m * s.group_c + c) * w.kernel_h + kh) * w.kernel_w + kw];
                sum += static_cast<double>(tap) * static_cast<double>(pixel);
              }
            }
          }
          out[((n * s.M + m) * s.OH + oh) * s.OW + ow] = static_cast<T>(sum);
        }
      }
    }
  }
}

// cols [K, OH OW] from the images [C', H, W] of one group of one sample: row (c, kh, kw), column (oh, ow) is
// the input that output (oh, ow) multiplies by weight[m, c, kh, kw], and 0 in the padding.
template <class T>
void im2col(T* cols, const T* images, const ConvShape& s) {
  const Window2d& w = s.window;
  for (int64_t c = 0; c < s.group_c; ++c) {
    for (int64_t kh = 0; kh < w.kernel_h; ++kh) {
      for (int64_t kw = 0; kw < w.kernel_w; ++kw) {
        for (int64_t oh = 0; oh < s.OH; ++oh) {
          for (int64_t ow = 0; ow < s.OW; ++ow) {
            const int64_t ih = oh * w.stride - w.padding + kh * w.dilation;
            const int64_t iw = ow * w.stride - w.padding + kw * w.dilation;
            const bool inside = ih >= 0 && ih < s.H && iw >= 0 && iw < s.W;
            *cols++ = inside ? images[(c * s.H + ih) * s.W + iw] : T(0);
          }
        }
      }
    }
  }
}

// The adjoint: adds each element of cols to the pixel of images that im2col would have read it from; the
// padding's are dropped. Where windows overlap, a pixel gets several, so add to what is there (it starts at
// zero).
template <class T>
void col2im(T* images, const T* cols, const ConvShape& s) {
  const Window2d& w = s.window;
  for (int64_t c = 0; c < s.group_c; ++c) {
    for (int64_t kh = 0; kh < w.kernel_h; ++kh) {
      for (int64_t kw = 0; kw < w.kernel_w; ++kw) {
        for (int64_t oh = 0; oh < s.OH; ++oh) {
          for (int64_t ow = 0; ow < s.OW; ++ow) {
            const T value = *cols++;
            const int64_t ih = oh * w.stride - w.padding + kh * w.dilation;
            const int64_t iw = ow * w.stride - w.padding + kw * w.dilation;
            if (ih >= 0 && ih < s.H && iw >= 0 && iw < s.W) images[(c * s.H + ih) * s.W + iw] += value;
          }
        }
      }
    }
  }
}

// --- Given: products of columns
// --------------------------------------------------------------------------------

inline constexpr int64_t kFewOutputs = 4;  // per group, below which copying patches does not pay

template <class T>
View matrix(const T* data, int64_t rows, int64_t cols) {
  return {const_cast<T*>(data), dtype_of<T>, {rows, cols}, {cols, 1}};
}
// Calls f(n, g) for every sample and group.
template <class F>
void for_each_group(const ConvShape& s, F&& f) {
  for (int64_t n = 0; n < s.N; ++n) {
    for (int64_t g = 0; g < s.groups; ++g) f(n, g);
  }
}
// Group g of sample n in x, in out, and of the weights.
template <class T>
T* images_of(T* x, const ConvShape& s, int64_t n, int64_t g) {
  return x + (n * s.C + g * s.group_c) * s.H * s.W;
}
template <class T>
View outputs_of(const T* out, const ConvShape& s, int64_t n, int64_t g) {
  return matrix(out + (n * s.M + g * s.group_m) * s.outputs, s.group_m, s.outputs);
}
template <class T>
View weights_of(const T* weight, const ConvShape& s, int64_t g) {
  return matrix(weight + g * s.group_m * s.K, s.group_m, s.K);
}

template <class T>
void convolve_by_columns(T* out, const T* x, const T* weight, const T* bias, const ConvShape& s) {
  Scratch<T> cols(s.K * s.outputs);
  for_each_group(s, [&](int64_t n, int64_t g) {
    im2col(cols.data(), images_of(x, s, n, g), s);
    gemm(outputs_of(out, s, n, g), weights_of(weight, s, g), matrix(cols.data(), s.K, s.outputs));
  });
  for (int64_t i = 0; bias && i < s.N * s.M * s.outputs; ++i) out[i] += bias[i / s.outputs % s.M];
}

TT_API void conv2d(const View& out, const View& x, const View& weight, const View& bias,
                   const Window2d& window, int64_t groups) {
  if (out.numel() == 0) return;
  const ConvShape s(x, out, window, groups);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x), w(weight), b(bias);
    ContiguousOutput<T> to(out);
    if (s.group_m < kFewOutputs) {
      convolve_by_loops(to.data(), in.data(), w.data(), b.data(), s);
    } else {
      convolve_by_columns(to.data(), in.data(), w.data(), b.data(), s);
    }
    to.write_back();
  });
}

// cols = W^T dy, and each column's values go back to where im2col would have taken them from.
TT_API void conv2d_grad_input(const View& dx, const View& dy, const View& weight, const Window2d& window,
                              int64_t groups) {
  if (dx.numel() == 0) return;
  const ConvShape s(dx, dy, window, groups);
  dispatch_floating(dx.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> grad(dy), w(weight);
    ContiguousOutput<T> to(dx);
    std::fill_n(to.data(), dx.numel(), T(0));
    Scratch<T> cols(s.K * s.outputs);
    for_each_group(s, [&](int64_t n, int64_t g) {
      gemm(matrix(cols.data(), s.K, s.outputs), transposed(weights_of(w.data(), s, g)),
           outputs_of(grad.data(), s, n, g));
      col2im(images_of(to.data(), s, n, g), cols.data(), s);
    });
    to.write_back();
  });
}

// dW = dy cols^T, summed over samples.
TT_API void conv2d_grad_weight(const View& dw, const View& dy, const View& x, const Window2d& window,
                               int64_t groups) {
  if (dw.numel() == 0) return;
  const ConvShape s(x, dy, window, groups);
  dispatch_floating(dw.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> grad(dy), in(x);
    ContiguousOutput<T> to(dw);
    std::fill_n(to.data(), dw.numel(), T(0));
    Scratch<T> cols(s.K * s.outputs);
    for_each_group(s, [&](int64_t n, int64_t g) {
      im2col(cols.data(), images_of(in.data(), s, n, g), s);
      gemm(weights_of(to.data(), s, g), outputs_of(grad.data(), s, n, g),
           transposed(matrix(cols.data(), s.K, s.outputs)), true);
    });
    to.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
