// Pooling that is composed of index_select and a reduction along each dimension: max_pool1d, avg_pool1d, and
// adaptive_max_pool2d; also rectangular windows of images, those of ceil_mode, and means without the padding.
// Names and semantics are PyTorch's.
//
// Windows of an image are pooled along W and then along H, which is exact for maxima and means. Of equal
// maxima the first in row-major order gets the gradient. Square windows have kernels of their own (pool.hpp).
#pragma once

#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

// x [N, C, L]. With ceil_mode the last window may reach beyond the end of x, by less than a stride.
struct Pool1dOptions {
  int64_t kernel = 2, stride = 0, padding = 0;  // stride 0 means stride = kernel
  bool ceil_mode = false;
  bool count_include_pad = true;  // avg_pool1d: padding counts as zeros; if false, it does not count
};
TT_API Tensor max_pool1d(const Tensor& x, Pool1dOptions options = {}, TT_LOC);
TT_API Tensor avg_pool1d(const Tensor& x, Pool1dOptions options = {}, TT_LOC);
// x [N, C, H, W] -> [N, C, out_h, out_w]: output i is the maximum of [floor(i H / out_h), ceil((i + 1) H /
// out_h)).
TT_API Tensor adaptive_max_pool2d(const Tensor& x, int64_t out_h, int64_t out_w, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <string>
#include <tinytorch/backend/window.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// The windows [first, last) of one dimension, clipped to it.
struct Interval {
  int64_t first, last;
};
using Intervals = std::vector<Interval>;

// The elements of every window along dim: [..., windows, longest window, ...]. Shorter windows repeat their
// last element.
inline Tensor gather_windows(const Tensor& x, int dim, const Intervals& windows, Loc loc) {
  int64_t longest = 1;
  for (const Interval& w : windows) longest = std::max(longest, w.last - w.first);
  std::vector<int64_t> index;
  index.reserve(windows.size() * static_cast<size_t>(longest));
  for (const Interval& w : windows) {
    for (int64_t k = 0; k < longest; ++k) index.push_back(std::min(w.first + k, w.last - 1));
  }
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) {
    shape.push_back(d == dim ? static_cast<int64_t>(windows.size()) : x.size(d));
    if (d == dim) shape.push_back(longest);
  }
  return reshape(index_select(x, dim, from_data(index).to(x.device()), loc), shape, loc);
}
inline Tensor max_of_windows(const Tensor& x, int dim, const Intervals& windows, Loc loc) {
  const Tensor elements = gather_windows(x, dim, windows, loc);
  const Tensor first = argmax(elements, dim + 1, true, loc);
  return squeeze(gather(elements, dim + 1, first, loc), dim + 1, loc);
}

inline Intervals adaptive_windows(int64_t inputs, int64_t outputs) {
  Intervals windows;
  for (int64_t i = 0; i < outputs; ++i)
    windows.push_back({i * inputs / outputs, ceil_div((i + 1) * inputs, outputs)});
  return windows;
}

TT_API Tensor adaptive_max_pool2d(const Tensor& x, int64_t out_h, int64_t out_w, Loc loc) {
  require_defined("adaptive_max_pool2d", loc, x);
  require_floating("adaptive_max_pool2d", x, loc);
  require_rank("adaptive_max_pool2d", x, 4, "images [N, C, H, W]", loc);
  const int64_t most = backend::kMaxWindow;
  if (std::min({out_h, out_w, x.size(2), x.size(3)}) < 1 ||
      std::max({out_h, out_w, x.size(2), x.size(3)}) > most) {
    fail("TT-SHAPE-20",
         "adaptive_max_pool2d: image and output must be at least 1 x 1, got " + x.describe() + " to " +
             std::to_string(out_h) + " x " + std::to_string(out_w),
         loc);
  }
  const Tensor columns = max_of_windows(x, 3, adaptive_windows(x.size(3), out_w), loc);
  return max_of_windows(columns, 2, adaptive_windows(x.size(2), out_h), loc);
}

