// 2:4 sparsity on the device: a dense matrix is compressed to two of each four numbers and their places, and
// these are put in the order of tensor cores (backend/strips24.hpp).
//
// Both run once per weight. A thread of compress24 takes a group; one of strips24 gathers the operands of a
// lane. Limit: the bytes of all operands over copy bandwidth.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/strips24.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The order of magnitudes as integers; NaN is above all.
template <class T>
__device__ __forceinline__ unsigned magnitude_key(T x) {
  const float wide = to<float>(x);
  unsigned bits;
  memcpy(&bits, &wide, sizeof(bits));
  return bits & 0x7fffffffu;
}
// The places of the two largest magnitudes of a group, the lower one first; of equal ones the first is kept.
template <class T>
__device__ __forceinline__ unsigned largest_two(const T (&group)[4], T (&kept)[2]) {
  unsigned key[4], places = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) key[i] = magnitude_key(group[i]);
  int count = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int before = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) before += key[j] > key[i] || (key[j] == key[i] && j < i) ? 1 : 0;
    if (before >= 2) continue;
    if (count == 0) {
      kept[0] = group[i], places = static_cast<unsigned>(i);
    } else {
      kept[1] = group[i], places |= static_cast<unsigned>(i) << 2;
    }
    ++count;
  }
  return places;
}

// A thread compresses the four groups of a word of places. words = ceil(K / 16).
template <class T>
static __global__ void __launch_bounds__(128)
    compress24_kernel(T* values, uint16_t* places, const T* dense, int64_t rows, int64_t K, int64_t words) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (i >= rows * words) return;
  const int64_t n = i / words, k0 = i % words * 16;
  unsigned word = 0;
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    const int64_t k = k0 + g * 4;
    unsigned two = 4;
    if (k < K) {
      T group[4], kept[2];
#pragma unroll
      for (int j = 0; j < 4; ++j) group[j] = dense[n * K + k + j];
      two = largest_two(group, kept);
#pragma unroll
      for (int j = 0; j < 2; ++j) values[n * (K / 2) + k / 2 + j] = kept[j];
    }
    word |= two << (4 * g);
  }
  places[i] = static_cast<uint16_t>(word);
}

// A thread writes what one lane reads of one part.
static __global__ void __launch_bounds__(128)
    strips24_kernel(uint8_t* strips, const unsigned* values, const uint16_t* places, int64_t N, int64_t K,
                    int64_t parts, int64_t threads) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (i >= threads) return;
  const int lane = static_cast<int>(i % kWarp), g = lane / 4, t = lane % 4;
  const int64_t part = i / kWarp % parts, row = i / kWarp / parts * Strips24::kRows + g;
  const int64_t first = part * 16, groups = K / 4, words = ceil_div(K, 16);  // groups of four columns
  unsigned kept[2][4], word = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t n = row + half * 8;
#pragma unroll
    for (int j = 0; j < 4; ++j) {  // groups t, t + 4, t + 8 and t + 12 of the part
      const int64_t group = first + t + 4 * j;
      kept[j / 2][j % 2 * 2 + half] = n < N && group < groups ? values[n * groups + group] : 0u;
    }
    const int64_t at = part * 4 + t;
    word |= (n < N && at < words ? places[n * words + at] : Strips24::kFirstTwo) << (16 * half);
  }
  uint8_t* const to_ = strips + i / kWarp * Strips24::kPartBytes;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    *reinterpret_cast<uint4*>(to_ + j * 512 + lane * 16) =
        make_uint4(kept[j][0], kept[j][1], kept[j][2], kept[j][3]);
  }
  *reinterpret_cast<unsigned*>(to_ + Strips24::kPlacesAt + lane * 4) = word;
}

// --- launchers ---

void compress24(const View& values, const View& places, const View& dense) {
  const int64_t N = dense.shape[0], K = dense.shape[1], words = ceil_div(K, 16);
  if (N * K == 0) return;
  const Contiguous from(dense);
  dispatch_stored(dense.dtype, [&]<class T>(T*) {
    if constexpr (std::is_same_v<Compute<T>, float>) {
      launch(compress24_kernel<T>, over(N * words, 128), values.as<T>(), places.as<uint16_t>(),
             from.as<const T>(), N, K, words);
    }
  });
}

void strips24(const View& strips, const View& values, const View& places) {
  const int64_t N = values.shape[0], K = values.shape[1] * 2, parts = Strips24::parts(K);
  const int64_t threads = Strips24::count(N) * parts * kWarp;
  if (threads == 0) return;
  launch(strips24_kernel, over(threads, 128), strips.as<uint8_t>(), values.as<const unsigned>(),
         places.as<const uint16_t>(), N, K, parts, threads);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
