// Pooling of images on the CPU: maximum with saved positions, average, adaptive average, and their gradients.
//
// Output (oh, ow) sees the inputs (oh stride - padding + kh, ow stride - padding + kw), kh < KH, kw < KW. You
// write maximum and average and their gradients for one plane, one channel of one sample; the rest is given.
//
// Task 3.7: max_pool_plane, max_pool_plane_grad, avg_pool_plane, avg_pool_plane_grad. The given parts of this
// header are in modules/03_layers/frame/tinytorch/backend/cpu/pool.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [OH, OW] = the largest value of each window, index = its place h W + w. Of equal values the first in
// reading order wins, and any NaN wins over numbers. Start from the window's first value, not from 0: all may
// be negative.
template <class T>
void max_pool_plane(T* out, int32_t* index, const T* x, const PlaneShape& s) {
  for (int64_t oh = 0; oh < s.OH; ++oh) {
    for (int64_t ow = 0; ow < s.OW; ++ow) {
      const Box box = window_at(s, oh, ow);
      int64_t best = box.h0 * s.W + box.w0;
      for (int64_t h = box.h0; h < box.h1; ++h) {
        for (int64_t w = box.w0; w < box.w1; ++w) {
          const T v = x[h * s.W + w];
          if (v > x[best] || std::isnan(v)) best = h * s.W + w;
        }
      }
      out[oh * s.OW + ow] = x[best];
      index[oh * s.OW + ow] = static_cast<int32_t>(best);
    }
  }
}

// dx [H, W], all zero before: each dy goes to the place its maximum came from. One place may have won several
// windows.
template <class T>
void max_pool_plane_grad(T* dx, const T* dy, const int32_t* index, const PlaneShape& s) {
  for (int64_t i = 0; i < s.outputs(); ++i) dx[index[i]] += dy[i];
}

// out = sum of the window / (KH KW), the same divisor at the border, where padding counts as zeros.
template <class T>
void avg_pool_plane(T* out, const T* x, const PlaneShape& s) {
  const double count = static_cast<double>(s.window.kernel_h * s.window.kernel_w);
  for (int64_t oh = 0; oh < s.OH; ++oh) {
    for (int64_t ow = 0; ow < s.OW; ++ow) {
      const Box box = window_at(s, oh, ow);
      double sum = 0;
      for (int64_t h = box.h0; h < box.h1; ++h) {
        for (int64_t w = box.w0; w < box.w1; ++w) sum += static_cast<double>(x[h * s.W + w]);
      }
      out[oh * s.OW + ow] = static_cast<T>(sum / count);
    }
  }
}

// dx, all zero before: every input of a window gets dy / (KH KW); windows may overlap.
template <class T>
void avg_pool_plane_grad(T* dx, const T* dy, const PlaneShape& s) {
  const T count = static_cast<T>(s.window.kernel_h * s.window.kernel_w);
  for (int64_t oh = 0; oh < s.OH; ++oh) {
    for (int64_t ow = 0; ow < s.OW; ++ow) {
      const Box box = window_at(s, oh, ow);
      for (int64_t h = box.h0; h < box.h1; ++h) {
        for (int64_t w = box.w0; w < box.w1; ++w) dx[h * s.W + w] += dy[oh * s.OW + ow] / count;
      }
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
