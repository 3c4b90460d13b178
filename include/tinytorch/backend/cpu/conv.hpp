// Convolution of images on the CPU, forward and both gradients, with groups and dilation.
//
//   out[n, m, p] = bias[m] + sum over (c, k) of weight[m, c, k] x[n, c, p * stride - padding + k * dilation]
//
// It is implicit GEMM, [M, K] by [K, positions] with K = C / groups * KH * KW: the second matrix is not
// stored. Channels-first images are copied into frames, in which its row k is the image at a shifted address
// (conv/frame.hpp). Channels-last images are read in place (conv/channels_last.hpp), and large channels-first
// problems are converted to channels-last first. dx is a convolution of dy with mirrored weights, one for
// each remainder of the position by the stride; dW multiplies dy by shifted images along their positions. The
// order of a sum does not depend on the number of threads.
#pragma once

#include <tinytorch/backend/cpu/conv/image_epilogue.hpp>
#include <tinytorch/backend/view.hpp>
#include <tinytorch/backend/window.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [N, M, OH, OW], x [N, C, H, W], weight [M, C / groups, KH, KW], bias [M] or without data. Floating
// dtypes. An epilogue is called on the blocks of out.
TT_API void conv2d(const View& out, const View& x, const View& weight, const View& bias,
                   const Window2d& window, int64_t groups, const ImageEpilogue& epilogue = {});
// True if conv2d of these operands computes on channels-last images; it converts x and out to that layout if
// they have another one, and from it otherwise. Only the dtypes and layouts of the views are used.
TT_API bool computes_channels_last(const View& out, const View& x, const Window2d& window, int64_t groups);
// dx [N, C, H, W] from dy [N, M, OH, OW].
TT_API void conv2d_grad_input(const View& dx, const View& dy, const View& weight, const Window2d& window,
                              int64_t groups);
// dw [M, C / groups, KH, KW] from dy and x.
TT_API void conv2d_grad_weight(const View& dw, const View& dy, const View& x, const Window2d& window,
                               int64_t groups);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <algorithm>
#include <atomic>
#include <tinytorch/backend/cpu/conv/channels_last_grad.hpp>
#include <tinytorch/backend/cpu/conv/depthwise.hpp>
#include <tinytorch/backend/cpu/conv/frame.hpp>
#include <tinytorch/backend/cpu/conv/images.hpp>
#include <tinytorch/backend/cpu/conv/micro_kernel.hpp>
#include <tinytorch/backend/cpu/gemm/blocked.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kBlockPositions = 1024;    // positions whose sums stay in the L1 cache
inline constexpr int64_t kFrame = 1 << 17;          // elements of a frame that stays in the L2 cache
inline constexpr int64_t kGradientFrame = 1 << 19;  // elements of x and dy in one step of weight gradients

template <class T>
void clear(T* data, int64_t n) {
  std::memset(static_cast<void*>(data), 0, static_cast<size_t>(n) * sizeof(T));
}

