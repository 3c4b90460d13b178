// Sound synthesis in integer arithmetic: oscillators, noises, a resonator, an echo, and random numbers.
//
//   frequency in 1/16 Hz -> step of a 32-bit phase -> sine table -> samples of at most +-32767 -> 16 bits
//
// Parameters that are drawn or computed in double (frequencies, amplitudes, poles, gains) are rounded to
// integers before use, which absorbs last-bit differences of FMA and libm. Everything after that is integer
// arithmetic, so a clip has the same bits from every compiler, and 16 bits per sample store it exactly.
//
// Sources: pink noise: Voss and Clarke, 1975, with McCartney's schedule; resonator: Klatt, "Software for a
//   cascade/parallel formant synthesizer", 1980.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <tinytorch/core/error.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::sound {

inline constexpr int kSampleRate = 16000;
inline constexpr int kOne = 32768;  // gains and envelopes are fixed-point numbers: 1.0 is 2^15
inline constexpr int kHertz = 16;   // frequencies are in units of 1/16 Hz

using Samples = std::vector<int32_t>;

// The random numbers of one clip, in order: a pure function of (purpose, seed, clip). The purpose is in the
// high half of the counter, so that they differ from a Generator's and from other data sets' numbers.
class Draws {
 public:
  Draws(uint16_t purpose, uint64_t seed, int64_t clip)
      : next_(uint64_t{purpose} << 48), seed_(seed), clip_(static_cast<uint64_t>(clip)) {}
  uint32_t word() {
    if (used_ == 4) {
      block_ = philox(seed_, next_++, clip_);
      used_ = 0;
    }
    return block_.v[used_++];
  }
  double uniform(double low, double high) { return low + (high - low) * uniform_from_bits(word()); }
  int64_t below(int64_t n) {
    return static_cast<int64_t>((uint64_t{word()} * static_cast<uint64_t>(n)) >> 32);
  }
  // A nearly normal integer: the sum of four random bytes has mean 510 and standard deviation 147.8.
  int32_t bell() {
    const uint32_t w = word();
    return static_cast<int32_t>((w & 255) + ((w >> 8) & 255) + ((w >> 16) & 255) + (w >> 24)) - 510;
  }

 private:
  uint64_t next_, seed_, clip_;
  PhiloxBlock block_{};
  int used_ = 4;
};
inline constexpr double kBellSigma = 147.8;

// Rounds to the nearest integer. Values computed in double before have relative errors of at most 1e-15, so
// two machines differ in about one of 10^10 roundings.
inline int32_t snap(double x) { return static_cast<int32_t>(std::floor(x + 0.5)); }
inline int32_t gain(double x) { return snap(x * kOne); }
inline int32_t decibels(double db) { return gain(std::exp2(db / 6.020599913279624)); }
inline int32_t hertz(double f) { return snap(f * kHertz); }
inline int32_t scaled(int32_t x, int32_t by) { return static_cast<int32_t>((int64_t{x} * by) >> 15); }

// ---------------------------------------------------------------------------------------------------------

inline constexpr int kTableBits = 10;
using SineTable = std::array<int32_t, (1 << kTableBits) + 1>;

// Taylor series for a quarter of the period, mirrored. It is evaluated at compile time, with IEEE 754
// rounding.
constexpr SineTable make_sine_table() {
  SineTable table{};
  constexpr int kQuarter = 1 << (kTableBits - 2);
  for (int k = 0; k <= kQuarter; ++k) {
    const double x = 1.5707963267948966 * k / kQuarter;
    double term = x, sum = 0;
    for (int n = 1; n < 22; n += 2) {
      sum += term;
      term *= -x * x / ((n + 1) * (n + 2));
    }
    const auto value = static_cast<int32_t>(sum * 32767 + 0.5);
    table[static_cast<size_t>(k)] = table[static_cast<size_t>(2 * kQuarter - k)] = value;
    table[static_cast<size_t>(2 * kQuarter + k)] = table[static_cast<size_t>(4 * kQuarter - k)] = -value;
  }
  return table;
}
inline constexpr SineTable kSine = make_sine_table();

// 32767 sin(2 pi phase / 2^32), to about one unit.
inline int32_t sine(uint32_t phase) {
  const uint32_t at = phase >> (32 - kTableBits);
  const auto share = static_cast<int32_t>((phase >> (16 - kTableBits)) & 0xffff);
  return kSine[at] + (((kSine[at + 1] - kSine[at]) * share) >> 16);
}

