// Oscillators, noises, resonator and echo against their definitions.
#include <doctest/doctest.h>

#include <complex>
#include <tinytorch/data/mel.hpp>
#include <tinytorch/data/sound.hpp>

namespace tt = tinytorch;
namespace sound = tt::sound;

namespace {

constexpr double kTurn = 6.283185307179586;

// Mean energy per bin of `octaves` octaves, the last one ending at bin `size` / 2: |X|^2, averaged over
// pieces.
std::vector<double> octave_levels(const sound::Samples& x, int octaves) {
  constexpr size_t kSize = 1024;
  const tt::mel::Fft fft(kSize);
  std::vector<double> level(static_cast<size_t>(octaves), 0.0);
  for (size_t start = 0; start + kSize <= x.size(); start += kSize) {
    std::vector<std::complex<double>> piece(x.begin() + static_cast<std::ptrdiff_t>(start),
                                            x.begin() + static_cast<std::ptrdiff_t>(start + kSize));
    fft(piece.data());
    for (size_t octave = 0; octave < level.size(); ++octave) {
      const size_t low = (kSize / 2) >> (level.size() - octave), high = 2 * low;
      for (size_t k = low; k < high; ++k)
        level[octave] += std::norm(piece[k]) / static_cast<double>(high - low);
    }
  }
  return level;
}

}  // namespace

TEST_CASE("sound: the sine table is accurate to about 1 / 32767") {
  double worst = 0;
  for (uint32_t k = 0; k < 100003; ++k) {
    const uint32_t phase = k * 42949u;
    worst = std::max(worst, std::abs(sound::sine(phase) - 32767 * std::sin(kTurn * phase / 4294967296.0)));
  }
  CHECK(worst < 1.7);
  CHECK(sound::sine(0) == 0);
  CHECK(sound::sine(1u << 30) == 32767);
  CHECK(sound::sine(1u << 31) == 0);
  CHECK(sound::sine(3u << 30) == -32767);
  int64_t sum = 0;
  for (const int32_t v : sound::kSine) sum += v;
  CHECK(sum == 0);
}

TEST_CASE("sound: a tone keeps its frequency for a minute, and its phase when retuned") {
  for (double f : {0.25, 50.0, 440.0, 1234.5, 7999.0}) {
    const double turns = sound::phase_step(sound::hertz(f)) / 4294967296.0 * sound::kSampleRate * 60;
    CHECK(std::abs(turns - f * 60) < 1e-6 * f * 60 + 3e-4);  // phase steps are integers
  }
  sound::Tone tone;
  int32_t before = 0, largest = 0;
  for (int k = 0; k < 16000; ++k) {
    if (k % 100 == 0) tone.tune(sound::hertz(200 + k % 700));
    const int32_t now = tone.next();
    largest = std::max(largest, std::abs(now - before));
    before = now;
  }
  CHECK(largest < 32767 * kTurn * 901 / 16000);  // no difference exceeds that of the highest tone
}

TEST_CASE("sound: random numbers are a function of purpose, seed and clip, nearly normal and unbiased") {
  const auto words = [](uint16_t purpose, uint64_t seed, int64_t clip) {
    sound::Draws draws(purpose, seed, clip);
    std::vector<uint32_t> out;
    for (int k = 0; k < 9; ++k) out.push_back(draws.word());
    return out;
  };
  CHECK(words(1, 2, 3) == words(1, 2, 3));
  CHECK(words(1, 2, 3) != words(2, 2, 3));
  CHECK(words(1, 2, 3) != words(1, 3, 3));
  CHECK(words(1, 2, 3) != words(1, 2, 4));
  sound::Draws draws(1, 2, 3);
  double sum = 0, squares = 0, count[5] = {};
  for (int k = 0; k < 50000; ++k) {
    const double x = draws.bell();
    REQUIRE(std::abs(x) <= 510);
    sum += x, squares += x * x;
    ++count[draws.below(5)];
    const double u = draws.uniform(-3, 5);
    REQUIRE(u >= -3);
    REQUIRE(u < 5);
  }
  CHECK(std::abs(sum / 50000) < 3.5);  // five standard errors
  CHECK(std::sqrt(squares / 50000) == doctest::Approx(sound::kBellSigma).epsilon(0.02));
  for (double c : count) CHECK(std::abs(c - 10000) < 5 * 90);
}

TEST_CASE("sound: the spectrum of white noise is flat, that of pink noise halves per octave") {
  sound::Samples white(1 << 18), pink(1 << 18);
  sound::Draws draws(7, 1, 0);
  sound::white_noise(white, draws);
  sound::pink_noise(pink, draws);
  const std::vector<double> of_white = octave_levels(white, 6), of_pink = octave_levels(pink, 6);
  for (size_t k = 1; k < 6; ++k) {
    CHECK(of_white[k] / of_white[k - 1] == doctest::Approx(1).epsilon(0.1));
    // The rows of McCartney's schedule cause ripple: each octave is half of the previous one within 1.5
    // decibels.
    CHECK(of_pink[k] / of_pink[k - 1] > 0.5 / 1.41);
    CHECK(of_pink[k] / of_pink[k - 1] < 0.5 * 1.41);
  }
  CHECK(of_pink[5] / of_pink[0] == doctest::Approx(1.0 / 32).epsilon(0.35));
}

