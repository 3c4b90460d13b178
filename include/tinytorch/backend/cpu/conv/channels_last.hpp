// Convolution of channels-last images (NHWC) as implicit GEMM: [positions, K] by [K, filters], K = (channel,
// tap).
//
// A register tile takes up to kMR positions of a row by kNRVectors vectors of filters
// (gemm/micro_kernel.hpp). Step k of the depth reads each position's number at an offset shift[k] that all
// positions share, so the first matrix is never stored. Where a tap reads outside the image, a band of rows
// is first copied into a frame with zeros around it; otherwise the image is read in place. Results are always
// written in place. The gradient of the filters is in conv/channels_last_grad.hpp.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/conv/frame.hpp>
#include <tinytorch/backend/cpu/conv/images.hpp>
#include <tinytorch/backend/cpu/conv/micro_kernel.hpp>
#include <tinytorch/backend/cpu/gemm/blocked.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kBandElements = 1 << 16;  // elements of a frame, which shares L2 with filters

// The part of an image that outputs [rows, cols] read at `taps`; adjacent outputs read `step` pixels
// apart.
class ChannelsLastBand {
 public:
  ChannelsLastBand(int64_t height, int64_t width, int64_t channels, int64_t rows, int64_t cols, int64_t step,
                   const std::vector<Tap>& taps)
      : height_(height), width_(width), channels_(channels), step_(step), taps_(taps) {
    if (taps.empty()) return;
    top_ = left_ = std::numeric_limits<int64_t>::max();
    int64_t bottom = -top_, right = -top_;
    for (const Tap& tap : taps) {
      top_ = std::min(top_, tap.down), bottom = std::max(bottom, tap.down);
      left_ = std::min(left_, tap.right), right = std::max(right, tap.right);
    }
    extra_ = bottom - top_;
    cols_ = (cols - 1) * step + right - left_ + 1;
    framed_ = top_ < 0 || left_ < 0 || (rows - 1) * step + bottom >= height || left_ + cols_ > width;
  }
  bool framed() const { return framed_; }
  int64_t line() const { return cols_ * channels_; }
  // Rows of the frame that `rows` rows of outputs read, and the elements of these.
  int64_t lines(int64_t rows) const { return (rows - 1) * step_ + extra_ + 1; }
  int64_t size(int64_t rows) const { return framed_ ? lines(rows) * line() : 0; }
  // Rows of outputs whose frame has about this many elements.
  int64_t rows_of(int64_t elements) const {
    return std::max<int64_t>(1, (elements / std::max<int64_t>(1, line()) - extra_ - 1) / step_ + 1);
  }

  // Address and strides of a band's pixels. data is the pixel that the first output reads at tap (0, 0),
  // which may be outside the image.
  template <class T>
  struct Source {
    const T* data;
    int64_t row, pixel;
  };
  // The pixels that outputs from row i on read, channels from c on of sample n: in place, or copied into
  // `frame`.
  template <class T>
  Source<T> source(T* frame, const Images<T>& images, int64_t n, int64_t c, int64_t i, int64_t rows) const {
    if (!framed_) return {images.at(n, c, i * step_), images.row, images.pixel};
    const int64_t first = std::clamp<int64_t>(-left_, 0, cols_),
                  last = std::clamp(width_ - left_, first, cols_);
    T* to = frame;
    for (int64_t l = 0; l < lines(rows); ++l, to += line()) {
      const int64_t y = i * step_ + top_ + l;
      if (y < 0 || y >= height_) {
        std::fill_n(to, line(), T(0));
        continue;
      }
      std::fill_n(to, first * channels_, T(0));
      std::fill_n(to + last * channels_, (cols_ - last) * channels_, T(0));
      const T* from = images.at(n, c, y) + (left_ + first) * images.pixel;
      if (images.pixel == channels_) {
        std::copy_n(from, (last - first) * channels_, to + first * channels_);
      } else {
        for (int64_t x = first; x < last; ++x, from += images.pixel)
          std::copy_n(from, channels_, to + x * channels_);
      }
    }
    return {frame - top_ * line() - left_ * channels_, line(), channels_};
  }
  // Offset from an output's pixel at which step k = (channel, tap) reads.
  template <class T>
  std::vector<int64_t> shifts(const Images<T>& images) const {
    const int64_t row = framed_ ? line() : images.row, pixel = framed_ ? channels_ : images.pixel;
    std::vector<int64_t> out;
    for (int64_t c = 0; c < channels_; ++c)
      for (const Tap& tap : taps_) out.push_back(tap.down * row + tap.right * pixel + c);
    return out;
  }
  const std::vector<Tap>& taps() const { return taps_; }
  int64_t step() const { return step_; }

