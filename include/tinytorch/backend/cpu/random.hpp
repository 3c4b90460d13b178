// Random tensors on the CPU: each element is a pure function of (seed, first block, position).
//
// f32 uses one 32-bit word per element, f64 and integers two. Normal numbers come in pairs from
// Box-Muller: r = sqrt(-2 log u), r cos(2 pi v), r sin(2 pi v).
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out: contiguous, f32 or f64. uniform: on [a, b), but a + (b - a) u may round to b. normal: mean a, standard
// deviation b. bernoulli: 1 with probability a, else 0.
TT_API void random(Distribution kind, const View& out, uint64_t seed, uint64_t first_block, double a,
                   double b);
// out: contiguous, i64. Uniform integers in [low, low + span).
TT_API void random_integers(const View& out, uint64_t seed, uint64_t first_block, int64_t low, uint64_t span);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <cstring>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/core/scalar_math.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr double kTwoPi = 6.28318530717958647692;

// Philox blocks are computed kBatch at a time, word by word, because a loop over the blocks of a batch
// vectorizes and one block does not. kBatch is the number of words in the widest vector; a single number
// costs a whole batch.
inline constexpr int64_t kBatch = 16;
template <class T>
inline constexpr int kPerBlock = sizeof(T) == 4 ? 4 : 2;  // elements from one block
template <class T>
using Batch = T[kPerBlock<T>][kBatch];  // element e of the batch's block k at [e][k]
using WordBatch = uint32_t[4][kBatch];

inline void philox_batch(uint64_t seed, uint64_t first, WordBatch& words) {
  TT_SIMD
  for (int64_t k = 0; k < kBatch; ++k) {
    const PhiloxBlock block = philox(seed, first + static_cast<uint64_t>(k));
    words[0][k] = block.v[0];
    words[1][k] = block.v[1];
    words[2][k] = block.v[2];
    words[3][k] = block.v[3];
  }
}

inline void uniform_batch(const WordBatch& words, Batch<float>& values) {
  for (int e = 0; e < 4; ++e) {
    for (int64_t k = 0; k < kBatch; ++k) values[e][k] = uniform_from_bits(words[e][k]);
  }
}
inline void uniform_batch(const WordBatch& words, Batch<double>& values) {
  for (int e = 0; e < 2; ++e) {
    for (int64_t k = 0; k < kBatch; ++k)
      values[e][k] = uniform_from_bits(words[2 * e][k], words[2 * e + 1][k]);
  }
}

inline void normal_batch(const WordBatch& words, Batch<float>& values) {
  for (int pair = 0; pair < 4; pair += 2) {
    for (int64_t k = 0; k < kBatch; ++k) {
      const float u = 1.0f - uniform_from_bits(words[pair][k]);  // (0, 1]: its logarithm is finite
      const float angle = static_cast<float>(kTwoPi) * uniform_from_bits(words[pair + 1][k]);
      const float r = std::sqrt(-2.0f * math::log(u));
      values[pair][k] = r * math::cos(angle);
      values[pair + 1][k] = r * math::sin(angle);
    }
  }
}
inline void normal_batch(const WordBatch& words, Batch<double>& values) {
  for (int64_t k = 0; k < kBatch; ++k) {
    const double u = 1.0 - uniform_from_bits(words[0][k], words[1][k]);
    const double angle = kTwoPi * uniform_from_bits(words[2][k], words[3][k]);
    const double r = std::sqrt(-2.0 * std::log(u));
    values[0][k] = r * std::cos(angle);
    values[1][k] = r * std::sin(angle);
  }
}

// Calls make(words, values) for each batch of blocks, and stores transform(value) for each element, block by
// block.
template <class T, class Make, class Transform>
void fill_batches(T* out, int64_t n, uint64_t seed, uint64_t first, Make&& make, Transform&& transform) {
  constexpr int64_t kElements = kBatch * kPerBlock<T>;
  parallel_for(ceil_div(n, kElements), 128, [&](int64_t begin, int64_t end) {
    WordBatch words;
    Batch<T> values;
    T ordered[kElements];
    for (int64_t batch = begin; batch < end; ++batch) {
      philox_batch(seed, first + static_cast<uint64_t>(batch * kBatch), words);
      make(words, values);
      for (int64_t k = 0; k < kBatch; ++k) {
        for (int e = 0; e < kPerBlock<T>; ++e) ordered[k * kPerBlock<T> + e] = transform(values[e][k]);
      }
      const int64_t count = std::min(kElements, n - batch * kElements);
      std::memcpy(out + batch * kElements, ordered, static_cast<size_t>(count) * sizeof(T));
    }
  });
}

template <class T>
void random_real(Distribution kind, T* out, int64_t n, uint64_t seed, uint64_t first, double a, double b) {
  const T low = static_cast<T>(a), scale = static_cast<T>(kind == Distribution::uniform ? b - a : b);
  const auto uniform = [](const WordBatch& words, Batch<T>& values) { uniform_batch(words, values); };
  const auto normal = [](const WordBatch& words, Batch<T>& values) { normal_batch(words, values); };
  switch (kind) {
    case Distribution::uniform:
      return fill_batches(out, n, seed, first, uniform, [&](T u) { return low + scale * u; });
    case Distribution::bernoulli:
      return fill_batches(out, n, seed, first, uniform, [&](T u) { return u < low ? T(1) : T(0); });
    default:
      return fill_batches(out, n, seed, first, normal, [&](T z) { return low + scale * z; });
  }
}

TT_API void random(Distribution kind, const View& out, uint64_t seed, uint64_t first_block, double a,
                   double b) {
  const int64_t n = out.numel();
  if (out.dtype == DType::f64) return random_real(kind, out.as<double>(), n, seed, first_block, a, b);
  random_real(kind, out.as<float>(), n, seed, first_block, a, b);
}

TT_API void random_integers(const View& out, uint64_t seed, uint64_t first_block, int64_t low,
                            uint64_t span) {
  const auto make_integers = [&](const WordBatch& words, Batch<int64_t>& values) {
    for (int e = 0; e < 2; ++e) {
      for (int64_t k = 0; k < kBatch; ++k)
        values[e][k] = static_cast<int64_t>(below_from_bits(words[2 * e][k], words[2 * e + 1][k], span));
    }
  };
  fill_batches(out.as<int64_t>(), out.numel(), seed, first_block, make_integers, [&](int64_t v) {
    return static_cast<int64_t>(static_cast<uint64_t>(low) +
                                static_cast<uint64_t>(v));  // unsigned: no overflow
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