TEST_CASE("sound: mains hum consists of multiples of 50 Hz") {
  sound::Samples hum(16000);
  sound::Draws draws(7, 1, 0);
  sound::mains_hum(hum, draws);
  for (size_t k = 0; k + 320 < hum.size(); ++k)
    CHECK(std::abs(hum[k + 320] - hum[k]) < 60);  // a period is 320 samples
  // The root mean square is the root of half the sum of the squared amplitudes.
  CHECK(sound::loudness(hum) ==
        doctest::Approx(std::sqrt((8 * 8 + 5.2 * 5.2 + 16 + 2.4 * 2.4 + 1.44) / 2) * 1000).epsilon(0.01));
}

TEST_CASE("sound: a resonator has the frequency response of its two poles") {
  const double centre = 1500, width = 200;
  const double radius = std::exp(-kTurn * width / 2 / sound::kSampleRate);
  for (double f : {300.0, 1300.0, 1500.0, 1600.0, 4000.0}) {
    sound::Resonator resonator(sound::hertz(centre), width);
    sound::Tone tone;
    tone.tune(sound::hertz(f));
    sound::Samples in(16000), out(16000);
    for (size_t k = 0; k < in.size(); ++k) in[k] = tone.next(), out[k] = resonator.next(in[k]);
    out.erase(out.begin(), out.begin() + 4000);  // the transient
    const std::complex<double> z = std::polar(1.0, -kTurn * f / sound::kSampleRate);
    const std::complex<double> pole = std::polar(radius, kTurn * centre / sound::kSampleRate);
    const double expected = 1 / std::abs((1.0 - pole * z) * (1.0 - std::conj(pole) * z));
    CHECK(sound::loudness(out) / sound::loudness(in) == doctest::Approx(expected).epsilon(0.02));
  }
}

TEST_CASE("sound: an echo repeats with delay and low-pass filter") {
  sound::Samples pulse(1000, 0);
  pulse[10] = 16000;
  sound::echo(pulse, 100, sound::gain(0.5));
  for (size_t k = 0; k < 350; ++k) {
    int32_t expected = 0;
    if (k == 10) expected = 16000;
    if (k == 110 || k == 111) expected = 4000;  // 0.5 / 2 each
    if (k == 210 || k == 212) expected = 1000;
    if (k == 211) expected = 2000;
    if (k < 310) CHECK(pulse[k] == expected);
  }
  sound::Samples loud(16000, 32767);
  sound::echo(loud, 1, sound::gain(0.5));  // 1 + 0.5 + 0.25 + ... = 2
  CHECK(*std::max_element(loud.begin(), loud.end()) <= 2 * 32767);
  sound::Samples one(1, 5), none;
  sound::echo(one, 100, 16000), sound::echo(none, 100, 16000);
  CHECK(one[0] == 5);
}

TEST_CASE("sound: loudness, decibels and clipping to 16 bits") {
  sound::Samples sine(16000);
  sound::Tone tone;
  tone.tune(sound::hertz(1000));
  for (int32_t& v : sine) v = tone.next();
  CHECK(sound::loudness(sine) == doctest::Approx(32767 / std::sqrt(2.0)).epsilon(1e-3));
  CHECK(sound::loudness({}) == 0);
  CHECK(sound::decibels(0) == sound::kOne);
  CHECK(sound::decibels(-20) == 3277);
  CHECK(sound::decibels(6.020599913279624) == 2 * sound::kOne);
  sound::Samples sum(16000, 0);
  sound::add(sum, sine, sound::factor_to(500, sound::loudness(sine)));
  CHECK(sound::loudness(sum) == doctest::Approx(500).epsilon(2e-3));  // rounding down costs half a step
  CHECK(sound::factor_to(500, 0) == 0);
  CHECK(sound::to_16_bit(40000) == 32767);
  CHECK(sound::to_16_bit(-40000) == -32768);
  CHECK(sound::to_16_bit(-7) == -7);
}

TEST_CASE("sound: the error for a negative count or start names the function") {
  sound::check_range("me", 1, INT64_MAX - 1, tt::Loc::current());
  sound::check_range("me", 0, 0, tt::Loc::current());
  for (const auto& [n, first] :
       {std::pair<int64_t, int64_t>{-1, 0}, {0, -1}, {INT64_MIN, INT64_MIN}, {2, INT64_MAX - 1}}) {
    try {
      sound::check_range("me", n, first, tt::Loc::current());
      FAIL("accepted");
    } catch (const tt::Error& e) {
      CHECK(e.code() == "TT-DATA-01");
      CHECK(std::string(e.what()).find("me: cannot draw") != std::string::npos);
    }
  }
}

// The waves are computed with integers only, so the checksum is equal for every compiler.
TEST_CASE("sound: golden checksum") {
  uint64_t hash = 14695981039346656037ull;
  sound::Draws draws(9, 9, 9);
  sound::Samples noise(5000), hum(5000);
  sound::pink_noise(noise, draws), sound::mains_hum(hum, draws);
  sound::Resonator resonator(sound::hertz(700), 90);
  sound::add(noise, hum, sound::decibels(-9));
  for (int32_t& v : noise) v = resonator.next(v);
  sound::echo(noise, 321, sound::gain(0.3));
  for (const int32_t v : noise)
    hash = (hash ^ static_cast<uint64_t>(static_cast<uint32_t>(v))) * 1099511628211ull;
  CHECK(hash == 8072568248629016710ull);
}
