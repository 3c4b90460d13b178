// Options of attention: which keys a query sees, and what is done to its probabilities.
#pragma once

#include <cstdint>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD {

struct AttentionOptions {
  bool causal = false;  // query t sees keys up to t + (S - T)
  int64_t window = 0;   // > 0: at most this many keys, the query's own included (sliding window)
  double scale = 0;     // 0: 1 / sqrt(D)
  double dropout = 0;   // of the probabilities, in training
};

}  // namespace tinytorch::inline TT_BUILD
