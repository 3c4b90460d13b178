// Sampling of one token from each row of logits, with weights that are whole numbers.
//
// Token i of a row with the largest logit `top` has the weight round(2^40 exp((x_i - top) / temperature)).
// Sums of whole numbers are exact, so that neither the order of an addition nor the number of threads changes
// the token that is chosen. A token of less than 2^-41 of the largest probability is never chosen.
#pragma once

#include <cmath>
#include <cstdint>
#include <tinytorch/core/shape.hpp>

namespace tinytorch::inline TT_BUILD::backend {

inline constexpr int kSampleWeightBits = 40;                    // the largest weight is 2^40
inline constexpr int64_t kMostSampleTokens = int64_t{1} << 22;  // so that sums fit 64 bits

// The columns of a table of choices, f64 [rows, kSampleColumns]. The filters are those of
// transformer/sampling.hpp, in its order: top-k (below 1: all), top-p and min-p. `uniform` is in [0, 1). A
// temperature of 0 takes the best token.
enum SampleColumn { kTemperature, kTopK, kTopP, kMinP, kUniform, kSampleColumns };

// The tokens that stay: those of a larger weight than `limit`, and the first `ties` of that weight.
struct SampleLimit {
  uint64_t limit = 1, ties = ~uint64_t{0};
  // Tokens of less than this weight go.
  TT_HOST_DEVICE void require(uint64_t weight) {
    if (weight > limit) limit = weight, ties = ~uint64_t{0};
  }
  // Larger weights than this sum to `above`. So many tokens of this weight stay that the sum reaches `goal`.
  TT_HOST_DEVICE void stop_at(uint64_t weight, uint64_t above, uint64_t goal) {
    limit = weight, ties = ceil_div(goal - above, weight);
  }
};
// The least weight that min-p leaves.
TT_HOST_DEVICE inline uint64_t least_weight(double min_p) {
  return static_cast<uint64_t>(std::ceil(min_p * static_cast<double>(uint64_t{1} << kSampleWeightBits)));
}

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