// Products of packed filter panels [groups][tiles of M][K][kMR] with frames of images. Calls write(n, group,
// m, i, row) for every output row i; `row` holds frame.output_cols() sums. Then the epilogue is called on the
// blocks of these rows.
template <class T, class Write>
void multiply_frames(const Images<T>& from, const FrameShape& frame, const T* panels, int64_t M,
                     int64_t groups, const Write& write, const ImageEpilogue& epilogue = {}) {
  const int64_t channels = from.C / groups, K = channels * frame.taps(), tiles = ceil_div(M, kMR);
  const int64_t sample =
      std::max<int64_t>(1, frame.splits() * channels * frame.plane());  // at least 1, also without channels
  // Small images share a frame, if enough frames remain for all threads.
  const int64_t together = std::max<int64_t>(1, std::min({kBlockPositions / frame.plane(), kFrame / sample,
                                                          from.N * groups / (4 * thread_count()), from.N}));
  const int64_t chunks = ceil_div(from.N, together);
  const std::vector<int64_t> shift = frame.shifts(channels, together);
  const bool parallel =
      2 * M * K * groups * from.N * frame.output_rows() * frame.output_cols() > kParallelFlops;
  const bool by_chunks = chunks * groups >= thread_count();  // else threads divide each chunk
  maybe_parallel(parallel && by_chunks, chunks * groups, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> storage(frame.size(channels, together));
    clear(storage.data(), frame.size(channels, together));
    const T* const first = storage.data() + frame.margin();
    for (int64_t task = begin; task < end; ++task) {
      const int64_t group = task % groups, n0 = task / groups * together;
      const int64_t samples = std::min(together, from.N - n0),
                    rows = (samples - 1) * frame.rows() + frame.output_rows();
      maybe_parallel(parallel && !by_chunks, samples * channels, 1, [&](int64_t p0, int64_t p1) {
        for (int64_t p = p0; p < p1; ++p) {
          const int64_t c = p / samples, n = p % samples;
          frame.fill(storage.data(), from.at(n0 + n, group * channels + c), from.row, c, channels, n,
                     together);
        }
      });
      const int64_t at_once = std::clamp<int64_t>(kBlockPositions / frame.pitch(), 1, rows);
      const int64_t width = at_once * frame.pitch() + kNR<T>;
      const auto block_of = [&](int64_t tile, int64_t row0, T* sums) {
        const int64_t row1 = std::min(rows, row0 + at_once), high = std::min(kMR, M - tile * kMR);
        shifted_rows(high, (row1 - row0 - 1) * frame.pitch() + frame.output_cols(), K,
                     panels + (group * tiles + tile) * kMR * K, first + row0 * frame.pitch(), shift.data(),
                     sums, width);
        for (int64_t r = row0; r < row1; ++r) {
          const int64_t n = r / frame.rows(), i = r % frame.rows();
          if (i >= frame.output_rows()) continue;  // between two images
          for (int64_t m = 0; m < high; ++m)
            write(n0 + n, group, tile * kMR + m, i, sums + m * width + (r - row0) * frame.pitch());
        }
        if (!epilogue) return;
        const int64_t c = group * M + tile * kMR;
        for (int64_t n = row0 / frame.rows(); n * frame.rows() < row1; ++n) {
          const int64_t i0 = std::max<int64_t>(0, row0 - n * frame.rows()),
                        i1 = std::min(frame.output_rows(), row1 - n * frame.rows());
          if (i0 < i1) epilogue({n0 + n, c, c + high, i0, i1});
        }
      };
      maybe_parallel(parallel && !by_chunks, ceil_div(rows, at_once) * tiles, 1, [&](int64_t b0, int64_t b1) {
        Scratch<T> sums(kMR * width);
        for (int64_t b = b0; b < b1; ++b) block_of(b % tiles, b / tiles * at_once, sums.data());
      });
    }
  });
}

template <class T>
void conv2d_frames(const Images<T>& out, const Images<T>& x, const T* weight, const T* bias,
                   const ConvShape& s, const ImageEpilogue& epilogue) {
  const FrameShape frame(s.H, s.W, s.OH, s.OW, s.window.stride, taps_of(s.window));
  const int64_t tiles = ceil_div(s.group_m, kMR);
  Scratch<T> panels(s.groups * tiles * kMR * s.K);
  parallel_for(s.groups * tiles, ceil_div(32768, kMR * s.K + 1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t m = t % tiles * kMR;
      pack_panel<kMR>(panels.data() + t * kMR * s.K, std::min(kMR, s.group_m - m), s.K,
                      weight + (t / tiles * s.group_m + m) * s.K, s.K, 1);
    }
  });
  const auto write = [&](int64_t n, int64_t group, int64_t m, int64_t i, const T* sums) {
    const int64_t channel = group * s.group_m + m;
    T* const to = out.at(n, channel, i);
    if (!bias) return copy_row(to, sums, s.OW);
    const T b = bias[channel];
    TT_SIMD
    for (int64_t j = 0; j < s.OW; ++j) to[j] = sums[j] + b;
  };
  multiply_frames(x, frame, panels.data(), s.group_m, s.groups, write, epilogue);
}

