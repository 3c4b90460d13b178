// Log-mel spectrogram: per frame, the logarithm of the energy in bands of equal width on the mel scale.
//
//   frame -> Hann window -> FFT -> |X[k]|^2 -> triangular bands -> log2(1 + energy)
//
// Computed in double by a radix-2 FFT, with relative errors of about 1e-13. Data sets then round the features
// to 1/32 (quantize), so that compilers with and without FMA, and different libms, differ in about one value
// of 10^10. Samples are 16-bit integers; white noise of variance v has energy v per bin.
//
// Sources: Cooley and Tukey, 1965; Stevens, Volkmann and Newman, 1937, with O'Shaughnessy's constants (1987).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <string>
#include <tinytorch/core/error.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::mel {

using Complex = std::complex<double>;
inline constexpr double kTurn = 6.283185307179586;

inline double from_hertz(double f) { return 2595 * std::log10(1 + f / 700); }
inline double to_hertz(double m) { return 700 * (std::pow(10.0, m / 2595) - 1); }

// X[k] = sum over n of x[n] exp(-2 pi i k n / N), in place; N is a power of two.
class Fft {
 public:
  explicit Fft(int64_t size, TT_LOC);
  int64_t size() const { return size_; }
  void operator()(Complex* x) const;
  // |X[k]|^2 for k = 0 to N / 2 of two real signals by one complex transform: a is the real part, b the
  // imaginary part, and the symmetry of a real signal's spectrum separates them. work [N]
  void power(const double* a, const double* b, double* power_a, double* power_b, Complex* work) const;

 private:
  int64_t size_;
  std::vector<Complex> roots_;      // exp(-2 pi i k / N), k < N / 2
  std::vector<uint32_t> reversed_;  // bit-reversed index
};

// Periodic Hann window: the sum of the window and of its copy shifted by half its length is 1.
inline std::vector<double> hann_window(int64_t n) {
  std::vector<double> w(static_cast<size_t>(n));
  for (size_t k = 0; k < w.size(); ++k)
    w[k] = 0.5 - 0.5 * std::cos(kTurn * static_cast<double>(k) / static_cast<double>(n));
  return w;
}

struct Options {
  int64_t sample_rate = 16000;
  int64_t window = 512;  // samples per frame, a power of two
  int64_t hop = 320;     // samples from one frame to the next
  int64_t bands = 10;
  double low = 60, high = 7600;  // Hz, begin of the first band and end of the last band
};

// One triangular filter: weight[k] belongs to bin first + k.
struct Band {
  int64_t first = 0;
  std::vector<double> weight;
};

// Triangular filters whose peaks have equal distances in mel. Each begins and ends at its neighbours' peaks,
// so between the first and the last peak the weights of a bin add up to 1. A bin is treated as an interval:
// its weight is the mean of the triangle over it, so that a band narrower than a bin still has a positive
// weight.
std::vector<Band> bands(const Options& options, TT_LOC);

// Computes the log-mel spectrogram: frames x bands of log2(1 + energy).
class LogMel {
 public:
  explicit LogMel(Options options = {}, TT_LOC);
  const Options& options() const { return options_; }
  int64_t frames(int64_t samples) const {
    return samples < options_.window ? 0 : (samples - options_.window) / options_.hop + 1;
  }
  // wave [samples] -> out [frames(samples), bands]
  void operator()(const int16_t* wave, int64_t samples, double* out) const;

 private:
  void write_bands(const double* power, double* out) const;

  Options options_;
  Fft fft_;
  std::vector<double> window_;
  std::vector<Band> bands_;
};

// (value - centre) / scale, rounded to a multiple of 1/32 in [-4, 4). This is one signed byte with zero point
// 0 and scale 1/32, so an 8-bit model can use it without loss.
inline constexpr int kSteps = 32;
inline float quantize(double value, double centre, double scale) {
  const double steps = std::floor((value - centre) / scale * kSteps + 0.5);
  return static_cast<float>(std::clamp(steps, -128.0, 127.0)) / kSteps;
}

// ---------------------------------------------------------------------------------------------------------