 private:
  int64_t height_, width_, channels_, step_;
  std::vector<Tap> taps_;
  int64_t top_ = 0, left_ = 0, extra_ = 0, cols_ = 0;
  bool framed_ = false;
};

// c [kRows, kVectors vectors] = or += x [kRows, depth] b [depth, kNR], where element k of row r is x[r *
// x_row + shift[k]]. Sums start from c if `accumulate`, else from `start`, or from 0 if that is null.
template <class T, int kRows, int kVectors>
[[gnu::noinline]] void channels_last_tile(int64_t depth, const T* x, int64_t x_row, const int64_t* shift,
                                          const T* b, T* c, int64_t c_row, bool accumulate, const T* start,
                                          const FirstLanes<T>* last) {
  Simd<T> sum[kRows][kVectors] = {};
  if (accumulate || start) {
    TT_UNROLL
    for (int i = 0; i < kRows; ++i) {
      TT_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const T* const from = (accumulate ? c + i * c_row : start) + v * kLanes<T>;
        sum[i][v] = last && v == kVectors - 1 ? last->load(from) : simd_load(from);
      }
    }
  }
  for (int64_t k = 0; k < depth; ++k, b += kNR<T>)
    rank_1_update<T, ScalarStep>(sum, x + shift[k], x_row, b, nullptr);
  store_tile<T>(sum, c, c_row, false, last);
}

// Most rows of a tile: with one vector of filters, kMR independent sums do not hide the latency of
// multiply-adds.
constexpr int64_t most_rows(int64_t vectors) { return vectors == 1 ? 2 * kMR : kMR; }

// Calls f with the numbers of rows and vectors as compile-time constants.
template <int kRows, int kVectors, class F>
void with_rows(int64_t rows, const F& f) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return with_rows<kRows - 1, kVectors>(rows, f);
  }
  f(std::integral_constant<int, kRows>(), std::integral_constant<int, kVectors>());
}
template <int kVectors = kNRVectors, class F>
void with_tile(int64_t rows, int64_t vectors, const F& f) {
  if constexpr (kVectors > 1) {
    if (vectors < kVectors) return with_tile<kVectors - 1>(rows, vectors, f);
  }
  with_rows<static_cast<int>(most_rows(kVectors)), kVectors>(rows, f);
}
// Calls f(first, count) on pieces of about equal length, at most `most` long.
template <class F>
void for_even_tiles(int64_t n, int64_t most, const F& f) {
  const int64_t pieces = ceil_div(n, most);
  for (int64_t p = 0; p < pieces; ++p) f(n * p / pieces, n * (p + 1) / pieces - n * p / pieces);
}

// The pixels of an image that results [rows, cols] are written to: the first is at (down, right), and they
// are `step` pixels apart.
struct OutputGrid {
  int64_t down, right, step, rows, cols;
};

// The division of the work into tasks. It decides which thread computes a result, but does not change its
// bits. A set of filter tiles is multiplied by all chunks of samples in turn, so that its filters stay in the
// cache; bands of rows are used if frames are large or tasks few.
struct ChannelsLastTasks {
  int64_t chunks, bands, sets;
  ChannelsLastTasks(const ChannelsLastBand& band, int64_t rows, int64_t samples, int64_t groups,
                    int64_t tiles) {
    const int64_t wanted = 4 * thread_count(), fit = std::min(rows, band.rows_of(kBandElements));
    const int64_t together = std::min(fit < rows ? 1 : kBandElements / std::max<int64_t>(1, band.size(rows)),
                                      samples * groups * tiles / wanted);
    chunks = ceil_div(samples, std::max<int64_t>(1, together));
    const int64_t tasks = chunks * groups;
    bands = std::max(ceil_div(rows, fit), std::min(ceil_div(wanted, tasks * tiles), ceil_div(rows, 4)));
    sets = std::clamp<int64_t>(ceil_div(wanted, tasks * bands), 1, tiles);
  }
};

