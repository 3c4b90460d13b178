// Depthwise convolution on the CPU: one input channel per group, forward and both gradients.
//
// A plane of output reads one plane of input, so there is no matrix product to speak of: each tap adds a
// shifted, weighted copy of the input row to the output row. Part of backend/cpu/conv.hpp, which documents
// the operands and calls these.
#pragma once

#include <tinytorch/backend/window.hpp>

#if TT_BODIES(BACKEND)
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Calls f(tap, oh, first, last, source) for each output row and tap: outputs [first, last) of the row read
// the input plane from `source` on, in steps of the stride.
template <class F>
void for_each_tap(const ConvShape& s, F&& f) {
  for (int64_t oh = 0; oh < s.OH; ++oh) {
    const ColumnRun row{0, oh, 0, s.OW, 0};
    for (int64_t kh = 0; kh < s.window.kernel_h; ++kh) {
      for (int64_t kw = 0; kw < s.window.kernel_w; ++kw) {
        const TapSpan span = tap_span(s, row, kh, kw);
        if (span.first < span.last) f(kh * s.window.kernel_w + kw, oh, span);
      }
    }
  }
}

template <class T>
void depthwise(T* out, const T* x, const T* weight, const T* bias, const ConvShape& s) {
  const int64_t stride = s.window.stride;
  parallel_for(s.N * s.M, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t n = plane / s.M, m = plane % s.M;
      const T* in = x + (n * s.C + m / s.group_m) * s.H * s.W;
      T* to = out + plane * s.outputs;
      std::fill_n(to, s.outputs, bias ? bias[m] : T(0));
      for_each_tap(s, [&](int64_t tap, int64_t oh, const TapSpan& span) {
        const T w = weight[m * s.K + tap];
        T* row = to + oh * s.OW + span.first;
        const T* from = in + span.source;
        const int64_t n_out = span.last - span.first;
        if (stride == 1) {
          TT_SIMD
          for (int64_t i = 0; i < n_out; ++i) row[i] += w * from[i];
        } else {
          for (int64_t i = 0; i < n_out; ++i) row[i] += w * from[i * stride];
        }
      });
    }
  });
}

template <class T>
void depthwise_grad_input(T* dx, const T* dy, const T* weight, const ConvShape& s) {
  const int64_t stride = s.window.stride;
  parallel_for(s.N * s.C, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      T* const out = dx + plane * s.H * s.W;
      std::fill_n(out, s.H * s.W, T(0));
      for (int64_t k = 0; k < s.group_m; ++k) {
        const int64_t m = plane % s.C * s.group_m + k;
        const T* in = dy + (plane / s.C * s.M + m) * s.outputs;
        for_each_tap(s, [&](int64_t tap, int64_t oh, const TapSpan& span) {
          const T w = weight[m * s.K + tap];
          const T* row = in + oh * s.OW + span.first;
          T* to = out + span.source;
          const int64_t n_out = span.last - span.first;
          if (stride == 1) {
            TT_SIMD
            for (int64_t i = 0; i < n_out; ++i) to[i] += w * row[i];
          } else {
            for (int64_t i = 0; i < n_out; ++i) to[i * stride] += w * row[i];
          }
        });
      }
    }
  });
}

// Products are summed per output column over all rows and samples, which vectorizes, and the columns last.
template <class T>
void depthwise_grad_weight(T* dw, const T* dy, const T* x, const ConvShape& s) {
  const int64_t stride = s.window.stride;
  parallel_for(s.M, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> sums(s.K * s.OW);
    for (int64_t m = begin; m < end; ++m) {
      std::fill_n(sums.data(), s.K * s.OW, T(0));
      for (int64_t n = 0; n < s.N; ++n) {
        const T* in = x + (n * s.C + m / s.group_m) * s.H * s.W;
        const T* grad = dy + (n * s.M + m) * s.outputs;
        for_each_tap(s, [&](int64_t tap, int64_t oh, const TapSpan& span) {
          T* sum = sums.data() + tap * s.OW + span.first;
          const T* row = grad + oh * s.OW + span.first;
          const T* from = in + span.source;
          const int64_t n_out = span.last - span.first;
          TT_SIMD
          for (int64_t i = 0; i < n_out; ++i) sum[i] += row[i] * from[i * stride];
        });
      }
      for (int64_t tap = 0; tap < s.K; ++tap) {
        T total = 0;
        for (int64_t i = 0; i < s.OW; ++i) total += sums.data()[tap * s.OW + i];
        dw[m * s.K + tap] = total;
      }
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
