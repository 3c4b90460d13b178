// The FFT against its definition, and the mel bands against closed forms.
#include <doctest/doctest.h>

#include <tinytorch/core/random.hpp>
#include <tinytorch/data/mel.hpp>

namespace tt = tinytorch;
namespace mel = tt::mel;
using mel::Complex;

namespace {

tt::Generator numbers(31);

std::vector<Complex> random_signal(int64_t n) {
  std::vector<Complex> x;
  for (int64_t k = 0; k < n; ++k) x.emplace_back(numbers.uniform(-1, 1), numbers.uniform(-1, 1));
  return x;
}

std::vector<Complex> transformed(std::vector<Complex> x) {
  mel::Fft(static_cast<int64_t>(x.size()))(x.data());
  return x;
}

// X[k] = sum of x[n] exp(-2 pi i k n / N), term by term; k n is reduced modulo N for accuracy.
std::vector<Complex> by_definition(const std::vector<Complex>& x) {
  std::vector<Complex> out(x.size());
  for (size_t k = 0; k < x.size(); ++k) {
    for (size_t n = 0; n < x.size(); ++n) {
      const double angle =
          -mel::kTurn * static_cast<double>(k * n % x.size()) / static_cast<double>(x.size());
      out[k] += x[n] * std::polar(1.0, angle);
    }
  }
  return out;
}

std::vector<int16_t> sine_wave(double frequency, double height, int64_t samples) {
  std::vector<int16_t> wave;
  for (int64_t k = 0; k < samples; ++k) {
    wave.push_back(static_cast<int16_t>(
        std::lround(height * std::sin(mel::kTurn * frequency * static_cast<double>(k) / 16000))));
  }
  return wave;
}

std::vector<double> spectrogram(const mel::LogMel& log_mel, const std::vector<int16_t>& wave) {
  const auto samples = static_cast<int64_t>(wave.size());
  std::vector<double> out(static_cast<size_t>(log_mel.frames(samples) * log_mel.options().bands));
  log_mel(wave.data(), samples, out.data());
  return out;
}

template <class F>
std::string code_of(F f) {
  try {
    f();
  } catch (const tt::Error& e) {
    return e.code();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("mel: the FFT is the Fourier transform, at every power of two") {
  for (int64_t n = 2; n <= 256; n *= 2) {
    const std::vector<Complex> x = random_signal(n), found = transformed(x), expected = by_definition(x);
    double worst = 0;
    for (size_t k = 0; k < x.size(); ++k) worst = std::max(worst, std::abs(found[k] - expected[k]));
    CHECK(worst < 1e-15 * static_cast<double>(n));
  }
}

TEST_CASE("mel: the spectrum of a pulse is flat, that of a constant is bin 0, that of a sine is its bin") {
  std::vector<Complex> pulse(64), constant(64, 3.0), turning(64), sine(64);
  pulse[0] = 1;
  for (size_t n = 0; n < 64; ++n) {
    turning[n] = std::polar(1.0, mel::kTurn * 5 * static_cast<double>(n) / 64);
    sine[n] = std::sin(mel::kTurn * 5 * static_cast<double>(n) / 64);
  }
  pulse = transformed(pulse), constant = transformed(constant), turning = transformed(turning),
  sine = transformed(sine);
  for (size_t k = 0; k < 64; ++k) {
    CHECK(std::abs(pulse[k] - 1.0) < 1e-15);
    CHECK(std::abs(constant[k] - (k == 0 ? 192.0 : 0.0)) < 1e-12);
    CHECK(std::abs(turning[k] - (k == 5 ? 64.0 : 0.0)) < 1e-12);
    const Complex expected = k == 5 ? Complex(0, -32) : (k == 59 ? Complex(0, 32) : Complex(0, 0));
    CHECK(std::abs(sine[k] - expected) < 1e-12);
  }
}

TEST_CASE("mel: Parseval's theorem holds, and two real signals share a transform") {
  for (int64_t n : {2, 8, 512, 1024}) {
    const auto size = static_cast<size_t>(n);
    const std::vector<Complex> x = random_signal(n), spectrum = transformed(x);
    double in_time = 0, in_frequency = 0;
    for (size_t k = 0; k < size; ++k) in_time += std::norm(x[k]), in_frequency += std::norm(spectrum[k]);
    CHECK(in_frequency / static_cast<double>(n) == doctest::Approx(in_time).epsilon(1e-13));

    std::vector<double> a(size), b(size), power_a(size / 2 + 1), power_b(size / 2 + 1);
    std::vector<Complex> alone_a(size), alone_b(size), work(size);
    for (size_t k = 0; k < size; ++k) alone_a[k] = a[k] = x[k].real(), alone_b[k] = b[k] = x[k].imag();
    mel::Fft(n).power(a.data(), b.data(), power_a.data(), power_b.data(), work.data());
    alone_a = transformed(alone_a), alone_b = transformed(alone_b);
    for (size_t k = 0; k <= size / 2; ++k) {
      CHECK(power_a[k] == doctest::Approx(std::norm(alone_a[k])).epsilon(1e-9));
      CHECK(power_b[k] == doctest::Approx(std::norm(alone_b[k])).epsilon(1e-9));
    }
  }
}

TEST_CASE("mel: the window's sums have closed forms") {
  for (int64_t n : {4, 512, 1024}) {
    const std::vector<double> w = mel::hann_window(n);
    double sum = 0, squares = 0;
    for (size_t k = 0; k < w.size(); ++k) {
      sum += w[k], squares += w[k] * w[k];
      CHECK(w[k] + w[(k + w.size() / 2) % w.size()] == doctest::Approx(1).epsilon(1e-14));
    }
    CHECK(sum == doctest::Approx(static_cast<double>(n) / 2).epsilon(1e-13));
    CHECK(squares == doctest::Approx(static_cast<double>(n) * 3 / 8).epsilon(1e-13));
  }
}

TEST_CASE("mel: the scale has 1000 mel at 1000 Hz and an inverse") {
  CHECK(mel::from_hertz(0) == 0);
  CHECK(mel::from_hertz(1000) == doctest::Approx(1000).epsilon(1e-4));
  for (double f : {0.0, 20.0, 440.0, 3000.0, 8000.0}) {
    CHECK(std::abs(mel::to_hertz(mel::from_hertz(f)) - f) < 1e-9);
  }
}

TEST_CASE(
    "mel: the weights of a bin add up to 1, bands have the area of their triangles, and none is empty") {
  for (const mel::Options& o :
       {mel::Options{}, mel::Options{.window = 1024, .bands = 128, .low = 20, .high = 8000},
        mel::Options{.window = 64, .bands = 40, .low = 0, .high = 8000}}) {
    const std::vector<mel::Band> bands = mel::bands(o);
    REQUIRE(std::ssize(bands) == o.bands);
    const double bins = static_cast<double>(o.window) / static_cast<double>(o.sample_rate);
    const double low = mel::from_hertz(o.low), high = mel::from_hertz(o.high);
    const auto corner = [&](int64_t k) {
      return bins *
             mel::to_hertz(low + (high - low) * static_cast<double>(k) / static_cast<double>(o.bands + 1));
    };
    std::vector<double> of_bin(static_cast<size_t>(o.window / 2 + 1), 0.0);
    for (int64_t m = 0; m < o.bands; ++m) {
      const mel::Band& band = bands[static_cast<size_t>(m)];
      double area = 0;
      for (size_t k = 0; k < band.weight.size(); ++k) {
        CHECK(band.weight[k] >= 0);
        CHECK(band.weight[k] < 1 + 1e-12);
        area += band.weight[k];
        of_bin.at(static_cast<size_t>(band.first) + k) += band.weight[k];
      }
      CHECK(area == doctest::Approx((corner(m + 2) - corner(m)) / 2).epsilon(1e-9));
    }
    for (size_t k = 0; k < of_bin.size(); ++k) {  // weights add up to 1 between the outer peaks
      const auto bin = static_cast<double>(k);
      if (bin - 0.5 > corner(1) && bin + 0.5 < corner(o.bands))
        CHECK(of_bin[k] == doctest::Approx(1).epsilon(1e-9));
      if (bin + 0.5 < corner(0) || bin - 0.5 > corner(o.bands + 1)) CHECK(of_bin[k] == 0);
    }
  }
}

TEST_CASE("mel: a sine is largest in the band with the nearest peak, with the expected energy") {
  const mel::LogMel log_mel({.window = 512, .hop = 320, .bands = 20, .low = 60, .high = 7600});
  for (int band = 1; band < 19; ++band) {
    const double low = mel::from_hertz(60), high = mel::from_hertz(7600);
    const double frequency = mel::to_hertz(low + (high - low) * (band + 1) / 21.0);
    const std::vector<double> out = spectrogram(log_mel, sine_wave(frequency, 10000, 4000));
    for (int64_t frame = 0; frame < log_mel.frames(4000); ++frame) {
      const auto row = out.begin() + frame * 20;
      CHECK(std::max_element(row, row + 20) - row == band);
      // Both halves of the spectrum have height^2 / 4 per sample. The bands' weights of one half add up to 1:
      // the sum over bins of |X|^2 is height^2 / 4 * N for a window whose sum of squares is 1.
      double energy = 0;
      for (int k = 0; k < 20; ++k) energy += std::exp2(row[k]) - 1;
      if (band > 1 && band < 18) CHECK(energy == doctest::Approx(1e8 / 4 * 512).epsilon(0.02));
    }
  }
}

TEST_CASE("mel: white noise has its variance in every bin, and doubling the amplitude adds 2") {
  const mel::LogMel log_mel({.window = 512, .hop = 512, .bands = 10, .low = 100, .high = 7000});
  std::vector<int16_t> soft, loud;
  for (int k = 0; k < 512 * 200; ++k) {
    soft.push_back(
        static_cast<int16_t>(static_cast<int>(numbers.below(2001)) - 1000));  // variance 1000 * 1001 / 3
    loud.push_back(static_cast<int16_t>(2 * soft.back()));
  }
  const std::vector<double> of_soft = spectrogram(log_mel, soft), of_loud = spectrogram(log_mel, loud);
  const std::vector<mel::Band> bands = mel::bands(log_mel.options());
  for (size_t m = 0; m < 10; ++m) {
    double energy = 0, area = 0, step = 0;
    for (const double w : bands[m].weight) area += w;
    for (size_t frame = 0; frame < 200; ++frame) {
      energy += (std::exp2(of_soft[frame * 10 + m]) - 1) / 200;
      step += (of_loud[frame * 10 + m] - of_soft[frame * 10 + m]) / 200;
    }
    CHECK(energy == doctest::Approx(area * 1000 * 1001 / 3)
                        .epsilon(0.15));  // the narrowest band has a standard deviation of 3 %
    CHECK(step == doctest::Approx(2).epsilon(1e-4));
  }
}

TEST_CASE("mel: silence gives 0, and frames begin where the options say") {
  const mel::LogMel log_mel({.window = 512, .hop = 320, .bands = 10});
  CHECK(log_mel.frames(16000) == 49);
  CHECK(log_mel.frames(512) == 1);
  CHECK(log_mel.frames(511) == 0);
  CHECK(log_mel.frames(0) == 0);
  for (double v : spectrogram(log_mel, std::vector<int16_t>(16000, 0))) CHECK(v == 0);
  CHECK(spectrogram(log_mel, {}).empty());
  // A click at sample 1000 is only in frames 2 (640 to 1151) and 3 (960 to 1471). The number of frames, 5, is
  // odd.
  std::vector<int16_t> click(1800, 0);
  click[1000] = 30000;
  const std::vector<double> out = spectrogram(log_mel, click);
  REQUIRE(out.size() == 50);
  for (size_t k = 0; k < 50; ++k) CHECK((out[k] > 1) == (k >= 20 && k < 40));
}

TEST_CASE("mel: quantized values fit in one byte") {
  CHECK(mel::quantize(19, 19, 3.5) == 0);
  CHECK(mel::quantize(22.5, 19, 3.5) == 1);
  CHECK(mel::quantize(1e9, 19, 3.5) == 127.0f / 32);
  CHECK(mel::quantize(-1e9, 19, 3.5) == -4);
  for (int k = 0; k < 1000; ++k) {
    const double x = numbers.uniform(-4, 127 / 32.0);
    const float q = mel::quantize(x, 0, 1);
    CHECK(std::abs(q - x) <= 1 / 64.0);
    CHECK(q * 32 == std::round(q * 32));
    CHECK(std::abs(mel::quantize(x + 1e-12, 0, 1) - q) < 0.04);
  }
}

TEST_CASE("mel: invalid options are errors") {
  const auto code_of_options = [](mel::Options o) { return code_of([&] { mel::LogMel{o}; }); };
  CHECK(code_of_options({}) == "accepted");
  CHECK(code_of_options({.low = 0, .high = 8000}) == "accepted");
  CHECK(code_of_options({.window = 640}) == "TT-DATA-04");
  CHECK(code_of_options({.window = 1}) == "TT-DATA-04");
  CHECK(code_of_options({.window = 0}) == "TT-DATA-04");
  CHECK(code_of_options({.window = -512}) == "TT-DATA-04");
  CHECK(code_of_options({.hop = 0}) == "TT-DATA-04");
  CHECK(code_of_options({.bands = 0}) == "TT-DATA-04");
  CHECK(code_of_options({.low = -1}) == "TT-DATA-04");
  CHECK(code_of_options({.low = 500, .high = 500}) == "TT-DATA-04");
  CHECK(code_of_options({.high = 8001}) == "TT-DATA-04");
  CHECK(code_of_options({.high = NAN}) == "TT-DATA-04");
  CHECK(code_of_options({.sample_rate = 0}) == "TT-DATA-04");
  CHECK(code_of([] { mel::Fft(0); }) == "TT-DATA-04");
  CHECK(code_of([] { mel::Fft(-8); }) == "TT-DATA-04");
  CHECK(code_of([] { mel::Fft(int64_t{1} << 40); }) == "TT-DATA-04");
}
