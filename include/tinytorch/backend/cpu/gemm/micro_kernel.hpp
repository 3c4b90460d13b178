// GEMM micro-kernel: an MR x NR tile of C stays in registers while rank-1 updates run along the depth.
//
// The tile has kMR rows and kNRVectors vectors. A step loads one row of a B panel and multiplies each of its
// vectors by kMR numbers of A, so rows x vectors multiply-adds need rows + vectors loads: 24 to 10 for 6 x 4
// (AVX-512, 32 registers: 24 sums, 4 of B, 1 of A), 12 to 8 for 6 x 2 (16 registers). Wide tiles are faster
// than tall ones here, because loads are scarcer than registers: in the L1 cache 14 x 2 reaches 0.62 to 0.74
// of peak, 6 x 4 reaches 0.80 to 0.91. Packed panels hold words as wide as a sum: one number, or several
// narrower ones that are consecutive along the depth (core/simd_dot.hpp).
// Source: Van Zee and van de Geijn, "BLIS", 2015.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/core/shape.hpp>
#include <tinytorch/core/simd_dot.hpp>
#include <tinytorch/core/simd_partial.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kMR = 6;                            // rows of a tile
inline constexpr int64_t kKC = 1024;                         // most steps of the depth in one call
inline constexpr int kNRVectors = kSimdBytes == 64 ? 4 : 2;  // vectors in a row of a tile
template <class T>
inline constexpr int64_t kNR = kNRVectors* kLanes<T>;  // columns of a tile

// Prefetches n numbers at p, which are read soon, or written if kForWrite. always_inline: g++ drops calls of
// a function that does nothing else.
template <bool kForWrite, class T>
[[gnu::always_inline]] inline void prefetch(const T* p, int64_t n) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < n; i += kLine) __builtin_prefetch(p + i, kForWrite);
}

// A matrix: `row` and `col` are its row stride and column stride in elements.
template <class S>
struct Matrix {
  const S* data;
  int64_t row, col;
};

// x y + sum. Integers wrap, computed as unsigned, since signed overflow is undefined.
template <class T>
T multiply_add(T x, T y, T sum) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(x) * static_cast<U>(y) + static_cast<U>(sum));
  } else {
    return x * y + sum;
  }
}

// Step types: what the micro-kernel multiplies in one step of the depth. kDepth counts the elements of A and
// B that a step consumes, Word is the type in which a panel stores them.
// One number of A times one number of B.
struct ScalarStep {
  static constexpr int64_t kDepth = 1;
  template <class T>
  using Word = T;
  template <class T>
  [[gnu::always_inline]] static Simd<T> add(Simd<T> sum, T x, Simd<T> row) {
    return sum + x * row;
  }
};
// Two consecutive bf16 of A times two of B, summed in f32.
struct Bf16PairStep {
  static constexpr int64_t kDepth = 2;
  template <class T>
  using Word = int32_t;
  [[gnu::always_inline]] static Simd<float> add(Simd<float> sum, int32_t x, Simd<int32_t> row) {
    return dot2(sum, simd_broadcast(x), row);
  }
};
// Two consecutive 16-bit integers of A times two of B, summed in i32.
struct Int16PairStep {
  static constexpr int64_t kDepth = 2;
  template <class T>
  using Word = int32_t;
  [[gnu::always_inline]] static Simd<int32_t> add(Simd<int32_t> sum, int32_t x, Simd<int32_t> row) {
    sum = dot2_words(sum, simd_broadcast(x), row);
    keep_in_register(sum);  // else g++ first adds the products of several steps, and spills registers
    return sum;
  }
};
// Four consecutive unsigned bytes of A times four signed bytes of B, summed in i32.
struct Int8QuadStep {
  static constexpr int64_t kDepth = 4;
  template <class T>
  using Word = int32_t;
  [[gnu::always_inline]] static Simd<int32_t> add(Simd<int32_t> sum, int32_t x, Simd<int32_t> row) {
    return dot4(sum, simd_broadcast(x), row);
  }
};

// The word of a packed panel whose sums are T.
template <class T, class Step>
using Word = typename Step::template Word<T>;

