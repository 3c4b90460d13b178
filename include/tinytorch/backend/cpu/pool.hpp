// Pooling of images on the CPU: maximum with saved positions, average, adaptive average, and their gradients.
//
// Planes (one channel of one sample) are independent, and threads divide them. Within a plane, one tap of the
// window at a time is combined with a whole row of outputs, which vectorizes. Channels-last images have their
// own loops (pool_channels_last.hpp).
#pragma once

#include <tinytorch/backend/window.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// x [N, C, H, W] -> out [N, C, OH, OW]; index (i32, contiguous, or channels-last like out) = h * W + w of
// each maximum within its plane. Padding is never the maximum; NaN is, if a window has one.
TT_API void max_pool2d(const View& out, const View& index, const View& x, const Window2d& window);
// dx = dy added at the saved positions. The window says which outputs can contain an element: backends that
// gather use it; this one scatters and does not.
TT_API void max_pool2d_grad(const View& dx, const View& dy, const View& index, const Window2d& window);
// Sum over the window, with padding as zeros, divided by KH * KW.
TT_API void avg_pool2d(const View& out, const View& x, const Window2d& window);
TT_API void avg_pool2d_grad(const View& dx, const View& dy, const Window2d& window);
// Output (i, j) is the mean of rows floor(i H / OH) to ceil((i + 1) H / OH) - 1 and columns likewise.
TT_API void adaptive_avg_pool2d(const View& out, const View& x);
TT_API void adaptive_avg_pool2d_grad(const View& dx, const View& dy);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <cstring>
#include <limits>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/backend/cpu/pool_channels_last.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Sizes of the input x and the output y of a channels-first pooling.
struct PoolShape {
  Window2d window;
  int64_t planes, H, W, OH, OW;
  PoolShape(const View& x, const View& y, const Window2d& w)
      : window(w),
        planes(x.shape[0] * x.shape[1]),
        H(x.shape[2]),
        W(x.shape[3]),
        OH(y.shape[2]),
        OW(y.shape[3]) {}
  int64_t grain() const { return std::max<int64_t>(1, 16384 / (H * W + OH * OW)); }
};

// Calls f(oh, first, last, source) for each row of outputs and each tap: outputs [first, last) of the row
// read the input plane from element `source` on, `stride` apart.
template <class F>
void for_each_pool_tap(const PoolShape& s, F&& f) {
  const Window2d& w = s.window;
  for (int64_t oh = 0; oh < s.OH; ++oh) {
    for (int64_t kh = 0; kh < w.kernel_h; ++kh) {
      const int64_t ih = oh * w.stride - w.padding + kh;
      if (ih < 0 || ih >= s.H) continue;
      for (int64_t kw = 0; kw < w.kernel_w; ++kw) {
        const int64_t shift = kw - w.padding;
        const TapRange inside = taps_inside(shift, s.W, s.OW, w.stride);
        f(oh, inside.first, inside.last, ih * s.W + shift + inside.first * w.stride);
      }
    }
  }
}

inline constexpr int64_t kPoolBlock = 16;  // adjacent outputs in loops of constant length

// best[i] = max(best[i], row[i * stride]), and at[i] is its position, start + i * stride if it changes.
// kStride 0: any stride.
template <class T, int64_t kStride>
void take_larger(T (&best)[kPoolBlock], int32_t (&at)[kPoolBlock], const T* row, int32_t start,
                 int64_t stride) {
  const auto step = static_cast<int32_t>(kStride == 0 ? stride : kStride);
  TT_SIMD
  for (int32_t i = 0; i < static_cast<int32_t>(kPoolBlock); ++i) {
    const T v = row[i * step];
    const bool wins = (v > best[i]) | (v != v);
    best[i] = wins ? v : best[i];
    at[i] = wins ? start + i * step : at[i];
  }
}

