// Depthwise convolution: every channel has its own filters, so there is no sum over channels and no matrix
// product.
//
//   out[n, c, p] = sum over k of weight[c, k] x[n, c, p * stride - padding + k * dilation]
//
// Channels-first images are copied into frames plane by plane (conv/frame.hpp), and vectors run along
// positions. Channels-last images are read in place, and vectors run along channels
// (conv/depthwise_channels_last.hpp). In both layouts, dx is the same sum over taps as the forward pass, with
// other offsets.
// Source: Howard et al., "MobileNets", 2017.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/conv/depthwise_channels_last.hpp>
#include <tinytorch/backend/cpu/conv/frame.hpp>
#include <tinytorch/backend/cpu/conv/images.hpp>
#include <tinytorch/backend/cpu/conv/micro_kernel.hpp>
#include <tinytorch/backend/window.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kPlaneBlock = 2048;  // positions whose sums stay in the L1 cache

// A part of a plane of results: rows down, down + step, ... and columns right, right + step, ... Each of its
// positions is a sum over `taps` of every input plane.
struct PlanePart {
  int64_t down, right, rows, cols;
  std::vector<int64_t> taps;    // indices in the kernel
  std::vector<int64_t> shifts;  // offset from a position at which each tap reads in the first plane
};

// out = kVectors vectors of sums over the taps.
template <class T, int kVectors>
void depthwise_tile(int64_t taps, const T* weight, const T* x, const int64_t* shift, T* out) {
  Simd<T> sum[kVectors] = {};
  for (int64_t k = 0; k < taps; ++k) {
    const T w = weight[k];
    const T* const from = x + shift[k];
    TT_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[v] += w * simd_load(from + v * kLanes<T>);
  }
  TT_UNROLL
  for (int v = 0; v < kVectors; ++v) simd_store(out + v * kLanes<T>, sum[v]);
}

// Computes one part of a plane from framed input planes. weight [taps], shift [taps] cover all input planes;
// `bias` is added.
template <class T>
void depthwise_plane(const PlanePart& part, int64_t step, const FrameShape& frame, const T* first,
                     const std::vector<T>& weight, const std::vector<int64_t>& shift, T bias, T* sums,
                     T* plane, int64_t row) {
  const auto taps = static_cast<int64_t>(shift.size());
  const int64_t at_once = std::max<int64_t>(1, kPlaneBlock / frame.pitch());
  for (int64_t i0 = 0; i0 < part.rows; i0 += at_once) {
    const int64_t i1 = std::min(part.rows, i0 + at_once);
    const int64_t n = (i1 - i0 - 1) * frame.pitch() + part.cols;
    const T* const x = first + i0 * frame.pitch();
    int64_t q = 0;
    for (; q + 3 * kLanes<T> < n; q += 4 * kLanes<T>)
      depthwise_tile<T, 4>(taps, weight.data(), x + q, shift.data(), sums + q);
    for (; q < n; q += kLanes<T>) depthwise_tile<T, 1>(taps, weight.data(), x + q, shift.data(), sums + q);
    for (int64_t i = i0; i < i1; ++i) {
      T* const to = plane + (part.down + i * step) * row + part.right;
      const T* const from = sums + (i - i0) * frame.pitch();
      if (step != 1) {
        for (int64_t j = 0; j < part.cols; ++j) to[j * step] = from[j] + bias;
        continue;
      }
      int64_t j = 0;
      for (; j + kLanes<T> <= part.cols; j += kLanes<T>) simd_store(to + j, simd_load(from + j) + bias);
      if (j < part.cols) {
        const FirstLanes<T> last(part.cols - j);
        last.store(to + j, last.load(from + j) + bias);
      }
    }
  }
}