// dx at rows down + stride * i and columns right + stride * j: tap kh of output i + (down + padding - kh *
// dilation) / stride reads this pixel, if the quotient is an integer; columns likewise.
template <class T>
void conv2d_grad_input_part(const Images<T>& dx, const Images<T>& dy, const T* weight, const ConvShape& s,
                            int64_t down, int64_t right) {
  const Window2d& w = s.window;
  const int64_t stride = w.stride, rows = ceil_div(s.H - down, stride), cols = ceil_div(s.W - right, stride);
  const GradTaps part = grad_taps(w, down, right);
  const std::vector<Tap>& taps = part.taps;
  if (rows <= 0 || cols <= 0) return;
  if (taps.empty()) {  // the kernel is smaller than the stride
    for (int64_t plane = 0; plane < s.N * s.C; ++plane)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j)
          dx.at(plane / s.C, plane % s.C, down + i * stride)[right + j * stride] = T(0);
    return;
  }
  const FrameShape frame(s.OH, s.OW, rows, cols, 1, taps);
  const int64_t tiles = ceil_div(s.group_c, kMR), number = static_cast<int64_t>(taps.size()),
                K = s.group_m * number, all = w.kernel_h * w.kernel_w;
  Scratch<T> panels(s.groups * tiles * kMR * K);
  parallel_for(s.groups * tiles, ceil_div(32768, kMR * K + 1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t c = t % tiles * kMR, high = std::min(kMR, s.group_c - c);
      T* panel = panels.data() + t * kMR * K;
      for (int64_t m = 0; m < s.group_m; ++m, panel += number * kMR) {
        const T* const from = weight + ((t / tiles * s.group_m + m) * s.group_c + c) * all;
        pack_taps<kMR>(panel, high, from, all, part.indices);
      }
    }
  });
  multiply_frames(dy, frame, panels.data(), s.group_c, s.groups,
                  [&](int64_t n, int64_t group, int64_t c, int64_t i, const T* sums) {
                    T* const to = dx.at(n, group * s.group_c + c, down + i * stride) + right;
                    if (stride == 1) {
                      TT_SIMD
                      for (int64_t j = 0; j < cols; ++j) to[j] = sums[j];
                    } else {
                      for (int64_t j = 0; j < cols; ++j) to[j * stride] = sums[j];
                    }
                  });
}

template <class T>
void conv2d_grad_input_frames(const Images<T>& dx, const Images<T>& dy, const T* weight, const ConvShape& s) {
  for (int64_t down = 0; down < s.window.stride; ++down)
    for (int64_t right = 0; right < s.window.stride; ++right)
      conv2d_grad_input_part(dx, dy, weight, s, down, right);
}

