// Interpolation of planes on the CPU: an output row is computed from two input rows first, then along the
// row.
#pragma once

#include <tinytorch/backend/resampling.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [..., H', W'] from x [..., H, W], both floating and of one dtype, whose sizes are those of `axes`.
TT_API void interpolate(const View& out, const View& x, const PlaneResampling& axes);
// dx of x's shape from dout: the weights of interpolate, transposed. The order of additions depends on the
// shapes alone.
TT_API void interpolate_grad(const View& dx, const View& dout, const PlaneResampling& axes);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kInterpolateGrain = 16384;

// The sources of all outputs of a dimension.
template <class T>
struct AxisSources {
  std::vector<int64_t> low, high;
  std::vector<T> fraction;

  explicit AxisSources(const Resampling& axis) {
    for (int64_t i = 0; i < axis.outputs; ++i) {
      const ResampledElement e = axis.at(i);
      low.push_back(e.low), high.push_back(e.high), fraction.push_back(static_cast<T>(e.fraction));
    }
  }
};

// out = a + (b - a) t; out may be a or b.
template <class T>
void blend_rows(T* out, const T* a, const T* b, T t, int64_t n) {
  TT_SIMD
  for (int64_t k = 0; k < n; ++k) out[k] = a[k] + (b[k] - a[k]) * t;
}

template <class T>
void resample_row(T* out, const T* row, const AxisSources<T>& columns, bool nearest, int64_t n) {
  const int64_t *low = columns.low.data(), *high = columns.high.data();
  const T* const t = columns.fraction.data();
  if (nearest) {
    TT_SIMD
    for (int64_t j = 0; j < n; ++j) out[j] = row[low[j]];
    return;
  }
  TT_SIMD
  for (int64_t j = 0; j < n; ++j) out[j] = row[low[j]] + (row[high[j]] - row[low[j]]) * t[j];
}

// to = the transposed weights of resample_row times g
template <class T>
void resample_row_grad(T* to, const T* g, const AxisSources<T>& columns, const Resampling& axis) {
  std::fill(to, to + axis.inputs, T(0));
  for (int64_t j = 0; j < axis.outputs; ++j) {
    const auto at = static_cast<size_t>(j);
    const T second = g[j] * columns.fraction[at];
    to[columns.low[at]] += g[j] - second;
    if (!axis.nearest) to[columns.high[at]] += second;
  }
}

TT_API void interpolate(const View& out, const View& x, const PlaneResampling& axes) {
  const int64_t W = axes.columns.inputs, W2 = axes.columns.outputs, H = axes.rows.inputs;
  const int64_t H2 = axes.rows.outputs, planes = x.numel() / (H * W);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x);
    ContiguousOutput<T> to(out);
    const AxisSources<T> rows(axes.rows), columns(axes.columns);
    parallel_for(planes * H2, std::max<int64_t>(1, kInterpolateGrain / (W + W2)),
                 [&](int64_t begin, int64_t end) {
                   Scratch<T> memory(W);
                   for (int64_t r = begin; r < end; ++r) {
                     const auto i = static_cast<size_t>(r % H2);
                     const T* const plane = in.data() + r / H2 * H * W;
                     const T* row = plane + rows.low[i] * W;
                     if (!axes.rows.nearest) {
                       blend_rows(memory.data(), row, plane + rows.high[i] * W, rows.fraction[i], W);
                       row = memory.data();
                     }
                     resample_row(to.data() + r * W2, row, columns, axes.columns.nearest, W2);
                   }
                 });
    to.write_back();
  });
}

// First along rows, into a temporary [planes, H', W]; then each input row adds the rows that it gave to.
TT_API void interpolate_grad(const View& dx, const View& dout, const PlaneResampling& axes) {
  const int64_t W = axes.columns.inputs, W2 = axes.columns.outputs, H = axes.rows.inputs;
  const int64_t H2 = axes.rows.outputs, planes = dx.numel() / (H * W);
  if (planes == 0) return;
  dispatch_floating(dx.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> g(dout);
    ContiguousOutput<T> to(dx);
    const AxisSources<T> rows(axes.rows), columns(axes.columns);
    Scratch<T> narrow(planes * H2 * W);
    const int64_t grain = std::max<int64_t>(1, kInterpolateGrain / (W + W2));
    parallel_for(planes * H2, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        resample_row_grad(narrow.data() + r * W, g.data() + r * W2, columns, axes.columns);
      }
    });
    parallel_for(planes * H, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t h = r % H;
        T* const sum = to.data() + r * W;
        std::fill(sum, sum + W, T(0));
        const auto add = [&](const std::vector<int64_t>& gave, bool second) {
          const auto [first, last] = std::equal_range(gave.begin(), gave.end(), h);
          for (auto at = first - gave.begin(); at < last - gave.begin(); ++at) {
            const T t = rows.fraction[static_cast<size_t>(at)], weight = second ? t : T(1) - t;
            const T* const row = narrow.data() + (r / H * H2 + at) * W;
            TT_SIMD
            for (int64_t k = 0; k < W; ++k) sum[k] += weight * row[k];
          }
        };
        add(rows.low, false);
        if (!axes.rows.nearest) add(rows.high, true);
      }
    });
    to.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
