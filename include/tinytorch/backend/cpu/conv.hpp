// Convolution of images on the CPU, forward and both gradients, with groups and dilation.
//
//   out[n, m, p] = bias[m] + sum over (c, kh, kw) of weight[m, c, kh, kw] x[n, c, p * stride - padding + k * dilation]
//
// As a matrix product [M, K] by [K, positions], K = C/groups * KH * KW, without the second matrix: images are copied into
// frames, with zeros around them, where row k of that matrix is the image at a shifted address (conv_frame.hpp). The
// gradients are of the same form: dx is a convolution of dy with the weights turned around, one for each remainder of
// the position by the stride, and dW multiplies dy by shifted images along their positions. How many images share a frame
// and who takes which rows depends on the threads, but no sum's order does: results are the same bits at any number.
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
#include <atomic>
#include <tinytorch/backend/cpu/conv_frame.hpp>
#include <tinytorch/backend/cpu/conv_tile.hpp>
#include <tinytorch/backend/cpu/dense.hpp>
#include <tinytorch/backend/cpu/gemm_blocked.hpp>
#include <tinytorch/backend/cpu/runs.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kBlockPositions = 1024;    // whose sums stay in the L1 cache until they are written
inline constexpr int64_t kFrame = 1 << 17;          // numbers of a frame that stays in the L2 cache
inline constexpr int64_t kGradientFrame = 1 << 19;  // of x and dy that weight gradients see at once

// Images of one group: [N, all, H, W], of which a group has `channels`.
struct Images {
  int64_t N, all, channels, H, W;
  int64_t place(int64_t n, int64_t group, int64_t c) const {
    return ((n * all + group * channels + c) * H) * W;
  }
};

template <class T>
void clear(T* data, int64_t n) {
  std::memset(static_cast<void*>(data), 0, static_cast<size_t>(n) * sizeof(T));
}

// Products of panels [groups][tiles of M][K][kTileRows] with frames of images. Calls write(n, group, m, i, row) for every
// output row i, which has frame.output_cols() sums.
template <class T, class Write>
void multiply_frames(const T* images, const Images& from, const FrameShape& frame, const T* panels, int64_t M,
                     int64_t groups, const Write& write) {
  const int64_t K = from.channels * frame.taps(), tiles = tiles_of(M, kTileRows);
  const int64_t sample =
      std::max<int64_t>(1, frame.splits() * from.channels * frame.plane());  // none: no channels
  // Small images share a frame, as long as every thread has some frames.
  const int64_t together = std::max<int64_t>(1, std::min({kBlockPositions / frame.plane(), kFrame / sample,
                                                          from.N * groups / (4 * thread_count()), from.N}));
  const int64_t chunks = tiles_of(from.N, together);
  const std::vector<int64_t> shift = frame.shifts(from.channels, together);
  const bool parallel =
      2 * M * K * groups * from.N * frame.output_rows() * frame.output_cols() > kParallelFlops;
  const bool by_chunks = chunks * groups >= thread_count();  // else threads share a chunk
  maybe_parallel(parallel && by_chunks, chunks * groups, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> storage(frame.size(from.channels, together));
    clear(storage.data(), frame.size(from.channels, together));
    const T* const first = storage.data() + frame.margin();
    for (int64_t task = begin; task < end; ++task) {
      const int64_t group = task % groups, n0 = task / groups * together;
      const int64_t samples = std::min(together, from.N - n0),
                    rows = (samples - 1) * frame.rows() + frame.output_rows();
      maybe_parallel(parallel && !by_chunks, samples * from.channels, 1, [&](int64_t p0, int64_t p1) {
        for (int64_t p = p0; p < p1; ++p) {
          const int64_t c = p / samples, n = p % samples;
          frame.fill(storage.data(), images + from.place(n0 + n, group, c), c, from.channels, n, together);
        }
      });
      const int64_t at_once = std::clamp<int64_t>(kBlockPositions / frame.pitch(), 1, rows);
      const int64_t width = at_once * frame.pitch() + kTileCols<T>;
      const auto block_of = [&](int64_t tile, int64_t row0, T* sums) {
        const int64_t row1 = std::min(rows, row0 + at_once), high = std::min(kTileRows, M - tile * kTileRows);
        shifted_rows(high, (row1 - row0 - 1) * frame.pitch() + frame.output_cols(), K,
                     panels + (group * tiles + tile) * kTileRows * K, first + row0 * frame.pitch(),
                     shift.data(), sums, width);
        for (int64_t r = row0; r < row1; ++r) {
          const int64_t n = r / frame.rows(), i = r % frame.rows();
          if (i >= frame.output_rows()) continue;  // between two images
          for (int64_t m = 0; m < high; ++m)
            write(n0 + n, group, tile * kTileRows + m, i, sums + m * width + (r - row0) * frame.pitch());
        }
      };
      maybe_parallel(parallel && !by_chunks, tiles_of(rows, at_once) * tiles, 1, [&](int64_t b0, int64_t b1) {
        Scratch<T> sums(kTileRows * width);
        for (int64_t b = b0; b < b1; ++b) block_of(b % tiles, b / tiles * at_once, sums.data());
      });
    }
  });
}

