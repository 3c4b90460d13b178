// Synthetic machine sounds: reproducible, independent of how ranges are split, in range, with audible faults.
#include <doctest/doctest.h>

#include <cstring>
#include <support/whole_numbers.hpp>
#include <tinytorch/data/machine_sounds.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
namespace ms = tt::machine_sounds;
namespace sound = tt::sound;
using test::bytes, test::fnv1a, test::whole;

namespace {

bool same_bits(const tt::Tensor& a, const float* b) {
  return std::memcmp(a.data<float>(), b, static_cast<size_t>(a.numel()) * 4) == 0;
}

// One machine, with or without a fault, without background and echo.
sound::Samples machine(ms::Fault fault, double size, uint64_t seed = 6) {
  sound::Draws draws(1, seed, 0), of_fault(2, seed, 0), of_sound(3, seed, 0);
  ms::Machine m = ms::draw_machine(draws);
  ms::add_fault(m, fault, size, of_fault);
  return ms::synthesize(m, of_sound);
}

// The power around a frequency, within `bins` bins of 16000 / 16384 Hz.
double power_at(const sound::Samples& x, double frequency, int bins) {
  static const tt::mel::Fft fft(16384);
  std::vector<std::complex<double>> piece(x.begin(), x.begin() + 16384);
  const std::vector<double> window = tt::mel::hann_window(16384);
  for (size_t k = 0; k < piece.size(); ++k) piece[k] *= window[k];
  fft(piece.data());
  double sum = 0;
  const auto centre = static_cast<int>(std::lround(frequency * 16384 / 16000));
  for (int k = centre - bins; k <= centre + bins; ++k) sum += std::norm(piece[static_cast<size_t>(k)]);
  return sum;
}

}  // namespace

TEST_CASE("machine sounds: shapes, dtypes, clips of windows, and labels") {
  const ms::MachineSounds s = ms::mixed(300, 5), healthy = ms::normal(20, 5);
  CHECK(s.windows.shape() == tt::Shape{3600, 640});
  CHECK(s.windows.dtype() == tt::DType::f32);
  CHECK(s.clips.shape() == tt::Shape{3600});
  CHECK(s.labels.shape() == tt::Shape{300});
  CHECK(s.faults.shape() == tt::Shape{300});
  const std::vector<int64_t> clips = s.clips.to_vector<int64_t>();
  for (size_t k = 0; k < clips.size(); ++k) CHECK(clips[k] == static_cast<int64_t>(k) / ms::kWindows);
  std::vector<int> count(6, 0);
  for (int64_t i = 0; i < 300; ++i) {
    const int64_t fault = s.faults.data<int64_t>()[i];
    ++count.at(static_cast<size_t>(fault));
    CHECK(s.labels.data<int64_t>()[i] == (fault != ms::none));
  }
  CHECK(std::abs(count[0] - 150) < 5 * 8.7);  // five standard deviations of a binomial count
  for (size_t k = 1; k < 6; ++k) CHECK(std::abs(count[k] - 30) < 5 * 5.2);
  for (int64_t i = 0; i < 20; ++i)
    CHECK(healthy.labels.data<int64_t>()[i] + healthy.faults.data<int64_t>()[i] == 0);
  double sum = 0, squares = 0, cut = 0;
  for (const int64_t b : bytes(s.windows)) {
    const auto x = static_cast<double>(b) / 32;
    sum += x, squares += x * x, cut += b == -128 || b == 127;
  }
  const auto n = static_cast<double>(s.windows.numel());
  CHECK(std::abs(sum / n) < 0.5);
  CHECK(std::sqrt(squares / n) > 0.8);
  CHECK(std::sqrt(squares / n) < 1.5);
  CHECK(cut / n < 0.003);
  CHECK(ms::normal(0, 5).windows.shape() == tt::Shape{0, 640});
  CHECK(ms::mixed(0, 5).labels.shape() == tt::Shape{0});
  CHECK(ms::mixed_waves(0, 5).shape() == tt::Shape{0, ms::kSamples});
}

// One checksum for all compilers and flags except -ffast-math; see spoken_tones.cpp.
TEST_CASE("machine sounds: golden checksums") {
  uint64_t of_waves = 14695981039346656037ull, of_windows = of_waves;
  for (const int64_t v : whole(ms::mixed_waves(20, 1), 32768, -32768, 32767)) of_waves = fnv1a(of_waves, v);
  const ms::MachineSounds mixed = ms::mixed(20, 1);
  for (const int64_t v : bytes(mixed.windows)) of_windows = fnv1a(of_windows, v);
  for (const int64_t v : bytes(ms::normal(10, 1).windows)) of_windows = fnv1a(of_windows, v);
  for (const int64_t v : mixed.faults.to_vector<int64_t>()) of_windows = fnv1a(of_windows, v);
  CHECK(of_waves == 14722755679717545579ull);
  CHECK(of_windows == 2183455476463208159ull);
}

