// Keyword spotting: ten words of an invented language, synthesized with varying voices and rooms.
//
//   word -> syllables -> gliding formants on a voiced source, hisses, stops -> echo -> noise -> 16-bit wave
//        -> log-mel, 49 frames (32 ms, every 20 ms) x 10 bands
//
// Classes 0 to 9 are the words, 10 is "unknown" (other words), 11 is "silence" (noise only). Sample i is a
// pure function of (seed, i), with the same bits from every compiler: the wave is integer arithmetic, the
// features are rounded to 1/32 (mel.hpp). They have the size of MLPerf Tiny's, so costs are comparable, but
// are log-mel, not cepstra: a larger speaker shifts the pattern by some bands, which a convolution can use.
//
// Source of the vowels: Peterson and Barney, "Control methods used in a study of the vowels", 1952.
#pragma once

#include <tinytorch/core/parallel.hpp>
#include <tinytorch/data/mel.hpp>
#include <tinytorch/data/sound.hpp>
#include <tinytorch/data/waves.hpp>
#include <tinytorch/tensor/tensor.hpp>

namespace tinytorch::inline TT_BUILD {

inline constexpr int kSpokenSamples = 16000;  // one second
inline constexpr int kSpokenFrames = 49, kSpokenBands = 10;
inline constexpr int kSpokenClasses = 12, kSpokenUnknown = 10, kSpokenSilence = 11;

struct SpokenTones {
  Tensor features;  // f32 [N, 1, 49, 10], multiples of 1/32 in [-4, 4)
  Tensor labels;    // i64 [N], 0 to 11, uniform
};

// Samples first, ..., first + n - 1 of the infinite set of `seed`.
SpokenTones spoken_tones(int64_t n, uint64_t seed, int64_t first = 0, TT_LOC);
// The audio of the same samples: f32 [N, 16000], multiples of 2^-15 in [-1, 1).
Tensor spoken_tone_waves(int64_t n, uint64_t seed, int64_t first = 0, TT_LOC);

// ---------------------------------------------------------------------------------------------------------

namespace speech {

using sound::Draws;

enum Onset : size_t { open, stop, hiss, nasal };
enum Vowel : size_t { a, e, i, o, u, r };
struct Syllable {
  Onset onset;
  Vowel from, to;  // the vowel glides from one to the other
  friend constexpr bool operator==(const Syllable&, const Syllable&) = default;
};
using Word = std::vector<Syllable>;

// Many words differ from another one only in the order of syllables, in the direction of one glide, or in the
// last syllable.
inline const std::array<Word, 10>& words() {
  static const std::array<Word, 10> all = {{
      {{hiss, a, i}, {stop, o, o}},
      {{stop, o, o}, {hiss, a, i}},
      {{hiss, i, a}, {stop, o, o}},
      {{open, u, e}, {nasal, a, a}},
      {{open, u, e}, {nasal, a, a}, {stop, i, i}},
      {{nasal, o, i}, {nasal, o, i}},
      {{stop, e, u}, {hiss, a, a}, {nasal, i, u}},
      {{stop, e, u}, {nasal, i, u}, {hiss, a, a}},
      {{hiss, u, r}, {stop, a, e}, {open, i, o}, {stop, a, a}},
      {{hiss, u, r}, {stop, a, e}, {stop, a, a}, {open, i, o}},
  }};
  return all;
}

// Formant frequencies of the vowels, in Hz.
inline constexpr std::array<std::array<int32_t, 3>, 6> kFormants = {{{730, 1090, 2440},
                                                                     {530, 1840, 2480},
                                                                     {270, 2290, 3010},
                                                                     {570, 840, 2410},
                                                                     {300, 870, 2240},
                                                                     {490, 1350, 1690}}};
inline constexpr std::array<int32_t, 3> kFormantGain = {16000, 9500, 5000};  // times 2^15
inline constexpr std::array<int32_t, 3> kNasalFormants = {250, 1000, 2200};

// Amounts of variation of voices and rooms. They are chosen so that a linear model classifies 59 % of new
// samples correctly after 2,000 samples, a DS-CNN of 32 channels 93 % after 4,000, and one of 48 channels 97
// % after 12,000. Most of the remaining errors are unknown words classified as known ones.
inline constexpr double kVoiceMin = 0.82,
                        kVoiceMax = 1.22;       // factor of all formants, for the size of the speaker
inline constexpr double kFormantJitter = 0.12;  // standard deviation per formant of each syllable
inline constexpr double kPitchMin = 90, kPitchMax = 250;    // Hz
inline constexpr double kSpeedMin = 0.72, kSpeedMax = 1.3;  // factor of all durations
inline constexpr double kDurationJitter = 0.25;             // largest relative change, per part of a syllable
inline constexpr double kLoudnessMin = 500, kLoudnessMax = 5000;          // root mean square over the word
inline constexpr double kSignalToNoiseMin = -10, kSignalToNoiseMax = 18;  // dB
inline constexpr double kEchoMax = 0.5;

inline constexpr int64_t kLongest = 15200;  // longest word, in samples

struct Voice {
  double size, speed;
  int32_t pitch;  // 1/16 Hz
  int32_t fall;   // fall of the pitch over a second, 1/16 Hz
};

inline Syllable any_syllable(Draws& draws) {
  const auto onset = static_cast<Onset>(draws.below(4));
  const auto from = static_cast<Vowel>(draws.below(6)), to = static_cast<Vowel>(draws.below(6));
  return {onset, from, to};
}

// A random word that is not one of the ten; a third of them differ from one of the ten in one syllable.
inline Word unknown_word(Draws& draws) {
  while (true) {
    Word word;
    if (draws.below(3) == 0) {
      word = words()[static_cast<size_t>(draws.below(10))];
      Syllable& changed = word[static_cast<size_t>(draws.below(std::ssize(word)))];
      const Syllable was = changed;
      while (changed.onset == was.onset || changed.from == was.from || changed.to == was.to) {
        changed = any_syllable(draws);
      }
    } else {
      for (int64_t left = 2 + draws.below(3); left > 0; --left) word.push_back(any_syllable(draws));
    }
    if (std::find(words().begin(), words().end(), word) == words().end()) return word;
  }
}

// A syllable with all its random parameters: an onset, then a vowel.
struct SyllableSound {
  Onset onset;
  int64_t onset_samples, vowel_samples;
  std::array<int32_t, 3> from, to;  // 1/16 Hz
  int32_t hiss;                     // 1/16 Hz
};

inline SyllableSound draw_sounds(const Syllable& syllable, const Voice& voice, Draws& draws) {
  constexpr std::array<double, 4> kOnsetSeconds = {0.0, 0.06, 0.08, 0.065};
  const auto samples = [&](double seconds) {
    return int64_t{sound::snap(seconds * voice.speed *
                               draws.uniform(1 - kDurationJitter, 1 + kDurationJitter) * 1000)} *
           (sound::kSampleRate / 1000);
  };
  SyllableSound out{syllable.onset, samples(kOnsetSeconds[syllable.onset]), samples(0.14), {}, {}, 0};
  for (size_t k = 0; k < 3; ++k) {
    const double factor = voice.size * (1 + draws.bell() / sound::kBellSigma * kFormantJitter);
    out.from[k] = sound::hertz(kFormants[syllable.from][k] * factor);
    out.to[k] = sound::hertz(kFormants[syllable.to][k] * factor);
  }
  out.hiss = sound::hertz(draws.uniform(3800, 5200) * voice.size);
  return out;
}

// A word that would be longer than kLongest is spoken faster.
inline std::vector<SyllableSound> draw_sounds(const Word& word, const Voice& voice, Draws& draws) {
  std::vector<SyllableSound> syllables;
  int64_t length = 0;
  for (const Syllable& syllable : word) {
    syllables.push_back(draw_sounds(syllable, voice, draws));
    length += syllables.back().onset_samples + syllables.back().vowel_samples;
  }
  if (length <= kLongest) return syllables;
  for (SyllableSound& s : syllables) {
    s.onset_samples = s.onset_samples * kLongest / length;
    s.vowel_samples = s.vowel_samples * kLongest / length;
  }
  return syllables;
}

// Synthesizes a word. Its state persists through the word, so that formants and pitch are continuous between
// syllables.
class Synthesizer {
 public:
  Synthesizer(sound::Samples& out, size_t start, const Voice& voice, Draws& draws)
      : out_(out), at_(start), voice_(voice), draws_(draws) {}