// The input rows of a row of windows are copied with -infinity around them, so that all windows are complete
// and the last block of outputs may exceed the row.
template <class T>
void max_pool2d_as(T* out, int32_t* index, const T* x, const PoolShape& s) {
  const Window2d& w = s.window;
  const auto take = w.stride == 2 ? take_larger<T, 2> : w.stride == 1 ? take_larger<T, 1> : take_larger<T, 0>;
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  const int64_t blocks = ceil_div(s.OW, kPoolBlock);
  const int64_t width = std::max(s.W + 2 * w.padding, (blocks * kPoolBlock - 1) * w.stride + w.kernel_w);
  parallel_for(s.planes, s.grain(), [&](int64_t begin, int64_t end) {
    std::vector<T> rows(static_cast<size_t>(w.kernel_h * width), kLowest);
    for (int64_t task = begin * s.OH; task < end * s.OH; ++task) {
      const T* in = x + task / s.OH * s.H * s.W;
      const int64_t top = task % s.OH * w.stride - w.padding;
      const int64_t first = std::max<int64_t>(0, top), last = std::min(s.H, top + w.kernel_h);
      for (int64_t ih = first; ih < last; ++ih)
        std::memcpy(rows.data() + (ih - top) * width + w.padding, in + ih * s.W,
                    static_cast<size_t>(s.W) * sizeof(T));
      for (int64_t o = 0; o < s.OW; o += kPoolBlock) {
        const int64_t left = o * w.stride - w.padding;
        T best[kPoolBlock];
        int32_t at[kPoolBlock];
        for (int64_t i = 0; i < kPoolBlock; ++i) {  // position if all elements are -inf
          best[i] = kLowest;
          at[i] = static_cast<int32_t>(first * s.W + std::max<int64_t>(0, left + i * w.stride));
        }
        for (int64_t ih = first; ih < last; ++ih) {
          for (int64_t kw = 0; kw < w.kernel_w; ++kw)
            take(best, at, rows.data() + (ih - top) * width + o * w.stride + kw,
                 static_cast<int32_t>(ih * s.W + left + kw), w.stride);
        }
        const int64_t n = std::min(kPoolBlock, s.OW - o), to = task * s.OW + o;
        std::copy_n(best, n, out + to);
        std::copy_n(at, n, index + to);
      }
    }
  });
}

template <class T>
void avg_pool2d_as(T* out, const T* x, const PoolShape& s) {
  const T taps = static_cast<T>(s.window.kernel_h * s.window.kernel_w);
  const int64_t stride = s.window.stride;
  parallel_for(s.planes, s.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const T* in = x + plane * s.H * s.W;
      T* to = out + plane * s.OH * s.OW;
      std::fill_n(to, s.OH * s.OW, T(0));
      for_each_pool_tap(s, [&](int64_t oh, int64_t first, int64_t last, int64_t source) {
        T* row = to + oh * s.OW;
        const T* from = in + source;
        TT_SIMD
        for (int64_t i = first; i < last; ++i) row[i] += from[(i - first) * stride];
      });
      TT_SIMD
      for (int64_t i = 0; i < s.OH * s.OW; ++i) to[i] /= taps;
    }
  });
}

template <class T>
void avg_pool2d_grad_as(T* dx, const T* dy, const PoolShape& s) {
  const T taps = static_cast<T>(s.window.kernel_h * s.window.kernel_w);
  const int64_t stride = s.window.stride;
  parallel_for(s.planes, s.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      T* to = dx + plane * s.H * s.W;
      const T* grad = dy + plane * s.OH * s.OW;
      std::fill_n(to, s.H * s.W, T(0));
      for_each_pool_tap(s, [&](int64_t oh, int64_t first, int64_t last, int64_t source) {
        const T* row = grad + oh * s.OW;
        T* out = to + source;
        TT_SIMD  // the writes of one tap do not overlap
            for (int64_t i = first; i < last; ++i) out[(i - first) * stride] += row[i];
      });
      TT_SIMD
      for (int64_t i = 0; i < s.H * s.W; ++i) to[i] /= taps;
    }
  });
}

