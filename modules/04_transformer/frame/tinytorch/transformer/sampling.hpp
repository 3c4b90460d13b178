// Sampling of the next token from logits [V]. The filters are applied in this order, as in Hugging Face's
// transformers:
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.13. It is cut
// from the library's header by modules/frames.py.
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

// Task 4.13.
inline void penalize_repetition(std::vector<double>& logits, std::span<const int32_t> seen, double penalty);
inline void keep_top_k(std::vector<double>& logits, int64_t k);         // task 4.13
inline std::vector<double> softmax(const std::vector<double>& logits);  // task 4.13
inline void keep_top_p(std::vector<double>& logits, double top_p);      // task 4.13
inline void keep_min_p(std::vector<double>& logits, double min_p);      // task 4.13

}  // namespace sampling

// Task 4.13.
inline std::vector<double> next_token_probabilities(const Tensor& logits, std::span<const int32_t> seen = {},
                                                    const SamplingOptions& options = {}, TT_LOC);
inline int32_t sample_token(const Tensor& logits, std::span<const int32_t> seen,
                            const SamplingOptions& options, Generator& generator, TT_LOC);  // task 4.13

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/transformer/sampling.hpp>