// Products of images with packed filter panels [groups][tiles of M by kNR][K][kNR].
template <class T>
class ChannelsLastProduct {
 public:
  ChannelsLastProduct(const Images<T>& out, const OutputGrid& places, const Images<T>& in,
                      const ChannelsLastBand& band, const T* panels, const T* bias, int64_t groups,
                      const ImageEpilogue& epilogue = {})
      : out_(out),
        in_(in),
        places_(places),
        band_(band),
        panels_(panels),
        bias_(bias),
        epilogue_(epilogue),
        groups_(groups),
        M_(out.C / groups),
        tiles_(ceil_div(M_, kNR<T>)),
        shift_(band.shifts(in)),
        K_(static_cast<int64_t>(shift_.size())) {}

  void run() const {
    const ChannelsLastTasks cut(band_, places_.rows, in_.N, groups_, tiles_);
    const bool parallel = 2 * M_ * K_ * groups_ * in_.N * places_.rows * places_.cols > kParallelFlops;
    const int64_t most = ceil_div(in_.N, cut.chunks), rows = ceil_div(places_.rows, cut.bands);
    const int64_t parts = cut.chunks * cut.bands * groups_;
    maybe_parallel(parallel, parts * cut.sets, 1, [&](int64_t begin, int64_t end) {
      Scratch<T> frames(most * band_.size(rows));
      std::vector<Source> sources;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t set = task / parts, part = task % parts / groups_, group = task % groups_;
        const int64_t chunk = part / cut.bands, at = part % cut.bands;
        const int64_t n0 = in_.N * chunk / cut.chunks, n1 = in_.N * (chunk + 1) / cut.chunks;
        const int64_t i0 = places_.rows * at / cut.bands, i1 = places_.rows * (at + 1) / cut.bands;
        sources.clear();
        for (int64_t n = n0; n < n1; ++n)
          sources.push_back(band_.source(frames.data() + (n - n0) * band_.size(rows), in_, n,
                                         group * (in_.C / groups_), i0, i1 - i0));
        const int64_t first = tiles_ * set / cut.sets, end_of_set = tiles_ * (set + 1) / cut.sets;
        for (int64_t tile = first; tile < end_of_set; ++tile) multiply(sources, group, tile, n0, i0, i1);
        if (!epilogue_) continue;
        const int64_t c0 = group * M_ + first * kNR<T>, c1 = group * M_ + std::min(M_, end_of_set * kNR<T>);
        for (int64_t n = n0; n < n1; ++n) epilogue_({n, c0, c1, i0, i1});
      }
    });
  }

 private:
  using Source = typename ChannelsLastBand::template Source<T>;
  void multiply(const std::vector<Source>& sources, int64_t group, int64_t tile, int64_t n0, int64_t i0,
                int64_t i1) const {
    const int64_t m = tile * kNR<T>, width = std::min(kNR<T>, M_ - m), vectors = ceil_div(width, kLanes<T>);
    const FirstLanes<T> some(width - (vectors - 1) * kLanes<T>);
    const FirstLanes<T>* const last = width % kLanes<T> == 0 ? nullptr : &some;
    const T* const start = bias_ ? bias_ + group * M_ + m : nullptr;
    const int64_t c_row = places_.step * out_.pixel;
    int64_t k = 0;
    do {  // at least once: K = 0 stores the bias
      const int64_t depth = std::min(kKC, K_ - k);
      const T* const b = panels_ + ((group * tiles_ + tile) * K_ + k) * kNR<T>;
      for (size_t n = 0; n < sources.size(); ++n) {
        const int64_t x_row = band_.step() * sources[n].pixel;
        for (int64_t i = i0; i < i1; ++i) {
          const T* const x = sources[n].data + (i - i0) * band_.step() * sources[n].row;
          T* const to =
              out_.at(n0 + static_cast<int64_t>(n), group * M_ + m, places_.down + i * places_.step) +
              places_.right * out_.pixel;
          for_even_tiles(places_.cols, most_rows(vectors), [&](int64_t j, int64_t count) {
            with_tile(count, vectors,
                      [&]<int kRows, int kVectors>(std::integral_constant<int, kRows>,
                                                   std::integral_constant<int, kVectors>) {
                        channels_last_tile<T, kRows, kVectors>(depth, x + j * x_row, x_row, shift_.data() + k,
                                                               b, to + j * c_row, c_row, k > 0, start, last);
                      });
          });
        }
      }
      k += kKC;
    } while (k < K_);
  }

  const Images<T>&out_, &in_;
  OutputGrid places_;
  const ChannelsLastBand& band_;
  const T *panels_, *bias_;
  ImageEpilogue epilogue_;
  int64_t groups_, M_, tiles_;
  std::vector<int64_t> shift_;
  int64_t K_;
};