// out [N, written * groups, ...] from in [N, read * groups, ...]: each result of a group is a sum over all
// input planes of the group. weight_of(group, result, plane) returns the address of the filter.
template <class T, class WeightOf>
void depthwise_channels_first(const Images<T>& out, const Images<T>& in, int64_t groups,
                              const FrameShape& frame, const std::vector<PlanePart>& parts, int64_t step,
                              const T* bias, const WeightOf& weight_of, const ImageEpilogue& epilogue = {}) {
  const int64_t read = in.C / groups, written = out.C / groups;
  const int64_t work = frame.plane() * read * written * frame.taps();
  parallel_for(in.N * groups, ceil_div(kParallelFlops / 8, work + 1), [&](int64_t begin, int64_t end) {
    Scratch<T> storage(frame.size(read, 1)), sums(kPlaneBlock + frame.pitch() + 4 * kLanes<T>);
    std::fill_n(storage.data(), frame.size(read, 1), T(0));
    std::vector<T> weight;
    std::vector<int64_t> shift;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t n = task / groups, group = task % groups;
      for (int64_t p = 0; p < read; ++p)
        frame.fill(storage.data(), in.at(n, group * read + p), in.row, p, read, 0, 1);
      for (int64_t m = 0; m < written; ++m) {
        for (const PlanePart& part : parts) {
          weight.clear(), shift.clear();
          for (int64_t p = 0; p < read; ++p) {
            const T* const filter = weight_of(group, m, p);
            for (size_t k = 0; k < part.taps.size(); ++k) {
              weight.push_back(filter[part.taps[k]]);
              shift.push_back(part.shifts[k] + p * frame.plane());
            }
          }
          depthwise_plane(part, step, frame, storage.data() + frame.margin(), weight, shift,
                          bias ? bias[group * written + m] : T(0), sums.data(),
                          out.at(n, group * written + m), out.row);
        }
        epilogue({n, group * written + m, group * written + m + 1, 0, out.H});
      }
    }
  });
}

// A mask over `samples` planes of a frame: all bits are set at positions of outputs, and none elsewhere.
template <class T>
std::vector<Bits<T>> output_positions(const FrameShape& frame, int64_t samples, int64_t size) {
  std::vector<Bits<T>> out(static_cast<size_t>(size), 0);
  for (int64_t r = 0; r < samples * frame.rows(); ++r)
    if (r % frame.rows() < frame.output_rows())
      std::fill_n(out.begin() + r * frame.pitch(), frame.output_cols(), Bits<T>(-1));
  return out;
}

// dw [groups, written, taps] from dy [N, groups * written, ...] and x [N, groups, ...].
template <class T>
void depthwise_channels_first_grad_weight(T* dw, const Images<T>& dy, const Images<T>& x,
                                          const FrameShape& frame) {
  const int64_t groups = x.C, written = groups > 0 ? dy.C / groups : 0, taps = frame.taps();
  const int64_t padded = ceil_div(taps, kNRVectors) * kNRVectors;  // taps, rounded up to whole tiles
  const int64_t n = ceil_div((dy.H - 1) * frame.pitch() + dy.W, kLanes<T>) * kLanes<T>;
  std::vector<int64_t> shift = frame.shifts(1, 1);
  shift.resize(static_cast<size_t>(padded), 0);
  const int64_t work = dy.N * frame.plane() * written * taps;
  parallel_for(groups, ceil_div(kParallelFlops / 8, work + 1), [&](int64_t begin, int64_t end) {
    Scratch<T> x_frame(frame.size(1, 1)), dy_frame(n), sums(written * padded);
    std::fill_n(x_frame.data(), frame.size(1, 1), T(0));
    std::fill_n(dy_frame.data(), n, T(0));
    std::vector<Bits<T>> valid;
    for (int64_t group = begin; group < end; ++group) {
      std::fill_n(sums.data(), written * padded, T(0));
      for (int64_t sample = 0; sample < dy.N; ++sample) {
        frame.fill(x_frame.data(), x.at(sample, group), x.row, 0, 1, 0, 1);
        const bool finite = is_channel_finite(x, sample, group);
        if (!finite && valid.empty()) valid = output_positions<T>(frame, 1, n);
        const auto dots = finite ? &shifted_dots<T, 1, false> : &shifted_dots<T, 1, true>;
        for (int64_t m = 0; m < written; ++m) {
          for (int64_t i = 0; i < dy.H; ++i)
            copy_row(dy_frame.data() + i * frame.pitch(), dy.at(sample, group * written + m, i), dy.W);
          for (int64_t q = 0; q < n; q += kPlaneBlock)
            for (int64_t k = 0; k < padded; k += kNRVectors)
              dots(std::min(kPlaneBlock, n - q), dy_frame.data() + q, 0, x_frame.data() + frame.margin() + q,
                   shift.data() + k, finite ? nullptr : valid.data() + q, sums.data() + m * padded + k, 0,
                   true);
        }
      }
      for (int64_t m = 0; m < written; ++m)
        std::copy_n(sums.data() + m * padded, taps, dw + (group * written + m) * taps);
    }
  });
}

