// Convolution of images on the CPU, forward and both gradients, with groups and dilation.
//
//   out[n, m, p] = bias[m] + sum over (c, kh, kw) of weight[m, c, kh, kw] x[n, c, p * stride - padding + k * dilation]
//
// As a matrix product over columns: im2col writes the patches of a block of output positions, flattened over
// samples, as a matrix [K, columns], K = C/groups * KH * KW, that stays in the L2 cache; gemm multiplies it.
// The gradients run the same three ways: dx = col2im(W^T dy), dW = dy im2col^T. One channel per group
// (depthwise) has no product to speak of and takes a direct loop. Blocks depend on shapes alone: results are
// deterministic. Source: Chellapilla, Puri, Simard, "High performance convolutional neural networks for
// document processing", 2006.
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

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <tinytorch/backend/cpu/dense.hpp>
#include <tinytorch/backend/cpu/depthwise.hpp>
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Columns handled at once: patches, operand and result together about 768 KiB of float.
inline int64_t columns_at_once(const ConvShape& s, int64_t columns) {
  const int64_t fit = 196608 / std::max<int64_t>(1, s.K + s.group_m) / 32 * 32;
  const int64_t spread = (columns / 4 + 31) / 32 * 32;  // leave work for several threads
  return std::clamp<int64_t>(std::min(fit, spread), 64, 4096);
}

// The runs that make up columns [first, last) of the flattened (sample, oh, ow).
inline void list_runs(std::vector<ColumnRun>& runs, const ConvShape& s, int64_t first, int64_t last) {
  runs.clear();
  for (int64_t j = first; j < last;) {
    const int64_t position = j % s.outputs, ow = position % s.OW;
    const int64_t length = std::min(last - j, s.OW - ow);
    runs.push_back({j / s.outputs, position / s.OW, ow, length, j - first});
    j += length;
  }
}

// Runs are a few elements long, where a call of memcpy would cost more than the copy.
template <class T>
void copy_run(T* out, const T* in, int64_t n) {
  constexpr int64_t kWide = 32 / sizeof(T), kNarrow = 16 / sizeof(T);
  if (n >= kWide) {
    int64_t i = 0;
    for (; i + kWide <= n; i += kWide) std::memcpy(out + i, in + i, 32);
    std::memcpy(out + n - kWide, in + n - kWide, 32);
  } else if (n >= kNarrow) {
    std::memcpy(out, in, 16);
    std::memcpy(out + n - kNarrow, in + n - kNarrow, 16);
  } else if (n > 0) {
    out[0] = in[0];
    if (n > 1) out[1] = in[1];
    if (n > 2) out[2] = in[2];
  }
}

// cols [K, width] = patches of one group under the listed runs; x is the first sample's group.
template <class T>
void im2col(T* cols, int64_t width, const T* x, const ConvShape& s, const std::vector<ColumnRun>& runs) {
  const int64_t stride = s.window.stride;
  for (int64_t c = 0; c < s.group_c; ++c) {
    for (int64_t kh = 0; kh < s.window.kernel_h; ++kh) {
      for (int64_t kw = 0; kw < s.window.kernel_w; ++kw, cols += width) {
        for (const ColumnRun& run : runs) {
          const TapSpan span = tap_span(s, run, kh, kw);
          T* out = cols + run.column;
          const T* in = x + (run.sample * s.C + c) * s.H * s.W + span.source;
          for (int64_t i = 0; i < span.first; ++i) out[i] = T(0);
          if (stride == 1) {
            copy_run(out + span.first, in, span.last - span.first);
          } else {
            for (int64_t i = span.first; i < span.last; ++i) out[i] = in[(i - span.first) * stride];
          }
          for (int64_t i = span.last; i < run.length; ++i) out[i] = T(0);
        }
      }
    }
  }
}

// The adjoint of im2col for one channel: adds its KH * KW rows of cols into the image.
template <class T>
void col2im_channel(T* dx, const T* cols, int64_t width, int64_t c, const ConvShape& s,
                    const std::vector<ColumnRun>& runs) {
  const int64_t stride = s.window.stride;
  for (int64_t kh = 0; kh < s.window.kernel_h; ++kh) {
    for (int64_t kw = 0; kw < s.window.kernel_w; ++kw, cols += width) {
      for (const ColumnRun& run : runs) {
        const TapSpan span = tap_span(s, run, kh, kw);
        const T* in = cols + run.column + span.first;
        T* out = dx + (run.sample * s.C + c) * s.H * s.W + span.source;
        const int64_t n = span.last - span.first;
        if (stride == 1) {
          TT_SIMD
          for (int64_t i = 0; i < n; ++i) out[i] += in[i];
        } else {
          for (int64_t i = 0; i < n; ++i) out[i * stride] += in[i];
        }
      }
    }
  }
}