// Phase step per sample for a frequency in 1/16 Hz: times 2^32 / (16 * 16000) = 16777.216.
inline uint32_t phase_step(int32_t frequency) {
  return static_cast<uint32_t>((int64_t{frequency} * 1099511628) >> 16);
}

// An oscillator whose frequency may change at any sample without a discontinuity.
struct Tone {
  uint32_t phase = 0, step = 0;
  void tune(int32_t frequency) { step = phase_step(frequency); }
  int32_t next() {
    phase += step;
    return sine(phase);
  }
};

// ---------------------------------------------------------------------------------------------------------

// White noise: equal power at every frequency.
inline void white_noise(Samples& out, Draws& draws) {
  for (int32_t& v : out) v = draws.bell();
}

// Pink noise: equal power in every octave, down to 2 Hz. Row k keeps a random number for 2^(k + 1) samples;
// the output is the sum of all rows and white noise.
inline void pink_noise(Samples& out, Draws& draws) {
  constexpr int kRows = 13;
  std::array<int32_t, kRows> rows{};
  int32_t sum = 0;
  for (int32_t& row : rows) sum += row = draws.bell();
  uint32_t count = 0;
  for (int32_t& v : out) {
    int32_t& row = rows[static_cast<size_t>(std::min(std::countr_zero(++count), kRows - 1))];
    sum -= row;
    sum += row = draws.bell();
    v = sum + draws.bell();
  }
}

// Mains hum: 50 Hz and four of its harmonics.
inline void mains_hum(Samples& out, Draws& draws) {
  constexpr std::array<std::array<int32_t, 2>, 5> kParts = {
      {{1, 8000}, {2, 5200}, {3, 4000}, {5, 2400}, {7, 1200}}};
  std::fill(out.begin(), out.end(), 0);
  for (const auto& [multiple, height] : kParts) {
    Tone tone{draws.word()};
    tone.tune(50 * kHertz * multiple);
    for (int32_t& v : out) v += scaled(tone.next(), height);
  }
}

// A two-pole band-pass filter at `frequency` (1/16 Hz), about `width` Hz wide.
class Resonator {
 public:
  Resonator(int32_t frequency, double width) {
    const double turn = 6.283185307179586 / kSampleRate;
    const double radius = std::exp(-turn * width / 2);
    first_ = snap(2 * radius * std::cos(turn * frequency / kHertz) * (1 << kBits));
    second_ = snap(-radius * radius * (1 << kBits));
  }
  int32_t next(int32_t x) {
    const int64_t y = x + ((first_ * one_ + second_ * two_) >> kBits);
    two_ = one_, one_ = y;
    return static_cast<int32_t>(y);
  }

 private:
  static constexpr int kBits = 14;
  int64_t first_, second_, one_ = 0, two_ = 0;
};

// Echo of a room: the sound returns after `delay` samples with gain share / 2^15, with a low-pass filter each
// time.
inline void echo(Samples& sound, int64_t delay, int32_t share) {
  for (size_t i = static_cast<size_t>(delay) + 1; i < sound.size(); ++i) {
    const size_t then = i - static_cast<size_t>(delay);
    sound[i] += scaled(sound[then] + sound[then - 1], share / 2);
  }
}

// Root mean square. The sum of squares is exact, the rest is correctly rounded.
inline double loudness(const Samples& sound) {
  int64_t sum = 0;
  for (const int32_t v : sound) sum += int64_t{v} * v;
  return sound.empty() ? 0 : std::sqrt(static_cast<double>(sum) / static_cast<double>(sound.size()));
}

// sum += part * factor / 2^15
inline void add(Samples& sum, const Samples& part, int32_t factor) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += scaled(part[i], factor);
}

// The gain, times 2^15, that changes the loudness from `is` to `wanted`; 0 for silence.
inline int32_t factor_to(double wanted, double is) {
  return is > 0 ? snap(std::min(wanted / is, 1000.0) * kOne) : 0;
}

// Clips to 16 bits, as an analog-to-digital converter does.
inline int16_t to_16_bit(int32_t x) { return static_cast<int16_t>(std::clamp(x, -32768, 32767)); }

// Throws TT-DATA-01, naming the function `who`, for a negative count or start, or if their sum is not below
// 2^63.
inline void check_range(const char* who, int64_t n, int64_t first, Loc loc) {
  if (n >= 0 && first >= 0 && n <= INT64_MAX - first) return;
  fail("TT-DATA-01",
       std::string(who) + ": cannot draw " + std::to_string(n) + " samples from sample " +
           std::to_string(first) + "\n  hint: both must be >= 0, and their sum below 2^63",
       loc);
}

}  // namespace tinytorch::inline TT_BUILD::sound
