// Where extremes stand: loops of arg_extreme (reduce.hpp). The first of equals wins, and the first NaN over
// all.
#pragma once

#include <cstdint>
#include <tinytorch/core/simd.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Position of the first element equal to `value`, or the first NaN when value is NaN.
template <class T>
int64_t find_first(const T* x, int64_t step, int64_t n, T value) {
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i * step];
    if (v == value || (value != value && v != v)) return i;
  }
  return 0;
}

// The position of the extreme of a short row, found in one visit: a value that beats the best so far, or the
// first NaN, replaces it.
template <bool kLargest, class T>
int64_t position_in_short(const T* x, int64_t n) {
  T best = x[0];
  int64_t position = 0;
  for (int64_t i = 1; i < n; ++i) {
    const bool wins = (kLargest ? x[i] > best : x[i] < best) | ((x[i] != x[i]) & (best == best));
    best = wins ? x[i] : best;
    position = wins ? i : position;
  }
  return position;
}

// Row i of a strip: what is larger (smaller) than the best so far, or the first NaN, replaces it.
template <bool kLargest, class T, class Position>
void keep_extremes(T* best, Position* position, const T* x, Position i, int64_t n) {
  TT_SIMD
  for (int64_t j = 0; j < n; ++j) {
    const bool beats = kLargest ? x[j] > best[j] : x[j] < best[j];
    const bool first_nan = (x[j] != x[j]) & (best[j] == best[j]);
    const bool wins = beats | first_nan;  // | and &: where || and && branch, g++ leaves the loop as it is
    best[j] = wins ? x[j] : best[j];
    position[j] = wins ? i : position[j];
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