TEST_CASE("machine sounds: clips do not depend on the count, the range or the number of threads") {
  const ms::MachineSounds all = ms::mixed(14, 3), healthy = ms::normal(14, 3);
  const tt::Tensor waves = ms::mixed_waves(14, 3);
  const int threads = tt::thread_count();
  for (const auto& [count, first, n] : {std::array<int64_t, 3>{1, 0, 9}, {2, 5, 9}, {3, 0, 14}, {7, 13, 1}}) {
    tt::set_thread_count(static_cast<int>(count));
    const ms::MachineSounds part = ms::mixed(n, 3, first);
    const int64_t skipped = first * ms::kWindows * ms::kInputs;
    CHECK(same_bits(part.windows, all.windows.data<float>() + skipped));
    CHECK(same_bits(ms::normal(n, 3, first).windows, healthy.windows.data<float>() + skipped));
    CHECK(same_bits(ms::mixed_waves(n, 3, first), waves.data<float>() + first * ms::kSamples));
    for (int64_t i = 0; i < n; ++i) {
      CHECK(part.faults.data<int64_t>()[i] == all.faults.data<int64_t>()[first + i]);
      CHECK(part.clips.data<int64_t>()[i * ms::kWindows] == i);  // numbered from 0 within the range
    }
  }
  tt::set_thread_count(threads);
}

TEST_CASE("machine sounds: windows are the features of the waves") {
  const ms::MachineSounds s = ms::mixed(3, 4, 50);
  const tt::Tensor waves = ms::mixed_waves(3, 4, 50);
  std::vector<float> features(ms::kWindows * ms::kInputs);
  std::vector<int16_t> wave(ms::kSamples);
  for (int64_t i = 0; i < 3; ++i) {
    for (size_t k = 0; k < wave.size(); ++k) {
      wave[k] = static_cast<int16_t>(waves.data<float>()[i * ms::kSamples + static_cast<int64_t>(k)] * 32768);
    }
    ms::extract_features(wave.data(), features.data());
    CHECK(std::memcmp(features.data(), s.windows.data<float>() + i * ms::kWindows * ms::kInputs,
                      features.size() * 4) == 0);
  }
}

TEST_CASE("machine sounds: training and test clips differ, and so do two seeds") {
  const std::vector<float> a = ms::normal(8, 1).windows.to_vector<float>(),
                           b = ms::mixed(8, 1).windows.to_vector<float>(),
                           c = ms::normal(8, 2).windows.to_vector<float>();
  const int64_t size = ms::kWindows * ms::kInputs;
  const auto clip = [&](const std::vector<float>& v, int64_t i) {
    return std::vector<float>(v.begin() + i * size, v.begin() + (i + 1) * size);
  };
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < 8; ++j) {
      CHECK(clip(a, i) != clip(b, j));
      CHECK(clip(a, i) != clip(c, j));
      if (i != j) CHECK(clip(a, i) != clip(a, j));
    }
  }
}

TEST_CASE("machine sounds: negative counts and scores of incomplete clips are errors") {
  const auto code = [](auto f) {
    try {
      f();
    } catch (const tt::Error& e) {
      CHECK(std::string(e.what()).find("machine_sounds.cpp") != std::string::npos);
      return e.code();
    }
    return std::string("accepted");
  };
  CHECK(code([] { ms::normal(-1, 1); }) == "TT-DATA-01");
  CHECK(code([] { ms::normal(1, 1, -1); }) == "TT-DATA-01");
  CHECK(code([] { ms::mixed(INT64_MIN, 1); }) == "TT-DATA-01");
  CHECK(code([] { ms::mixed(1, 1, INT64_MIN); }) == "TT-DATA-01");
  CHECK(code([] { ms::mixed_waves(-1, 1); }) == "TT-DATA-01");
  CHECK(code([] { ms::clip_scores(tt::ones({13})); }) == "TT-DATA-05");
  CHECK(code([] { ms::clip_scores(tt::ones({12, 1})); }) == "TT-DATA-05");
  CHECK(code([] { ms::clip_scores(tt::ones({})); }) == "TT-DATA-05");
  CHECK(ms::normal(1, ~uint64_t{0}, INT64_MAX - 1).labels.numel() == 1);  // the last possible clip
}

