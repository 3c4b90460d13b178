// Depthwise convolution of channels-last images, read in place: vectors run along channels.
//
// Tables list, for each row and each column of results, the taps and the source positions that they read. The
// forward pass and dx are the same loop with other tables; padding and strides are no special cases.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/conv/images.hpp>
#include <tinytorch/backend/cpu/gemm/micro_kernel.hpp>
#include <tinytorch/backend/window.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// A tap (its index along one side of the kernel) and the source position that it reads.
struct TapSource {
  int64_t tap, from;
};

// Lists, for each position along one side of the results, its taps and the source positions that they read.
class TapSources {
 public:
  // source_of(position, tap) returns the source position, or a negative number for padding.
  template <class SourceOf>
  TapSources(int64_t positions, int64_t taps, const SourceOf& source_of) {
    int64_t furthest = -1;
    for (int64_t i = 0; i < positions; ++i) {
      for (int64_t k = 0; k < taps; ++k) {
        const int64_t from = source_of(i, k);
        if (from < 0) continue;
        feeds_.push_back({k, from});
        furthest = std::max(furthest, from);
      }
      ends_.push_back(feeds_.size());
      furthest_.push_back(furthest);
    }
    alike_.assign(ends_.size(), 1);
    for (int64_t i = positions - 2; i >= 0; --i)
      if (step_to_next(i) > 0 && (same_taps(i + 1) == 1 || step_to_next(i) == step_to_next(i + 1)))
        alike_[static_cast<size_t>(i)] = same_taps(i + 1) + 1;
  }
  const TapSource* begin(int64_t i) const {
    return feeds_.data() + (i > 0 ? ends_[static_cast<size_t>(i - 1)] : 0);
  }
  const TapSource* end(int64_t i) const { return feeds_.data() + ends_[static_cast<size_t>(i)]; }
  // The largest source position that result positions up to i read; -1 if they read none.
  int64_t furthest(int64_t i) const { return furthest_[static_cast<size_t>(i)]; }
  // Number of positions from i on that have the same taps, each reading `step` further than the previous one.
  int64_t same_taps(int64_t i) const { return alike_[static_cast<size_t>(i)]; }
  // Distance between the source positions of i + 1 and i, if both have the same taps; else 0.
  int64_t step_to_next(int64_t i) const {
    const TapSource *a = begin(i), *b = end(i);
    if (a == b || end(i + 1) - b != b - a) return 0;
    const int64_t step = b->from - a->from;
    for (const TapSource* next = b; a != b; ++a, ++next)
      if (next->tap != a->tap || next->from - a->from != step) return 0;
    return step;
  }

 private:
  std::vector<TapSource> feeds_;
  std::vector<size_t> ends_;
  std::vector<int64_t> alike_, furthest_;
};

// Tables of the forward pass, whose positions are outputs, and of dx, whose positions are pixels; `size` is
// in pixels.
inline TapSources forward_taps(int64_t size, int64_t outputs, int64_t kernel, const Window2d& w) {
  return TapSources(outputs, kernel, [&](int64_t o, int64_t k) {
    const int64_t i = o * w.stride - w.padding + k * w.dilation;
    return i < size ? i : -1;
  });
}
inline TapSources grad_input_taps(int64_t size, int64_t outputs, int64_t kernel, const Window2d& w) {
  return TapSources(size, kernel, [&](int64_t i, int64_t k) {
    const int64_t o = i + w.padding - k * w.dilation;
    return o >= 0 && o % w.stride == 0 && o / w.stride < outputs ? o / w.stride : -1;
  });
}

// Channels [first, first + kVectors vectors), or fewer than one vector if kPart. load and store take the
// address of the first channel.
template <class T, int kVectors, bool kPart = false>
struct Channels {
  static constexpr int kCount = kVectors;
  int64_t first;
  FirstLanes<T> lanes{kLanes<T>};
  Simd<T> load(const T* p, int v) const {
    if constexpr (kPart) return lanes.load(p);
    return simd_load(p + v * kLanes<T>);
  }
  void store(T* p, int v, Simd<T> x) const {
    if constexpr (kPart) return lanes.store(p, x);
    simd_store(p + v * kLanes<T>, x);
  }
};
// Calls f with Channels of kVectors vectors each, then of one vector, that cover [0, C).
template <class T, int kVectors, class F>
void for_channels(int64_t C, const F& f) {
  int64_t c = 0;
  for (; c + kVectors * kLanes<T> <= C; c += kVectors * kLanes<T>) f(Channels<T, kVectors>{c});
  for (; c + kLanes<T> <= C; c += kLanes<T>) f(Channels<T, 1>{c});
  if (c < C) f(Channels<T, 1, true>{c, FirstLanes<T>(C - c)});
}

