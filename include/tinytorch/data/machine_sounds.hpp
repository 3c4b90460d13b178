// Anomaly detection: synthetic sounds of a machine, normal or with one of five faults, without a download.
//
//   speed that drifts -> harmonics of the shaft + gear mesh + bearing noise + background -> echo
//        -> 16-bit wave -> log-mel, 60 frames x 128 bands -> 12 windows of 5 frames = 640 numbers
//
// A model is trained on normal clips only; a clip's score is the mean of its windows' scores, and the quality
// of a model is the area under the ROC curve. Clip i is a pure function of (seed, i), with the same bits from
// every compiler: the wave is integer arithmetic (sound.hpp), the features are rounded to 1/32 (mel.hpp).
// Frames, bands and the 640 inputs are those of MLPerf Tiny's anomaly benchmark, which uses ToyADMOS (Koizumi
// et al., 2019). Loudness and background differ per machine, so loudness says little about faults.
#pragma once

#include <tinytorch/core/parallel.hpp>
#include <tinytorch/data/mel.hpp>
#include <tinytorch/data/sound.hpp>
#include <tinytorch/data/waves.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD::machine_sounds {

inline constexpr int kBands = 128, kFramesPerWindow = 5, kWindows = 12;
inline constexpr int kInputs = kBands * kFramesPerWindow;    // 640, one frame after the other
inline constexpr int kFrames = kFramesPerWindow * kWindows;  // 60
inline constexpr int kSamples = 1024 + 512 * (kFrames - 1);  // 31232: 1.95 seconds

enum Fault : int64_t { none, whistle, missing_tooth, looseness, friction, unsteady };
inline constexpr int kFaults = 5;

struct MachineSounds {
  Tensor windows;  // f32 [N * 12, 640], multiples of 1/32 in [-4, 4)
  Tensor clips;    // i64 [N * 12]: index of the window's clip, 0 to N - 1
  Tensor labels;   // i64 [N]: 1 if the machine has a fault
  Tensor faults;   // i64 [N]: a Fault
};

// Clips first, ..., first + n - 1 of the infinite set of `seed`, all without fault, for training.
MachineSounds normal(int64_t n, uint64_t seed, int64_t first = 0, TT_LOC);
// Clips for tests: half of them have a fault, of any kind, faint or clear. No clip is also one of normal(),
// for any seeds.
MachineSounds mixed(int64_t n, uint64_t seed, int64_t first = 0, TT_LOC);
// The audio of the clips of mixed(): f32 [N, 31232], multiples of 2^-15 in [-1, 1).
Tensor mixed_waves(int64_t n, uint64_t seed, int64_t first = 0, TT_LOC);

// The mean score of each clip's windows: scores [N * 12] of any floating dtype, in the order of windows ->
// f64 [N].
Tensor clip_scores(const Tensor& window_scores, TT_LOC);

// ---------------------------------------------------------------------------------------------------------

using sound::Draws;

// Amounts of variation of normal machines, and sizes of faults. They are chosen so that no threshold on the
// loudness or on the distance to the mean sound has an area above 0.6, while an autoencoder reaches 0.88
// after 300 clips and 0.96 after 1,000.
inline constexpr double kSpeedMin = 44, kSpeedMax = 56;  // revolutions per second
inline constexpr double kDrift = 0.012;  // relative change of speed, with a period above one second
inline constexpr int kTeeth = 19;
inline constexpr double kSpread = 1.5;                            // dB, largest deviation of each harmonic
inline constexpr double kLoudnessMin = 500, kLoudnessMax = 3000;  // root mean square
inline constexpr double kHallMin = -24, kHallMax = -14;           // dB, background below the machine
inline constexpr double kFaintest = 0, kClearest = 14;            // dB above a fault's smallest size

inline constexpr double kFeatureCentre = 17, kFeatureScale = 3.75;  // centre and scale of log2(1 + energy)

// Amplitudes of the harmonics of the shaft and of the gear mesh, in dB.
inline constexpr std::array<double, 8> kShaft = {-6, -3, -12, -9, -16, -20, -18, -24};
inline constexpr std::array<double, 3> kMesh = {-10, -18, -26};

struct Part {
  int32_t ratio;   // frequency relative to the shaft's, times 256
  int32_t height;  // amplitude, times 2^15
  uint32_t phase;
};

// The random parameters of one clip's machine.
struct Machine {
  int32_t speed;                        // 1/16 Hz
  int32_t drift;                        // relative to the speed, times 2^15
  int32_t drift_rate;                   // 1/16 Hz
  int32_t wobble = 0, wobble_rate = 0;  // a fast drift: the fault `unsteady`
  std::vector<Part> parts;
  int32_t click = 0;                  // amplitude of one click per revolution: a fault
  int32_t scrape = 0, scrape_at = 0;  // amplitude and frequency of a noise once per revolution: a fault
  int32_t bearing, bearing_at;
};

inline Part part(int32_t ratio, double db, Draws& draws) {
  return {ratio, sound::decibels(db), draws.word()};
}