// sum [kRows, kVectors vectors] += a column of A times a row of B. `last` masks the last vector of the row,
// if not null.
template <class T, class Step, int kRows, int kVectors>
[[gnu::always_inline]] inline void rank_1_update(Simd<T> (&sum)[kRows][kVectors], const Word<T, Step>* a,
                                                 int64_t a_row, const Word<T, Step>* b,
                                                 const FirstLanes<Word<T, Step>>* last) {
  using W = Word<T, Step>;
  static_assert(sizeof(W) == sizeof(T));
  Simd<W> row[kVectors];
  TT_UNROLL
  for (int v = 0; v < kVectors; ++v)
    row[v] = last && v == kVectors - 1 ? last->load(b + v * kLanes<W>) : simd_load(b + v * kLanes<W>);
  TT_UNROLL
  for (int v = 0; v < kVectors; ++v) keep_in_register(row[v]);
  TT_UNROLL
  for (int i = 0; i < kRows; ++i) {
    const W x = a[i * a_row];
    TT_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[i][v] = Step::add(sum[i][v], x, row[v]);
  }
}

// c = sum, or c += sum if `accumulate`. `last` as in rank_1_update.
template <class T, int kRows, int kVectors>
[[gnu::always_inline]] inline void store_tile(const Simd<T> (&sum)[kRows][kVectors], T* c, int64_t c_row,
                                              bool accumulate, const FirstLanes<T>* last) {
  TT_UNROLL
  for (int i = 0; i < kRows; ++i) {
    TT_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      T* const to = c + i * c_row + v * kLanes<T>;
      if (last && v == kVectors - 1) {
        last->store(to, accumulate ? last->load(to) + sum[i][v] : sum[i][v]);
      } else {
        simd_store(to, accumulate ? simd_load(to) + sum[i][v] : sum[i][v]);
      }
    }
  }
}

// c [kMR, kNR] = or += a packed panel of A times a packed panel of B; `depth` in words.
template <class T, class Step = ScalarStep>
[[gnu::noinline]] void micro_kernel(int64_t depth, const Word<T, Step>* a, const Word<T, Step>* b, T* c,
                                    int64_t c_row, bool accumulate) {
  constexpr int64_t kUnroll = 4;          // loop overhead competes with multiply-adds for execution ports
  constexpr int64_t kPrefetchSteps = 48;  // prefetch distance for A, which may come from the L3 cache
  Simd<T> sum[kMR][kNRVectors] = {};
  int64_t k = 0;
  for (; k + kUnroll <= depth; k += kUnroll) {
    TT_UNROLL
    for (int64_t s = 0; s < kUnroll; ++s) {
      if (s % 2 == 0) __builtin_prefetch(a + (s + kPrefetchSteps) * kMR);
      rank_1_update<T, Step>(sum, a + s * kMR, 1, b + s * kNR<T>, nullptr);
    }
    a += kUnroll * kMR;
    b += kUnroll * kNR<T>;
  }
  for (; k < depth; ++k, a += kMR, b += kNR<T>) rank_1_update<T, Step>(sum, a, 1, b, nullptr);
  store_tile<T>(sum, c, c_row, accumulate, nullptr);
}

// The micro-kernel that the five loops (gemm/blocked.hpp) use for sums of type T and a step type. A
// specialization replaces it for a step type; the words of its panels are the same.
template <class T, class Step>
struct MicroKernel {
  static constexpr int64_t kRows = kMR, kCols = kNR<T>;
  static constexpr int64_t kDepthMultiple = 1;  // the depth of panels is a multiple of this many steps
  static constexpr int64_t kMaxDepth = kKC;     // most steps in one call
  struct Session {};                            // constructed on a thread before it calls run
  static void run(int64_t depth, const Word<T, Step>* a, const Word<T, Step>* b, T* c, int64_t c_row,
                  bool accumulate) {
    micro_kernel<T, Step>(depth, a, b, c, c_row, accumulate);
  }
};

// A tile of rows x cols of C. A tile at the edge of C is computed whole in a buffer, and the part that exists
// is stored.
template <class T, class Step = ScalarStep>
void multiply_tile(int64_t depth, const Word<T, Step>* a, const Word<T, Step>* b, T* c, int64_t c_row,
                   int64_t rows, int64_t cols, bool accumulate) {
  using Kernel = MicroKernel<T, Step>;
  if (rows == Kernel::kRows && cols == Kernel::kCols) return Kernel::run(depth, a, b, c, c_row, accumulate);
  alignas(64) T tile[Kernel::kRows * Kernel::kCols];
  Kernel::run(depth, a, b, tile, Kernel::kCols, false);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      T& out = c[i * c_row + j];
      out = accumulate ? out + tile[i * Kernel::kCols + j] : tile[i * Kernel::kCols + j];
    }
  }
}