// Packs filter panels [groups][tiles of `filters` by kNR][K][kNR], K = (channel, tap). pack(panel, count,
// group, first) packs the filters [first, first + count) of a group into one panel.
template <class T, class Pack>
void pack_filter_panels(T* panels, int64_t groups, int64_t filters, int64_t K, const Pack& pack) {
  const int64_t tiles = ceil_div(filters, kNR<T>);
  parallel_for(groups * tiles, ceil_div(32768, kNR<T> * K + 1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t % tiles * kNR<T>;
      pack(panels + t * kNR<T> * K, std::min(kNR<T>, filters - first), t / tiles, first);
    }
  });
}

template <class T>
void conv2d_channels_last(const Images<T>& out, const Images<T>& x, const T* weight, const T* bias,
                          const ConvShape& s, const ImageEpilogue& epilogue) {
  const ChannelsLastBand band(s.H, s.W, s.group_c, s.OH, s.OW, s.window.stride, taps_of(s.window));
  Scratch<T> panels(s.groups * ceil_div(s.group_m, kNR<T>) * s.K * kNR<T>);
  pack_filter_panels(panels.data(), s.groups, s.group_m, s.K,
                     [&](T* to, int64_t count, int64_t group, int64_t m) {
                       pack_panel<kNR<T>>(to, count, s.K, weight + (group * s.group_m + m) * s.K, s.K, 1);
                     });
  ChannelsLastProduct<T>(out, {0, 0, 1, s.OH, s.OW}, x, band, panels.data(), bias, s.groups, epilogue).run();
}

template <class T>
void conv2d_grad_input_channels_last(const Images<T>& dx, const Images<T>& dy, const T* weight,
                                     const ConvShape& s) {
  const Window2d& w = s.window;
  const int64_t all = w.kernel_h * w.kernel_w;
  for (int64_t down = 0; down < std::min(s.H, w.stride); ++down) {
    for (int64_t right = 0; right < std::min(s.W, w.stride); ++right) {
      const GradTaps part = grad_taps(w, down, right);
      const OutputGrid places{down, right, w.stride, ceil_div(s.H - down, w.stride),
                              ceil_div(s.W - right, w.stride)};
      const ChannelsLastBand band(s.OH, s.OW, s.group_m, places.rows, places.cols, 1, part.taps);
      const auto number = static_cast<int64_t>(part.taps.size()), K = s.group_m * number;
      Scratch<T> panels(s.groups * ceil_div(s.group_c, kNR<T>) * K * kNR<T>);
      pack_filter_panels(
          panels.data(), s.groups, s.group_c, K, [&](T* to, int64_t count, int64_t group, int64_t c) {
            for (int64_t m = 0; m < s.group_m; ++m, to += number * kNR<T>)
              pack_taps<kNR<T>>(to, count, weight + ((group * s.group_m + m) * s.group_c + c) * all, all,
                                part.indices);
          });
      ChannelsLastProduct<T>(dx, places, dy, band, panels.data(), nullptr, s.groups).run();
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
