// Numbers into blocks of few bits, and back: Q8_0, Q4_0 and Q4_K.
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.4. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/backend/cpu/blocks/block_operands.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline void pack_q8_0(const float* x, uint8_t* block);                         // task 7.4
inline void unpack_int8_codes(const uint8_t* block, int64_t first, float* x);  // task 7.4
inline void pack_q4_0(const float* x, uint8_t* block);                         // task 7.4
inline void unpack_q4_0(const uint8_t* block, float* x);                       // task 7.4

// The integer nearest to v, from `low` to `high`. The magnitude of v is below 2^31.
[[gnu::always_inline]] inline int nearest_code(float v, int low, int high) {
  return std::clamp(static_cast<int>(v + (v < 0 ? -0.5f : 0.5f)), low, high);
}

// Sums over a group of numbers x and codes c: of c, of c^2 and of x c. Products of a float and a code are
// exact in double.
struct CodeSums {
  int c = 0, cc = 0;
  double xc = 0;

  template <int kN>
  static CodeSums of(const float* x, float subtract, float inverse, int low, int high) {
    int code[kN];
    for (int i = 0; i < kN; ++i) code[i] = nearest_code(rounded_product(x[i] - subtract, inverse), low, high);
    CodeSums s;
    for (int i = 0; i < kN; ++i) s.c += code[i], s.cc += code[i] * code[i];
    double part[4] = {};
    for (int i = 0; i < kN; i += 4) {
      TT_UNROLL
      for (int k = 0; k < 4; ++k) part[k] += double{x[i + k]} * code[i + k];
    }
    s.xc = (part[0] + part[1]) + (part[2] + part[3]);
    return s;
  }
};

struct ScaleAndOffset {
  float scale = 0, offset = 0;  // x = scale code + offset
};

// The best scale and offset of 32 numbers for codes from 0 to 15, where the offset is at most 0. For 21
// scales near range / 15, the codes are those of that scale, and scale and offset follow from the codes by
// least squares. The squared error is sum x^2 - gain, so the largest gain wins.
inline ScaleAndOffset fit_scale_and_offset(const float* x) {
  float least = 0, largest = x[0];
  double sum = 0;
  for (int i = 0; i < 32; ++i)
    least = std::min(least, x[i]), largest = std::max(largest, x[i]), sum += double{x[i]};
  ScaleAndOffset best{0, least};
  const float inverse = inverse_or_zero(largest - least);
  if (inverse == 0) return best;
  double best_gain = -1;
  for (int step = 0; step <= 20; ++step) {
    const float levels = static_cast<float>(140 + step) / 10;
    const CodeSums s = CodeSums::of<32>(x, least, rounded_product(levels, inverse), 0, 15);
    const int determinant = 32 * s.cc - s.c * s.c;  // 0 if all codes are equal
    double scale = (32 * s.xc - rounded_product<double>(s.c, sum)) / std::max(1, determinant);
    double offset =
        (rounded_product<double>(s.cc, sum) - rounded_product<double>(s.c, s.xc)) / std::max(1, determinant);
    if (determinant == 0 || offset > 0) offset = 0, scale = s.xc / s.cc;
    const double gain = rounded_product(scale, s.xc) + rounded_product(offset, sum);
    if (gain <= best_gain || scale <= 0) continue;
    best_gain = gain;
    best = {static_cast<float>(scale), static_cast<float>(offset)};
  }
  return best;
}

inline void pack_q4_k_scales(const int* s, const int* m, uint8_t* out);  // task 7.4
inline void unpack_q4_k_scales(const uint8_t* in, int* s, int* m);       // task 7.4
inline void pack_q4_k(const float* x, uint8_t* block);                   // task 7.4
inline void unpack_q4_k(const uint8_t* block, float* x);                 // task 7.4

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/blocks/pack.hpp>
