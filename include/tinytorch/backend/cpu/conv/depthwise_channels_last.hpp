// Depthwise convolutions of images that lie pixel by pixel, read in place: vectors run along channels.
//
// Which taps feed a position, and from where, is listed once for each side of the image. The forward pass and
// dx are then the same loop with other lists, and padding and strides are no cases of their own.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/conv/images.hpp>
#include <tinytorch/backend/cpu/gemm/micro_kernel.hpp>
#include <tinytorch/backend/window.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// A number of the kernel, and what it reads.
struct Feed {
  int64_t tap, from;
};

// For every position along one side of the results, the taps that feed it.
class Feeds {
 public:
  // source_of(position, tap) is where it reads, or negative.
  template <class SourceOf>
  Feeds(int64_t positions, int64_t taps, const SourceOf& source_of) {
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
      if (step_to_next(i) > 0 && (alike(i + 1) == 1 || step_to_next(i) == step_to_next(i + 1)))
        alike_[static_cast<size_t>(i)] = alike(i + 1) + 1;
  }
  const Feed* begin(int64_t i) const {
    return feeds_.data() + (i > 0 ? ends_[static_cast<size_t>(i - 1)] : 0);
  }
  const Feed* end(int64_t i) const { return feeds_.data() + ends_[static_cast<size_t>(i)]; }
  // The last of all that positions up to i read; -1: they read nothing.
  int64_t furthest(int64_t i) const { return furthest_[static_cast<size_t>(i)]; }
  // How many positions from i on have the same taps, each reading `step` further than the one before.
  int64_t alike(int64_t i) const { return alike_[static_cast<size_t>(i)]; }
  // How much further position i + 1 reads with the same taps; 0 if it has others.
  int64_t step_to_next(int64_t i) const {
    const Feed *a = begin(i), *b = end(i);
    if (a == b || end(i + 1) - b != b - a) return 0;
    const int64_t step = b->from - a->from;
    for (const Feed* next = b; a != b; ++a, ++next)
      if (next->tap != a->tap || next->from - a->from != step) return 0;
    return step;
  }

 private:
  std::vector<Feed> feeds_;
  std::vector<size_t> ends_;
  std::vector<int64_t> alike_, furthest_;
};

// The taps of outputs along a side of `size` pixels, and those of dx, which come from outputs.
inline Feeds output_feeds(int64_t size, int64_t outputs, int64_t kernel, const Window2d& w) {
  return Feeds(outputs, kernel, [&](int64_t o, int64_t k) {
    const int64_t i = o * w.stride - w.padding + k * w.dilation;
    return i < size ? i : -1;
  });
}
inline Feeds pixel_feeds(int64_t size, int64_t outputs, int64_t kernel, const Window2d& w) {
  return Feeds(size, kernel, [&](int64_t i, int64_t k) {
    const int64_t o = i + w.padding - k * w.dilation;
    return o >= 0 && o % w.stride == 0 && o / w.stride < outputs ? o / w.stride : -1;
  });
}

// Channels [first, first + kVectors vectors), or fewer than a vector of them; load and store are given where
// the first is.
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
// Calls f with Channels of kWide vectors each, then of one, that cover [0, C).
template <class T, int kWide, class F>
void for_channels(int64_t C, const F& f) {
  int64_t c = 0;
  for (; c + kWide * kLanes<T> <= C; c += kWide * kLanes<T>) f(Channels<T, kWide>{c});
  for (; c + kLanes<T> <= C; c += kLanes<T>) f(Channels<T, 1>{c});
  if (c < C) f(Channels<T, 1, true>{c, FirstLanes<T>(C - c)});
}

