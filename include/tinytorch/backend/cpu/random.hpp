// Random tensors on the CPU: each element a pure function of (seed, first block, position).
//
// f32 and bernoulli use one 32-bit word an element, f64 and integers two. Normals come in pairs from
// Box-Muller: r = sqrt(-2 log u), r cos(2 pi v), r sin(2 pi v).
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend {

enum class Distribution : uint8_t { uniform, normal, integer, bernoulli };

namespace cpu {

// out: contiguous. uniform on [a, b); normal with mean a and deviation b; integer in [a, b) (i64);
// bernoulli: 1 with probability a. dtype f32 or f64 (integer: i64).
TT_API void random(Distribution kind, const View& out, uint64_t seed, uint64_t first_block, double a,
                   double b);

}  // namespace cpu
}  // namespace tinytorch::inline TT_BUILD::backend

#if TT_BACKEND_BODIES
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/core/scalar_math.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr double kTwoPi = 6.28318530717958647692;

// values[0..4) of block `counter` as f32, before scaling.
inline void normal_block(uint64_t seed, uint64_t counter, float* values) {
  const PhiloxBlock block = philox(seed, counter);
  for (int pair = 0; pair < 2; ++pair) {
    const float u = 1.0f - uniform_from_bits(block.v[2 * pair]);  // (0, 1]: its logarithm is finite
    const float angle = static_cast<float>(kTwoPi) * uniform_from_bits(block.v[2 * pair + 1]);
    const float r = std::sqrt(-2.0f * math::log(u));
    values[2 * pair] = r * math::cos(angle);
    values[2 * pair + 1] = r * math::sin(angle);
  }
}
inline void normal_block(uint64_t seed, uint64_t counter, double* values) {
  const PhiloxBlock block = philox(seed, counter);
  const double u = 1.0 - uniform_from_bits(block.v[0], block.v[1]);
  const double angle = kTwoPi * uniform_from_bits(block.v[2], block.v[3]);
  const double r = std::sqrt(-2.0 * std::log(u));
  values[0] = r * std::cos(angle);
  values[1] = r * std::sin(angle);
}
inline void uniform_block(uint64_t seed, uint64_t counter, float* values) {
  const PhiloxBlock block = philox(seed, counter);
  for (int k = 0; k < 4; ++k) values[k] = uniform_from_bits(block.v[k]);
}
inline void uniform_block(uint64_t seed, uint64_t counter, double* values) {
  const PhiloxBlock block = philox(seed, counter);
  for (int k = 0; k < 2; ++k) values[k] = uniform_from_bits(block.v[2 * k], block.v[2 * k + 1]);
}

// Calls make_block(counter, values) for each block, and writes finish(value) for each element.
template <class T, class MakeBlock, class Finish>
void fill_blocks(T* out, int64_t n, int64_t per_block, MakeBlock&& make_block, Finish&& finish) {
  const int64_t blocks = (n + per_block - 1) / per_block;
  parallel_for(blocks, 2048, [&](int64_t begin, int64_t end) {
    T values[4] = {};
    for (int64_t k = begin; k < end; ++k) {
      make_block(static_cast<uint64_t>(k), values);
      const int64_t count = n - k * per_block < per_block ? n - k * per_block : per_block;
      for (int64_t i = 0; i < count; ++i) out[k * per_block + i] = finish(values[i]);
    }
  });
}

template <class T>
void random_real(Distribution kind, T* out, int64_t n, uint64_t seed, uint64_t first, double a, double b) {
  constexpr int64_t kPerBlock = sizeof(T) == 4 ? 4 : 2;
  const T low = static_cast<T>(a), scale = static_cast<T>(kind == Distribution::uniform ? b - a : b);
  const auto uniform = [&](uint64_t k, T* v) { uniform_block(seed, first + k, v); };
  switch (kind) {
    case Distribution::uniform:
      return fill_blocks(out, n, kPerBlock, uniform, [&](T u) { return low + scale * u; });
    case Distribution::bernoulli:
      return fill_blocks(out, n, kPerBlock, uniform, [&](T u) { return u < low ? T(1) : T(0); });
    default:
      return fill_blocks(
          out, n, kPerBlock, [&](uint64_t k, T* v) { normal_block(seed, first + k, v); },
          [&](T z) { return low + scale * z; });
  }
}

TT_API void random(Distribution kind, const View& out, uint64_t seed, uint64_t first_block, double a,
                   double b) {
  const int64_t n = out.numel();
  if (kind == Distribution::integer) {
    const auto low = static_cast<int64_t>(a);
    const auto span = static_cast<uint64_t>(static_cast<int64_t>(b) - low);
    return fill_blocks(
        out.as<int64_t>(), n, 2,
        [&](uint64_t k, int64_t* v) {
          const PhiloxBlock block = philox(seed, first_block + k);
          for (int i = 0; i < 2; ++i) {
            v[i] = static_cast<int64_t>(below_from_bits(block.v[2 * i], block.v[2 * i + 1], span));
          }
        },
        [&](int64_t v) { return low + v; });
  }
  if (out.dtype == DType::f64) return random_real(kind, out.as<double>(), n, seed, first_block, a, b);
  random_real(kind, out.as<float>(), n, seed, first_block, a, b);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
