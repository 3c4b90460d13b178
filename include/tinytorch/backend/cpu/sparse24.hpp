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
// values of f32, bf16 or f16 and places, both contiguous -> codes, u8 of the shape Int4Strips24::shape(N, K),
// and scales, f16 of its scales_shape(N, K). Of the numbers that share a scale, the one of the largest
// magnitude (the first of equal ones) becomes code 0, which is -8 scale; the others are rounded to the
// nearest code. A group with a NaN or an infinity has the scale NaN.
TT_API void strips24_int4(const View& codes, const View& scales, const View& values, const View& places);
// out [M, N] = x [M, K] W^T + bias [N] for W in such codes; x is bf16 or f16.
TT_API void linear_sparse24_int4(const View& out, const View& x, const View& codes, const View& scales,
                                 const View& bias);

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

// Returns true if x is kept in preference to y, which comes after it in the group.
inline bool is_kept_before(float x, float y) {
  if (std::isnan(x)) return true;
  return !std::isnan(y) && std::abs(x) >= std::abs(y);
}
// Returns the places of the two kept numbers among four, as four bits.
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

// The position of a pair of numbers in a strip.
struct PlaceInStrip {
  int64_t part, lane;  // the part counts from the first of the strip's first row
  int64_t product, reg, half;
  int64_t word;  // the lane whose word has the pair's places, in this half
};
// Calls f(row, group of four, place) for each pair of the strips of a matrix with `groups` groups in a row.
template <class F>
void each_pair_of_strips(int64_t N, int64_t groups, F&& f) {
  const int64_t parts = Strips24::parts(groups * 4);
  parallel_for(N, 16, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t g = n % 8, half = n % 16 / 8;
      for (int64_t group = 0; group < parts * 16; ++group) {
        const int64_t in_part = group % 16;
        f(n, group,
          PlaceInStrip{n / 16 * parts + group / 16, g * 4 + in_part % 4, in_part / 8,
                       in_part / 4 % 2 * 2 + half, half, g * 4 + in_part / 4});
      }
    }
  });
}
inline int64_t pair_at(const PlaceInStrip& p) {
  return p.part * Strips24::kPartBytes + p.product * 512 + p.lane * 16 + p.reg * 4;
}
inline int64_t places_at(const PlaceInStrip& p, int64_t part_bytes, int64_t first) {
  return p.part * part_bytes + first + p.word * 4 + p.half * 2;
}
// The places of a group, or of one that does not exist; and the same in strips.
inline uint16_t word_of_places(const View& places, int64_t N, int64_t words, int64_t n, int64_t group) {
  const bool inside = n < N && group / 4 < words;
  return inside ? places.as<const uint16_t>()[n * words + group / 4]
                : static_cast<uint16_t>(Strips24::kFirstTwo);
}
inline int places_of_group(const uint8_t* at, int64_t group) {
  uint16_t four;
  std::memcpy(&four, at, sizeof(four));
  return four >> (group % 4 * 4) & 15;
}

TT_API void strips24(const View& strips, const View& values, const View& places) {
  const int64_t N = values.shape[0], groups = values.shape[1] / 2, words = ceil_div(groups, 4);
  auto* const to = strips.as<uint8_t>();
  std::memset(to, 0, static_cast<size_t>(strips.numel()));
  // Rows and columns that do not exist have places, too.
  each_pair_of_strips(Strips24::count(N) * 16, groups, [&](int64_t n, int64_t group, const PlaceInStrip& p) {
    if (n < N && group < groups)
      std::memcpy(to + pair_at(p), values.as<const uint8_t>() + (n * groups + group) * 4, 4);
    if (group % 4 != 0) return;
    const uint16_t four = word_of_places(places, N, words, n, group);
    std::memcpy(to + places_at(p, Strips24::kPartBytes, Strips24::kPlacesAt), &four, sizeof(four));
  });
}

// out = x weight^T + bias for a dense weight [N, K] of x's dtype; a bias of another dtype is added to the
// sums before they are rounded.
inline void linear_of_dense(const View& out, const View& x, const View& weight, const View& bias) {
  if (!bias.data || bias.dtype == x.dtype) return linear(out, x, weight, bias);
  const int64_t N = out.shape[1];
  std::vector<float> own(static_cast<size_t>(N)), sums(static_cast<size_t>(out.numel()));
  const View wide{sums.data(), DType::f32, out.shape, {N, 1}};
  copy({own.data(), DType::f32, {N}, {1}}, bias);
  matmul(wide, x, transposed(weight));
  for (int64_t i = 0; i < out.numel(); ++i) sums[static_cast<size_t>(i)] += own[static_cast<size_t>(i % N)];
  copy(out, wide);
}

TT_API void linear_sparse24(const View& out, const View& x, const View& strips, const View& bias) {
  if (out.numel() == 0) return;
  const int64_t N = out.shape[1], K = x.shape[1];
  std::vector<uint16_t> dense(static_cast<size_t>(N * K));
  const auto* const from = strips.as<const uint8_t>();
  each_pair_of_strips(N, K / 4, [&](int64_t n, int64_t group, const PlaceInStrip& p) {
    if (group * 4 >= K) return;
    uint16_t two[2];
    std::memcpy(two, from + pair_at(p), sizeof(two));
    const int places = places_of_group(from + places_at(p, Strips24::kPartBytes, Strips24::kPlacesAt), group);
    uint16_t* const to = &dense[static_cast<size_t>(n * K + group * 4)];
    to[places & 3] = two[0], to[places >> 2] = two[1];
  });
  linear_of_dense(out, x, {dense.data(), x.dtype, {N, K}, {K, 1}}, bias);
}