// Offset of the pixel that a tap reads, and offset of its weights.
struct TapPlace {
  int64_t from, weight;
};
inline void find_taps(std::vector<TapPlace>& taps, const TapSources& down, int64_t i, const TapSources& right,
                      int64_t j, int64_t row, int64_t pixel, int64_t kernel_w, int64_t C) {
  taps.clear();
  for (const TapSource* y = down.begin(i); y != down.end(i); ++y)
    for (const TapSource* x = right.begin(j); x != right.end(j); ++x)
      taps.push_back({y->from * row + x->from * pixel, (y->tap * kernel_w + x->tap) * C});
}

// Computes kPixels adjacent results, `to_step` apart, with the same taps; their pixels are `step` elements
// apart. Weights are loaded once for all of them.
template <class T, int kPixels, class Some>
void depthwise_channels_last_tile(const Some& channels, const std::vector<TapPlace>& taps, T* to,
                                  int64_t to_step, const T* from, int64_t step, const T* weight,
                                  const T* bias) {
  Simd<T> sum[kPixels][Some::kCount] = {};
  if (bias) {
    TT_UNROLL
    for (int p = 0; p < kPixels; ++p) {
      TT_UNROLL
      for (int v = 0; v < Some::kCount; ++v) sum[p][v] = channels.load(bias, v);
    }
  }
  for (const TapPlace& tap : taps) {
    const T *const pixel = from + tap.from, *const filter = weight + tap.weight;
    TT_UNROLL
    for (int v = 0; v < Some::kCount; ++v) {
      const Simd<T> w = channels.load(filter, v);
      TT_UNROLL
      for (int p = 0; p < kPixels; ++p) sum[p][v] += w * channels.load(pixel + p * step, v);
    }
  }
  TT_UNROLL
  for (int p = 0; p < kPixels; ++p) {
    TT_UNROLL
    for (int v = 0; v < Some::kCount; ++v) channels.store(to + p * to_step, v, sum[p][v]);
  }
}

// Prefetches the pixels that results [j, j + count) of line i + 1 read and line i does not. Tiles read a few
// channels of many pixels at a time, an order that hardware prefetchers do not follow (measured: 0.7 of the
// time of 8 x 96 x 56 x 56 with 3 x 3 taps).
template <class T>
[[gnu::always_inline]] inline void prefetch_next_line(const Images<T>& out, const Images<T>& in,
                                                      const TapSources& down, int64_t n, int64_t i, int64_t j,
                                                      int64_t count) {
  if (i + 1 == out.H) return;
  const int64_t each = ceil_div(in.W * in.C, out.W);  // elements of `in` for a pixel of `out`
  const int64_t first = j * each, size = std::min(count * each, in.W * in.C - first);
  for (int64_t y = down.furthest(i) + 1; y <= down.furthest(i + 1); ++y)
    prefetch<false>(in.at(n, 0, y) + first, size);
  prefetch<true>(out.at(n, 0, i + 1) + j * out.pixel, count * out.C);
}

