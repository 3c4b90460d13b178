// Products with a weight stored as a bitmap: few rows of x, as in decoding one token.
//
// The product is limited by reading the weight once, so a sparse weight is faster as its bytes are fewer: 1.9
// times with half of an f32 weight gone, 4.3 times with 80 %. A word of 64 bits is decoded without a branch:
// the places where its bytes' numbers begin come from one multiplication (a prefix sum of the eight counts),
// and 8 numbers are spread by a permutation that a table has for each byte (AVX2), or 16 by one instruction
// (AVX-512).
#pragma once

#include <tinytorch/backend/sparse_view.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [M, N] = x [M, K] w^T for w [N, K]. Floating dtypes with any strides; values of w are f32, bf16, f16 or
// f64. Sums are f32, or f64 for values of f64. A result does not depend on the number of threads.
TT_API void spmv_bitmap(const View& out, const View& x, const BitmapView& w);

// Byte i of the result is the number of bits of `word` in its bytes 0 to i - 1.
inline uint64_t counts_before_bytes(uint64_t word) {
  uint64_t c = word - (word >> 1 & 0x5555555555555555u);
  c = (c & 0x3333333333333333u) + (c >> 2 & 0x3333333333333333u);
  c = (c + (c >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return (c * 0x0101010101010101u) << 8;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <algorithm>
#include <bit>
#include <tinytorch/backend/cpu/gemm/direct.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd_multiply_add.hpp>
#include <type_traits>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace tinytorch::inline TT_BUILD::backend::cpu {

#if defined(__AVX512F__)
inline constexpr int64_t kSpreadReads = 16;  // numbers that a step may read beyond those it needs
// acc[m] += the numbers of one word of bits times x[m * spacing + 0 .. 63].
template <int64_t kM>
[[gnu::always_inline]] inline void add_word(__m512 (&acc)[kM][2], uint64_t word, const float* v,
                                            const float* x, int64_t spacing) {
  const uint64_t before = counts_before_bytes(word);
  TT_UNROLL
  for (int i = 0; i < 4; ++i) {
    const auto mask = static_cast<__mmask16>(word >> (16 * i));
    const __m512 w = _mm512_maskz_expand_ps(mask, _mm512_loadu_ps(v + (before >> (16 * i) & 0xff)));
    TT_UNROLL
    for (int64_t m = 0; m < kM; ++m)
      acc[m][i % 2] = _mm512_fmadd_ps(w, _mm512_loadu_ps(x + m * spacing + 16 * i), acc[m][i % 2]);
  }
}
using SpreadSum = __m512;
inline constexpr bool kSpreadsBits = true;
#elif defined(__AVX2__) && TT_FMA
inline constexpr int64_t kSpreadReads = 8;
// Row b: for bit i of the byte b, the number of 1 bits before it; -128 where the bit is 0.
struct SpreadTable {
  alignas(64) int8_t lane[256][8];
  constexpr SpreadTable() : lane{} {
    for (int b = 0; b < 256; ++b) {
      int8_t count = 0;
      for (int i = 0; i < 8; ++i) lane[b][i] = b >> i & 1 ? count++ : int8_t{-128};
    }
  }
};
inline constexpr SpreadTable kSpreadTable{};

template <int64_t kM>
[[gnu::always_inline]] inline void add_word(__m256 (&acc)[kM][2], uint64_t word, const float* v,
                                            const float* x, int64_t spacing) {
  const uint64_t before = counts_before_bytes(word);
  TT_UNROLL
  for (int i = 0; i < 8; ++i) {
    const __m256i lanes = _mm256_cvtepi8_epi32(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kSpreadTable.lane[word >> (8 * i) & 0xff])));
    const __m256 spread = _mm256_permutevar8x32_ps(_mm256_loadu_ps(v + (before >> (8 * i) & 0xff)), lanes);
    // The sign of a lane that has no bit is 1: its number becomes 0.
    const __m256 w = _mm256_blendv_ps(spread, _mm256_setzero_ps(), _mm256_castsi256_ps(lanes));
    TT_UNROLL
    for (int64_t m = 0; m < kM; ++m)
      acc[m][i % 2] = _mm256_fmadd_ps(w, _mm256_loadu_ps(x + m * spacing + 8 * i), acc[m][i % 2]);
  }
}
using SpreadSum = __m256;
inline constexpr bool kSpreadsBits = true;
#else
inline constexpr bool kSpreadsBits = false;  // each number is added by itself
#endif

// y[m] = row n of w times x[m * K ...] for kM rows of x, in the compute type T. S: the type of the values.
template <int64_t kM, class T, class S>
void dot_bits(T* y, const BitmapView& w, int64_t n, const T* x) {
  const int64_t K = w.columns;
  const uint64_t* const bits = w.bits + n * w.words();
  const S* v = static_cast<const S*>(w.values) + w.offsets[n];
  T total[kM] = {};
  int64_t word = 0;
#if defined(__AVX512F__) || (defined(__AVX2__) && TT_FMA)
  if constexpr (std::is_same_v<S, float>) {
    // Whole words, as long as a step reads only numbers that exist, though perhaps of the next rows.
    const float* const end = static_cast<const float*>(w.values) + w.nnz;
    SpreadSum acc[kM][2] = {};
    for (; word < K / 64; ++word) {
      const int count = std::popcount(bits[word]);
      if (end - v < count + kSpreadReads) break;
      add_word<kM>(acc, bits[word], v, x + word * 64, K);
      v += count;
    }
    for (int64_t m = 0; m < kM; ++m)
      total[m] = sum_of_lanes<float>(::tinytorch::detail::as_vector<Simd<float>>(acc[m][0] + acc[m][1]));
  }
#endif
  for (; word < w.words(); ++word) {
    for (uint64_t rest = bits[word]; rest != 0; rest &= rest - 1, ++v) {
      const T* const at = x + word * 64 + std::countr_zero(rest);
      for (int64_t m = 0; m < kM; ++m) total[m] = math::multiply_add(convert<T>(*v), at[m * K], total[m]);
    }
  }
  std::copy_n(total, kM, y);
}

inline constexpr int64_t kSpmvRows = 4;          // rows of x for which a row of w is decoded once
inline constexpr int64_t kSpmvElements = 32768;  // elements of w, stored or not, that are worth a thread

// out [M, N] = x [M, K] w^T in the compute type T. dot(count, sums, n, x) gives row n of w times count.value
// rows of x, which are contiguous. A thread computes at least `grain` rows of w.
template <class T, class Dot>
void multiply_by_rows(const View& out, const View& x, int64_t grain, Dot&& dot) {
  const int64_t M = x.shape[0], K = x.shape[1], N = out.shape[1];
  const ContiguousInput<T> rows(x);
  ContiguousOutput<T> y(out);
  parallel_for(N, grain, [&](int64_t begin, int64_t end) {
    int64_t m = 0;
    const auto run = [&](auto count) {
      for (int64_t n = begin; n < end; ++n) {
        T sums[count.value];
        dot(count, sums, n, rows.data() + m * K);
        for (int64_t i = 0; i < count.value; ++i) y.data()[(m + i) * N + n] = sums[i];
      }
    };
    for (; m + kSpmvRows <= M; m += kSpmvRows) run(std::integral_constant<int64_t, kSpmvRows>{});
    for (; m < M; ++m) run(std::integral_constant<int64_t, 1>{});
  });
  y.write_back();
}
// Calls f with null pointers of the compute type and of the stored type of floating values.
template <class F>
void dispatch_values(const char* op, DType values, F&& f) {
  float* const single = nullptr;
  if (values == DType::f32) return f(single, single);
  if (values == DType::bf16) return f(single, static_cast<BFloat16*>(nullptr));
  if (values == DType::f16) return f(single, static_cast<Half*>(nullptr));
  if (values == DType::f64) return f(static_cast<double*>(nullptr), static_cast<double*>(nullptr));
  fail("TT-DTYPE-02", std::string(op) + ": the values must be floating, got " + name_of(values));
}

TT_API void spmv_bitmap(const View& out, const View& x, const BitmapView& w) {
  if (out.numel() == 0) return;
  const int64_t grain =
      ceil_div(kSpmvElements, std::max<int64_t>(1, w.columns * std::min(x.shape[0], kSpmvRows)));
  dispatch_values("spmv_bitmap", w.dtype, [&]<class T, class S>(T*, S*) {
    multiply_by_rows<T>(out, x, grain, [&](auto count, T* sums, int64_t n, const T* rows) {
      dot_bits<count.value, T, S>(sums, w, n, rows);
    });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#pragma GCC diagnostic pop
#endif