template <class T>
using Vector4 = typename VectorOf<T, 4 * sizeof(T)>::type;

// Loads four numbers of T: elements of S = T as they are, bf16 widened to 32 bits; if S is a byte, eight
// bytes widened to 16 bits each. The result is a reference parameter, because four doubles are wider than the
// registers in which baseline x86-64 returns values.
template <class T, class S>
[[gnu::always_inline]] inline void load_4(Vector4<T>& to, const void* from) {
  if constexpr (std::is_same_v<S, BFloat16>) {
    Vector4<uint16_t> bits;
    std::memcpy(&bits, from, sizeof bits);
    to = std::bit_cast<Vector4<T>>(__builtin_convertvector(bits, Vector4<uint32_t>) << 16);
  } else if constexpr (sizeof(S) == 1) {
    typename VectorOf<S, 8>::type bytes;
    std::memcpy(&bytes, from, sizeof bytes);
    to = std::bit_cast<Vector4<T>>(__builtin_convertvector(bytes, typename VectorOf<int16_t, 16>::type));
  } else {
    std::memcpy(&to, from, sizeof to);
  }
}

// 4 x 4 transpose: to[k * to_step + i] = element k of the row that begins i * row_bytes bytes after `from`.
// The bits of integers are inverted where `flip` has ones.
template <class T, class S = T>
[[gnu::always_inline]] inline void transpose_4x4(T* to, int64_t to_step, const void* from, int64_t row_bytes,
                                                 T flip = T(0)) {
  Vector4<T> r[4];
  TT_UNROLL
  for (int i = 0; i < 4; ++i) {
    load_4<T, S>(r[i], static_cast<const char*>(from) + i * row_bytes);
    if constexpr (std::is_integral_v<T>) r[i] ^= flip;
  }
  const Vector4<T> ab = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
                   cd = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
  const Vector4<T> ef = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
                   gh = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  const Vector4<T> columns[] = {
      __builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
      __builtin_shufflevector(ef, gh, 0, 1, 4, 5), __builtin_shufflevector(ef, gh, 2, 3, 6, 7)};
  TT_UNROLL
  for (int k = 0; k < 4; ++k) std::memcpy(to + k * to_step, &columns[k], sizeof columns[k]);
}

inline constexpr int64_t kPrefetchRows = 8;  // prefetch distance of packing: rows may lie in separate pages

// Packs `count` rows of A (columns of B) into a panel [depth, kWidth]: panel[k * kWidth + i] = source[i *
// step + k * depth_step]. For i >= count it is zero, or unspecified if kPadded is false.
template <int64_t kWidth, bool kPadded = true, class T, class S>
void pack_panel(T* panel, int64_t count, int64_t depth, const S* source, int64_t step, int64_t depth_step) {
  if (kPadded && count < kWidth)
    std::memset(static_cast<void*>(panel), 0, static_cast<size_t>(kWidth * depth) * sizeof(T));
  if (step == 1) {
    for (int64_t k = 0; k < depth; ++k, panel += kWidth, source += depth_step) {
      __builtin_prefetch(source + kPrefetchRows * depth_step);
      if (count == kWidth) {  // the compiler knows this length
        for (int64_t i = 0; i < kWidth; ++i) panel[i] = convert<T>(source[i]);
      } else {
        for (int64_t i = 0; i < count; ++i) panel[i] = convert<T>(source[i]);
      }
    }
    return;
  }
  constexpr int64_t kStrip = 16;  // steps: whole cache lines of each source row are used
  for (int64_t k0 = 0; k0 < depth; k0 += kStrip) {
    const int64_t k_end = std::min(depth, k0 + kStrip), quads_end = k0 + (k_end - k0) / 4 * 4;
    int64_t k_rest = k0;
    if constexpr (std::is_same_v<T, S> || (std::is_same_v<T, float> && std::is_same_v<S, BFloat16>)) {
      if (depth_step == 1 && count >= 4) {
        for (int64_t i = 0; i < count; i += 4) {
          const int64_t first = std::min(i, count - 4);  // the last four may overlap the previous four
          for (int64_t k = k0; k < quads_end; k += 4)
            transpose_4x4<T, S>(panel + k * kWidth + first, kWidth, source + first * step + k,
                                step * static_cast<int64_t>(sizeof(S)));
        }
        k_rest = quads_end;
      }
    }
    for (int64_t i = 0; i < count && k_rest < k_end; ++i) {
      const S* row = source + i * step;
      for (int64_t k = k_rest; k < k_end; ++k) panel[k * kWidth + i] = convert<T>(row[k * depth_step]);
    }
  }
}

