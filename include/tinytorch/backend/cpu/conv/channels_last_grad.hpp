// Gradient of the filters for channels-last images, as implicit GEMM: [K, positions] of x by [positions,
// filters] of dy, both read as in conv/channels_last.hpp.
//
// Sums stay in registers for a band of positions. Bands are processed in order, and threads divide K and the
// filters, so that the order of a sum does not depend on the number of threads.
#pragma once

#include <tinytorch/backend/cpu/conv/channels_last.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Rows of positions that one tile sums over: `count` rows of `positions`; strides of x and dy between rows
// and between positions.
struct PositionLines {
  int64_t count, positions, x_line, x_step, dy_line, dy_step;
};
// c [kRows, kVectors vectors] += x^T dy: x [positions, kRows] and dy [positions, filters] in place.
template <class T, int kRows, int kVectors>
[[gnu::noinline]] void channels_last_grad_tile(const PositionLines& lines, const T* x, const T* dy, T* c,
                                               int64_t c_row, const FirstLanes<T>* last) {
  Simd<T> sum[kRows][kVectors] = {};
  for (int64_t i = 0; i < lines.count; ++i) {
    const T *a = x + i * lines.x_line, *b = dy + i * lines.dy_line;
    for (int64_t j = 0; j < lines.positions; ++j, a += lines.x_step, b += lines.dy_step)
      rank_1_update<T, ScalarStep>(sum, a, 1, b, last);
  }
  store_tile<T>(sum, c, c_row, true, nullptr);
}

// Consecutive rows of dw [taps, channels] whose elements of x are contiguous; at most as many as a tile has.
struct GradRows {
  int64_t row, shift, count;
};
// Cuts the rows of dw into such groups. If pixels have no gaps, adjacent taps form longer groups.
inline std::vector<GradRows> grad_rows(const std::vector<Tap>& taps, int64_t channels, int64_t line,
                                       int64_t pixel, int64_t most) {
  std::vector<GradRows> runs, out;
  for (size_t t = 0; t < taps.size(); ++t) {
    const int64_t shift = taps[t].down * line + taps[t].right * pixel;
    if (!runs.empty() && shift == runs.back().shift + runs.back().count) {
      runs.back().count += channels;
    } else {
      runs.push_back({static_cast<int64_t>(t) * channels, shift, channels});
    }
  }
  for (const GradRows& run : runs)
    for_even_tiles(run.count, most, [&](int64_t first, int64_t count) {
      out.push_back({run.row + first, run.shift + first, count});
    });
  return out;
}

// Computes dw of one group after the other.
template <class T>
class ChannelsLastGradient {
 public:
  ChannelsLastGradient(const Images<T>& dy, const Images<T>& x, const ConvShape& s)
      : dy_(dy),
        x_(x),
        s_(s),
        band_(s.H, s.W, s.group_c, s.OH, s.OW, s.window.stride, taps_of(s.window)),
        tiles_(ceil_div(s.group_m, kNR<T>)),
        rows_at_once_(std::min(s.OH, band_.rows_of(kBandElements))),
        samples_at_once_(
            rows_at_once_ < s.OH
                ? 1
                : std::clamp<int64_t>(2 * kBandElements / (band_.size(s.OH) + s.outputs * s.group_m + 1), 1,
                                      std::max<int64_t>(1, s.N))),
        parallel_(2 * s.group_m * s.K * s.N * s.outputs > kParallelFlops),
        frames_(samples_at_once_ * band_.size(rows_at_once_)),
        sums_(s.K * tiles_ * kNR<T>),
        rows_(grad_rows(band_.taps(), s.group_c, band_.framed() ? band_.line() : x.row,
                        band_.framed() ? s.group_c : x.pixel,
                        most_rows(ceil_div(std::min(s.group_m, kNR<T>), kLanes<T>)))) {}

