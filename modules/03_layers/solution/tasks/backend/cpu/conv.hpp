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
//
// Task 3.5: convolve_by_loops. Task 3.6: im2col, col2im. The given parts of this header are in
// modules/03_layers/frame/tinytorch/backend/cpu/conv.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

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

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
