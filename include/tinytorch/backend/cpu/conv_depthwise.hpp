// Depthwise convolutions: every channel has filters of its own, so there is no sum over channels and no matrix product.
//
//   out[n, c, p] = sum over k of weight[c, k] x[n, c, p * stride - padding + k * dilation]
//
// Images that lie in rows are framed plane by plane (conv_frame.hpp), and vectors run along positions; images that lie in
// pixels are read in place, and vectors run along channels. Forward pass and dx are the same sum of taps with other
// places. Source of the names: Howard et al., "MobileNets", 2017.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/conv_frame.hpp>
#include <tinytorch/backend/cpu/conv_images.hpp>
#include <tinytorch/backend/cpu/conv_tile.hpp>
#include <tinytorch/backend/window.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// ---- Rows: vectors along positions ----

inline constexpr int64_t kPlaneBlock =
    2048;  // positions whose sums stay in the L1 cache until they are written

// One of the parts that a plane of results is made of: its rows down, down + step, ... and columns right, right + step, ...,
// whose positions in the frame are summed over `taps` of every plane read.
struct PlanePart {
  int64_t down, right, rows, cols;
  std::vector<int64_t> taps;    // their numbers in the kernel,
  std::vector<int64_t> shifts;  // and how far from a position they read in the first plane
};

// Sums of kVectors vectors of positions.
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

// Results of one plane from framed ones. weight [taps], shift [taps]; `bias` is added.
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

// out [N, written * groups, ...] from in [N, read * groups, ...]: a group's results are sums over all the planes it reads.
// weight_of(group, result, plane) gives the filter's numbers.
template <class T, class WeightOf>
void depthwise_rows(const Images<T>& out, const Images<T>& in, int64_t groups, const FrameShape& frame,
                    const std::vector<PlanePart>& parts, int64_t step, const T* bias,
                    const WeightOf& weight_of) {
  const int64_t read = in.C / groups, written = out.C / groups;
  const int64_t work = frame.plane() * read * written * frame.taps();
  parallel_for(in.N * groups, tiles_of(kParallelFlops / 8, work + 1), [&](int64_t begin, int64_t end) {
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
      }
    }
  });
}

// All bits set where an output of `samples` planes is.
template <class T>
std::vector<Bits<T>> output_positions(const FrameShape& frame, int64_t samples, int64_t size) {
  std::vector<Bits<T>> out(static_cast<size_t>(size), 0);
  for (int64_t r = 0; r < samples * frame.rows(); ++r)
    if (r % frame.rows() < frame.output_rows())
      std::fill_n(out.begin() + r * frame.pitch(), frame.output_cols(), Bits<T>(-1));
  return out;
}

