// Counter-based random numbers: Philox4x32-10.
//
// Block number c of a stream is a pure function of (seed, stream, c), so any thread on any device can compute
// any element in any order, with the same result. A Generator stores only (seed, next unused block).
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD {

struct PhiloxBlock {
  uint32_t v[4];
};

// The four random 32-bit words of block `counter`; `stream` separates independent uses of one seed.
TT_HOST_DEVICE constexpr PhiloxBlock philox(uint64_t seed, uint64_t counter, uint64_t stream = 0) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Uniform in [0, 1) from 24 random bits; every value is exact in float.
TT_HOST_DEVICE constexpr float uniform_from_bits(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}
// Uniform in [0, 1) from 53 random bits.
TT_HOST_DEVICE constexpr double uniform_from_bits(uint32_t high, uint32_t low) {
  return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}
// Maps 64 random bits to an integer in [0, n) by multiply-shift. The bias of each probability is below
// 2^-64, which is small enough for shuffling.
TT_HOST_DEVICE constexpr uint64_t below_from_bits(uint32_t high, uint32_t low, uint64_t n) {
  const uint64_t x = (uint64_t{high} << 32) | low;
  const uint64_t x_hi = x >> 32, x_lo = x & 0xffffffffu, n_hi = n >> 32, n_lo = n & 0xffffffffu;
  const uint64_t middle = x_hi * n_lo + ((x_lo * n_lo) >> 32);
  const uint64_t carry = (middle & 0xffffffffu) + x_lo * n_hi;
  return x_hi * n_hi + (middle >> 32) + (carry >> 32);
}

struct GeneratorState {
  uint64_t seed = 0;
  uint64_t next_block = 0;
  friend constexpr bool operator==(const GeneratorState&, const GeneratorState&) = default;
};

// A position in one stream. A copy has the same position, so it yields the same numbers.
class Generator {
 public:
  constexpr explicit Generator(uint64_t seed = 0) : state_{seed, 0} {}
  constexpr GeneratorState state() const { return state_; }
  constexpr void set_state(GeneratorState s) { state_ = s; }

  // Reserves n blocks and returns the number of the first. A tensor operation reserves all it needs, and then
  // computes in parallel.
  constexpr uint64_t reserve(uint64_t n) {
    const uint64_t first = state_.next_block;
    state_.next_block += n;
    return first;
  }
  // Uniform in [0, 1), one number at a time, for sequential code; each call uses one block.
  constexpr double uniform() {
    const PhiloxBlock b = philox(state_.seed, reserve(1));
    return uniform_from_bits(b.v[0], b.v[1]);
  }
  constexpr double uniform(double low, double high) { return low + (high - low) * uniform(); }
  // Integer in [0, n).
  constexpr uint64_t below(uint64_t n) {
    const PhiloxBlock b = philox(state_.seed, reserve(1));
    return below_from_bits(b.v[0], b.v[1], n);
  }

 private:
  GeneratorState state_;
};

// The generator that functions use if none is given. It starts at seed 0, so that runs are repeatable.
inline Generator& default_generator() {
  static Generator generator{0};
  return generator;
}
inline void manual_seed(uint64_t seed) { default_generator() = Generator(seed); }

}  // namespace tinytorch::inline TT_BUILD
