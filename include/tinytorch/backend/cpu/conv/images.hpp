// Image operands [N, C, H, W] of convolutions: channels-first (NCHW), rows contiguous, or channels-last
// (NHWC, PyTorch's channels_last), channels contiguous.
//
// Each layout has its own kernels, which take any strides between samples and between rows. Operands of other
// layouts, or of 16 bits, are copied to the layout of the kernel, like contiguous operands
// (loops/contiguous.hpp).
#pragma once

#include <algorithm>
#include <optional>
#include <tinytorch/backend/cpu/conv/image_epilogue.hpp>
#include <tinytorch/backend/cpu/loops/copy.hpp>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/backend/layout.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

enum class ImageLayout : uint8_t { channels_first, channels_last };

inline ImageLayout image_layout(const View& v) {
  return is_channels_last(v) ? ImageLayout::channels_last : ImageLayout::channels_first;
}

// Images [N, C, H, W] with their strides: pixel is 1 in channels-first images, channel is 1 in channels-last
// images.
template <class T>
struct Images {
  T* data;
  int64_t N, C, H, W;
  int64_t sample, channel, row, pixel;
  T* at(int64_t n, int64_t c, int64_t h = 0) const { return data + n * sample + c * channel + h * row; }
};

// True if all values of one channel of a channels-first image are finite.
template <class T>
bool is_channel_finite(const Images<T>& images, int64_t n, int64_t c) {
  if (images.row == images.W) return all_finite(images.at(n, c), images.H * images.W);
  for (int64_t h = 0; h < images.H; ++h)
    if (!all_finite(images.at(n, c, h), images.W)) return false;
  return true;
}

inline constexpr int64_t kWriteBackElements = 1 << 15;  // elements of a block that stays in the L2 cache

// An operand as Images of T in the requested layout, in place or as a copy. write_back() copies a result
// back.
template <class T>
class ImageOperand {
 public:
  ImageOperand(const View& v, ImageLayout layout, bool is_result) : view_(v) {
    const bool channels_first = layout == ImageLayout::channels_first;
    const bool in_place =
        channels_first ? v.strides[3] == 1 || v.shape[3] == 1 : v.strides[1] == 1 || v.shape[1] == 1;
    if (v.dtype != dtype_of<T> || !in_place) {
      scratch_.emplace(v.numel());
      const Shape& d = v.shape;
      copy_ = {scratch_->data(), dtype_of<T>, d,
               channels_first ? Strides{d[1] * d[2] * d[3], d[2] * d[3], d[3], 1} : channels_last_strides(d)};
      if (!is_result) copy_view(in_memory_order(copy_), in_memory_order(v));
    }
    const View& at = scratch_ ? copy_ : v;
    images_ = {at.as<T>(),
               at.shape[0],
               at.shape[1],
               at.shape[2],
               at.shape[3],
               at.strides[0],
               channels_first ? at.strides[1] : 1,
               at.strides[2],
               channels_first ? 1 : at.strides[3]};
  }
  Images<T> images() const { return images_; }
  bool in_place() const { return !scratch_; }
  // Copies a result to the operand. Call it once, when all values are stored. An epilogue is called on each
  // block right after it was copied.
  void write_back(const ImageEpilogue& epilogue = {}) const {
    if (!scratch_) return;
    if (!epilogue) return copy_view(in_memory_order(view_), in_memory_order(copy_));
    const int64_t C = images_.C, H = images_.H, W = images_.W;
    const bool channels_first = image_layout(view_) == ImageLayout::channels_first;
    const int64_t line = 64 / static_cast<int64_t>(sizeof(T));  // channels of a cache line of the copy
    const int64_t channels = channels_first ? std::min(C, line) : C;
    const int64_t rows = std::clamp<int64_t>(kWriteBackElements / (channels * W), 1, H);
    const int64_t across = ceil_div(C, channels), down = ceil_div(H, rows);
    parallel_for(images_.N * across * down, grain_of(channels * rows * W), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t n = task / (across * down), c = task / down % across * channels, i = task % down * rows;
        const ImageBlock block{n, c, std::min(C, c + channels), i, std::min(H, i + rows)};
        copy_view(in_memory_order(part(view_, block)), in_memory_order(part(copy_, block)));
        epilogue(block);
      }
    });
  }

 private:
  static View part(View v, const ImageBlock& b) {
    const int64_t offset = b.n * v.strides[0] + b.c0 * v.strides[1] + b.i0 * v.strides[2];
    v.data = v.as<char>() + offset * static_cast<int64_t>(size_of(v.dtype));
    v.shape = {1, b.c1 - b.c0, b.i1 - b.i0, v.shape[3]};
    return v;
  }
  // v with its dimensions in the memory order of the operand, so that a conversion of dtype alone copies long
  // contiguous runs.
  View in_memory_order(const View& v) const {
    if (image_layout(view_) == ImageLayout::channels_first) return v;
    return {v.data,
            v.dtype,
            {v.shape[0], v.shape[2], v.shape[3], v.shape[1]},
            {v.strides[0], v.strides[2], v.strides[3], v.strides[1]}};
  }
  View view_, copy_;
  std::optional<Scratch<T>> scratch_;
  Images<T> images_{};
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
