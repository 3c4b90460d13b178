// 2:4 sparse weights (sparse_view.hpp) on the CPU: compression by magnitude, the order of tensor cores
// (strips24.hpp), and products with weights in that order. The order is made for CUDA; here it is decoded
// into a dense weight, so that a program gives the same results on both devices.
#pragma once

#include <tinytorch/backend/strips24.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// dense [N, K] of f32, bf16 or f16, K a multiple of 4 -> values [N, K / 2] of its dtype and places u8 [N, 2
// ceil(K / 16)], both contiguous, as TwoFourView describes them: of each four neighbours the two of the
// largest magnitude, the first of equal ones; NaN counts as the largest.
TT_API void compress24(const View& values, const View& places, const View& dense);
// values (bf16 or f16) and places, both contiguous -> strips, u8 of the shape Strips24::shape(N, K).
TT_API void strips24(const View& strips, const View& values, const View& places);
// out [M, N] = x [M, K] W^T + bias [N], for W in strips, whose values have the dtype of x: bf16 or f16. Sums
// are in f32. The bias is f32, bf16 or f16, or without data.
TT_API void linear_sparse24(const View& out, const View& x, const View& strips, const View& bias);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <algorithm>
#include <cmath>
#include <cstring>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/matmul.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Whether x is kept before y, which comes after it.
inline bool is_kept_before(float x, float y) {
  if (std::isnan(x)) return true;
  return !std::isnan(y) && std::abs(x) >= std::abs(y);
}
// The places of the two numbers that are kept of four, in four bits.
inline unsigned largest_two(const float* group) {
  unsigned kept[4], count = 0;
  for (unsigned i = 0; i < 4; ++i) {
    int before = 0;
    for (unsigned j = 0; j < 4; ++j)
      before += j < i ? is_kept_before(group[j], group[i]) : j > i && !is_kept_before(group[i], group[j]);
    if (before < 2) kept[count++] = i;
  }
  return kept[0] | kept[1] << 2;
}

TT_API void compress24(const View& values, const View& places, const View& dense) {
  const int64_t N = dense.shape[0], K = dense.shape[1], words = ceil_div(K, 16);
  dispatch(dense.dtype, [&]<class T>(T*) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>) {
      parallel_for(N, 16, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          uint16_t* const word = places.as<uint16_t>() + n * words;
          std::fill_n(word, words, static_cast<uint16_t>(Strips24::kFirstTwo));
          for (int64_t g = 0; g < K / 4; ++g) {
            const T* const from = dense.as<const T>() + n * dense.strides[0] + 4 * g * dense.strides[1];
            T number[4];
            float group[4];
            for (int i = 0; i < 4; ++i)
              number[i] = from[i * dense.strides[1]], group[i] = static_cast<float>(number[i]);
            const unsigned two = largest_two(group), shift = static_cast<unsigned>(g % 4 * 4);
            word[g / 4] = static_cast<uint16_t>((word[g / 4] & ~(15u << shift)) | two << shift);
            T* const to = values.as<T>() + n * (K / 2) + 2 * g;
            to[0] = number[two & 3], to[1] = number[two >> 2];
          }
        }
      });
    }
  });
}

// Calls f(row, group of four, bytes from the start of the strips to its pair, and to the half word of its
// places) for each pair of the strips of a matrix with `groups` groups in a row.
template <class F>
void each_pair_of_strips(int64_t N, int64_t groups, F&& f) {
  const int64_t parts = Strips24::parts(groups * 4);
  parallel_for(N, 16, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t g = n % 8, half = n % 16 / 8;
      for (int64_t group = 0; group < parts * 16; ++group) {
        const int64_t part = (n / 16 * parts + group / 16) * Strips24::kPartBytes, in_part = group % 16;
        const int64_t lane = g * 4 + in_part % 4, reg = in_part / 4 % 2 * 2 + half;
        f(n, group, part + in_part / 8 * 512 + lane * 16 + reg * 4,
          part + Strips24::kPlacesAt + (g * 4 + in_part / 4) * 4 + half * 2);
      }
    }
  });
}

TT_API void strips24(const View& strips, const View& values, const View& places) {
  const int64_t N = values.shape[0], groups = values.shape[1] / 2, words = ceil_div(groups, 4);
  auto* const to = strips.as<uint8_t>();
  const auto* const word = places.as<const uint16_t>();
  std::memset(to, 0, static_cast<size_t>(strips.numel()));
  // Rows and columns that do not exist have places, too.
  each_pair_of_strips(ceil_div(N, 16) * 16, groups, [&](int64_t n, int64_t group, int64_t pair, int64_t at) {
    const bool inside = n < N && group < groups;
    if (inside) std::memcpy(to + pair, values.as<const uint8_t>() + (n * groups + group) * 4, 4);
    if (group % 4 != 0) return;
    const uint16_t four =
        n < N && group / 4 < words ? word[n * words + group / 4] : static_cast<uint16_t>(Strips24::kFirstTwo);
    std::memcpy(to + at, &four, sizeof(four));
  });
}

TT_API void linear_sparse24(const View& out, const View& x, const View& strips, const View& bias) {
  if (out.numel() == 0) return;
  const int64_t N = out.shape[1], K = x.shape[1];
  std::vector<uint16_t> dense(static_cast<size_t>(N * K));
  const auto* const from = strips.as<const uint8_t>();
  each_pair_of_strips(N, K / 4, [&](int64_t n, int64_t group, int64_t pair, int64_t at) {
    if (group * 4 >= K) return;
    uint16_t four, two[2];
    std::memcpy(&four, from + at, sizeof(four));
    std::memcpy(two, from + pair, sizeof(two));
    const int places = four >> (group % 4 * 4) & 15;
    uint16_t* const to = &dense[static_cast<size_t>(n * K + group * 4)];
    to[places & 3] = two[0], to[places >> 2] = two[1];
  });
  const View weight{dense.data(), x.dtype, {N, K}, {K, 1}};
  std::vector<float> own(bias.data && bias.dtype != x.dtype ? static_cast<size_t>(N) : 0);
  const View converted{own.data(), DType::f32, {N}, {1}};
  if (own.empty()) return linear(out, x, weight, bias);
  // A bias of another dtype is added to the sums before they are rounded.
  std::vector<float> sums(static_cast<size_t>(out.numel()));
  const View wide{sums.data(), DType::f32, out.shape, {N, 1}};
  copy(converted, bias);
  matmul(wide, x, transposed(weight));
  for (int64_t i = 0; i < out.numel(); ++i) sums[static_cast<size_t>(i)] += own[static_cast<size_t>(i % N)];
  copy(out, wide);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
