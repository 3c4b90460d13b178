// In-register transpose of an n x n block, where n is the number of lanes of a vector.
//
// One round interleaves vector i with vector i + n/2: result 2i gets the first half of their alternating
// lanes, and result 2i + 1 the second half. This rotates the bits of every element's position (row, lane) by
// one, so log2 n rounds exchange row and lane.
#pragma once

#include <tinytorch/core/simd.hpp>

namespace tinytorch::inline TT_BUILD {

// Exchanges v[i][k] and v[k][i].
template <class T>
inline void simd_transpose(Simd<T> (&v)[kLanes<T>]) {
  constexpr int64_t kN = kLanes<T>;
  const auto zip_first = [](int64_t i) { return i / 2 + i % 2 * kN; };
  const auto zip_last = [](int64_t i) { return kN / 2 + i / 2 + i % 2 * kN; };
  for (int64_t round = 1; round < kN; round *= 2) {
    Simd<T> zipped[kN];
    for (int64_t i = 0; i < kN / 2; ++i) {
      zipped[2 * i] = simd_shuffle<T>(v[i], v[i + kN / 2], zip_first);
      zipped[2 * i + 1] = simd_shuffle<T>(v[i], v[i + kN / 2], zip_last);
    }
    for (int64_t i = 0; i < kN; ++i) v[i] = zipped[i];
  }
}

}  // namespace tinytorch::inline TT_BUILD
