// Models of measurement noise, for simulations of confidence intervals and tests: factors on the time of each
// call of one run, in the order of the calls.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <tinytorch/core/random.hpp>
#include <vector>

enum class Noise { kLognormal, kLinearDrift, kRandomWalk, kBursts, kHeavyTails, kBimodal };

inline std::string name_of(Noise noise) {
  static const char* names[] = {"lognormal", "linear drift", "random walk",
                                "bursts",    "heavy tails",  "bimodal"};
  return names[static_cast<int>(noise)];
}

inline double normal_number(tinytorch::Generator& random) {  // Box-Muller
  const double radius = std::sqrt(-2 * std::log1p(-random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

// Student's t with 2 degrees of freedom: infinite variance.
inline double heavy_number(tinytorch::Generator& random) {
  const double u = random.uniform(1e-12, 1 - 1e-12);
  return (2 * u - 1) / std::sqrt(2 * u * (1 - u));
}

inline std::vector<double> noise_factors(Noise noise, size_t calls, tinytorch::Generator& random) {
  std::vector<double> out(calls);
  double walk = 0;
  // Another process uses the core for 20 % of the time, for 6 calls on average, which makes calls 80 %
  // slower.
  bool burst = random.uniform() < 0.2;
  for (size_t i = 0; i < calls; ++i) {
    double log_factor = 0;
    switch (noise) {
      case Noise::kLognormal:
        log_factor = 0.1 * normal_number(random);
        break;
      case Noise::kLinearDrift:  // 1.5 times as slow at the end
        log_factor = 0.05 * normal_number(random) +
                     std::log1p(0.5 * static_cast<double>(i) / static_cast<double>(calls));
        break;
      case Noise::kRandomWalk:
        walk += 0.03 * normal_number(random);
        log_factor = walk + 0.02 * normal_number(random);
        break;
      case Noise::kBursts:
        log_factor = 0.03 * normal_number(random) + (burst ? std::log(1.8) : 0);
        burst = random.uniform() < (burst ? 1 - 1.0 / 6 : 0.25 / 6);
        break;
      case Noise::kHeavyTails:
        log_factor = 0.05 * heavy_number(random);
        break;
      case Noise::kBimodal:  // two modes: a call is slow in 3 of 10 cases
        log_factor = 0.03 * normal_number(random) + (random.uniform() < 0.3 ? std::log(1.25) : 0);
        break;
    }
    out[i] = std::exp(log_factor);
  }
  return out;
}

constexpr Noise kAllNoise[] = {Noise::kLognormal, Noise::kLinearDrift, Noise::kRandomWalk,
                               Noise::kBursts,    Noise::kHeavyTails,  Noise::kBimodal};
