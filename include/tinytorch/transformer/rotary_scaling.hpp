// Rotary frequencies of models that were stretched to a longer context than they were trained for.
//
//   frequency f_i = theta^(-2i / R), in radians per position, for the pairs i = 0 .. R/2 - 1
//   llama3    low frequencies are divided by `factor`, high ones are kept, those between are interpolated
//   linear    all are divided by `factor`: positions are interpolated               (Chen et al., 2023)
//   dynamic   theta grows with the length of the text beyond the trained context    (NTK-aware scaling)
//   yarn      as llama3, by the number of turns in the trained context; cos and sin are enlarged too
//   longrope  each frequency has a divisor of its own, one list for short texts and one for long texts
//
// dynamic and longrope depend on the length of the text. A text that outgrows the trained context turns its
// next tokens by the new frequencies, while cached keys keep those of their own step, as in transformers.
// Sources: Llama 3.1's model card; Peng et al., "YaRN", 2023; Ding et al., "LongRoPE", 2024.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <tinytorch/core/config.hpp>
#include <variant>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct Llama3Scaling {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_positions = 8192;
  friend bool operator==(const Llama3Scaling&, const Llama3Scaling&) = default;

  double apply(double frequency) const {
    const double turns = static_cast<double>(original_positions) * frequency / (2 * std::numbers::pi);
    if (turns > high_freq_factor) return frequency;
    if (turns < low_freq_factor) return frequency / factor;
    const double share = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
    return (1 - share) * frequency / factor + share * frequency;
  }
};

struct LinearScaling {
  double factor = 1;
  friend bool operator==(const LinearScaling&, const LinearScaling&) = default;
};

struct DynamicScaling {
  double factor = 1;
  int64_t original_positions = 2048;  // texts up to this length have the plain frequencies
  friend bool operator==(const DynamicScaling&, const DynamicScaling&) = default;

  // The theta of a text of `length` tokens, when R dimensions are turned.
  double theta(double plain, int64_t R, int64_t length) const {
    const double times = static_cast<double>(length) / static_cast<double>(original_positions);
    if (times <= 1) return plain;
    return plain *
           std::pow(factor * times - (factor - 1), static_cast<double>(R) / static_cast<double>(R - 2));
  }
};

struct YarnScaling {
  double factor = 1;
  int64_t original_positions = 2048;
  double beta_fast = 32, beta_slow = 1;  // pairs with more turns are kept, with fewer are divided
  double attention_factor = 1;           // of cos and sin
  bool truncate = true;                  // the bounds between the three kinds are whole pairs
  friend bool operator==(const YarnScaling&, const YarnScaling&) = default;

  // The factor of cos and sin that the paper recommends, and DeepSeek's form of it with two weights.
  static double recommended(double factor, double weight = 1) {
    return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
  }
  // The number of the pair, as a fraction, that makes so many turns in the trained context.
  double pair_of(double turns, double theta, int64_t R) const {
    const double length = static_cast<double>(original_positions);
    return static_cast<double>(R) * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  }
  double apply(double frequency, double i, double theta, int64_t R) const {
    double low = pair_of(beta_fast, theta, R), high = pair_of(beta_slow, theta, R);
    if (truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0), high = std::min(high, static_cast<double>(R - 1));
    if (low == high) high += 0.001;
    const double divided = std::clamp((i - low) / (high - low), 0.0, 1.0);
    return frequency / factor * divided + frequency * (1 - divided);
  }
};

struct LongRopeScaling {
  std::vector<double> short_factors, long_factors;  // [R / 2]
  int64_t original_positions = 4096;                // longer texts have the long factors
  double attention_factor = 1;                      // of cos and sin
  friend bool operator==(const LongRopeScaling&, const LongRopeScaling&) = default;

  static double recommended(double factor, int64_t original_positions) {
    if (factor <= 1) return 1;
    return std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original_positions)));
  }
};

struct RotaryOptions {
  double theta = 10000;
  std::optional<Llama3Scaling> scaling{};
  // Another scaling, if `scaling` is empty.
  std::variant<std::monostate, LinearScaling, DynamicScaling, YarnScaling, LongRopeScaling> stretch{};
  double share = 1;  // of a head's dimensions that are turned, the first ones
  friend bool operator==(const RotaryOptions&, const RotaryOptions&) = default;

  // R, the dimensions of a head that are turned.
  int64_t turned(int64_t head_size) const {
    return share == 1 ? head_size : static_cast<int64_t>(share * static_cast<double>(head_size));
  }
  // Texts of equal kind have equal frequencies: 0, or a number that depends on the length of the text.
  int64_t kind_of(int64_t length) const {
    if (const auto* s = std::get_if<DynamicScaling>(&stretch))
      return length > s->original_positions ? length : 0;
    if (const auto* s = std::get_if<LongRopeScaling>(&stretch)) return length > s->original_positions;
    return 0;
  }
  // True if longer texts have other frequencies.
  bool depends_on_length() const {
    return std::holds_alternative<DynamicScaling>(stretch) ||
           std::holds_alternative<LongRopeScaling>(stretch);
  }
  // The longest text of a model that was trained for `positions`: only dynamic scaling goes beyond them.
  int64_t context(int64_t positions) const {
    const auto* s = std::get_if<DynamicScaling>(&stretch);
    return s ? std::max(positions, static_cast<int64_t>(s->factor * static_cast<double>(positions)))
             : positions;
  }
  // The frequencies of R / 2 pairs in a text of `length` tokens.
  std::vector<double> frequencies(int64_t R, int64_t length = 1) const {
    double base = theta;
    if (const auto* s = std::get_if<DynamicScaling>(&stretch)) base = s->theta(theta, R, length);
    std::vector<double> out;
    for (int64_t i = 0; i < R; i += 2) {
      const double f = std::pow(base, -static_cast<double>(i) / static_cast<double>(R));
      out.push_back(scaling ? scaling->apply(f) : stretched(f, static_cast<size_t>(i / 2), R, length));
    }
    return out;
  }
  // The factor of cos and sin, by whose square q k^T grows.
  double attention_factor() const {
    if (const auto* s = std::get_if<YarnScaling>(&stretch)) return s->attention_factor;
    if (const auto* s = std::get_if<LongRopeScaling>(&stretch)) return s->attention_factor;
    return 1;
  }

 private:
  double stretched(double f, size_t i, int64_t R, int64_t length) const {
    if (const auto* s = std::get_if<LinearScaling>(&stretch)) return f / s->factor;
    if (const auto* s = std::get_if<YarnScaling>(&stretch))
      return s->apply(f, static_cast<double>(i), theta, R);
    if (const auto* s = std::get_if<LongRopeScaling>(&stretch))
      return f / (length > s->original_positions ? s->long_factors : s->short_factors).at(i);
    return f;
  }
};

}  // namespace tinytorch::inline TT_BUILD
