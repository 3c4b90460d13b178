// Sampling of one token from each row of logits, with weights that are whole numbers.
//
// Token i of a row with the largest logit `top` has the weight round(2^40 exp((x_i - top) / temperature)).
// Sums of whole numbers are exact, so that neither the order of an addition nor the number of threads changes
// the token that is chosen. A token of less than 2^-41 of the largest probability is never chosen.
#pragma once

#include <cstdint>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD::backend {

inline constexpr int kSampleWeightBits = 40;                    // the largest weight is 2^40
inline constexpr int64_t kMostSampleTokens = int64_t{1} << 22;  // so that sums fit 64 bits

// The columns of a table of choices, f64 [rows, kSampleColumns]. The filters are those of
// transformer/sampling.hpp, in its order: top-k (below 1: all), top-p and min-p. `uniform` is in [0, 1). A
// temperature of 0 takes the best token.
enum SampleColumn { kTemperature, kTopK, kTopP, kMinP, kUniform, kSampleColumns };

// The number that the weights of the tokens that stay must reach if they shall have this share of `total`.
TT_HOST_DEVICE inline uint64_t share_of_weights(double share, uint64_t total) {
  const double exact = share * static_cast<double>(total);
  const auto whole = static_cast<uint64_t>(exact);
  const uint64_t goal = whole + (static_cast<double>(whole) < exact ? 1 : 0);
  return goal < 1 ? 1 : (goal > total ? total : goal);
}
// The token that is chosen is the first whose sum of weights, with those of the tokens before it, is larger
// than this.
TT_HOST_DEVICE inline uint64_t drawn_weight(double uniform, uint64_t total) {
  const auto drawn = static_cast<uint64_t>(uniform * static_cast<double>(total));
  return drawn < total ? drawn : total - 1;
}

}  // namespace tinytorch::inline TT_BUILD::backend