// dw [groups, written, taps] of dy [N, groups * written, ...] and x [N, groups, ...].
template <class T>
void depthwise_rows_grad_weight(T* dw, const Images<T>& dy, const Images<T>& x, const FrameShape& frame) {
  const int64_t groups = x.C, written = groups > 0 ? dy.C / groups : 0, taps = frame.taps();
  const int64_t padded = tiles_of(taps, kTileVectors) * kTileVectors;  // each vector's worth of taps at once
  const int64_t n = tiles_of((dy.H - 1) * frame.pitch() + dy.W, kLanes<T>) * kLanes<T>;
  std::vector<int64_t> shift = frame.shifts(1, 1);
  shift.resize(static_cast<size_t>(padded), 0);
  const int64_t work = dy.N * frame.plane() * written * taps;
  parallel_for(groups, tiles_of(kParallelFlops / 8, work + 1), [&](int64_t begin, int64_t end) {
    Scratch<T> x_frame(frame.size(1, 1)), dy_frame(n), sums(written * padded);
    std::fill_n(x_frame.data(), frame.size(1, 1), T(0));
    std::fill_n(dy_frame.data(), n, T(0));
    std::vector<Bits<T>> valid;
    for (int64_t group = begin; group < end; ++group) {
      std::fill_n(sums.data(), written * padded, T(0));
      for (int64_t sample = 0; sample < dy.N; ++sample) {
        frame.fill(x_frame.data(), x.at(sample, group), x.row, 0, 1, 0, 1);
        const bool finite = all_rows_finite(x, sample, group);
        if (!finite && valid.empty()) valid = output_positions<T>(frame, 1, n);
        const auto dots = finite ? &shifted_dots<T, 1, false> : &shifted_dots<T, 1, true>;
        for (int64_t m = 0; m < written; ++m) {
          for (int64_t i = 0; i < dy.H; ++i)
            copy_row(dy_frame.data() + i * frame.pitch(), dy.at(sample, group * written + m, i), dy.W);
          for (int64_t q = 0; q < n; q += kPlaneBlock)
            for (int64_t k = 0; k < padded; k += kTileVectors)
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

// ---- Pixels: vectors along channels ----

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
    for (int64_t i = 0; i < positions; ++i) {
      for (int64_t k = 0; k < taps; ++k)
        if (const int64_t from = source_of(i, k); from >= 0) feeds_.push_back({k, from});
      ends_.push_back(feeds_.size());
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
  std::vector<int64_t> alike_;
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

// Channels [c, c + kVectors vectors), or fewer than a vector of them.
template <class T, int kVectors, bool kPart = false>
struct Channels {
  static constexpr int kCount = kVectors;
  int64_t first;
  FirstLanes<T> lanes{kLanes<T>};
  Simd<T> load(const T* p, int v) const {
    if constexpr (kPart) return lanes.load(p + first);
    return simd_load(p + first + v * kLanes<T>);
  }
  void store(T* p, int v, Simd<T> x) const {
    if constexpr (kPart) return lanes.store(p + first, x);
    simd_store(p + first + v * kLanes<T>, x);
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

// kPixels results in a row, which read `step` numbers apart with the same taps: weights are loaded once for all.
// weight [taps, C].
template <class T, int kPixels, class Some>
void depthwise_pixel_tile(const Some& channels, const Images<T>& out, T* to, const Images<T>& in,
                          const T* from, int64_t step, const Feeds& down, int64_t i, const Feeds& right,
                          int64_t j, const T* weight, int64_t kernel_w, const T* bias) {
  Simd<T> sum[kPixels][Some::kCount] = {};
  if (bias)
    for (int p = 0; p < kPixels; ++p)
      for (int v = 0; v < Some::kCount; ++v) sum[p][v] = channels.load(bias, v);
  for (const Feed* y = down.begin(i); y != down.end(i); ++y) {
    const T* const line = from + y->from * in.row;
    const T* const filters = weight + y->tap * kernel_w * out.C;
    for (const Feed* x = right.begin(j); x != right.end(j); ++x) {
      const T* const pixel = line + x->from * in.pixel;
      const T* const filter = filters + x->tap * out.C;
      TT_UNROLL
      for (int v = 0; v < Some::kCount; ++v) {
        const Simd<T> w = channels.load(filter, v);
        TT_UNROLL
        for (int p = 0; p < kPixels; ++p) sum[p][v] += w * channels.load(pixel + p * step, v);
      }
    }
  }
  TT_UNROLL
  for (int p = 0; p < kPixels; ++p) {
    TT_UNROLL
    for (int v = 0; v < Some::kCount; ++v) channels.store(to + p * out.pixel, v, sum[p][v]);
  }
}

// out [N, C, ...] from in [N, C, ...], both in pixels: position (i, j) sums what `down` names for i and `right` for j.
template <class T>
void depthwise_pixels(const Images<T>& out, const Images<T>& in, const Feeds& down, const Feeds& right,
                      const T* weight, int64_t kernel_w, const T* bias) {
  const int64_t line_work = out.W * out.C * kernel_w;
  parallel_for(out.N * out.H, tiles_of(kElementwiseGrain / 4, line_work + 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t line = begin; line < end; ++line) {
                   const int64_t n = line / out.H, i = line % out.H;
                   for (int64_t j = 0; j < out.W;) {
                     const auto tile = [&]<int kPixels, int kVectors>() {
                       const int64_t step = kPixels > 1 ? right.step_to_next(j) * in.pixel : 0;
                       for_channels<T, kVectors>(out.C, [&](const auto& channels) {
                         depthwise_pixel_tile<T, kPixels>(channels, out, out.at(n, 0, i) + j * out.pixel, in,
                                                          in.at(n, 0), step, down, i, right, j, weight,
                                                          kernel_w, bias);
                       });
                       j += kPixels;
                     };
                     if (right.alike(j) >= 8) {
                       tile.template operator()<8, 1>();
                     } else if (right.alike(j) >= 4) {
                       tile.template operator()<4, 2>();
                     } else if (right.alike(j) >= 2) {
                       tile.template operator()<2, 4>();
                     } else {
                       tile.template operator()<1, 4>();
                     }
                   }
                 }
               });
}

// dw [taps, C] of dy and x in pixels. Lines are cut in parts by their number alone, and the parts' sums added in order.
template <class T>
void depthwise_pixels_grad_weight(T* dw, const Images<T>& dy, const Images<T>& x, const Window2d& w) {
  constexpr int64_t kMostParts = 64;
  const int64_t C = x.C, taps = w.kernel_h * w.kernel_w, lines = dy.N * dy.H;
  const int64_t in_part = std::max<int64_t>(1, tiles_of(lines, kMostParts)), parts = tiles_of(lines, in_part);
  Scratch<T> sums(parts * taps * C);
  const auto add_line = [&](T* to, int64_t n, int64_t i) {
    for_channels<T, 4>(C, [&]<class Some>(const Some& channels) {
      for (int64_t kh = 0; kh < w.kernel_h; ++kh) {
        const int64_t y = i * w.stride - w.padding + kh * w.dilation;
        if (y < 0 || y >= x.H) continue;
        for (int64_t kw = 0; kw < w.kernel_w; ++kw) {
          const int64_t shift = kw * w.dilation - w.padding;
          const TapRange inside = taps_inside(shift, x.W, dy.W, w.stride);
          const T* g = dy.at(n, 0, i) + inside.first * dy.pixel;
          const T* from = x.at(n, 0, y) + (inside.first * w.stride + shift) * x.pixel;
          Simd<T> sum[Some::kCount] = {};
          for (int64_t j = inside.first; j < inside.last; ++j) {
            TT_UNROLL
            for (int v = 0; v < Some::kCount; ++v) sum[v] += channels.load(g, v) * channels.load(from, v);
            g += dy.pixel;
            from += w.stride * x.pixel;
          }
          T* const total = to + (kh * w.kernel_w + kw) * C;
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
