// Rotation of pairs on the CPU, in one pass over the vectors of all heads and tokens.
#pragma once

#include <tinytorch/backend/pair_rotation.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out, x [B, H, T, D] of one floating dtype; D >= R. In each vector the pair (x_i, x_{i + R/2}) becomes
// (x_i cos - x_{i + R/2} sin, x_{i + R/2} cos + x_i sin) for i < R / 2, and elements from R on are copied.
// 16-bit values are computed in f32. Positions must be in [0, P): check with first_outside.
TT_API void rotate_pairs(const View& out, const View& x, const PairRotation& rotation);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kRotateGrain = 16384;  // elements that make another thread worthwhile

// A vector of D elements. `sign`: -1 for the inverse rotation.
template <class T>
void rotate_vector(T* out, const T* x, const float* cos, const float* sin, T sign, int64_t half, int64_t D) {
  TT_SIMD
  for (int64_t i = 0; i < half; ++i) {
    const T c = static_cast<T>(cos[i]), s = sign * static_cast<T>(sin[i]), a = x[i], b = x[half + i];
    out[i] = a * c - b * s;
    out[half + i] = b * c + a * s;
  }
  std::copy(x + 2 * half, x + D, out + 2 * half);
}

TT_API void rotate_pairs(const View& out, const View& x, const PairRotation& rotation) {
  if (out.numel() == 0) return;
  const int64_t H = x.shape[1], tokens = x.shape[2], D = x.shape[3], half = rotation.half();
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    // The heads of packed projections have strides, and need no copy.
    const bool in_place = x.dtype == dtype_of<T> && x.strides[3] == 1;
    const ContiguousInput<T> copied(in_place ? View{} : x);
    const T* const from = in_place ? x.as<const T>() : copied.data();
    const Strides strides = in_place ? x.strides : Strides{H * tokens * D, tokens * D, D, 1};
    ContiguousOutput<T> to(out);
    const float *const cos = rotation.cos.as<const float>(), *const sin = rotation.sin.as<const float>();
    const int64_t* const positions = rotation.positions.as<const int64_t>();
    parallel_for(out.numel() / D, std::max<int64_t>(1, kRotateGrain / D), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t t = row % tokens, h = row / tokens % H, b = row / tokens / H;
        const int64_t angle = (positions ? positions[t] : rotation.first + t) * half;
        rotate_vector<T>(to.data() + row * D, from + b * strides[0] + h * strides[1] + t * strides[2],
                         cos + angle, sin + angle, rotation.inverse ? T(-1) : T(1), half, D);
      }
    });
    to.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