TEST_CASE("machine sounds: a clip's score is the mean of its windows'") {
  std::vector<float> scores;
  for (int k = 0; k < 36; ++k) scores.push_back(static_cast<float>(k < 24 ? k : 1000));
  for (const tt::DType dtype : {tt::f32, tt::f64}) {
    const tt::Tensor of_clips = ms::clip_scores(tt::from_data(scores).to(dtype));
    CHECK(of_clips.dtype() == tt::f64);
    CHECK(of_clips.to_vector<double>() == std::vector<double>{5.5, 17.5, 1000});
  }
  CHECK(ms::clip_scores(tt::zeros({0})).numel() == 0);
}

TEST_CASE("machine: all rotating parts stay multiples of the shaft, also after many revolutions") {
  sound::Draws draws(1, 2, 3);
  ms::Machine m{};
  m.speed = sound::hertz(50);
  const std::vector<uint64_t> turns = ms::turns(m, draws);
  const double elapsed = static_cast<double>(turns.back() - turns.front()) / std::exp2(ms::kTurnBits);
  CHECK(elapsed == doctest::Approx(50.0 * (ms::kSamples - 1) / 16000).epsilon(1e-6));
  for (const int32_t ratio : {128, 256, 19 * 256, 28160}) {
    for (const uint64_t turn : {turns.front(), turns[20000], turns.back(), uint64_t{112} << ms::kTurnBits}) {
      const double exact = std::fmod(static_cast<double>(turn) / std::exp2(ms::kTurnBits) * ratio / 256, 1.0);
      const double found = ms::phase_of(turn, ratio) / 4294967296.0;
      CHECK(std::abs(found - exact) < 1e-6);
    }
  }
  const auto speeds = [](const ms::Machine& some) {
    sound::Draws own(1, 2, 3);
    const std::vector<uint64_t> all = ms::turns(some, own);
    double low = 1e9, high = 0;
    for (size_t k = 1; k < all.size(); ++k) {
      const double now = static_cast<double>(all[k] - all[k - 1]) / std::exp2(ms::kTurnBits) * 16000;
      low = std::min(low, now), high = std::max(high, now);
    }
    return std::pair{low, high};
  };
  CHECK(speeds(m).second - speeds(m).first < 1e-6);
  m.wobble = sound::gain(0.02), m.wobble_rate = sound::hertz(5);
  CHECK(speeds(m).first == doctest::Approx(49).epsilon(1e-3));
  CHECK(speeds(m).second == doctest::Approx(51).epsilon(1e-3));
}

TEST_CASE(
    "machine: a normal machine has tones at its shaft and teeth frequencies, and each fault adds its own "
    "sound") {
  sound::Draws draws(1, 6, 0);
  const ms::Machine plan = ms::draw_machine(draws);
  const double speed = plan.speed / 16.0;
  const sound::Samples healthy = machine(ms::none, 0);
  const double between = power_at(healthy, speed * 5.5, 12);
  CHECK(power_at(healthy, speed, 12) > 100 * between);
  CHECK(power_at(healthy, speed * ms::kTeeth, 30) > 100 * between);

  const sound::Samples loose = machine(ms::looseness, 14);
  CHECK(power_at(loose, speed * 0.5, 6) > 30 * power_at(healthy, speed * 0.5, 6));

  // The sound of a fault, compared with the same machine without it: noise and phases are drawn after the
  // parts.
  const auto energy = [](const sound::Samples& x) { return sound::loudness(x) * sound::loudness(x); };
  for (const ms::Fault fault : {ms::whistle, ms::looseness, ms::friction, ms::missing_tooth}) {
    const double faint = energy(machine(fault, 0)), clear = energy(machine(fault, 14));
    CHECK(clear > faint);
    CHECK(faint > energy(healthy) * 0.98);
    CHECK(faint < energy(healthy) * 1.1);  // a faint fault hardly changes the loudness
  }

  // A missing tooth gives one click per revolution.
  sound::Samples clicks(ms::kSamples, 0);
  sound::Draws again(3, 6, 0);
  const std::vector<uint64_t> turns = ms::turns(plan, again);
  ms::add_clicks(clicks, turns, 10000);
  int64_t hits = 0;
  for (size_t k = 40; k < clicks.size(); ++k) {
    bool quiet = std::abs(clicks[k]) > 8000;
    for (size_t d = 1; d <= 40; ++d) quiet = quiet && std::abs(clicks[k - d]) < 8000;
    hits += quiet;
  }
  const auto whole_turns =
      static_cast<int64_t>((turns.back() >> ms::kTurnBits) - (turns.front() >> ms::kTurnBits));
  CHECK(std::abs(hits - whole_turns) <= 1);
}