// Where a position reads, and the weights it multiplies there: a tap of both sides.
struct TapPlace {
  int64_t from, weight;
};
inline void find_taps(std::vector<TapPlace>& taps, const Feeds& down, int64_t i, const Feeds& right,
                      int64_t j, int64_t row, int64_t pixel, int64_t kernel_w, int64_t C) {
  taps.clear();
  for (const Feed* y = down.begin(i); y != down.end(i); ++y)
    for (const Feed* x = right.begin(j); x != right.end(j); ++x)
      taps.push_back({y->from * row + x->from * pixel, (y->tap * kernel_w + x->tap) * C});
}

// kPixels results in a row, `to_step` apart, which read `step` numbers apart with the same taps: weights are
// loaded once for all.
template <class T, int kPixels, class Some>
void depthwise_pixel_tile(const Some& channels, const std::vector<TapPlace>& taps, T* to, int64_t to_step,
                          const T* from, int64_t step, const T* weight, const T* bias) {
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

// Asks for what pixels [j, j + count) of the line of results after i need that line i does not: tiles touch a
// few channels of many pixels at a time, an order in which processors don't see what comes next (measured:
// 0.7 of the time of 8 x 96 x 56 x 56 with 3 x 3 taps).
template <class T>
[[gnu::always_inline]] inline void ask_for_next_line(const Images<T>& out, const Images<T>& in,
                                                     const Feeds& down, int64_t n, int64_t i, int64_t j,
                                                     int64_t count) {
  if (i + 1 == out.H) return;
  const int64_t each = ceil_div(in.W * in.C, out.W);  // numbers of in for a pixel of out
  const int64_t first = j * each, size = std::min(count * each, in.W * in.C - first);
  for (int64_t y = down.furthest(i) + 1; y <= down.furthest(i + 1); ++y)
    ask_for<false>(in.at(n, 0, y) + first, size);
  ask_for<true>(out.at(n, 0, i + 1) + j * out.pixel, count * out.C);
}

// out [N, C, ...] from in [N, C, ...], both in pixels: position (i, j) sums what `down` names for i and
// `right` for j.
template <class T>
void depthwise_pixels(const Images<T>& out, const Images<T>& in, const Feeds& down, const Feeds& right,
                      const T* weight, int64_t kernel_w, const T* bias) {
  const int64_t line_work = out.W * out.C * kernel_w;
  parallel_for(out.N * out.H, ceil_div(kElementwiseGrain / 4, line_work + 1),
               [&](int64_t begin, int64_t end) {
                 std::vector<TapPlace> taps;
                 for (int64_t line = begin; line < end; ++line) {
                   const int64_t n = line / out.H, i = line % out.H;
                   for (int64_t j = 0; j < out.W;) {
                     const auto tile = [&]<int kPixels, int kVectors>() {
                       ask_for_next_line(out, in, down, n, i, j, kPixels);
                       const int64_t step = kPixels > 1 ? right.step_to_next(j) * in.pixel : 0;
                       find_taps(taps, down, i, right, j, in.row, in.pixel, kernel_w, out.C);
                       T* const to = out.at(n, 0, i) + j * out.pixel;
                       for_channels<T, kVectors>(out.C, [&](const auto& channels) {
                         const int64_t c = channels.first;
                         depthwise_pixel_tile<T, kPixels>(channels, taps, to + c, out.pixel, in.at(n, c),
                                                          step, weight + c, bias ? bias + c : nullptr);
                       });
                       j += kPixels;
                     };
                     // Sums enough to hide the latency of multiply-adds, and not more than sixteen registers
                     // hold.
                     if (right.alike(j) >= 6) {
                       tile.template operator()<6, 2>();
                     } else if (right.alike(j) >= 3) {
                       tile.template operator()<3, 4>();
                     } else if (right.alike(j) >= 2) {
                       tile.template operator()<2, 4>();
                     } else {
                       tile.template operator()<1, 8>();
                     }
                   }
                 }
               });
}

// dw [taps, C] of dy and x in pixels. Lines are cut in parts by their number alone, and the parts' sums added
// in order.
template <class T>
void depthwise_pixels_grad_weight(T* dw, const Images<T>& dy, const Images<T>& x, const Window2d& w) {
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