  void add(const SyllableSound& s) {
    if (s.onset == stop) {
      const int64_t burst = 10 * kStep;
      at_ += static_cast<size_t>(std::max<int64_t>(0, s.onset_samples - burst));
      add_noise(burst, sound::hertz(2500), 2000, 9000);
    } else if (s.onset == hiss) {
      add_noise(s.onset_samples, s.hiss, 1200, 11000);
    } else if (s.onset == nasal) {
      std::array<int32_t, 3> formants{};
      for (size_t k = 0; k < 3; ++k) formants[k] = sound::hertz(kNasalFormants[k] * voice_.size);
      add_tones(s.onset_samples, formants, formants, 9000);
    }
    add_tones(s.vowel_samples, s.from, s.to, 32767);
  }

 private:
  static constexpr int64_t kStep = 16;  // samples between changes of a frequency: a millisecond
  static constexpr int64_t kFade = 20;  // number of steps of the rise and of the fall

  // Amplitude of the sound at a step, 0 to `height`.
  static int32_t envelope(int64_t step, int64_t steps, int32_t height) {
    const int64_t fade = std::max<int64_t>(1, std::min(kFade, steps / 2));
    return static_cast<int32_t>(height * std::min({step, steps - step, fade}) / fade);
  }

  void add_tones(int64_t samples, const std::array<int32_t, 3>& from, const std::array<int32_t, 3>& to,
                 int32_t height) {
    const int64_t steps = samples / kStep;
    for (int64_t step = 0; step < steps; ++step) {
      for (size_t k = 0; k < 3; ++k) {
        formants_[k].tune(static_cast<int32_t>(from[k] + (to[k] - from[k]) * step / steps));
      }
      pitch_.tune(voice_.pitch -
                  static_cast<int32_t>(voice_.fall * static_cast<int64_t>(at_) / kSpokenSamples));
      const int32_t low = envelope(step, steps, height), high = envelope(step + 1, steps, height);
      for (int64_t k = 0; k < kStep && at_ < out_.size(); ++k, ++at_) {
        const int32_t opening = 18000 + scaled_buzz();  // opening of the vocal folds, 0.1 to 1
        int32_t sum = 0;
        for (size_t f = 0; f < 3; ++f) sum += sound::scaled(formants_[f].next(), kFormantGain[f]);
        const auto now = static_cast<int32_t>(low + (high - low) * k / kStep);
        out_[at_] += sound::scaled(sound::scaled(sum, opening), now);
      }
    }
  }
  int32_t scaled_buzz() { return sound::scaled(pitch_.next(), 14700); }

