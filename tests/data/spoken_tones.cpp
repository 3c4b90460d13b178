// Synthetic words: reproducible, independent of how ranges are split, in range, with the expected formants.
#include <doctest/doctest.h>

#include <cstring>
#include <support/whole_numbers.hpp>
#include <tinytorch/data/spoken_tones.hpp>

namespace tt = tinytorch;
namespace speech = tt::speech;
namespace sound = tt::sound;
using test::bytes, test::fnv1a, test::whole;

namespace {

constexpr int64_t kFeatures = tt::kSpokenFrames * tt::kSpokenBands;

bool is_known(const speech::Word& word) {
  return std::find(speech::words().begin(), speech::words().end(), word) != speech::words().end();
}

}  // namespace

TEST_CASE("spoken tones: shapes, dtypes and uniform classes") {
  const tt::SpokenTones s = tt::spoken_tones(1200, 5);
  CHECK(s.features.shape() == tt::Shape{1200, 1, 49, 10});
  CHECK(s.features.dtype() == tt::DType::f32);
  CHECK(s.labels.shape() == tt::Shape{1200});
  CHECK(s.labels.dtype() == tt::DType::i64);
  std::vector<double> count(12, 0.0);
  for (const int64_t label : s.labels.to_vector<int64_t>()) ++count.at(static_cast<size_t>(label));
  double chi_squared = 0;
  for (const double c : count) chi_squared += (c - 100) * (c - 100) / 100;
  CHECK(chi_squared < 31.3);  // 0.1 % point for 11 degrees of freedom
  // The values use the whole range of a byte, are rarely clipped, and are never NaN.
  double sum = 0, squares = 0, cut = 0;
  for (const int64_t b : bytes(s.features)) {
    const auto x = static_cast<double>(b) / 32;
    sum += x, squares += x * x, cut += b == -128 || b == 127;
  }
  const double n = 1200 * kFeatures;
  CHECK(std::abs(sum / n) < 0.5);
  CHECK(std::sqrt(squares / n) > 0.8);
  CHECK(std::sqrt(squares / n) < 1.5);
  CHECK(cut / n < 0.003);
  CHECK(tt::spoken_tones(0, 5).features.shape() == tt::Shape{0, 1, 49, 10});
  CHECK(tt::spoken_tone_waves(0, 5).shape() == tt::Shape{0, 16000});
}

// One checksum for all compilers and flags except -ffast-math: the waves are integers, and the features are
// rounded to steps that are 10^11 times as large as their errors.
TEST_CASE("spoken tones: golden checksums") {
  const tt::SpokenTones s = tt::spoken_tones(60, 1);
  uint64_t of_waves = 14695981039346656037ull, of_features = of_waves;
  for (const int64_t v : whole(tt::spoken_tone_waves(60, 1), 32768, -32768, 32767))
    of_waves = fnv1a(of_waves, v);
  for (const int64_t v : bytes(s.features)) of_features = fnv1a(of_features, v);
  for (const int64_t v : s.labels.to_vector<int64_t>()) of_features = fnv1a(of_features, v);
  CHECK(of_waves == 7838634310905747512ull);
  CHECK(of_features == 13968249285311192506ull);
}

TEST_CASE("spoken tones: clips do not depend on the count, the range or the number of threads") {
  const tt::SpokenTones all = tt::spoken_tones(24, 3);
  const tt::Tensor waves = tt::spoken_tone_waves(24, 3);
  const auto check_range = [&](int64_t first, int64_t n) {
    const tt::SpokenTones part = tt::spoken_tones(n, 3, first);
    const tt::Tensor part_waves = tt::spoken_tone_waves(n, 3, first);
    const auto same = [&](const tt::Tensor& some, const tt::Tensor& whole, int64_t size) {
      return std::memcmp(some.data<float>(), whole.data<float>() + first * size,
                         static_cast<size_t>(n * size) * 4) == 0;
    };
    CHECK(same(part.features, all.features, kFeatures));
    CHECK(same(part_waves, waves, tt::kSpokenSamples));
    for (int64_t i = 0; i < n; ++i)
      CHECK(part.labels.data<int64_t>()[i] == all.labels.data<int64_t>()[first + i]);
  };
  const int threads = tt::thread_count();
  for (const int count : {1, 2, 3, 7}) {
    tt::set_thread_count(count);
    check_range(0, 24);
    check_range(0, 13);
    check_range(17, 7);
    check_range(23, 1);
  }
  tt::set_thread_count(threads);
}