// Calls f(sample, position, column, length) for the parts of columns [first, last) that lie in one sample.
template <class F>
void for_each_sample(const ConvShape& s, int64_t first, int64_t last, F&& f) {
  for (int64_t j = first; j < last;) {
    const int64_t position = j % s.outputs, length = std::min(last - j, s.outputs - position);
    f(j / s.outputs, position, j - first, length);
    j += length;
  }
}

template <class T>
View matrix_view(const T* data, int64_t rows, int64_t cols, int64_t row, int64_t col) {
  return {const_cast<T*>(data), dtype_of<T>, {rows, cols}, {row, col}};
}

template <class T>
void conv2d_columns(T* out, const T* x, const T* weight, const T* bias, const ConvShape& s) {
  const int64_t columns = s.N * s.outputs, width = columns_at_once(s, columns),
                blocks = (columns + width - 1) / width;
  parallel_for(s.groups * blocks, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> cols(s.K * width), result(s.group_m * width);
    std::vector<ColumnRun> runs;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t g = task / blocks, first = task % blocks * width, last = std::min(columns, first + width);
      list_runs(runs, s, first, last);
      im2col(cols.data(), width, x + g * s.group_c * s.H * s.W, s, runs);
      gemm(matrix_view(result.data(), s.group_m, last - first, width, 1),
           matrix_view(weight + g * s.group_m * s.K, s.group_m, s.K, s.K, 1),
           matrix_view(cols.data(), s.K, last - first, width, 1));
      for_each_sample(s, first, last, [&](int64_t n, int64_t position, int64_t column, int64_t length) {
        for (int64_t m = 0; m < s.group_m; ++m) {
          const int64_t channel = g * s.group_m + m;
          const T b = bias ? bias[channel] : T(0);
          const T* from = result.data() + m * width + column;
          T* to = out + (n * s.M + channel) * s.outputs + position;
          TT_SIMD
          for (int64_t i = 0; i < length; ++i) to[i] = from[i] + b;
        }
      });
    }
  });
}

// Columns [first, last) of dy for group g as a matrix [group_m, last - first]: in place when they lie in one
// sample, else gathered into scratch.
template <class T>
View dy_matrix(const T* dy, T* scratch, int64_t width, const ConvShape& s, int64_t g, int64_t first,
               int64_t last) {
  const int64_t n = first / s.outputs;
  if ((last - 1) / s.outputs == n) {
    return matrix_view(dy + (n * s.M + g * s.group_m) * s.outputs + first % s.outputs, s.group_m,
                       last - first, s.outputs, 1);
  }
  for_each_sample(s, first, last, [&](int64_t sample, int64_t position, int64_t column, int64_t length) {
    for (int64_t m = 0; m < s.group_m; ++m) {
      copy_run(scratch + m * width + column, dy + (sample * s.M + g * s.group_m + m) * s.outputs + position,
               length);
    }
  });
  return matrix_view(scratch, s.group_m, last - first, width, 1);
}

// Each task owns whole samples, so that no two threads add into one image.
template <class T>
void conv2d_grad_input_columns(T* dx, const T* dy, const T* weight, const ConvShape& s) {
  const int64_t together = std::clamp<int64_t>(256 / s.outputs, 1, 64);  // small images share a product
  const int64_t chunks = (s.N + together - 1) / together, tasks = chunks * s.groups;
  const int64_t width = columns_at_once(s, std::min(together, s.N) * s.outputs * 4);
  parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> cols(s.K * width), gathered(s.group_m * width);
    std::vector<ColumnRun> runs;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t g = task % s.groups, n0 = task / s.groups * together, n1 = std::min(s.N, n0 + together);
      T* const group = dx + g * s.group_c * s.H * s.W;
      for (int64_t n = n0; n < n1; ++n) {
        std::fill_n(group + n * s.C * s.H * s.W, s.group_c * s.H * s.W, T(0));
      }
      for (int64_t first = n0 * s.outputs; first < n1 * s.outputs; first += width) {
        const int64_t last = std::min(n1 * s.outputs, first + width);
        gemm(matrix_view(cols.data(), s.K, last - first, width, 1),
             matrix_view(weight + g * s.group_m * s.K, s.K, s.group_m, 1, s.K),
             dy_matrix(dy, gathered.data(), width, s, g, first, last));
        list_runs(runs, s, first, last);
        const int64_t taps = s.window.kernel_h * s.window.kernel_w;
        parallel_for(s.group_c, 4, [&](int64_t c0, int64_t c1) {
          for (int64_t c = c0; c < c1; ++c) {
            col2im_channel(group, cols.data() + c * taps * width, width, c, s, runs);
          }
        });
      }
    }
  });
}