  void group(T* dw, int64_t group) {
    std::fill_n(sums_.data(), s_.K * tiles_ * kNR<T>, T(0));
    for (int64_t n = 0; n < s_.N; n += samples_at_once_)
      for (int64_t i = 0; i < s_.OH; i += rows_at_once_)
        add(group, n, std::min(s_.N, n + samples_at_once_), i, std::min(s_.OH, i + rows_at_once_));
    store(dw, group);
  }

 private:
  using Source = typename ChannelsLastBand::template Source<T>;
  // sums [taps, channels, filters] += products of samples [n0, n1), rows [i0, i1) of outputs.
  void add(int64_t group, int64_t n0, int64_t n1, int64_t i0, int64_t i1) {
    std::vector<Source> sources(static_cast<size_t>(n1 - n0));
    maybe_parallel(parallel_ && band_.framed(), n1 - n0, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n)
        sources[static_cast<size_t>(n)] = band_.source(frames_.data() + n * band_.size(rows_at_once_), x_,
                                                       n0 + n, group * s_.group_c, i0, i1 - i0);
    });
    const auto all = static_cast<int64_t>(rows_.size());
    maybe_parallel(parallel_, all * tiles_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const GradRows& rows = rows_[static_cast<size_t>(task % all)];
        const int64_t m = task / all * kNR<T>, width = std::min(kNR<T>, s_.group_m - m);
        const int64_t vectors = ceil_div(width, kLanes<T>);
        const FirstLanes<T> some(width - (vectors - 1) * kLanes<T>);
        const FirstLanes<T>* const last = width % kLanes<T> == 0 ? nullptr : &some;
        T* const to = sums_.data() + rows.row * tiles_ * kNR<T> + m;
        with_tile(rows.count, vectors,
                  [&]<int kRows, int kVectors>(std::integral_constant<int, kRows>,
                                               std::integral_constant<int, kVectors>) {
                    for (int64_t n = n0; n < n1; ++n) {
                      const Source& x = sources[static_cast<size_t>(n - n0)];
                      const PositionLines lines{
                          i1 - i0, s_.OW, band_.step() * x.row, band_.step() * x.pixel, dy_.row, dy_.pixel};
                      channels_last_grad_tile<T, kRows, kVectors>(lines, x.data + rows.shift,
                                                                  dy_.at(n, group * s_.group_m + m, i0), to,
                                                                  tiles_ * kNR<T>, last);
                    }
                  });
      }
    });
  }
  // Transposes sums [taps, channels, filters] into dw [filters, channels, taps], a cache line of filters at a
  // time.
  void store(T* dw, int64_t group) {
    const int64_t taps = s_.K / std::max<int64_t>(1, s_.group_c), row = tiles_ * kNR<T>;
    maybe_parallel(parallel_, ceil_div(s_.group_m, kLanes<T>), 1, [&](int64_t begin, int64_t end) {
      for (int64_t m = begin * kLanes<T>; m < std::min(s_.group_m, end * kLanes<T>); m += kLanes<T>) {
        const int64_t width = std::min(kLanes<T>, s_.group_m - m);
        T* to = dw + (group * s_.group_m + m) * s_.K;
        for (int64_t c = 0; c < s_.group_c; ++c)
          for (int64_t t = 0; t < taps; ++t, ++to) {
            const T* const from = sums_.data() + (t * s_.group_c + c) * row + m;
            for (int64_t l = 0; l < width; ++l) to[l * s_.K] = from[l];
          }
      }
    });
  }

  Images<T> dy_, x_;
  const ConvShape& s_;
  ChannelsLastBand band_;
  int64_t tiles_, rows_at_once_, samples_at_once_;
  bool parallel_;
  Scratch<T> frames_, sums_;
  std::vector<GradRows> rows_;
};

template <class T>
void conv2d_grad_weight_channels_last(T* dw, const Images<T>& dy, const Images<T>& x, const ConvShape& s) {
  ChannelsLastGradient<T> gradient(dy, x, s);
  for (int64_t group = 0; group < s.groups; ++group) gradient.group(dw, group);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
