// Images [N, C, H, W] as convolutions find them in memory: channel by channel (NCHW), rows contiguous, or
// pixel by pixel (NHWC, PyTorch's channels_last), channels contiguous.
//
// Each layout has kernels of its own, which take any distances between samples and between lines. What lies
// otherwise, or is of 16 bits, is copied to the layout that a call works in, as dense operands are
// (loops/contiguous.hpp).
#pragma once

#include <optional>
#include <tinytorch/backend/cpu/loops/copy.hpp>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/backend/layout.hpp>
#include <tinytorch/core/allocator.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

enum class ImageLayout : uint8_t { rows, pixels };

inline ImageLayout image_layout(const View& v) {
  return is_channels_last(v) ? ImageLayout::pixels : ImageLayout::rows;
}

// [N, C, H, W] with the distances between neighbours; pixel is 1 where images lie in rows, channel where in
// pixels.
template <class T>
struct Images {
  T* data;
  int64_t N, C, H, W;
  int64_t sample, channel, row, pixel;
  T* at(int64_t n, int64_t c, int64_t h = 0) const { return data + n * sample + c * channel + h * row; }
};

// Whether no value of a channel that lies in rows is infinite or NaN.
template <class T>
bool all_rows_finite(const Images<T>& images, int64_t n, int64_t c) {
  if (images.row == images.W) return all_finite(images.at(n, c), images.H * images.W);
  for (int64_t h = 0; h < images.H; ++h)
    if (!all_finite(images.at(n, c, h), images.W)) return false;
  return true;
}

// An operand as Images of T in the layout asked for, in place or as a copy. A result's copy is written back
// by finish().
template <class T>
class ImageOperand {
 public:
  ImageOperand(const View& v, ImageLayout layout, bool is_result) : view_(v) {
    const bool rows = layout == ImageLayout::rows;
    const bool as_wanted = rows ? v.strides[3] == 1 || v.shape[3] == 1 : v.strides[1] == 1 || v.shape[1] == 1;
    if (v.dtype != dtype_of<T> || !as_wanted) {
      scratch_.emplace(v.numel());
      const Shape& d = v.shape;
      dense_ = {scratch_->data(), dtype_of<T>, d,
                rows ? Strides{d[1] * d[2] * d[3], d[2] * d[3], d[3], 1} : channels_last_strides(d)};
      if (!is_result) copy_view(by_lines(dense_), by_lines(v));
    }
    const View& at = scratch_ ? dense_ : v;
    images_ = {at.as<T>(),
               at.shape[0],
               at.shape[1],
               at.shape[2],
               at.shape[3],
               at.strides[0],
               rows ? at.strides[1] : 1,
               at.strides[2],
               rows ? 1 : at.strides[3]};
  }
  Images<T> images() const { return images_; }
  void finish() const {
    if (scratch_) copy_view(by_lines(view_), by_lines(dense_));
  }

 private:
  // In the order in which the view's own memory runs, so that a conversion of type alone copies long runs.
  View by_lines(const View& v) const {
    if (image_layout(view_) == ImageLayout::rows) return v;
    return {v.data,
            v.dtype,
            {v.shape[0], v.shape[2], v.shape[3], v.shape[1]},
            {v.strides[0], v.strides[2], v.strides[3], v.strides[1]}};
  }
  View view_, dense_;
  std::optional<Scratch<T>> scratch_;
  Images<T> images_{};
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