// Number of adjacent panels that are packed together: 256 bytes of a row are whole cache lines, but more than
// four panels would map to the same sets of the L1 cache.
template <class T, int64_t kWidth>
inline constexpr int64_t kPanelsTogether = std::clamp<int64_t>(256 / static_cast<int64_t>(sizeof(T)) / kWidth,
                                                               1, 4);

// Packs up to kPanelsTogether consecutive panels of kWidth rows of A (columns of B); `count` rows exist.
template <int64_t kWidth, class T, class S>
void pack_panels(T* panels, int64_t count, int64_t depth, const S* source, int64_t step, int64_t depth_step) {
  constexpr int64_t kTogether = kPanelsTogether<T, kWidth>;
  if (step != 1 || count < kTogether * kWidth) {
    for (int64_t i = 0; i < count; i += kWidth)
      pack_panel<kWidth>(panels + i * depth, std::min(kWidth, count - i), depth, source + i * step, step,
                         depth_step);
    return;
  }
  for (int64_t k = 0; k < depth; ++k, panels += kWidth, source += depth_step) {
    prefetch<false>(source + kPrefetchRows * depth_step, kTogether * kWidth);
    TT_UNROLL
    for (int64_t p = 0; p < kTogether; ++p)
      for (int64_t i = 0; i < kWidth; ++i)
        panels[p * kWidth * depth + i] = convert<T>(source[p * kWidth + i]);
  }
}

// Packs kPerWord consecutive elements of the depth into each 32-bit word, the first in the lowest bits:
// panel[k * kWidth + i] holds source[i * step + (kPerWord k + p) * depth_step] for p < kPerWord, with the
// bits `flip` inverted. If kPerWord is 2, bytes are widened to 16 bits. `elements` of the depth exist; the
// missing elements of the last word and the rows from `count` on are 0.
template <int64_t kWidth, int64_t kPerWord, class Part>
void pack_words(int32_t* panel, int64_t count, int64_t elements, const Part* source, int64_t step,
                int64_t depth_step, uint8_t flip = 0) {
  const int64_t depth = ceil_div(elements, kPerWord), whole = elements / kPerWord;
  const auto mask = static_cast<uint32_t>(flip) * 0x01010101u;
  const auto part = [](Part x) {  // the bits of x, zero-extended
    if constexpr (sizeof(Part) == 2)
      return uint32_t{x.bits};
    else
      return uint32_t{static_cast<std::conditional_t<kPerWord == 2, uint16_t, uint8_t>>(x)};
  };
  if (count < kWidth || whole < depth)
    std::memset(panel, 0, static_cast<size_t>(kWidth * depth) * sizeof(int32_t));
  int64_t k = 0;
  if (depth_step == 1 && count >= 4) {
    for (; k + 4 <= whole; k += 4) {
      for (int64_t i = 0; i < count; i += 4) {
        const int64_t first = std::min(i, count - 4);  // the last four may overlap the previous four
        transpose_4x4<int32_t, std::conditional_t<kPerWord * sizeof(Part) == 4, int32_t, Part>>(
            panel + k * kWidth + first, kWidth, source + first * step + kPerWord * k,
            step * static_cast<int64_t>(sizeof(Part)), static_cast<int32_t>(mask));
      }
    }
  }
  for (; k < whole; ++k) {
    int32_t* const to = panel + k * kWidth;
    const Part* const from = source + kPerWord * k * depth_step;
    const auto join = [&](auto row_step) {
      TT_SIMD
      for (int64_t i = 0; i < count; ++i) {
        const Part* const x = from + i * row_step;
        uint32_t word = part(x[0]) | part(x[depth_step]) << (32 / kPerWord);
        if constexpr (kPerWord == 4) word |= part(x[2 * depth_step]) << 16 | part(x[3 * depth_step]) << 24;
        to[i] = static_cast<int32_t>(word ^ mask);
      }
    };
    if (step == 1)
      join(std::integral_constant<int64_t, 1>());  // contiguous: the loop vectorizes
    else
      join(step);
  }
  for (k = kPerWord * whole; k < elements; ++k) {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t x = part(source[i * step + k * depth_step]) ^ flip;
      panel[whole * kWidth + i] |= static_cast<int32_t>(x << (32 / kPerWord * (k % kPerWord)));
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