TEST_CASE("spoken tones: features are computed from the waves") {
  const tt::SpokenTones s = tt::spoken_tones(10, 4, 100);
  const tt::Tensor waves = tt::spoken_tone_waves(10, 4, 100);
  std::vector<float> features(kFeatures);
  std::vector<int16_t> wave(tt::kSpokenSamples);
  for (int64_t i = 0; i < 10; ++i) {
    const float* from = waves.data<float>() + i * tt::kSpokenSamples;
    for (size_t k = 0; k < wave.size(); ++k) wave[k] = static_cast<int16_t>(from[k] * 32768);
    speech::extract_features(wave.data(), features.data());
    CHECK(std::memcmp(features.data(), s.features.data<float>() + i * kFeatures, kFeatures * 4) == 0);
  }
}

TEST_CASE("spoken tones: all samples and seeds differ") {
  const std::vector<float> a = tt::spoken_tones(40, 1).features.to_vector<float>();
  const std::vector<float> b = tt::spoken_tones(40, 2).features.to_vector<float>();
  for (int64_t i = 0; i < 40; ++i) {
    const auto sample = [](const std::vector<float>& v, int64_t k) {
      return std::vector<float>(v.begin() + k * kFeatures, v.begin() + (k + 1) * kFeatures);
    };
    CHECK(sample(a, i) != sample(b, i));
    if (i > 0) CHECK(sample(a, i) != sample(a, i - 1));
  }
}

TEST_CASE("spoken tones: a negative count or start is an error at the caller's line") {
  for (const auto& [n, first] :
       {std::pair<int64_t, int64_t>{-1, 0}, {1, -1}, {INT64_MIN, 0}, {0, INT64_MIN}}) {
    for (const bool waves : {false, true}) {
      try {
        waves ? tt::spoken_tone_waves(n, 1, first) : tt::spoken_tones(n, 1, first).features;
        FAIL("accepted");
      } catch (const tt::Error& e) {
        CHECK(e.code() == "TT-DATA-01");
        CHECK(std::string(e.what()).find("spoken_tones.cpp") != std::string::npos);
      }
    }
  }
  CHECK(tt::spoken_tones(1, ~uint64_t{0}, INT64_MAX - 1).labels.numel() == 1);  // the last possible clip
}

TEST_CASE("speech: an unknown word is none of the ten, and often differs from one in a single syllable") {
  const auto changes = [](const speech::Word& a, const speech::Word& b) {
    if (a.size() != b.size()) return size_t{9};
    size_t count = 0;
    for (size_t k = 0; k < a.size(); ++k) count += !(a[k] == b[k]);
    return count;
  };
  int near = 0;
  for (int64_t clip = 0; clip < 3000; ++clip) {
    sound::Draws draws(1, 2, clip);
    const speech::Word word = speech::unknown_word(draws);
    REQUIRE(word.size() >= 2);
    REQUIRE(word.size() <= 4);
    CHECK_FALSE(is_known(word));
    near += std::any_of(speech::words().begin(), speech::words().end(),
                        [&](const speech::Word& known) { return changes(word, known) == 1; });
  }
  CHECK(near > 850);  // a third of the words, and a few by chance
  CHECK(near < 1250);
  for (const speech::Word& word : speech::words()) {  // all ten words are different
    CHECK(std::count(speech::words().begin(), speech::words().end(), word) == 1);
  }
}

