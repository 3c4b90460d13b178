// Dropout on the CPU: out = x / (1 - p) where a random word says keep, else 0.
//
// The mask is never stored. Random words are functions of a counter (core/random.hpp), so the derivative
// calls the same function on dy and finds the same words. Source: Srivastava et al., "Dropout: a simple way
// to prevent neural networks from overfitting", 2014.
//
// Task 3.11: dropout_keeps, dropout_values. The given parts of this header are in
// modules/03_layers/frame/tinytorch/backend/cpu/dropout.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Returns true if element i (in row-major order) is kept: word i % 4 of philox(seed, first_block + i / 4)
// must be at least p 2^32. p = 0 keeps all and p = 1, whose bound no 32-bit word reaches, nothing: compare as
// double.
inline bool dropout_keeps(int64_t i, double p, uint64_t seed, uint64_t first_block) {
  const uint64_t element = static_cast<uint64_t>(i);
  const PhiloxBlock block = philox(seed, first_block + element / 4);
  return static_cast<double>(block.v[element % 4]) >= p * 0x1p32;
}

// out_i = x_i / (1 - p) where kept, so that the expected value stays x_i; else exactly 0, also where x_i is
// infinite or no number: choose, do not multiply by 0. out may be x.
template <class T>
void dropout_values(T* out, const T* x, int64_t n, double p, uint64_t seed, uint64_t first_block) {
  const T scale = p < 1 ? static_cast<T>(1 / (1 - p)) : T(0);
  for (int64_t i = 0; i < n; ++i) out[i] = dropout_keeps(i, p, seed, first_block) ? x[i] * scale : T(0);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