// The columns are cut into at most eight stretches, each summed by one thread; their sums are added in order.
template <class T>
void conv2d_grad_weight_columns(T* dw, const T* dy, const T* x, const ConvShape& s) {
  const int64_t columns = s.N * s.outputs, width = columns_at_once(s, columns),
                blocks = (columns + width - 1) / width;
  const int64_t size = s.group_m * s.K;
  const int64_t room = std::max<int64_t>(2, (int64_t{1} << 22) / std::max<int64_t>(1, size * s.groups));
  const int64_t stretches = std::max<int64_t>(1, std::min({blocks, room, int64_t{8}}));
  Scratch<T> partial(stretches * s.groups * size);
  parallel_for(s.groups * stretches, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> cols(s.K * width), gathered(s.group_m * width);
    std::vector<ColumnRun> runs;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t g = task / stretches, stretch = task % stretches;
      T* sum = partial.data() + (stretch * s.groups + g) * size;
      std::fill_n(sum, size, T(0));
      for (int64_t b = blocks * stretch / stretches; b < blocks * (stretch + 1) / stretches; ++b) {
        const int64_t first = b * width, last = std::min(columns, first + width);
        list_runs(runs, s, first, last);
        im2col(cols.data(), width, x + g * s.group_c * s.H * s.W, s, runs);
        gemm(matrix_view(sum, s.group_m, s.K, s.K, 1),
             dy_matrix(dy, gathered.data(), width, s, g, first, last),
             matrix_view(cols.data(), last - first, s.K, 1, width), true);
      }
    }
  });
  parallel_for(s.groups * size, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) dw[i] = partial.data()[i];
    for (int64_t k = 1; k < stretches; ++k) {
      const T* add = partial.data() + k * s.groups * size;
      TT_SIMD
      for (int64_t i = begin; i < end; ++i) dw[i] += add[i];
    }
  });
}

TT_API void conv2d(const View& out, const View& x, const View& weight, const View& bias,
                   const Window2d& window, int64_t groups) {
  if (out.numel() == 0) return;
  const ConvShape s(x, out, window, groups);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const DenseInput<T> in(x), w(weight), b(bias);
    DenseOutput<T> to(out);
    (s.depthwise() ? depthwise<T> : conv2d_columns<T>)(to.data(), in.data(), w.data(), b.data(), s);
    to.finish();
  });
}

TT_API void conv2d_grad_input(const View& dx, const View& dy, const View& weight, const Window2d& window,
                              int64_t groups) {
  if (dx.numel() == 0) return;
  const ConvShape s(dx, dy, window, groups);
  dispatch_floating(dx.dtype, [&]<class T>(T*) {
    const DenseInput<T> grad(dy), w(weight);
    DenseOutput<T> to(dx);
    (s.depthwise() ? depthwise_grad_input<T> : conv2d_grad_input_columns<T>)(to.data(), grad.data(), w.data(),
                                                                             s);
    to.finish();
  });
}

TT_API void conv2d_grad_weight(const View& dw, const View& dy, const View& x, const Window2d& window,
                               int64_t groups) {
  if (dw.numel() == 0) return;
  const ConvShape s(x, dy, window, groups);
  dispatch_floating(dw.dtype, [&]<class T>(T*) {
    const DenseInput<T> grad(dy), in(x);
    DenseOutput<T> to(dw);
    (s.depthwise() ? depthwise_grad_weight<T> : conv2d_grad_weight_columns<T>)(to.data(), grad.data(),
                                                                               in.data(), s);
    to.finish();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