TEST_CASE("speech: a vowel has its formants, shifted by the speaker's size") {
  const tt::mel::Fft fft(4096);
  for (size_t vowel = speech::a; vowel <= speech::r; ++vowel) {
    for (const double size : {0.85, 1.0, 1.2}) {
      sound::Samples out(8000, 0);
      sound::Draws draws(1, 2, 3);
      const speech::Voice voice{size, 1.0, sound::hertz(100), 0};
      speech::SyllableSound syllable{speech::open, 0, 8000, {}, {}, 0};
      for (size_t k = 0; k < 3; ++k) {
        syllable.from[k] = syllable.to[k] = sound::hertz(speech::kFormants[vowel][k] * size);
      }
      speech::Synthesizer(out, 0, voice, draws).add(syllable);
      std::vector<std::complex<double>> spectrum(out.begin() + 2000, out.begin() + 2000 + 4096);
      fft(spectrum.data());
      for (size_t k = 0; k < 3; ++k) {
        const double hertz = speech::kFormants[vowel][k] * size;
        const auto bin = static_cast<size_t>(std::lround(hertz * 4096 / 16000));
        double largest = 0,
               aside = 0;  // energy at the formant, and between it and the side line of the pitch
        for (size_t d = 0; d < 3; ++d) largest = std::max(largest, std::abs(spectrum[bin + d - 1]));
        for (size_t d = 11; d < 15; ++d) aside = std::max(aside, std::abs(spectrum[bin + d]));
        CHECK(largest > 4 * aside);
      }
    }
  }
}

TEST_CASE("speech: words end within the second, with silence before and after") {
  for (int64_t clip = 0; clip < 200; ++clip) {
    sound::Draws draws(1, 5, clip);
    const speech::Voice slow{1.0, speech::kSpeedMax, sound::hertz(100), 0};
    int64_t length = 0;
    const speech::Word& word = speech::words()[static_cast<size_t>(clip % 10)];
    const std::vector<speech::SyllableSound> syllables = speech::draw_sounds(word, slow, draws);
    for (const speech::SyllableSound& s : syllables) length += s.onset_samples + s.vowel_samples;
    CHECK(length <= speech::kLongest);
    CHECK(length > 3000);
    sound::Samples out(tt::kSpokenSamples, 0);
    const int64_t start = tt::kSpokenSamples - length;
    speech::Synthesizer synthesizer(out, static_cast<size_t>(start), slow, draws);
    for (const speech::SyllableSound& s : syllables) synthesizer.add(s);
    CHECK(std::all_of(out.begin(), out.begin() + start, [](int32_t v) { return v == 0; }));
    CHECK(sound::loudness(out) > 1000);
    CHECK(*std::max_element(out.begin(), out.end()) < 8 * 32768);
  }
}

TEST_CASE("spoken tones: the level of silence is constant, that of a word is not") {
  const tt::SpokenTones s = tt::spoken_tones(600, 11);
  const float* features = s.features.data<float>();
  double silent = 0, spoken = 0, silences = 0;
  for (int64_t i = 0; i < 600; ++i) {
    float low = 1e9f, high = -1e9f;  // range of the frames' means
    for (int64_t frame = 0; frame < tt::kSpokenFrames; ++frame) {
      float sum = 0;
      for (int64_t b = 0; b < tt::kSpokenBands; ++b)
        sum += features[i * kFeatures + frame * tt::kSpokenBands + b];
      low = std::min(low, sum / tt::kSpokenBands), high = std::max(high, sum / tt::kSpokenBands);
    }
    const bool is_silence = s.labels.data<int64_t>()[i] == tt::kSpokenSilence;
    (is_silence ? silent : spoken) += high - low;
    silences += is_silence;
  }
  CHECK(silent / silences < 0.6);
  CHECK(spoken / (600 - silences) > 2 * silent / silences);
}