// The scale of 64 kept numbers, or of fewer at the end of a row.
template <class T>
Half scale_of(const T* values, int64_t count) {
  float most = 0, bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto v = static_cast<float>(values[i]);
    if (std::abs(v) > std::abs(most)) most = v;
    bad += v - v;
  }
  return Half(most / -8.0f + bad);
}
inline uint32_t code_of(float v, float scale) {
  const float factor = scale == scale && scale != 0 ? 1.0f / scale : 0.0f;
  const float code = factor != 0 ? std::floor(std::fma(v, factor, 8.5f)) : 8.0f;
  return static_cast<uint32_t>(std::clamp(code, 0.0f, 15.0f));
}

TT_API void strips24_int4(const View& codes, const View& scales, const View& values, const View& places) {
  const int64_t N = values.shape[0], half = values.shape[1], groups = half / 2, words = ceil_div(groups, 4);
  const int64_t of_row = ceil_div(half, 64), strips = Strips24::count(N);
  auto* const to = codes.as<uint8_t>();
  auto* const scale = scales.as<Half>();
  std::memset(to, 0x88, static_cast<size_t>(codes.numel()));
  dispatch(values.dtype, [&]<class T>(T*) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>) {
      const T* const from = values.as<const T>();
      const auto at = [&](int64_t n, int64_t i) { return (n / 16 * of_row + i) * 16 + n % 16; };
      for (int64_t n = 0; n < strips * 16; ++n) {
        for (int64_t i = 0; i < of_row; ++i) {
          const int64_t count = n < N ? std::min<int64_t>(64, half - i * 64) : 0;
          scale[at(n, i)] = scale_of(from + (n < N ? n * half + i * 64 : 0), count);
        }
      }
      each_pair_of_strips(strips * 16, groups, [&](int64_t n, int64_t group, const PlaceInStrip& p) {
        if (group % 4 == 0) {
          const uint16_t four = word_of_places(places, N, words, n, group);
          std::memcpy(to + places_at(p, Int4Strips24::kPartBytes, Int4Strips24::kPlacesAt), &four,
                      sizeof(four));
        }
        if (n >= N || group >= groups) return;
        uint32_t word;
        uint8_t* const own = to + p.part * Int4Strips24::kPartBytes + p.lane * 8 + p.product * 4;
        std::memcpy(&word, own, sizeof(word));
        for (int k = 0; k < 2; ++k) {
          const int shift = static_cast<int>(4 * p.reg + 16 * k);
          const uint32_t code = code_of(static_cast<float>(from[n * half + 2 * group + k]),
                                        static_cast<float>(scale[at(n, group / 32)]));
          word = (word & ~(15u << shift)) | code << shift;
        }
        std::memcpy(own, &word, sizeof(word));
      });
    }
  });
}

TT_API void linear_sparse24_int4(const View& out, const View& x, const View& codes, const View& scales,
                                 const View& bias) {
  if (out.numel() == 0) return;
  const int64_t N = out.shape[1], K = x.shape[1], of_row = ceil_div(K, Int4Strips24::kGroup);
  std::vector<float> dense(static_cast<size_t>(N * K)), wide(static_cast<size_t>(x.numel()));
  const auto* const from = codes.as<const uint8_t>();
  const auto* const scale = scales.as<const Half>();
  each_pair_of_strips(N, K / 4, [&](int64_t n, int64_t group, const PlaceInStrip& p) {
    if (group * 4 >= K) return;
    uint32_t word;
    std::memcpy(&word, from + p.part * Int4Strips24::kPartBytes + p.lane * 8 + p.product * 4, sizeof(word));
    const int places =
        places_of_group(from + places_at(p, Int4Strips24::kPartBytes, Int4Strips24::kPlacesAt), group);
    float* const to = &dense[static_cast<size_t>(n * K + group * 4)];
    const auto factor = static_cast<float>(scale[(n / 16 * of_row + group / 32) * 16 + n % 16]);
    for (int k = 0; k < 2; ++k) {
      const auto code = static_cast<int>(word >> (4 * p.reg + 16 * k) & 15u);
      to[k == 0 ? places & 3 : places >> 2] = factor * static_cast<float>(code - 8);
    }
  });
  // The decoded weight is not rounded to the dtype of x.
  const View weight{dense.data(), DType::f32, {N, K}, {K, 1}},
      f32_x{wide.data(), DType::f32, x.shape, {K, 1}};
  copy(f32_x, x);
  std::vector<float> sums(static_cast<size_t>(out.numel())), own(static_cast<size_t>(bias.data ? N : 0));
  const View f32_out{sums.data(), DType::f32, out.shape, {N, 1}},
      f32_bias{bias.data ? own.data() : nullptr, DType::f32, {N}, {1}};
  if (bias.data) copy(f32_bias, bias);
  linear(f32_out, f32_x, weight, bias.data ? f32_bias : View{});
  copy(out, f32_out);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