// Pixels that each tap (kh, kw) reads, from stride times the output position.
inline std::vector<Tap> taps_of(const Window2d& w) {
  std::vector<Tap> out;
  for (int64_t kh = 0; kh < w.kernel_h; ++kh)
    for (int64_t kw = 0; kw < w.kernel_w; ++kw)
      out.push_back({kh * w.dilation - w.padding, kw * w.dilation - w.padding});
  return out;
}

template <class T>
void conv2d_frames(T* out, const T* x, const T* weight, const T* bias, const ConvShape& s) {
  const FrameShape frame(s.H, s.W, s.OH, s.OW, s.window.stride, taps_of(s.window));
  const int64_t tiles = tiles_of(s.group_m, kTileRows);
  Scratch<T> panels(s.groups * tiles * kTileRows * s.K);
  parallel_for(s.groups * tiles, tiles_of(32768, kTileRows * s.K + 1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t m = t % tiles * kTileRows;
      pack_panel<kTileRows>(panels.data() + t * kTileRows * s.K, std::min(kTileRows, s.group_m - m), s.K,
                            weight + (t / tiles * s.group_m + m) * s.K, s.K, 1);
    }
  });
  multiply_frames(x, {s.N, s.C, s.group_c, s.H, s.W}, frame, panels.data(), s.group_m, s.groups,
                  [&](int64_t n, int64_t group, int64_t m, int64_t i, const T* sums) {
                    const int64_t channel = group * s.group_m + m;
                    const T b = bias ? bias[channel] : T(0);
                    T* const to = out + (n * s.M + channel) * s.outputs + i * s.OW;
                    TT_SIMD
                    for (int64_t j = 0; j < s.OW; ++j) to[j] = sums[j] + b;
                  });
}