inline Machine draw_machine(Draws& draws) {
  const auto spread = [&] { return draws.uniform(-kSpread, kSpread); };
  Machine m{};
  m.speed = sound::hertz(draws.uniform(kSpeedMin, kSpeedMax));
  m.drift = sound::gain(draws.uniform(0, kDrift));
  m.drift_rate = sound::hertz(draws.uniform(0.2, 0.8));
  for (size_t k = 0; k < kShaft.size(); ++k) {
    m.parts.push_back(part(static_cast<int32_t>(k + 1) * 256, kShaft[k] + spread(), draws));
  }
  for (size_t k = 0; k < kMesh.size(); ++k) {
    const int32_t mesh = static_cast<int32_t>(k + 1) * kTeeth * 256;
    const double height = kMesh[k] + spread();
    m.parts.push_back(part(mesh, height, draws));
    for (const int32_t side : {-256, 256})
      m.parts.push_back(part(mesh + side, height - 10 + spread(), draws));
  }
  m.bearing = sound::decibels(-26 + spread());
  m.bearing_at = sound::hertz(draws.uniform(2900, 3300));
  return m;
}

// Adds a fault. `size` is in dB above the smallest size of its kind.
inline void add_fault(Machine& m, Fault fault, double size, Draws& draws) {
  if (fault == whistle) {
    const auto ratio = static_cast<int32_t>(draws.uniform(25, 110) * 256);
    m.parts.push_back(part(ratio, -33 + size, draws));
  } else if (fault == missing_tooth) {
    m.click = sound::decibels(-15 + size);
  } else if (fault == looseness) {
    for (const int32_t half : {1, 3, 5, 7, 9}) {
      m.parts.push_back(part(half * 128, -20 + size + draws.uniform(-kSpread, kSpread), draws));
    }
  } else if (fault == friction) {
    m.scrape = sound::decibels(-30 + size);
    m.scrape_at = sound::hertz(draws.uniform(1500, 6000));
  } else if (fault == unsteady) {
    m.wobble = sound::gain(0.008 * std::exp2(size / 6));
    m.wobble_rate = sound::hertz(draws.uniform(3, 9));
  }
}

// The shaft's revolutions so far, times 2^40, at every sample. The phase of every rotating part is a multiple
// of it, so all parts stay synchronous while the speed changes. A clip has at most 112 revolutions, so
// products with a ratio stay below 2^63.
inline constexpr int kTurnBits = 40;
inline std::vector<uint64_t> turns(const Machine& m, Draws& draws) {
  sound::Tone drift{draws.word()}, wobble{draws.word()};
  drift.tune(m.drift_rate), wobble.tune(m.wobble_rate);
  const int64_t step = int64_t{m.speed} * 4294967;  // 2^40 / (16 * 16000)
  std::vector<uint64_t> out(kSamples);
  uint64_t turn = uint64_t{draws.word()} << (kTurnBits - 32);
  for (uint64_t& now : out) {
    const int32_t faster = sound::scaled(drift.next(), m.drift) + sound::scaled(wobble.next(), m.wobble);
    now = turn += static_cast<uint64_t>(step + ((step * faster) >> 15));
  }
  return out;
}

inline uint32_t phase_of(uint64_t turn, int32_t ratio) {
  return static_cast<uint32_t>((turn * static_cast<uint64_t>(ratio)) >> (8 + kTurnBits - 32));
}

// Adds noise in a frequency band, with loudness `height` / 2^15, constant or swelling once per revolution.
inline void add_band(sound::Samples& out, const std::vector<uint64_t>& turns, int32_t at, double width,
                     int32_t height, bool swelling, Draws& draws) {
  sound::Resonator band(at, width);
  sound::Samples noise(out.size());
  for (size_t k = 0; k < noise.size(); ++k) {
    noise[k] = band.next(draws.bell());
    if (swelling) noise[k] = sound::scaled(noise[k], std::max(0, sound::sine(phase_of(turns[k], 256))));
  }
  sound::add(out, noise, sound::factor_to(height, sound::loudness(noise)));
}

// A missing tooth: the next tooth hits hard once per revolution, and the housing resonates.
inline void add_clicks(sound::Samples& out, const std::vector<uint64_t>& turns, int32_t height) {
  sound::Resonator housing(sound::hertz(2300), 350);
  for (size_t k = 1; k < out.size(); ++k) {
    const bool hit = turns[k] >> kTurnBits != turns[k - 1] >> kTurnBits;
    out[k] += housing.next(hit ? height : 0);
  }
}

inline sound::Samples synthesize(const Machine& m, Draws& draws) {
  sound::Samples out(kSamples, 0);
  const std::vector<uint64_t> shaft = turns(m, draws);
  for (const Part& p : m.parts) {
    for (size_t k = 0; k < out.size(); ++k) {
      out[k] += sound::scaled(sound::sine(phase_of(shaft[k], p.ratio) + p.phase), p.height);
    }
  }
  add_band(out, shaft, m.bearing_at, 900, m.bearing, false, draws);
  if (m.scrape > 0) add_band(out, shaft, m.scrape_at, 1200, m.scrape, true, draws);
  if (m.click > 0) add_clicks(out, shaft, m.click);
  return out;
}

