// Frames: zero-padded images in which every tap of a convolution is a constant offset.
//
// A frame holds planes of `rows` rows, `pitch` elements apart, with zeros wherever a tap may read outside an
// image: between rows, between planes and around all. Output position (i, j) of a plane has index i * pitch +
// j, so for a run of positions, across rows and images, a tap reads a contiguous run at a fixed offset: this
// is the matrix of im2col without storing it. Results at positions between rows are discarded. A stride s
// splits an image into s * s images: pixels (s i + a, s j + b) for each a and b at which a tap starts.
// Layout: [split][channel][sample][rows][pitch].
// Source of the shifted view: Anderson et al., "Low-memory GEMM-based convolution algorithms for deep neural
// networks", 2017.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <tinytorch/backend/window.hpp>
#include <tinytorch/core/config.hpp>
#include <tinytorch/core/simd_partial.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Offset at which a tap reads, in pixels relative to stride * output position.
struct Tap {
  int64_t down, right;
};

// Copies n elements. Rows are a few vectors long, so a call of memcpy would cost more than the copy.
template <class T>
void copy_row(T* to, const T* from, int64_t n) {
  if (n >= kLanes<T>) {
    for (int64_t i = 0; i + kLanes<T> <= n; i += kLanes<T>) simd_store(to + i, simd_load(from + i));
    simd_store(to + n - kLanes<T>, simd_load(from + n - kLanes<T>));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

// to = elements 0, 2, 4, ... of n.
template <class T>
void copy_every_second(T* to, const T* from, int64_t n) {
  constexpr int64_t kL = kLanes<T>;
  const auto even = [](Simd<T> a, Simd<T> b) {
    return simd_shuffle<T>(a, b, [](int64_t i) { return 2 * i; });
  };
  for (; n >= 2 * kL; n -= 2 * kL, from += 2 * kL, to += kL)
    simd_store(to, even(simd_load(from), simd_load(from + kL)));
  if (n <= 0) return;
  const FirstLanes<T> head(std::min(n, kL)), rest(std::max<int64_t>(0, n - kL)), half((n + 1) / 2);
  half.store(to, even(head.load(from), n > kL ? rest.load(from + kL) : Simd<T>{}));
}

// Offsets of all taps (kh, kw), in row-major order.
inline std::vector<Tap> taps_of(const Window2d& w) {
  std::vector<Tap> out;
  for (int64_t kh = 0; kh < w.kernel_h; ++kh)
    for (int64_t kw = 0; kw < w.kernel_w; ++kw)
      out.push_back({kh * w.dilation - w.padding, kw * w.dilation - w.padding});
  return out;
}

// The taps that read pixels at rows down + stride * i and columns right + stride * j, as offsets in dy
// relative to (i, j), and their indices in the kernel.
struct GradTaps {
  std::vector<Tap> taps;
  std::vector<int64_t> indices;
};
inline GradTaps grad_taps(const Window2d& w, int64_t down, int64_t right) {
  GradTaps out;
  int64_t index = 0;
  for (const Tap& tap : taps_of(w)) {
    if ((down - tap.down) % w.stride == 0 && (right - tap.right) % w.stride == 0) {
      out.taps.push_back({(down - tap.down) / w.stride, (right - tap.right) / w.stride});
      out.indices.push_back(index);
    }
    ++index;
  }
  return out;
}

class FrameShape {
 public:
  // Images [height, width] that outputs [output_rows, output_cols], `stride` pixels apart, read at `taps`.
  FrameShape(int64_t height, int64_t width, int64_t output_rows, int64_t output_cols, int64_t stride,
             const std::vector<Tap>& taps)
      : height_(height),
        width_(width),
        stride_(stride),
        output_rows_(output_rows),
        output_cols_(output_cols) {
    int64_t low_down = 0, low_right = 0, high_down = 0, high_right = 0;
    for (const Tap& tap : taps) {
      const Tap first{tap.down - floor(tap.down) * stride, tap.right - floor(tap.right) * stride};
      const auto same = [&](const Tap& t) { return t.down == first.down && t.right == first.right; };
      const auto found = std::find_if(splits_.begin(), splits_.end(), same);
      shifts_.push_back({floor(tap.down), floor(tap.right), found - splits_.begin()});
      if (found == splits_.end()) splits_.push_back(first);
      low_down = std::min(low_down, shifts_.back().down),
      high_down = std::max(high_down, shifts_.back().down);
      low_right = std::min(low_right, shifts_.back().right),
      high_right = std::max(high_right, shifts_.back().right);
    }
    // The zeros below a plane are also those above the next plane, and the zeros right of a row those left of
    // the next row.
    pitch_ = std::max(ceil_div(width, stride) - low_right, output_cols + high_right);
    rows_ = std::max(ceil_div(height, stride) - low_down, output_rows + high_down);
    margin_ = -(low_down * pitch_ + low_right);
  }

  int64_t pitch() const { return pitch_; }
  int64_t rows() const { return rows_; }
  int64_t plane() const { return rows_ * pitch_; }
  int64_t output_rows() const { return output_rows_; }
  int64_t output_cols() const { return output_cols_; }
  int64_t taps() const { return static_cast<int64_t>(shifts_.size()); }
  int64_t splits() const { return static_cast<int64_t>(splits_.size()); }
  // Offset of position (0, 0) of the first sample and channel.
  int64_t margin() const { return margin_; }
  // Elements of a frame. The last ones are never filled, but tiles of any width may read them.
  int64_t size(int64_t channels, int64_t samples) const {
    return margin_ + splits() * channels * samples * plane() + plane() + kSlack;
  }
  // Offsets from an output position at which taps read: all taps of channel 0, then those of the next
  // channel.
  std::vector<int64_t> shifts(int64_t channels, int64_t samples) const {
    std::vector<int64_t> out;
    for (int64_t c = 0; c < channels; ++c)
      for (const Shift& s : shifts_)
        out.push_back((s.split * channels + c) * samples * plane() + s.down * pitch_ + s.right);
    return out;
  }
  static constexpr int64_t kSlack = 256;  // elements: the widest tile

  // Copies an image, whose rows are `row` elements apart, into the plane of every split. `frame` must contain
  // zeros outside its planes; they are not overwritten.
  template <class T>
  void fill(T* frame, const T* image, int64_t row, int64_t channel, int64_t channels, int64_t sample,
            int64_t samples) const {
    for (int64_t split = 0; split < splits(); ++split) {
      T* to = frame + margin_ + ((split * channels + channel) * samples + sample) * plane();
      const Tap& first = splits_[static_cast<size_t>(split)];
      for (int64_t y = first.down; y < height_; y += stride_, to += pitch_) {
        const T* const from = image + y * row + first.right;
        const int64_t n = width_ - first.right;
        if (stride_ == 1) {
          copy_row(to, from, n);
        } else if (stride_ == 2) {
          copy_every_second(to, from, n);
        } else {
          for (int64_t x = 0, i = 0; x < n; x += stride_, ++i) to[i] = from[x];
        }
      }
    }
  }

 private:
  struct Shift {
    int64_t down, right, split;
  };
  int64_t floor(int64_t x) const { return (x >= 0 ? x : x - stride_ + 1) / stride_; }

  int64_t height_, width_, stride_, output_rows_, output_cols_;
  int64_t pitch_ = 0, rows_ = 0, margin_ = 0;
  std::vector<Tap> splits_;    // first pixel of each split
  std::vector<Shift> shifts_;  // offset and split of each tap
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