// The rows of a window are added first, once for all windows of a row and in whole vectors; after every
// kColumnRun rows in double.
template <class T>
void adaptive_avg_pool2d_as(T* out, const T* x, const PoolShape& s) {
  parallel_for(s.planes, s.grain(), [&](int64_t begin, int64_t end) {
    std::vector<T> part(static_cast<size_t>(s.W));
    std::vector<double> sums(static_cast<size_t>(s.W));
    for (int64_t task = begin * s.OH; task < end * s.OH; ++task) {
      const T* in = x + task / s.OH * s.H * s.W;
      const TapRange rows = adaptive_window(task % s.OH, s.H, s.OH);
      const int64_t height = rows.last - rows.first;
      T* to = out + task * s.OW;
      if (s.OW == 1) {  // whole rows are contiguous
        const T* const x0 = in + rows.first * s.W;
        const double sum =
            sum_pieces(height * s.W, [x0](int64_t i, int64_t n) { return sum_run(x0 + i, n); });
        *to = static_cast<T>(sum / static_cast<double>(height * s.W));
        continue;
      }
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int64_t h0 = rows.first; h0 < rows.last; h0 += kColumnRun) {
        std::fill(part.begin(), part.end(), T(0));
        for (int64_t h = h0; h < std::min(rows.last, h0 + kColumnRun); ++h) {
          const T* row = in + h * s.W;
          TT_SIMD
          for (int64_t w = 0; w < s.W; ++w) part[static_cast<size_t>(w)] += row[w];
        }
        TT_SIMD
        for (int64_t w = 0; w < s.W; ++w)
          sums[static_cast<size_t>(w)] += static_cast<double>(part[static_cast<size_t>(w)]);
      }
      for (int64_t ow = 0; ow < s.OW; ++ow) {
        const TapRange cols = adaptive_window(ow, s.W, s.OW);
        const int64_t width = cols.last - cols.first;
        const double sum = sum_run(sums.data() + cols.first, width);
        to[ow] = static_cast<T>(sum / static_cast<double>(height * width));
      }
    }
  });
}

template <class T>
void adaptive_avg_pool2d_grad_as(T* dx, const T* dy, const PoolShape& s) {
  parallel_for(s.planes, s.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      T* to = dx + plane * s.H * s.W;
      std::fill_n(to, s.H * s.W, T(0));
      for (int64_t oh = 0; oh < s.OH; ++oh) {
        const TapRange rows = adaptive_window(oh, s.H, s.OH);
        for (int64_t ow = 0; ow < s.OW; ++ow) {
          const TapRange cols = adaptive_window(ow, s.W, s.OW);
          const T share = dy[(plane * s.OH + oh) * s.OW + ow] /
                          static_cast<T>((rows.last - rows.first) * (cols.last - cols.first));
          for (int64_t h = rows.first; h < rows.last; ++h) {
            T* row = to + h * s.W;
            TT_SIMD
            for (int64_t w = cols.first; w < cols.last; ++w) row[w] += share;
          }
        }
      }
    }
  });
}

inline ChannelsLastShape channels_last_shape(const View& x) {
  return {x.shape[0], x.shape[2], x.shape[3], x.shape[1]};
}
// True if the channels-last loops are used. Images of one pixel have both layouts; for them the layout of
// `others` decides.
inline bool use_channels_last(const View& images, const View& others) {
  if (!images.contiguous()) return is_dense_channels_last(images);
  return channels_at_end(images).contiguous() && is_dense_channels_last(others);
}

