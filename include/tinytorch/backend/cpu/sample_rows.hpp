// Sampling of one token from each row of logits, on the CPU (weights: backend/sample_weights.hpp).
#pragma once

#include <tinytorch/backend/sample_weights.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// tokens i64 [rows]. logits: floating [rows, V] with adjacent columns, V from 1 to kMostSampleTokens. best
// i64 [rows] and largest [rows], of the dtype of the logits: the first of the largest logits of each row.
// choices f64 [rows, kSampleColumns], contiguous. A row whose largest logit is not finite gets `best`.
TT_API void sample_rows(const View& tokens, const View& logits, const View& best, const View& largest,
                        const View& choices);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <cmath>
#include <functional>
#include <tinytorch/core/dtype.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline void keep_top_k(SampleLimit& stay, std::vector<uint64_t> weights, double k) {
  if (k < 1 || k >= static_cast<double>(weights.size())) return;
  const auto kth = weights.begin() + (static_cast<std::ptrdiff_t>(k) - 1);
  std::nth_element(weights.begin(), kth, weights.end(), std::greater<>());
  stay.require(*kth);
}
// A token stays while the larger weights, and those of equal tokens before it, sum to less than the share.
inline void keep_top_p(SampleLimit& stay, std::vector<uint64_t> weights, double share) {
  if (share >= 1) return;
  std::erase_if(weights, [&](uint64_t w) { return w < stay.limit; });
  std::sort(weights.begin(), weights.end(), std::greater<>());
  uint64_t total = 0, above = 0;
  for (const uint64_t w : weights) total += w;
  const uint64_t goal = share_of_weights(share, total);
  for (size_t i = 0; i < weights.size();) {
    size_t end = i;
    while (end < weights.size() && weights[end] == weights[i]) ++end;
    const uint64_t equal = weights[i] * (end - i);
    if (above + equal >= goal) return stay.stop_at(weights[i], above, goal);
    above += equal, i = end;
  }
}
// Token by token in the order of the row: true if it stays.
inline bool keeps(const SampleLimit& stay, uint64_t weight, uint64_t& ties_left) {
  if (weight != stay.limit) return weight > stay.limit;
  return ties_left > 0 && ties_left-- > 0;
}

template <class T>
int64_t sample_row(const T* row, int64_t V, double top, const double* choice) {
  std::vector<uint64_t> weights;
  for (int64_t i = 0; i < V; ++i) {
    const double below = convert<double>(row[i]) - top;
    const double power = below == 0 ? 0 : below / choice[kTemperature];
    weights.push_back(static_cast<uint64_t>(std::rint(std::ldexp(std::exp(power), kSampleWeightBits))));
  }
  SampleLimit stay;
  keep_top_k(stay, weights, choice[kTopK]);
  keep_top_p(stay, weights, choice[kTopP]);
  stay.require(least_weight(choice[kMinP]));
  uint64_t total = 0, ties = stay.ties;
  for (uint64_t& w : weights) total += w = keeps(stay, w, ties) ? w : 0;
  const uint64_t drawn = drawn_weight(choice[kUniform], total);
  uint64_t sum = 0;
  int64_t i = 0;
  while ((sum += weights[static_cast<size_t>(i)]) <= drawn) ++i;
  return i;
}

TT_API void sample_rows(const View& tokens, const View& logits, const View& best, const View& largest,
                        const View& choices) {
  dispatch(logits.dtype, [&]<class T>(T*) {
    if constexpr (is_floating(dtype_of<T>)) {
      parallel_for(logits.shape[0], 1, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const double* const choice = choices.as<const double>() + r * kSampleColumns;
          const auto top = convert<double>(largest.as<const T>()[r * largest.strides[0]]);
          const int64_t first = best.as<const int64_t>()[r * best.strides[0]];
          const bool greedy = choice[kTemperature] == 0 || !std::isfinite(top);
          tokens.as<int64_t>()[r * tokens.strides[0]] =
              greedy ? first
                     : sample_row(logits.as<const T>() + r * logits.strides[0], logits.shape[1], top, choice);
        }
      });
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