// The windows along dim, in a side with `padding` elements before and after it.
inline Intervals sliding_windows(const char* op, const Tensor& x, int dim, const Pool1dOptions& o, Loc loc) {
  const int64_t stride = o.stride == 0 ? o.kernel : o.stride, size = x.size(dim);
  if (o.kernel < 1 || o.stride < 0 || o.padding < 0 || o.padding > o.kernel / 2 ||
      std::max(o.kernel, stride) > backend::kMaxWindow) {
    fail(
        "TT-RANGE-08",
        std::string(op) +
            ": kernel must be at least 1, stride at least 0, padding from 0 to half the kernel, got kernel " +
            std::to_string(o.kernel) + ", stride " + std::to_string(o.stride) + ", padding " +
            std::to_string(o.padding),
        loc);
  }
  const int64_t padded = size + 2 * o.padding;
  Intervals windows;
  for (int64_t first = 0; first + o.kernel <= padded; first += stride)
    windows.push_back({first, first + o.kernel});
  // The last window of ceil_mode must begin inside x or the padding before it.
  const int64_t next = static_cast<int64_t>(windows.size()) * stride;
  if (size > 0 && o.ceil_mode && next < size + o.padding && next + o.kernel < padded + stride)
    windows.push_back({next, std::min(next + o.kernel, padded)});
  if (size < 1 || windows.empty()) {
    fail("TT-SHAPE-20",
         std::string(op) + ": a window of " + std::to_string(o.kernel) + " does not fit dimension " +
             std::to_string(dim) + " of " + x.describe() + " with padding " + std::to_string(o.padding) +
             "\n  hint: use a smaller kernel or more padding",
         loc);
  }
  return windows;
}

inline Tensor max_pool_along(const char* op, const Tensor& x, int dim, const Pool1dOptions& options,
                             Loc loc) {
  Intervals windows = sliding_windows(op, x, dim, options, loc);
  for (Interval& w : windows) {  // the maximum is over elements of x alone
    w.first = std::max<int64_t>(w.first - options.padding, 0);
    w.last = std::min(w.last - options.padding, x.size(dim));
  }
  return max_of_windows(x, dim, windows, loc);
}

inline Tensor avg_pool_along(const char* op, const Tensor& x, int dim, const Pool1dOptions& options,
                             Loc loc) {
  const Intervals windows = sliding_windows(op, x, dim, options, loc);
  const int64_t p = options.padding, kernel = options.kernel;
  const int64_t beyond = windows.back().first + kernel - (x.size(dim) + 2 * p);  // of ceil_mode
  std::vector<std::pair<int64_t, int64_t>> widths(static_cast<size_t>(x.rank()), {0, 0});
  widths[static_cast<size_t>(dim)] = {p, p + std::max<int64_t>(0, beyond)};
  Intervals whole;
  std::vector<double> scale;
  for (const Interval& w : windows) {  // the zeros beyond the padding do not count
    whole.push_back({w.first, w.first + kernel});
    const int64_t first = options.count_include_pad ? w.first : std::max(w.first, p);
    const int64_t last = options.count_include_pad ? w.last : std::min(w.last, p + x.size(dim));
    scale.push_back(1 / static_cast<double>(last - first));
  }
  Shape along{static_cast<int64_t>(scale.size())};
  for (int d = dim + 1; d < x.rank(); ++d) along.push_back(1);
  const Tensor total = sum(gather_windows(pad(x, widths, 0, loc), dim, whole, loc), {dim + 1}, false, loc);
  return mul(total, from_data(scale).to(x.dtype()).to(x.device()).reshape(along), loc);
}

inline void require_sequences(const char* op, const Tensor& x, Loc loc) {
  require_defined(op, loc, x);
  require_floating(op, x, loc);
  require_rank(op, x, 3, "sequences [N, C, L]", loc);
}
TT_API Tensor max_pool1d(const Tensor& x, Pool1dOptions options, Loc loc) {
  require_sequences("max_pool1d", x, loc);
  return max_pool_along("max_pool1d", x, 2, options, loc);
}
TT_API Tensor avg_pool1d(const Tensor& x, Pool1dOptions options, Loc loc) {
  require_sequences("avg_pool1d", x, loc);
  return avg_pool_along("avg_pool1d", x, 2, options, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