namespace detail {

inline Options checked(Options o, Loc loc) {
  const auto top = static_cast<double>(o.sample_rate) / 2;
  if (o.sample_rate < 1 || o.window < 2 || o.hop < 1 || o.bands < 1 ||
      !(o.low >= 0 && o.low < o.high && o.high <= top)) {
    fail("TT-DATA-04",
         "mel: " + std::to_string(o.bands) + " bands from " + std::to_string(o.low) + " to " +
             std::to_string(o.high) + " Hz of frames of " + std::to_string(o.window) + " samples, " +
             std::to_string(o.hop) + " apart, at " + std::to_string(o.sample_rate) +
             " samples per second\n  hint: bands, hop >= 1, window >= 2, and "
             "0 <= low < high <= half the sample rate",
         loc);
  }
  return o;
}

// Integral from -infinity to x of the triangle that rises from 0 at a to 1 at b and falls to 0 at c.
inline double triangle_area_below(double x, double a, double b, double c) {
  if (x <= a) return 0;
  if (x <= b) return (x - a) * (x - a) / (2 * (b - a));
  if (x < c) return (c - a) / 2 - (c - x) * (c - x) / (2 * (c - b));
  return (c - a) / 2;
}

// Complex product without the checks for infinities of std::complex, which a spectrum does not need.
inline Complex product(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

}  // namespace detail

inline Fft::Fft(int64_t size, Loc loc) : size_(size) {
  if (size < 2 || size > (int64_t{1} << 24) || !std::has_single_bit(static_cast<uint64_t>(size))) {
    fail("TT-DATA-04",
         "mel: an FFT of " + std::to_string(size) + " samples\n  hint: a power of two from 2 to 2^24", loc);
  }
  const auto n = static_cast<size_t>(size);
  const int bits = std::countr_zero(n);
  roots_.resize(n / 2);
  for (size_t k = 0; k < n / 2; ++k) {
    const double angle = -kTurn * static_cast<double>(k) / static_cast<double>(n);
    roots_[k] = {std::cos(angle), std::sin(angle)};
  }
  reversed_.resize(n, 0);
  for (size_t k = 1; k < n; ++k) {
    reversed_[k] = (reversed_[k >> 1] >> 1) | (static_cast<uint32_t>(k & 1) << (bits - 1));
  }
}

inline void Fft::operator()(Complex* x) const {
  const auto n = static_cast<size_t>(size_);
  for (size_t k = 0; k < n; ++k) {
    if (k < reversed_[k]) std::swap(x[k], x[reversed_[k]]);
  }
  for (size_t half = 1; half < n; half *= 2) {  // combines pairs of transforms of length `half`
    const size_t stride = n / (2 * half);
    for (size_t start = 0; start < n; start += 2 * half) {
      for (size_t k = 0; k < half; ++k) {
        Complex &upper = x[start + k], &lower = x[start + k + half];
        const Complex turned = detail::product(roots_[k * stride], lower);
        lower = upper - turned;
        upper += turned;
      }
    }
  }
}

inline void Fft::power(const double* a, const double* b, double* power_a, double* power_b,
                       Complex* work) const {
  const auto n = static_cast<size_t>(size_);
  for (size_t k = 0; k < n; ++k) work[k] = {a[k], b[k]};
  (*this)(work);
  for (size_t k = 0; k <= n / 2; ++k) {
    const Complex here = work[k], mirrored = std::conj(work[(n - k) % n]);
    power_a[k] = std::norm(here + mirrored) / 4;
    power_b[k] = std::norm(here - mirrored) / 4;
  }
}

inline std::vector<Band> bands(const Options& options, Loc loc) {
  const Options o = detail::checked(options, loc);
  const double low = from_hertz(o.low), high = from_hertz(o.high);
  const double bins_per_hertz = static_cast<double>(o.window) / static_cast<double>(o.sample_rate);
  const auto corner = [&](int64_t k) {  // unit: bins
    return bins_per_hertz *
           to_hertz(low + (high - low) * static_cast<double>(k) / static_cast<double>(o.bands + 1));
  };
  std::vector<Band> out(static_cast<size_t>(o.bands));
  for (int64_t m = 0; m < o.bands; ++m) {
    Band& band = out[static_cast<size_t>(m)];
    const double a = corner(m), b = corner(m + 1), c = corner(m + 2);
    band.first = static_cast<int64_t>(std::floor(a + 0.5));
    const int64_t last = std::min(static_cast<int64_t>(std::floor(c + 0.5)), o.window / 2);
    for (int64_t k = band.first; k <= last; ++k) {
      const auto bin = static_cast<double>(k);
      band.weight.push_back(detail::triangle_area_below(bin + 0.5, a, b, c) -
                            detail::triangle_area_below(bin - 0.5, a, b, c));
    }
  }
  return out;
}

inline LogMel::LogMel(Options options, Loc loc)
    : options_(detail::checked(options, loc)),
      fft_(options.window, loc),
      window_(hann_window(options.window)),
      bands_(bands(options, loc)) {
  double squares = 0;  // normalizes the window: noise of variance v has energy v per bin
  for (const double w : window_) squares += w * w;
  for (double& w : window_) w /= std::sqrt(squares);
}

inline void LogMel::write_bands(const double* power, double* out) const {
  for (size_t m = 0; m < bands_.size(); ++m) {
    double energy = 0;
    for (size_t k = 0; k < bands_[m].weight.size(); ++k) {
      energy += bands_[m].weight[k] * power[static_cast<size_t>(bands_[m].first) + k];
    }
    out[m] = std::log2(1 + energy);
  }
}

inline void LogMel::operator()(const int16_t* wave, int64_t samples, double* out) const {
  const int64_t count = frames(samples);
  const auto n = static_cast<size_t>(options_.window);
  std::vector<double> first(n), second(n), power_first(n / 2 + 1), power_second(n / 2 + 1);
  std::vector<Complex> work(n);
  const auto cut = [&](int64_t frame, std::vector<double>& to) {
    const int16_t* from = wave + frame * options_.hop;
    for (size_t k = 0; k < n; ++k) to[k] = window_[k] * from[k];
  };
  for (int64_t frame = 0; frame < count; frame += 2) {
    const bool pair = frame + 1 < count;
    cut(frame, first);
    if (pair) cut(frame + 1, second);  // otherwise the second result is not used
    fft_.power(first.data(), second.data(), power_first.data(), power_second.data(), work.data());
    write_bands(power_first.data(), out + frame * options_.bands);
    if (pair) write_bands(power_second.data(), out + (frame + 1) * options_.bands);
  }
}

}  // namespace tinytorch::inline TT_BUILD::mel