// dx at rows `down` and columns `right` of every stride: pixel down + stride * i is read by tap kh of output
// i + (down + padding - kh * dilation) / stride, if that is a whole number.
template <class T>
void conv2d_grad_input_part(T* dx, const T* dy, const T* weight, const ConvShape& s, int64_t down,
                            int64_t right) {
  const Window2d& w = s.window;
  const int64_t stride = w.stride, rows = tiles_of(s.H - down, stride), cols = tiles_of(s.W - right, stride);
  std::vector<Tap> taps;
  std::vector<int64_t> chosen;  // their numbers
  for (const Tap& tap : taps_of(w)) {
    if ((down - tap.down) % stride == 0 && (right - tap.right) % stride == 0) {
      taps.push_back({(down - tap.down) / stride, (right - tap.right) / stride});
      chosen.push_back((tap.down + w.padding) / w.dilation * w.kernel_w +
                       (tap.right + w.padding) / w.dilation);
    }
  }
  if (rows <= 0 || cols <= 0) return;
  if (taps.empty()) {  // the kernel is smaller than the stride
    for (int64_t plane = 0; plane < s.N * s.C; ++plane)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j)
          dx[(plane * s.H + down + i * stride) * s.W + right + j * stride] = T(0);
    return;
  }
  const FrameShape frame(s.OH, s.OW, rows, cols, 1, taps);
  const int64_t tiles = tiles_of(s.group_c, kTileRows), number = static_cast<int64_t>(taps.size()),
                K = s.group_m * number, all = w.kernel_h * w.kernel_w;
  Scratch<T> panels(s.groups * tiles * kTileRows * K);
  parallel_for(s.groups * tiles, tiles_of(32768, kTileRows * K + 1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t c = t % tiles * kTileRows, high = std::min(kTileRows, s.group_c - c);
      T* panel = panels.data() + t * kTileRows * K;
      for (int64_t m = 0; m < s.group_m; ++m, panel += number * kTileRows) {
        const T* const from = weight + ((t / tiles * s.group_m + m) * s.group_c + c) * all;
        if (number == all) {
          pack_panel<kTileRows>(panel, high, all, from, all, 1);
          continue;
        }
        clear(panel, number * kTileRows);
        for (int64_t k = 0; k < number; ++k)
          for (int64_t i = 0; i < high; ++i)
            panel[k * kTileRows + i] = from[i * all + chosen[static_cast<size_t>(k)]];
      }
    }
  });
  multiply_frames(dy, {s.N, s.M, s.group_m, s.OH, s.OW}, frame, panels.data(), s.group_c, s.groups,
                  [&](int64_t n, int64_t group, int64_t c, int64_t i, const T* sums) {
                    T* const to =
                        dx + ((n * s.C + group * s.group_c + c) * s.H + down + i * stride) * s.W + right;
                    if (stride == 1) {
                      TT_SIMD
                      for (int64_t j = 0; j < cols; ++j) to[j] = sums[j];
                    } else {
                      for (int64_t j = 0; j < cols; ++j) to[j * stride] = sums[j];
                    }
                  });
}

template <class T>
void conv2d_grad_input_frames(T* dx, const T* dy, const T* weight, const ConvShape& s) {
  for (int64_t down = 0; down < s.window.stride; ++down)
    for (int64_t right = 0; right < s.window.stride; ++right)
      conv2d_grad_input_part(dx, dy, weight, s, down, right);
}

// All bits set where an output is.
template <class T>
std::vector<Bits<T>> output_positions(const FrameShape& frame, int64_t samples, int64_t size) {
  std::vector<Bits<T>> out(static_cast<size_t>(size), 0);
  for (int64_t r = 0; r < samples * frame.rows(); ++r)
    if (r % frame.rows() < frame.output_rows())
      std::fill_n(out.begin() + r * frame.pitch(), frame.output_cols(), Bits<T>(-1));
  return out;
}

