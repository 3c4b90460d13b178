// Pooling of channels-last images (NHWC), the loops of backend/cpu/pool.hpp: the channels of a pixel are
// contiguous and vectorize for every window.
//
// All averages and their gradients are one function: each pixel of the result is a weighted sum over a
// rectangle of source pixels. After kColumnRun pixels, sums continue in double.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/backend/window.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kChannelBlock = 64;  // channels of a pixel in one task

// Sizes of contiguous images [N, H, W, C]; at() is the offset of a pixel.
struct ChannelsLastShape {
  int64_t N, H, W, C;
  int64_t pixels() const { return N * H * W; }
  int64_t at(int64_t n, int64_t h, int64_t w) const { return ((n * H + h) * W + w) * C; }
};

// Calls f(n, h, w, first channel, channels) for each pixel and block of channels; threads share the calls.
// `taps`: source pixels per pixel.
template <class F>
void for_each_pixel_block(const ChannelsLastShape& s, int64_t taps, F&& f) {
  const int64_t blocks = ceil_div(s.C, kChannelBlock);
  const int64_t grain =
      std::max<int64_t>(1, 16384 / (std::max<int64_t>(1, taps) * std::min(s.C, kChannelBlock)));
  parallel_for(s.pixels() * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end;) {
      const int64_t pixel = task / blocks, row = pixel / s.W;
      for (int64_t block = task % blocks; block < blocks && task < end; ++block, ++task) {
        const int64_t c = block * kChannelBlock;
        f(row / s.H, row % s.H, pixel % s.W, c, std::min(kChannelBlock, s.C - c));
      }
    }
  });
}

// Source rows (or columns) in the window of output i, without padding.
inline TapRange pool_window_inside(int64_t i, int64_t kernel, int64_t stride, int64_t padding, int64_t size) {
  const int64_t first = i * stride - padding;
  return {std::max<int64_t>(0, first), std::min(size, first + kernel)};
}
// Outputs whose window contains source row (or column) i.
inline TapRange pool_windows_over(int64_t i, int64_t kernel, int64_t stride, int64_t padding,
                                  int64_t outputs) {
  const int64_t past = i + padding - kernel + 1;  // windows that contain i begin here or later
  return {past <= 0 ? 0 : ceil_div(past, stride), std::min(outputs, (i + padding) / stride + 1)};
}

// out [N, OH, OW, C] = maximum of each window; index, of its shape, = h * W + w of the maximum.
template <class T>
void max_pool2d_channels_last(T* out, int32_t* index, const T* x, const ChannelsLastShape& result,
                              const ChannelsLastShape& source, const Window2d& w) {
  for_each_pixel_block(
      result, w.kernel_h * w.kernel_w, [&](int64_t n, int64_t oh, int64_t ow, int64_t c0, int64_t channels) {
        const TapRange rows = pool_window_inside(oh, w.kernel_h, w.stride, w.padding, source.H);
        const TapRange cols = pool_window_inside(ow, w.kernel_w, w.stride, w.padding, source.W);
        T best[kChannelBlock];
        int32_t at[kChannelBlock];
        std::fill_n(best, channels, -std::numeric_limits<T>::infinity());
        std::fill_n(at, channels, static_cast<int32_t>(rows.first * source.W + cols.first));
        for (int64_t h = rows.first; h < rows.last; ++h) {
          for (int64_t v = cols.first; v < cols.last; ++v) {
            const T* const from = x + source.at(n, h, v) + c0;
            const auto place = static_cast<int32_t>(h * source.W + v);
            TT_SIMD
            for (int64_t c = 0; c < channels; ++c) {
              const bool wins = (from[c] > best[c]) | (from[c] != from[c]);
              best[c] = wins ? from[c] : best[c];
              at[c] = wins ? place : at[c];
            }
          }
        }
        const int64_t to = result.at(n, oh, ow) + c0;
        std::copy_n(best, channels, out + to);
        std::copy_n(at, channels, index + to);
      });
}

// dx [N, H, W, C] = dy added at the saved positions. Threads divide samples and channels, because windows may
// share a position.
template <class T>
void max_pool2d_grad_channels_last(T* dx, const T* dy, const int32_t* index, const ChannelsLastShape& image,
                                   const ChannelsLastShape& result) {
  const int64_t positions = image.H * image.W, windows = result.H * result.W;
  for_each_pixel_block({image.N, 1, 1, image.C}, positions + windows,
                       [&](int64_t n, int64_t, int64_t, int64_t c0, int64_t channels) {
                         T* const to = dx + image.at(n, 0, 0) + c0;
                         for (int64_t p = 0; p < positions; ++p)
                           std::fill_n(to + p * image.C, channels, T(0));
                         for (int64_t o = 0; o < windows; ++o) {
                           const int64_t from = (n * windows + o) * result.C + c0;
                           for (int64_t c = 0; c < channels; ++c)
                             to[index[from + c] * image.C + c] += dy[from + c];
                         }
                       });
}