// Fills wave [31232] with the machine's sound, background noise and echo.
inline Fault record(uint16_t purpose, bool may_fail, uint64_t seed, int64_t clip, int16_t* wave) {
  Draws draws(purpose, seed, clip);
  Machine machine = draw_machine(draws);
  Fault fault = none;
  if (may_fail && draws.below(2) == 1) {
    fault = static_cast<Fault>(1 + draws.below(kFaults));
    add_fault(machine, fault, draws.uniform(kFaintest, kClearest), draws);
  }
  sound::Samples out = synthesize(machine, draws);
  sound::Samples hall(kSamples), hiss(kSamples);
  sound::pink_noise(hall, draws), sound::white_noise(hiss, draws);
  sound::add(hall, hiss, sound::kOne);
  const double quieter = std::exp2(draws.uniform(kHallMin, kHallMax) / 6.020599913279624);
  sound::add(out, hall, sound::factor_to(sound::loudness(out) * quieter, sound::loudness(hall)));
  const int64_t delay = 300 + draws.below(800);
  sound::echo(out, delay, sound::gain(draws.uniform(0, 0.3)));
  const double loud = kLoudnessMin * std::exp2(draws.uniform(0, std::log2(kLoudnessMax / kLoudnessMin)));
  const int32_t factor = sound::factor_to(loud, sound::loudness(out));
  for (size_t k = 0; k < out.size(); ++k) wave[k] = sound::to_16_bit(sound::scaled(out[k], factor));
  return fault;
}

inline constexpr uint16_t kNormal = 0x3ac1, kMixed = 0x3ac2;

inline void extract_features(const int16_t* wave, float* windows) {
  static const mel::LogMel log_mel({.window = 1024, .hop = 512, .bands = kBands, .low = 20, .high = 8000});
  std::array<double, kFrames * kBands> energies;
  log_mel(wave, kSamples, energies.data());
  for (size_t k = 0; k < energies.size(); ++k)
    windows[k] = mel::quantize(energies[k], kFeatureCentre, kFeatureScale);
}

inline MachineSounds make_sounds(uint16_t purpose, int64_t n, uint64_t seed, int64_t first, Loc loc) {
  MachineSounds out{empty({n * kWindows, kInputs}, DType::f32, cpu, loc),
                    empty({n * kWindows}, DType::i64, cpu, loc), empty({n}, DType::i64, cpu, loc),
                    empty({n}, DType::i64, cpu, loc)};
  float* windows = out.windows.data<float>();
  int64_t *clips = out.clips.data<int64_t>(), *labels = out.labels.data<int64_t>(),
          *faults = out.faults.data<int64_t>();
  parallel_for(n, 4, [&](int64_t begin, int64_t end) {
    std::vector<int16_t> wave(kSamples);
    for (int64_t i = begin; i < end; ++i) {
      faults[i] = record(purpose, purpose == kMixed, seed, first + i, wave.data());
      labels[i] = faults[i] != none;
      std::fill_n(clips + i * kWindows, kWindows, i);
      extract_features(wave.data(), windows + i * kWindows * kInputs);
    }
  });
  return out;
}

inline MachineSounds normal(int64_t n, uint64_t seed, int64_t first, Loc loc) {
  sound::check_range("machine_sounds::normal", n, first, loc);
  return make_sounds(kNormal, n, seed, first, loc);
}

inline MachineSounds mixed(int64_t n, uint64_t seed, int64_t first, Loc loc) {
  sound::check_range("machine_sounds::mixed", n, first, loc);
  return make_sounds(kMixed, n, seed, first, loc);
}

inline Tensor mixed_waves(int64_t n, uint64_t seed, int64_t first, Loc loc) {
  sound::check_range("machine_sounds::mixed_waves", n, first, loc);
  const auto clip = [&](int64_t i, int16_t* wave) { record(kMixed, true, seed, first + i, wave); };
  return sound::waves_of(n, kSamples, clip, loc);
}

inline Tensor clip_scores(const Tensor& window_scores, Loc loc) {
  if (window_scores.rank() != 1 || window_scores.numel() % kWindows != 0) {
    fail("TT-DATA-05",
         "clip_scores: needs the scores of whole clips, [N * " + std::to_string(kWindows) + "], got " +
             window_scores.describe() +
             "\n  hint: one score per window, such as the mean of its squared errors",
         loc);
  }
  const std::vector<double> scores = window_scores.to(DType::f64).to_vector<double>();
  Tensor out = empty({window_scores.numel() / kWindows}, DType::f64, cpu, loc);
  double* means = out.data<double>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    double sum = 0;
    for (int64_t k = 0; k < kWindows; ++k) sum += scores[static_cast<size_t>(i * kWindows + k)];
    means[i] = sum / kWindows;
  }
  return out;
}

}  // namespace tinytorch::inline TT_BUILD::machine_sounds