// dw of one group. Samples are processed in chunks, in order: x and dy of a chunk are copied into frames,
// then every thread adds the products of its own part of dw.
template <class T>
void conv2d_grad_weight_group(T* dw, const Images<T>& dy, const Images<T>& x, const ConvShape& s,
                              int64_t group) {
  const FrameShape frame(s.H, s.W, s.OH, s.OW, s.window.stride, taps_of(s.window));
  const int64_t tiles = ceil_div(s.group_m, kMR), height = s.group_m <= 2 ? 2 : kMR,
                dy_channels = tiles * height;
  const int64_t together =
      std::clamp<int64_t>(kGradientFrame / ((frame.splits() * s.group_c + s.group_m) * frame.plane()), 1,
                          std::max<int64_t>(1, s.N));
  const int64_t x_size = frame.size(s.group_c, together), dy_row = together * frame.plane() + kLanes<T>;
  const int64_t k_tiles = ceil_div(s.K, kNRVectors), dw_row = k_tiles * kNRVectors;
  std::vector<int64_t> shift = frame.shifts(s.group_c, together);
  shift.resize(static_cast<size_t>(dw_row), 0);
  Scratch<T> x_frame(x_size), dy_frame(dy_channels * dy_row), sums(dy_channels * dw_row);
  clear(x_frame.data(), x_size), clear(dy_frame.data(), dy_channels * dy_row);
  if (s.N == 0) clear(sums.data(), dy_channels * dw_row);
  std::atomic<bool> finite{true};
  std::vector<Bits<T>> valid;
  const bool parallel = 2 * s.group_m * s.K * s.N * s.outputs > kParallelFlops;
  for (int64_t n0 = 0; n0 < s.N; n0 += together) {
    const int64_t samples = std::min(together, s.N - n0);
    if (samples < together) clear(dy_frame.data(), dy_channels * dy_row);  // zeros after the last sample
    maybe_parallel(parallel, samples * (s.group_c + s.group_m), 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t n = p % samples, c = p / samples;
        if (c < s.group_c) {
          if (!is_channel_finite(x, n0 + n, group * s.group_c + c)) finite = false;
          frame.fill(x_frame.data(), x.at(n0 + n, group * s.group_c + c), x.row, c, s.group_c, n, together);
        } else {
          const int64_t m = c - s.group_c;
          T* const to = dy_frame.data() + m * dy_row + n * frame.plane();
          for (int64_t i = 0; i < s.OH; ++i)
            copy_row(to + i * frame.pitch(), dy.at(n0 + n, group * s.group_m + m, i), s.OW);
        }
      }
    });
    if (!finite && valid.empty()) valid = output_positions<T>(frame, together, dy_row);
    const int64_t positions =
        ceil_div((samples - 1) * frame.plane() + (s.OH - 1) * frame.pitch() + s.OW, kLanes<T>) * kLanes<T>;
    const auto dots = height == 2 ? (valid.empty() ? &shifted_dots<T, 2, false> : &shifted_dots<T, 2, true>)
                                  : (valid.empty() ? &shifted_dots<T, 6, false> : &shifted_dots<T, 6, true>);
    const int64_t strips = std::min(k_tiles, ceil_div(16 * thread_count(), tiles));
    maybe_parallel(parallel, tiles * strips, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task / strips * height, strip = task % strips;
        for (int64_t q = 0; q < positions; q += kBlockPositions) {
          const int64_t n = std::min(kBlockPositions, positions - q);
          for (int64_t k = k_tiles * strip / strips; k < k_tiles * (strip + 1) / strips; ++k)
            dots(n, dy_frame.data() + row * dy_row + q, dy_row, x_frame.data() + frame.margin() + q,
                 shift.data() + k * kNRVectors, valid.empty() ? nullptr : valid.data() + q,
                 sums.data() + row * dw_row + k * kNRVectors, dw_row, n0 + q > 0);
        }
      }
    });
  }
  maybe_parallel(parallel, s.group_m, ceil_div(16384, dw_row), [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m)
      std::copy_n(sums.data() + m * dw_row, s.K, dw + (group * s.group_m + m) * s.K);
  });
}

template <class T>
void conv2d_grad_weight_frames(T* dw, const Images<T>& dy, const Images<T>& x, const ConvShape& s) {
  const auto each = [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) conv2d_grad_weight_group(dw, dy, x, s, group);
  };
  maybe_parallel(s.groups >= 2 * thread_count(), s.groups, 1, each);  // else threads divide each group
}

inline constexpr int64_t kFewChannels = 8;          // fewer channels do not fill a vector
inline constexpr int64_t kShortLine = 16;           // outputs of a row that is mostly a remainder of vectors
inline constexpr int64_t kReorderingWork = 64;      // multiply-adds per element that repay a change of layout
inline constexpr int64_t kCachedWeights = 1 << 20;  // weights of a group that stay in a cache