// to[n, h, w] = (sum of from[n, h', w'] / share(h', w') over h' in rows(h) and w' in cols(w)) / divisor(h,
// w). `taps` is the approximate number of terms.
template <class T, class Rows, class Cols, class Share, class Divisor>
void sum_windows(T* to, const ChannelsLastShape& result, const T* from, const ChannelsLastShape& source,
                 int64_t taps, Rows&& rows, Cols&& cols, Share&& share, Divisor&& divisor) {
  for_each_pixel_block(result, taps, [&](int64_t n, int64_t h, int64_t w, int64_t c0, int64_t channels) {
    const TapRange over_h = rows(h), over_w = cols(w);
    T part[kChannelBlock] = {};
    double sums[kChannelBlock];
    int64_t added = 0;
    bool in_double = false;
    const auto add_up = [&] {
      for (int64_t c = 0; c < channels; ++c)
        sums[c] = (in_double ? sums[c] : 0) + static_cast<double>(part[c]);
      in_double = true;
    };
    for (int64_t v = over_h.first; v < over_h.last; ++v) {
      for (int64_t u = over_w.first; u < over_w.last; ++u, ++added) {
        if (added == kColumnRun) {
          add_up();
          std::fill_n(part, channels, T(0));
          added = 0;
        }
        const T parts = share(v, u);
        const T* const x = from + source.at(n, v, u) + c0;
        TT_SIMD
        for (int64_t c = 0; c < channels; ++c) part[c] += x[c] / parts;
      }
    }
    T* const y = to + result.at(n, h, w) + c0;
    const double total = divisor(h, w);
    if (in_double) add_up();
    for (int64_t c = 0; c < channels; ++c)
      y[c] = in_double ? static_cast<T>(sums[c] / total) : part[c] / static_cast<T>(total);
  });
}

template <class T>
void avg_pool2d_channels_last(T* out, const T* x, const ChannelsLastShape& result,
                              const ChannelsLastShape& source, const Window2d& w) {
  const int64_t taps = w.kernel_h * w.kernel_w;
  sum_windows(
      out, result, x, source, taps,
      [&](int64_t i) { return pool_window_inside(i, w.kernel_h, w.stride, w.padding, source.H); },
      [&](int64_t i) { return pool_window_inside(i, w.kernel_w, w.stride, w.padding, source.W); },
      [](int64_t, int64_t) { return T(1); }, [&](int64_t, int64_t) { return static_cast<double>(taps); });
}
template <class T>
void avg_pool2d_grad_channels_last(T* dx, const T* dy, const ChannelsLastShape& image,
                                   const ChannelsLastShape& result, const Window2d& w) {
  const int64_t taps = w.kernel_h * w.kernel_w;
  sum_windows(
      dx, image, dy, result, std::max<int64_t>(1, taps / (w.stride * w.stride)),
      [&](int64_t i) { return pool_windows_over(i, w.kernel_h, w.stride, w.padding, result.H); },
      [&](int64_t i) { return pool_windows_over(i, w.kernel_w, w.stride, w.padding, result.W); },
      [](int64_t, int64_t) { return T(1); }, [&](int64_t, int64_t) { return static_cast<double>(taps); });
}

// Source rows (or columns) [first, last) in the window of output i. With the two sizes exchanged: the outputs
// whose windows contain source row i.
inline TapRange adaptive_window(int64_t i, int64_t input, int64_t outputs) {
  return {i * input / outputs, ceil_div((i + 1) * input, outputs)};
}
// Number of pixels in the window of output (h, w).
inline double adaptive_taps(int64_t h, int64_t w, const ChannelsLastShape& result,
                            const ChannelsLastShape& source) {
  const TapRange rows = adaptive_window(h, source.H, result.H), cols = adaptive_window(w, source.W, result.W);
  return static_cast<double>((rows.last - rows.first) * (cols.last - cols.first));
}
template <class T>
void adaptive_avg_pool2d_channels_last(T* out, const T* x, const ChannelsLastShape& result,
                                       const ChannelsLastShape& source) {
  const int64_t taps = source.H * source.W / (result.H * result.W);
  sum_windows(
      out, result, x, source, taps, [&](int64_t i) { return adaptive_window(i, source.H, result.H); },
      [&](int64_t i) { return adaptive_window(i, source.W, result.W); },
      [](int64_t, int64_t) { return T(1); },
      [&](int64_t h, int64_t w) { return adaptive_taps(h, w, result, source); });
}
template <class T>
void adaptive_avg_pool2d_grad_channels_last(T* dx, const T* dy, const ChannelsLastShape& image,
                                            const ChannelsLastShape& result) {
  sum_windows(
      dx, image, dy, result, 1, [&](int64_t i) { return adaptive_window(i, result.H, image.H); },
      [&](int64_t i) { return adaptive_window(i, result.W, image.W); },
      [&](int64_t h, int64_t w) { return static_cast<T>(adaptive_taps(h, w, result, image)); },
      [](int64_t, int64_t) { return 1.0; });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
