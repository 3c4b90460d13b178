// Random tensors: each element is a pure function of (seed, first block, position), with the same numbers as
// on the CPU.
//
// A thread computes one Philox block and its elements: four of f32, two of f64 or i64. Normals are pairs by
// Box-Muller (backend/cpu/random.hpp) and differ from the CPU's only by rounding. Limit: memory bandwidth,
// each element written once.
#pragma once

#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/core/scalar_math.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kRandomThreads = 256;

struct PhiloxSequence {
  uint64_t seed, first_block;
  const uint64_t* offset;  // in a replayed graph: number of blocks used since its capture
  __device__ __forceinline__ PhiloxBlock block(int64_t index) const {
    return philox(seed, first_block + (offset ? *offset : 0) + static_cast<uint64_t>(index));
  }
};

// The elements of a Philox block before scaling: uniform on [0, 1), or standard normal.
__device__ __forceinline__ void draw(const PhiloxBlock& b, bool normal, float (&v)[4]) {
  constexpr float kTwoPi = 6.28318530717958647692f;
#pragma unroll
  for (int e = 0; e < 4; e += 2) {
    if (normal) {
      const float u = 1.0f - uniform_from_bits(b.v[e]);  // in (0, 1], so its logarithm is finite
      const float angle = kTwoPi * uniform_from_bits(b.v[e + 1]), r = sqrtf(-2.0f * math::log(u));
      v[e] = r * math::cos(angle);
      v[e + 1] = r * math::sin(angle);
    } else {
      v[e] = uniform_from_bits(b.v[e]);
      v[e + 1] = uniform_from_bits(b.v[e + 1]);
    }
  }
}
__device__ __forceinline__ void draw(const PhiloxBlock& b, bool normal, double (&v)[2]) {
  constexpr double kTwoPi = 6.28318530717958647692;
  const double first = uniform_from_bits(b.v[0], b.v[1]), second = uniform_from_bits(b.v[2], b.v[3]);
  const double r = normal ? std::sqrt(-2.0 * std::log(1.0 - first)) : 0.0;
  v[0] = normal ? r * std::cos(kTwoPi * second) : first;
  v[1] = normal ? r * std::sin(kTwoPi * second) : second;
}

template <class T>
static __global__ void __launch_bounds__(kRandomThreads)
    random_kernel(Distribution kind, T* out, int64_t n, PhiloxSequence sequence, T low, T scale) {
  constexpr int kEach = sizeof(T) == 4 ? 4 : 2;
  const int64_t block = static_cast<int64_t>(blockIdx.x) * kRandomThreads + threadIdx.x;
  if (block * kEach >= n) return;
  T v[kEach];
  draw(sequence.block(block), kind == Distribution::normal, v);
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int64_t i = block * kEach + e;
    const T value = kind == Distribution::bernoulli ? (v[e] < low ? T(1) : T(0)) : low + scale * v[e];
    if (i < n) out[i] = value;
  }
}

static __global__ void __launch_bounds__(kRandomThreads)
    random_integer_kernel(int64_t* out, int64_t n, PhiloxSequence sequence, int64_t low, uint64_t span) {
  const int64_t block = static_cast<int64_t>(blockIdx.x) * kRandomThreads + threadIdx.x;
  if (block * 2 >= n) return;
  const PhiloxBlock b = sequence.block(block);
  const auto value = [&](uint32_t high, uint32_t rest) {  // unsigned arithmetic, which cannot overflow
    return static_cast<int64_t>(static_cast<uint64_t>(low) + below_from_bits(high, rest, span));
  };
  out[block * 2] = value(b.v[0], b.v[1]);
  if (block * 2 + 1 < n) out[block * 2 + 1] = value(b.v[2], b.v[3]);
}

template <class T>
void random_real(Distribution kind, const View& out, const PhiloxSequence& sequence, double a, double b) {
  constexpr int64_t kEach = sizeof(T) == 4 ? 4 : 2;
  launch(random_kernel<T>, over(ceil_div(out.numel(), kEach), kRandomThreads), kind, out.as<T>(), out.numel(),
         sequence, static_cast<T>(a), static_cast<T>(kind == Distribution::uniform ? b - a : b));
}

void random(Distribution kind, const View& out, uint64_t seed, uint64_t first_block, double a, double b) {
  const PhiloxSequence sequence{seed, first_block, random_offset(seed)};
  if (out.dtype == DType::f64) {
    random_real<double>(kind, out, sequence, a, b);
  } else {
    random_real<float>(kind, out, sequence, a, b);
  }
}

void random_integers(const View& out, uint64_t seed, uint64_t first_block, int64_t low, uint64_t span) {
  const PhiloxSequence sequence{seed, first_block, random_offset(seed)};
  launch(random_integer_kernel, over(ceil_div(out.numel(), 2), kRandomThreads), out.as<int64_t>(),
         out.numel(), sequence, low, span);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