  void add_noise(int64_t samples, int32_t frequency, double width, int32_t height) {
    sound::Resonator band(frequency, width);
    const int64_t steps = samples / kStep;
    for (int64_t n = 0; n < steps * kStep && at_ < out_.size(); ++n, ++at_) {
      const int32_t noise = band.next(draws_.bell() * 8);
      out_[at_] += sound::scaled(noise, envelope(n / kStep, steps, height));
    }
  }

  sound::Samples& out_;
  size_t at_;
  Voice voice_;
  Draws& draws_;
  std::array<sound::Tone, 3> formants_{};
  sound::Tone pitch_{};
};

// A word by a random speaker at a random position within the second, with the room's echo.
inline sound::Samples synthesize_word(const Word& word, Draws& draws) {
  Voice voice;
  voice.size = draws.uniform(kVoiceMin, kVoiceMax);
  voice.speed = draws.uniform(kSpeedMin, kSpeedMax);
  voice.pitch = sound::hertz(draws.uniform(kPitchMin, kPitchMax));
  voice.fall = sound::hertz(draws.uniform(-30, 60));
  const std::vector<SyllableSound> syllables = draw_sounds(word, voice, draws);
  int64_t length = 0;
  for (const SyllableSound& s : syllables) length += s.onset_samples + s.vowel_samples;
  sound::Samples out(kSpokenSamples, 0);
  Synthesizer synthesizer(out, static_cast<size_t>(draws.below(kSpokenSamples - length)), voice, draws);
  for (const SyllableSound& s : syllables) synthesizer.add(s);
  for (int wall = 0; wall < 2; ++wall) {
    const int64_t delay = 200 + draws.below(1000);  // 12 to 75 ms
    sound::echo(out, delay, sound::gain(draws.uniform(0, kEchoMax)));
  }
  return out;
}

inline sound::Samples background(Draws& draws) {
  sound::Samples noise(kSpokenSamples), other(kSpokenSamples);
  const int64_t kind = draws.below(3);
  if (kind == 0) return sound::white_noise(noise, draws), noise;
  sound::pink_noise(noise, draws);
  if (kind == 1) return noise;
  sound::mains_hum(other, draws);
  const int32_t share = sound::factor_to(sound::loudness(noise) * 2, sound::loudness(other));
  sound::add(noise, other, share);
  return noise;
}

// Fills wave [16000] with a sample and returns its label.
inline int64_t record(uint64_t seed, int64_t sample, int16_t* wave) {
  Draws draws(0x5b0c, seed, sample);
  const int64_t label = draws.below(kSpokenClasses);
  const double loud = kLoudnessMin * std::exp2(draws.uniform(0, std::log2(kLoudnessMax / kLoudnessMin)));
  const double quieter = std::exp2(-draws.uniform(kSignalToNoiseMin, kSignalToNoiseMax) / 6.020599913279624);
  sound::Samples out(kSpokenSamples, 0);
  if (label != kSpokenSilence) {
    const sound::Samples word =
        synthesize_word(label < 10 ? words()[static_cast<size_t>(label)] : unknown_word(draws), draws);
    sound::add(out, word, sound::factor_to(loud, sound::loudness(word)));
  }
  const sound::Samples noise = background(draws);
  sound::add(out, noise, sound::factor_to(loud * quieter, sound::loudness(noise)));
  for (size_t k = 0; k < out.size(); ++k) wave[k] = sound::to_16_bit(out[k]);
  return label;
}

inline const mel::LogMel& log_mel() {
  static const mel::LogMel features(
      {.window = 512, .hop = 320, .bands = kSpokenBands, .low = 80, .high = 7000});
  return features;
}
inline constexpr double kFeatureCentre = 23.5, kFeatureScale = 4;  // centre and scale of log2(1 + energy)

inline void extract_features(const int16_t* wave, float* features) {
  std::array<double, kSpokenFrames * kSpokenBands> energies;
  log_mel()(wave, kSpokenSamples, energies.data());
  for (size_t k = 0; k < energies.size(); ++k)
    features[k] = mel::quantize(energies[k], kFeatureCentre, kFeatureScale);
}

}  // namespace speech

inline SpokenTones spoken_tones(int64_t n, uint64_t seed, int64_t first, Loc loc) {
  sound::check_range("spoken_tones", n, first, loc);
  SpokenTones out{empty({n, 1, kSpokenFrames, kSpokenBands}, DType::f32, cpu, loc),
                  empty({n}, DType::i64, cpu, loc)};
  float* features = out.features.data<float>();
  int64_t* labels = out.labels.data<int64_t>();
  parallel_for(n, 4, [&](int64_t begin, int64_t end) {
    std::vector<int16_t> wave(kSpokenSamples);
    for (int64_t i = begin; i < end; ++i) {
      labels[i] = speech::record(seed, first + i, wave.data());
      speech::extract_features(wave.data(), features + i * kSpokenFrames * kSpokenBands);
    }
  });
  return out;
}

inline Tensor spoken_tone_waves(int64_t n, uint64_t seed, int64_t first, Loc loc) {
  sound::check_range("spoken_tone_waves", n, first, loc);
  const auto clip = [&](int64_t i, int16_t* wave) { speech::record(seed, first + i, wave); };
  return sound::waves_of(n, kSpokenSamples, clip, loc);
}

}  // namespace tinytorch::inline TT_BUILD
