// Loops of arg_extreme (reduce.hpp): positions of maxima and minima. The first of equal values is taken, and
// the first NaN, if there is one, is taken before all numbers.
#pragma once

#include <cstdint>
#include <tinytorch/core/simd.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Position of the first of n elements, `step` apart, that equals `value`, or of the first NaN if value is
// NaN. 0 if there is none.
template <class T>
int64_t find_first(const T* x, int64_t step, int64_t n, T value) {
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i * step];
    if (v == value || (value != value && v != v)) return i;
  }
  return 0;
}

// Position of the extreme of a short row in one pass: a value that is better than the best so far, or the
// first NaN, replaces it.
template <bool kLargest, class T>
int64_t arg_extreme_of_short_row(const T* x, int64_t n) {
  T best = x[0];
  int64_t position = 0;
  for (int64_t i = 1; i < n; ++i) {
    const bool wins = (kLargest ? x[i] > best : x[i] < best) | ((x[i] != x[i]) & (best == best));
    best = wins ? x[i] : best;
    position = wins ? i : position;
  }
  return position;
}

// Updates the extremes of n columns with row i: a value that is larger (smaller) than the best so far, or the
// first NaN, replaces it.
template <bool kLargest, class T, class Position>
void update_extremes(T* best, Position* position, const T* x, Position i, int64_t n) {
  TT_SIMD
  for (int64_t j = 0; j < n; ++j) {
    const bool beats = kLargest ? x[j] > best[j] : x[j] < best[j];
    const bool first_nan = (x[j] != x[j]) & (best[j] == best[j]);
    const bool wins = beats | first_nan;  // | and & instead of || and &&: g++ does not vectorize branches
    best[j] = wins ? x[j] : best[j];
    position[j] = wins ? i : position[j];
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
