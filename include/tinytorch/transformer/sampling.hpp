// Sampling of the next token from logits [V]. The filters are applied in this order, as in Hugging Face's
// transformers:
//
//   repetition penalty   logits of earlier tokens: divided by it if above 0, else multiplied (Keskar, 2019)
//   temperature          logits / temperature; 0: the largest logit, no further filter
//   top-k                the k largest logits, and all that equal the k-th (Fan, 2018)
//   top-p                the fewest most probable tokens that sum to at least p (Holtzman, 2020)
//   min-p                tokens with at least min_p times the largest probability (Nguyen, 2024)
//
// Each filter sees the probabilities that the previous one kept, rescaled to sum to 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <tinytorch/tensor/tensor.hpp>

namespace tinytorch::inline TT_BUILD {

// No filter is active by default: tokens are sampled from softmax(logits).
struct SamplingOptions {
  double temperature = 1;
  int64_t top_k = 0;  // 0: all
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
};

namespace sampling {

inline constexpr double kRemoved = -std::numeric_limits<double>::infinity();

inline void require_options(const SamplingOptions& o, Loc loc) {
  const bool fine = o.temperature >= 0 && std::isfinite(o.temperature) && o.top_k >= 0 && o.top_p > 0 &&
                    o.top_p <= 1 && o.min_p >= 0 && o.min_p <= 1 && o.repetition_penalty > 0;
  if (fine) return;
  fail("TT-NN-25",
       "sampling: an option is out of range\n  rule: temperature >= 0, top_k >= 0, 0 < top_p <= 1, "
       "0 <= min_p <= 1, repetition_penalty > 0",
       loc);
}

inline std::vector<double> values_of(const Tensor& logits, Loc loc) {
  std::vector<double> values = logits.to_vector<double>();
  const bool ordered = std::none_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
  const double largest = values.empty() ? kRemoved : *std::max_element(values.begin(), values.end());
  if (logits.rank() == 1 && ordered && std::isfinite(largest)) return values;
  fail("TT-NN-26",
       "sampling: needs logits [V] with a finite maximum and no NaN, got " + logits.describe() +
           "\n  hint: NaN comes from weights that diverged, or from 16-bit overflow",
       loc);
}

// The logits of tokens in `seen` are divided by `penalty` if they are above 0, else multiplied, so that these
// tokens become less likely for penalty > 1. Each token counts once. Tokens outside of the vocabulary are
// ignored.
inline void penalize_repetition(std::vector<double>& logits, std::span<const int32_t> seen, double penalty) {
  std::vector<bool> done(logits.size());
  for (const int32_t token : seen) {
    const auto i = static_cast<size_t>(token);
    if (token < 0 || i >= logits.size() || done[i]) continue;
    logits[i] = logits[i] > 0 ? logits[i] / penalty : logits[i] * penalty;
    done[i] = true;
  }
}

// Sets all logits below the k-th largest to kRemoved; ties with it are kept. k >= 1.
inline void keep_top_k(std::vector<double>& logits, int64_t k) {
  if (k >= static_cast<int64_t>(logits.size())) return;
  std::vector<double> sorted = logits;
  const auto kth = sorted.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
  for (double& x : logits) x = x < *kth ? kRemoved : x;
}

// Softmax without overflow: the largest logit is subtracted first. Removed tokens get 0.
inline std::vector<double> softmax(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  for (const double x : logits) p.push_back(std::exp(x - largest));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

// Keeps a token while the more probable tokens sum to less than p. Among equal ones, the smaller token comes
// first.
inline void keep_top_p(std::vector<double>& logits, double top_p) {
  const std::vector<double> p = softmax(logits);
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  double before = 0;
  for (const size_t i : order) {
    if (before >= top_p) logits[i] = kRemoved;
    before += p[i];
  }
}

// Sets tokens whose probability is below min_p times the largest to kRemoved. For logits, the limit is the
// largest plus log(min_p).
inline void keep_min_p(std::vector<double>& logits, double min_p) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  const double least = largest + std::log(min_p);  // log(0) is -inf: all stay
  for (double& x : logits) x = x < least ? kRemoved : x;
}

}  // namespace sampling

// The probability of each token, [V]: applies the penalty, the temperature, top-k, top-p and min-p, each only
// if its option differs from the default of SamplingOptions, and then the softmax. Temperature 0 gives
// probability 1 to the first of the largest logits. `seen` holds the tokens so far, including the prompt, for
// the repetition penalty.
inline std::vector<double> next_token_probabilities(const Tensor& logits, std::span<const int32_t> seen = {},
                                                    const SamplingOptions& options = {}, TT_LOC) {
  sampling::require_options(options, loc);
  std::vector<double> x = sampling::values_of(logits, loc);
  if (options.repetition_penalty != 1) sampling::penalize_repetition(x, seen, options.repetition_penalty);
  if (options.temperature == 0) {
    const auto largest = std::max_element(x.begin(), x.end()) - x.begin();
    std::vector<double> certain(x.size(), 0.0);
    certain[static_cast<size_t>(largest)] = 1;
    return certain;
  }
  const double top =
      *std::max_element(x.begin(), x.end());  // subtracted so that a small temperature cannot overflow
  for (double& value : x) value = (value - top) / options.temperature;
  if (options.top_k > 0) sampling::keep_top_k(x, options.top_k);
  if (options.top_p < 1) sampling::keep_top_p(x, options.top_p);
  if (options.min_p > 0) sampling::keep_min_p(x, options.min_p);
  return sampling::softmax(x);
}

// Samples the next token: the first at which the cumulative probability exceeds u, which is uniform in [0,
// 1). Calls generator.uniform() once, or not at all with temperature 0. A token of probability 0 is never
// returned.
inline int32_t sample_token(const Tensor& logits, std::span<const int32_t> seen,
                            const SamplingOptions& options, Generator& generator, TT_LOC) {
  const std::vector<double> p = next_token_probabilities(logits, seen, options, loc);
  const double u = options.temperature == 0 ? 0.5 : generator.uniform();
  double sum = 0;
  size_t last = 0;  // if rounding leaves the sum below u: the last token with a probability above 0
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) continue;
    sum += p[i], last = i;
    if (u < sum) break;
  }
  return static_cast<int32_t>(last);
}

}  // namespace tinytorch::inline TT_BUILD