// Calls loop(result, source) with both as contiguous T.
template <class T, class F>
void run_pool(const View& out, const View& in, F&& loop) {
  const ContiguousInput<T> from(in);
  ContiguousOutput<T> to(out);
  loop(to.data(), from.data());
  to.write_back();
}
// Calls last(result, source) on channels-last arrays [N, H, W, C] if channels_last, else first(result,
// source) on channels-first arrays.
template <class First, class Last>
void run_pool(const View& out, const View& in, bool channels_last, First&& first, Last&& last) {
  if (out.numel() == 0) return;
  dispatch_floating(in.dtype, [&]<class T>(T*) {
    if (channels_last) return run_pool<T>(channels_at_end(out), channels_at_end(in), last);
    run_pool<T>(out, in, first);
  });
}

TT_API void max_pool2d(const View& out, const View& index, const View& x, const Window2d& window) {
  run_pool(
      out, x, use_channels_last(out, x),
      [&]<class T>(T* to, const T* from) {
        max_pool2d_as(to, index.as<int32_t>(), from, PoolShape(x, out, window));
      },
      [&]<class T>(T* to, const T* from) {
        max_pool2d_channels_last(to, index.as<int32_t>(), from, channels_last_shape(out),
                                 channels_last_shape(x), window);
      });
}

template <class T>
void max_pool2d_grad_as(T* dx, const T* dy, const int32_t* index, const PoolShape& s) {
  parallel_for(s.planes, s.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      T* out = dx + plane * s.H * s.W;
      std::fill_n(out, s.H * s.W, T(0));
      for (int64_t i = plane * s.OH * s.OW; i < (plane + 1) * s.OH * s.OW; ++i) out[index[i]] += dy[i];
    }
  });
}

TT_API void max_pool2d_grad(const View& dx, const View& dy, const View& index, const Window2d&) {
  run_pool(
      dx, dy, use_channels_last(index, dx),
      [&]<class T>(T* to, const T* from) {
        max_pool2d_grad_as(to, from, index.as<const int32_t>(), PoolShape(dx, dy, {}));
      },
      [&]<class T>(T* to, const T* from) {
        max_pool2d_grad_channels_last(to, from, index.as<const int32_t>(), channels_last_shape(dx),
                                      channels_last_shape(dy));
      });
}

TT_API void avg_pool2d(const View& out, const View& x, const Window2d& window) {
  run_pool(
      out, x, use_channels_last(out, x),
      [&]<class T>(T* to, const T* from) { avg_pool2d_as(to, from, PoolShape(x, out, window)); },
      [&]<class T>(T* to, const T* from) {
        avg_pool2d_channels_last(to, from, channels_last_shape(out), channels_last_shape(x), window);
      });
}
TT_API void avg_pool2d_grad(const View& dx, const View& dy, const Window2d& window) {
  run_pool(
      dx, dy, use_channels_last(dx, dy),
      [&]<class T>(T* to, const T* from) { avg_pool2d_grad_as(to, from, PoolShape(dx, dy, window)); },
      [&]<class T>(T* to, const T* from) {
        avg_pool2d_grad_channels_last(to, from, channels_last_shape(dx), channels_last_shape(dy), window);
      });
}
TT_API void adaptive_avg_pool2d(const View& out, const View& x) {
  run_pool(
      out, x, use_channels_last(out, x),
      [&]<class T>(T* to, const T* from) { adaptive_avg_pool2d_as(to, from, PoolShape(x, out, {})); },
      [&]<class T>(T* to, const T* from) {
        adaptive_avg_pool2d_channels_last(to, from, channels_last_shape(out), channels_last_shape(x));
      });
}
TT_API void adaptive_avg_pool2d_grad(const View& dx, const View& dy) {
  run_pool(
      dx, dy, use_channels_last(dx, dy),
      [&]<class T>(T* to, const T* from) { adaptive_avg_pool2d_grad_as(to, from, PoolShape(dx, dy, {})); },
      [&]<class T>(T* to, const T* from) {
        adaptive_avg_pool2d_grad_channels_last(to, from, channels_last_shape(dx), channels_last_shape(dy));
      });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