// True if channels-last, the faster layout, saves more time than the conversion of channels-first images to
// it takes. dW saves twice as much as the other products: in frames it multiplies along positions, and each
// of its sums ends with a horizontal sum.
inline bool repays_channels_last(const ConvShape& s, bool grad_weight) {
  if (s.depthwise()) return s.C >= kFewChannels && s.OW <= kShortLine;
  if (std::min(s.group_c, s.group_m) < kFewChannels) return false;
  const int64_t weights = s.group_m * s.K, saved = grad_weight ? 2 * weights : weights;
  return s.K > s.group_c && weights <= kCachedWeights && saved >= kReorderingWork * (s.group_m + s.group_c);
}

// The layout in which a convolution computes, given the image that it reads. Depthwise convolution with
// several outputs per channel has no channels-last kernel.
inline ImageLayout conv_layout(const View& image, const ConvShape& s, bool grad_weight = false) {
  if (s.depthwise() && s.group_m != 1) return ImageLayout::channels_first;
  return repays_channels_last(s, grad_weight) ? ImageLayout::channels_last : image_layout(image);
}

TT_API bool computes_channels_last(const View& out, const View& x, const Window2d& window, int64_t groups) {
  return conv_layout(x, ConvShape(x, out, window, groups)) == ImageLayout::channels_last;
}

TT_API void conv2d(const View& out, const View& x, const View& weight, const View& bias,
                   const Window2d& window, int64_t groups, const ImageEpilogue& epilogue) {
  if (out.numel() == 0) return;
  const ConvShape s(x, out, window, groups);
  const ImageLayout layout = conv_layout(x, s);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> w(weight), b(bias);
    const ImageOperand<T> from(x, layout, false), to(out, layout, true);
    const ImageEpilogue then = to.in_place() ? epilogue : ImageEpilogue();  // else when it is written back
    if (s.depthwise()) {
      conv2d_depthwise(to.images(), from.images(), layout, w.data(), b.data(), s, then);
    } else if (layout == ImageLayout::channels_last) {
      conv2d_channels_last(to.images(), from.images(), w.data(), b.data(), s, then);
    } else {
      conv2d_frames(to.images(), from.images(), w.data(), b.data(), s, then);
    }
    to.write_back(epilogue);
  });
}

TT_API void conv2d_grad_input(const View& dx, const View& dy, const View& weight, const Window2d& window,
                              int64_t groups) {
  if (dx.numel() == 0) return;
  const ConvShape s(dx, dy, window, groups);
  const ImageLayout layout = conv_layout(dy, s);
  dispatch_floating(dx.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> w(weight);
    const ImageOperand<T> from(dy, layout, false), to(dx, layout, true);
    if (s.depthwise()) {
      conv2d_depthwise_grad_input(to.images(), from.images(), layout, w.data(), s);
    } else if (layout == ImageLayout::channels_last) {
      conv2d_grad_input_channels_last(to.images(), from.images(), w.data(), s);
    } else {
      conv2d_grad_input_frames(to.images(), from.images(), w.data(), s);
    }
    to.write_back();
  });
}

TT_API void conv2d_grad_weight(const View& dw, const View& dy, const View& x, const Window2d& window,
                               int64_t groups) {
  if (dw.numel() == 0) return;
  const ConvShape s(x, dy, window, groups);
  const ImageLayout layout = conv_layout(x, s, true);
  dispatch_floating(dw.dtype, [&]<class T>(T*) {
    const ImageOperand<T> grad(dy, layout, false), in(x, layout, false);
    ContiguousOutput<T> to(dw);
    if (s.depthwise()) {
      conv2d_depthwise_grad_weight(to.data(), grad.images(), in.images(), layout, s);
    } else if (layout == ImageLayout::channels_last) {
      conv2d_grad_weight_channels_last(to.data(), grad.images(), in.images(), s);
    } else {
      conv2d_grad_weight_frames(to.data(), grad.images(), in.images(), s);
    }
    to.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