// Chunks of samples, one after the other: x and dy are framed alike, then every thread adds products for its own part of
// dw.
template <class T>
void conv2d_grad_weight_group(T* dw, const T* dy, const T* x, const ConvShape& s, int64_t group) {
  const FrameShape frame(s.H, s.W, s.OH, s.OW, s.window.stride, taps_of(s.window));
  const int64_t tiles = tiles_of(s.group_m, kTileRows), height = s.group_m <= 2 ? 2 : kTileRows,
                dy_channels = tiles * height;
  const int64_t together =
      std::clamp<int64_t>(kGradientFrame / ((frame.splits() * s.group_c + s.group_m) * frame.plane()), 1,
                          std::max<int64_t>(1, s.N));
  const int64_t x_size = frame.size(s.group_c, together), dy_row = together * frame.plane() + kLanes<T>;
  const int64_t k_tiles = tiles_of(s.K, kTileVectors), dw_row = k_tiles * kTileVectors;
  std::vector<int64_t> shift = frame.shifts(s.group_c, together);
  shift.resize(static_cast<size_t>(dw_row), 0);
  Scratch<T> x_frame(x_size), dy_frame(dy_channels * dy_row), sums(dy_channels * dw_row);
  clear(x_frame.data(), x_size), clear(dy_frame.data(), dy_channels * dy_row);
  if (s.N == 0) clear(sums.data(), dy_channels * dw_row);
  const Images x_images{s.N, s.C, s.group_c, s.H, s.W}, dy_images{s.N, s.M, s.group_m, s.OH, s.OW};
  std::atomic<bool> finite{true};
  std::vector<Bits<T>> valid;
  const bool parallel = 2 * s.group_m * s.K * s.N * s.outputs > kParallelFlops;
  for (int64_t n0 = 0; n0 < s.N; n0 += together) {
    const int64_t samples = std::min(together, s.N - n0);
    if (samples < together) clear(dy_frame.data(), dy_channels * dy_row);  // of the chunk before
    maybe_parallel(parallel, samples * (s.group_c + s.group_m), 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t n = p % samples, c = p / samples;
        if (c < s.group_c) {
          const T* const image = x + x_images.place(n0 + n, group, c);
          if (!all_finite(image, s.H * s.W)) finite = false;
          frame.fill(x_frame.data(), image, c, s.group_c, n, together);
        } else {
          const T* row = dy + dy_images.place(n0 + n, group, c - s.group_c);
          T* to = dy_frame.data() + (c - s.group_c) * dy_row + n * frame.plane();
          for (int64_t i = 0; i < s.OH; ++i, row += s.OW, to += frame.pitch()) std::copy_n(row, s.OW, to);
        }
      }
    });
    if (!finite && valid.empty()) valid = output_positions<T>(frame, together, dy_row);
    const int64_t positions =
        tiles_of((samples - 1) * frame.plane() + (s.OH - 1) * frame.pitch() + s.OW, kLanes<T>) * kLanes<T>;
    const auto dots = height == 2 ? (valid.empty() ? &shifted_dots<T, 2, false> : &shifted_dots<T, 2, true>)
                                  : (valid.empty() ? &shifted_dots<T, 6, false> : &shifted_dots<T, 6, true>);
    const int64_t strips = std::min(k_tiles, tiles_of(16 * thread_count(), tiles));
    maybe_parallel(parallel, tiles * strips, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task / strips * height, strip = task % strips;
        for (int64_t q = 0; q < positions; q += kBlockPositions) {
          const int64_t n = std::min(kBlockPositions, positions - q);
          for (int64_t k = k_tiles * strip / strips; k < k_tiles * (strip + 1) / strips; ++k)
            dots(n, dy_frame.data() + row * dy_row + q, dy_row, x_frame.data() + frame.margin() + q,
                 shift.data() + k * kTileVectors, valid.empty() ? nullptr : valid.data() + q,
                 sums.data() + row * dw_row + k * kTileVectors, dw_row, n0 + q > 0);
        }
      }
    });
  }
  maybe_parallel(parallel, s.group_m, tiles_of(16384, dw_row), [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m)
      std::copy_n(sums.data() + m * dw_row, s.K, dw + (group * s.group_m + m) * s.K);
  });
}

template <class T>
void conv2d_grad_weight_frames(T* dw, const T* dy, const T* x, const ConvShape& s) {
  const auto each = [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) conv2d_grad_weight_group(dw, dy, x, s, group);
  };
  maybe_parallel(s.groups >= 2 * thread_count(), s.groups, 1, each);  // else threads share a group
}

TT_API void conv2d(const View& out, const View& x, const View& weight, const View& bias,
                   const Window2d& window, int64_t groups) {
  if (out.numel() == 0) return;
  const ConvShape s(x, out, window, groups);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const DenseInput<T> in(x), w(weight), b(bias);
    DenseOutput<T> to(out);
    conv2d_frames<T>(to.data(), in.data(), w.data(), b.data(), s);
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
    conv2d_grad_input_frames<T>(to.data(), grad.data(), w.data(), s);
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
    conv2d_grad_weight_frames<T>(to.data(), grad.data(), in.data(), s);
    to.finish();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