// out [N, C, ...] from in [N, C, ...], both channels-last: position (i, j) sums the taps that `down` lists
// for i and `right` for j. weight [taps, C]; bias [C] or null.
template <class T>
void depthwise_channels_last(const Images<T>& out, const Images<T>& in, const TapSources& down,
                             const TapSources& right, const T* weight, int64_t kernel_w, const T* bias,
                             const ImageEpilogue& epilogue = {}) {
  const int64_t line_work = out.W * out.C * kernel_w;
  parallel_for(
      out.N * out.H, ceil_div(kElementwiseGrain / 4, line_work + 1), [&](int64_t begin, int64_t end) {
        std::vector<TapPlace> taps;
        for (int64_t line = begin; line < end; ++line) {
          const int64_t n = line / out.H, i = line % out.H;
          for (int64_t j = 0; j < out.W;) {
            const auto tile = [&]<int kPixels, int kVectors>() {
              prefetch_next_line(out, in, down, n, i, j, kPixels);
              const int64_t step = kPixels > 1 ? right.step_to_next(j) * in.pixel : 0;
              find_taps(taps, down, i, right, j, in.row, in.pixel, kernel_w, out.C);
              T* const to = out.at(n, 0, i) + j * out.pixel;
              for_channels<T, kVectors>(out.C, [&](const auto& channels) {
                const int64_t c = channels.first;
                depthwise_channels_last_tile<T, kPixels>(channels, taps, to + c, out.pixel, in.at(n, c), step,
                                                         weight + c, bias ? bias + c : nullptr);
              });
              j += kPixels;
            };
            // Enough independent sums to hide the latency of multiply-adds, and no more than fit in
            // sixteen registers.
            if (right.same_taps(j) >= 6) {
              tile.template operator()<6, 2>();
            } else if (right.same_taps(j) >= 3) {
              tile.template operator()<3, 4>();
            } else if (right.same_taps(j) >= 2) {
              tile.template operator()<2, 4>();
            } else {
              tile.template operator()<1, 8>();
            }
          }
          epilogue({n, 0, out.C, i, i + 1});
        }
      });
}

// dw [taps, C] from channels-last dy and x. Lines are cut into parts depending on their number alone, and the
// sums of parts are added in order.
template <class T>
void depthwise_channels_last_grad_weight(T* dw, const Images<T>& dy, const Images<T>& x, const Window2d& w) {
  constexpr int64_t kMostParts = 64;
  const int64_t C = x.C, taps = w.kernel_h * w.kernel_w, lines = dy.N * dy.H;
  const int64_t in_part = std::max<int64_t>(1, ceil_div(lines, kMostParts)), parts = ceil_div(lines, in_part);
  Scratch<T> sums(parts * taps * C);
  const auto add_line = [&](T* to, int64_t n, int64_t i) {
    for_channels<T, 4>(C, [&]<class Some>(const Some& channels) {
      for (int64_t kh = 0; kh < w.kernel_h; ++kh) {
        const int64_t y = i * w.stride - w.padding + kh * w.dilation;
        if (y < 0 || y >= x.H) continue;
        for (int64_t kw = 0; kw < w.kernel_w; ++kw) {
          const int64_t shift = kw * w.dilation - w.padding;
          const TapRange inside = taps_inside(shift, x.W, dy.W, w.stride);
          const T* g = dy.at(n, channels.first, i) + inside.first * dy.pixel;
          const T* from = x.at(n, channels.first, y) + (inside.first * w.stride + shift) * x.pixel;
          Simd<T> sum[Some::kCount] = {};
          for (int64_t j = inside.first; j < inside.last; ++j) {
            TT_UNROLL
            for (int v = 0; v < Some::kCount; ++v) sum[v] += channels.load(g, v) * channels.load(from, v);
            g += dy.pixel;
            from += w.stride * x.pixel;
          }
          T* const total = to + (kh * w.kernel_w + kw) * C + channels.first;
          TT_UNROLL
          for (int v = 0; v < Some::kCount; ++v) channels.store(total, v, channels.load(total, v) + sum[v]);
        }
      }
    });
  };
  maybe_parallel(2 * lines * dy.W * taps * C > kParallelFlops, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      T* const to = sums.data() + part * taps * C;
      std::fill_n(to, taps * C, T(0));
      for (int64_t line = part * in_part; line < std::min(lines, (part + 1) * in_part); ++line)
        add_line(to, line / dy.H, line % dy.H);
    }
  });
  std::fill_n(dw, taps * C, T(0));
  for (int64_t part = 0; part < parts; ++part) {
    const T* const from = sums.data() + part * taps * C;
    TT_SIMD
    for (int64_t i = 0; i < taps * C; ++i) dw[i] += from[i];
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