// to [taps, M] = transposed filters [M, taps].
template <class T>
void transpose_filters(T* to, const T* from, int64_t M, int64_t taps) {
  for (int64_t m = 0; m < M; ++m)
    for (int64_t k = 0; k < taps; ++k) to[k * M + m] = from[m * taps + k];
}

template <class T>
void conv2d_depthwise(const Images<T>& out, const Images<T>& x, ImageLayout layout, const T* weight,
                      const T* bias, const ConvShape& s, const ImageEpilogue& epilogue) {
  const Window2d& w = s.window;
  if (layout == ImageLayout::channels_last) {
    Scratch<T> by_tap(s.C * s.K);
    transpose_filters(by_tap.data(), weight, s.C, s.K);
    return depthwise_channels_last(out, x, forward_taps(s.H, s.OH, w.kernel_h, w),
                                   forward_taps(s.W, s.OW, w.kernel_w, w), by_tap.data(), w.kernel_w, bias,
                                   epilogue);
  }
  const FrameShape frame(s.H, s.W, s.OH, s.OW, w.stride, taps_of(w));
  PlanePart whole{0, 0, s.OH, s.OW, {}, frame.shifts(1, 1)};
  for (int64_t k = 0; k < s.K; ++k) whole.taps.push_back(k);
  const auto weight_of = [&](int64_t group, int64_t m, int64_t) {
    return weight + (group * s.group_m + m) * s.K;
  };
  depthwise_channels_first(out, x, s.groups, frame, {whole}, 1, bias, weight_of, epilogue);
}

template <class T>
void conv2d_depthwise_grad_input(const Images<T>& dx, const Images<T>& dy, ImageLayout layout,
                                 const T* weight, const ConvShape& s) {
  const Window2d& w = s.window;
  if (layout == ImageLayout::channels_last) {
    Scratch<T> by_tap(s.C * s.K);
    transpose_filters(by_tap.data(), weight, s.C, s.K);
    return depthwise_channels_last<T>(dx, dy, grad_input_taps(s.H, s.OH, w.kernel_h, w),
                                      grad_input_taps(s.W, s.OW, w.kernel_w, w), by_tap.data(), w.kernel_w,
                                      nullptr);
  }
  std::vector<PlanePart> parts;
  std::vector<Tap> all;  // taps of all parts, in order
  for (int64_t down = 0; down < std::min(s.H, w.stride); ++down) {
    for (int64_t right = 0; right < std::min(s.W, w.stride); ++right) {
      const GradTaps part = grad_taps(w, down, right);
      parts.push_back(
          {down, right, ceil_div(s.H - down, w.stride), ceil_div(s.W - right, w.stride), part.indices, {}});
      all.insert(all.end(), part.taps.begin(), part.taps.end());
    }
  }
  const FrameShape frame(s.OH, s.OW, ceil_div(s.H, w.stride), ceil_div(s.W, w.stride), 1, all);
  const std::vector<int64_t> shifts = frame.shifts(1, 1);
  auto next = shifts.begin();
  for (PlanePart& part : parts) {
    const auto end = next + static_cast<std::ptrdiff_t>(part.taps.size());
    part.shifts.assign(next, end);
    next = end;
  }
  depthwise_channels_first<T>(
      dx, dy, s.groups, frame, parts, w.stride, nullptr,
      [&](int64_t group, int64_t, int64_t m) { return weight + (group * s.group_m + m) * s.K; });
}

template <class T>
void conv2d_depthwise_grad_weight(T* dw, const Images<T>& dy, const Images<T>& x, ImageLayout layout,
                                  const ConvShape& s) {
  if (layout == ImageLayout::channels_last) {
    Scratch<T> by_tap(s.C * s.K);
    depthwise_channels_last_grad_weight(by_tap.data(), dy, x, s.window);
    return transpose_filters(dw, by_tap.data(), s.K, s.C);
  }
  depthwise_channels_first_grad_weight(dw, dy, x,
                                       FrameShape(s.H, s.W, s.OH, s.OW, s.window.stride, taps_of(s.window)));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
