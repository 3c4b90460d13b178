// The innermost part of a matrix product: a tile of C that stays in registers while it runs through the
// depth.
//
// A tile is kTileRows rows by kTileVectors vectors. Every step loads a row of B's vectors and multiplies each
// of them by kTileRows numbers of A, so that rows x vectors multiply-adds need only rows + vectors loads: six
// by four (AVX-512, 32 registers: 24 sums, 4 of B, 1 of A) is 24 to 10, six by two (16 registers) 12 to 8.
// Wide tiles beat tall ones here because loads, not registers, are what the neighbours of a core compete for:
// measured in the L1 cache, 14 x 2 reaches 0.62 to 0.74 of peak, 6 x 4 0.80 to 0.91. Source: Van Zee and van
// de Geijn, "BLIS", 2015.
//
// Panels are the packed form of A and B: kTileRows rows of A (kTileCols columns of B), one step of the depth
// after the other, zeros where the matrix ends. What they hold are words as wide as a sum: one number, or
// several narrower ones that follow one another along the depth, which one instruction multiplies and adds
// (core/simd_dot.hpp).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/core/shape.hpp>
#include <tinytorch/core/simd_dot.hpp>
#include <tinytorch/core/simd_partial.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kTileRows = 6;
inline constexpr int64_t kDepthAtOnce = 1024;  // most steps that the kernel runs through at once
inline constexpr int kTileVectors = kSimdBytes == 64 ? 4 : 2;
template <class T>
inline constexpr int64_t kTileCols = kTileVectors* kLanes<T>;

// Asks the caches for n numbers at p, which are read soon, or written. Inlined by order: g++ drops calls of a
// function that does nothing else.
template <bool kWritten, class T>
[[gnu::always_inline]] inline void ask_for(const T* p, int64_t n) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < n; i += kLine) __builtin_prefetch(p + i, kWritten);
}

// A matrix by address, with the distance between neighbours along each side.
template <class S>
struct Matrix {
  const S* data;
  int64_t row, col;
};

// x y + sum; integers wrap (overflow of signed ones is undefined).
template <class T>
T multiply_add(T x, T y, T sum) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(x) * static_cast<U>(y) + static_cast<U>(sum));
  } else {
    return x * y + sum;
  }
}

// What one step multiplies: a number of A by numbers of B,
struct Singles {
  static constexpr int64_t kDepth = 1;
  template <class T>
  using Word = T;
  template <class T>
  [[gnu::always_inline]] static Simd<T> add(Simd<T> sum, T x, Simd<T> row) {
    return sum + x * row;
  }
};
// two bf16 of A by two of B each,
struct Pairs {
  static constexpr int64_t kDepth = 2;
  template <class T>
  using Word = int32_t;
  [[gnu::always_inline]] static Simd<float> add(Simd<float> sum, int32_t x, Simd<int32_t> row) {
    return dot2(sum, simd_broadcast(x), row);
  }
};
// two integers of 16 bits of A by two of B each,
struct WordPairs {
  static constexpr int64_t kDepth = 2;
  template <class T>
  using Word = int32_t;
  [[gnu::always_inline]] static Simd<int32_t> add(Simd<int32_t> sum, int32_t x, Simd<int32_t> row) {
    sum = dot2_words(sum, simd_broadcast(x), row);
    keep_in_register(sum);  // or g++ adds up several steps' products first, and spills them
    return sum;
  }
};
// or four bytes of A, unsigned, by four of B each, signed.
struct Quads {
  static constexpr int64_t kDepth = 4;
  template <class T>
  using Word = int32_t;
  [[gnu::always_inline]] static Simd<int32_t> add(Simd<int32_t> sum, int32_t x, Simd<int32_t> row) {
    return dot4(sum, simd_broadcast(x), row);
  }
};

// What panels hold where sums are T.
template <class T, class Step>
using Word = typename Step::template Word<T>;

// sum [kRows, kVectors] += a column of A times a row of B.
template <class T, class Step, int kRows, int kVectors>
[[gnu::always_inline]] inline void tile_step(Simd<T> (&sum)[kRows][kVectors], const Word<T, Step>* a,
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

// c = sum, or c += sum.
template <class T, int kRows, int kVectors>
[[gnu::always_inline]] inline void tile_store(const Simd<T> (&sum)[kRows][kVectors], T* c, int64_t c_row,
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

// c [kTileRows, kTileCols] (+)= a panel of A times a panel of B.
template <class T, class Step = Singles>
[[gnu::noinline]] void tile_kernel(int64_t depth, const Word<T, Step>* a, const Word<T, Step>* b, T* c,
                                   int64_t c_row, bool accumulate) {
  constexpr int64_t kAhead =
      4;  // steps written out: the loop's own arithmetic competes with multiply-adds for ports
  constexpr int64_t kLead = 48;  // steps that A, which may come from L3, is asked for beforehand
  Simd<T> sum[kTileRows][kTileVectors] = {};
  int64_t k = 0;
  for (; k + kAhead <= depth; k += kAhead) {
    TT_UNROLL
    for (int64_t s = 0; s < kAhead; ++s) {
      if (s % 2 == 0) __builtin_prefetch(a + (s + kLead) * kTileRows);
      tile_step<T, Step>(sum, a + s * kTileRows, 1, b + s * kTileCols<T>, nullptr);
    }
    a += kAhead * kTileRows;
    b += kAhead * kTileCols<T>;
  }
  for (; k < depth; ++k, a += kTileRows, b += kTileCols<T>) tile_step<T, Step>(sum, a, 1, b, nullptr);
  tile_store<T>(sum, c, c_row, accumulate, nullptr);
}

// What the five loops (gemm/blocked.hpp) ask of a tile of sums T whose panels hold what `Step` multiplies.
// Another tile is a specialization, with the same words in its panels.
template <class T, class Step>
struct Tile {
  static constexpr int64_t kRows = kTileRows, kCols = kTileCols<T>;
  static constexpr int64_t kUnit = 1;  // panels are a multiple of so many steps deep
  static constexpr int64_t kAtOnce = kDepthAtOnce;
  struct Session {};  // lives on a thread while it calls kernel
  static void kernel(int64_t depth, const Word<T, Step>* a, const Word<T, Step>* b, T* c, int64_t c_row,
                     bool accumulate) {
    tile_kernel<T, Step>(depth, a, b, c, c_row, accumulate);
  }
};

// A tile that may hang over the edge of C: computed whole, then the part that exists is stored.
template <class T, class Step = Singles>
void compute_tile(int64_t depth, const Word<T, Step>* a, const Word<T, Step>* b, T* c, int64_t c_row,
                  int64_t rows, int64_t cols, bool accumulate) {
  using Whole = Tile<T, Step>;
  if (rows == Whole::kRows && cols == Whole::kCols) return Whole::kernel(depth, a, b, c, c_row, accumulate);
  alignas(64) T whole[Whole::kRows * Whole::kCols];
  Whole::kernel(depth, a, b, whole, Whole::kCols, false);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      T& out = c[i * c_row + j];
      out = accumulate ? out + whole[i * Whole::kCols + j] : whole[i * Whole::kCols + j];
    }
  }
}

template <class T>
using Four = typename VectorOf<T, 4 * sizeof(T)>::type;

// Four numbers of T from memory: as they are, or, where it holds numbers of S, widened; four of 32 bits are
// eight bytes widened to 16. Through a reference: four doubles are wider than the registers that every x86-64
// returns values in.
template <class T, class S>
[[gnu::always_inline]] inline void load_four(Four<T>& to, const void* from) {
  if constexpr (std::is_same_v<S, BFloat16>) {
    Four<uint16_t> bits;
    std::memcpy(&bits, from, sizeof bits);
    to = std::bit_cast<Four<T>>(__builtin_convertvector(bits, Four<uint32_t>) << 16);
  } else if constexpr (sizeof(S) == 1) {
    typename VectorOf<S, 8>::type bytes;
    std::memcpy(&bytes, from, sizeof bytes);
    to = std::bit_cast<Four<T>>(__builtin_convertvector(bytes, typename VectorOf<int16_t, 16>::type));
  } else {
    std::memcpy(&to, from, sizeof to);
  }
}

// to[k * to_step + i] = element k of the row i * row_bytes bytes after `from`, four by four; of integers,
// with the bits `flip` inverted.
template <class T, class S = T>
[[gnu::always_inline]] inline void transpose_four(T* to, int64_t to_step, const void* from, int64_t row_bytes,
                                                  T flip = T(0)) {
  Four<T> r[4];
  TT_UNROLL
  for (int i = 0; i < 4; ++i) {
    load_four<T, S>(r[i], static_cast<const char*>(from) + i * row_bytes);
    if constexpr (std::is_integral_v<T>) r[i] ^= flip;
  }
  const Four<T> ab = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
                cd = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
  const Four<T> ef = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
                gh = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  const Four<T> columns[] = {
      __builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
      __builtin_shufflevector(ef, gh, 0, 1, 4, 5), __builtin_shufflevector(ef, gh, 2, 3, 6, 7)};
  TT_UNROLL
  for (int k = 0; k < 4; ++k) std::memcpy(to + k * to_step, &columns[k], sizeof columns[k]);
}

inline constexpr int64_t kRowsAhead =
    8;  // that packing asks for beforehand: each may lie in a page of its own

// panel[k * kWidth + i] = source[i * step + k * depth_step]; for i >= count zero, or with kPadded false
// anything.
template <int64_t kWidth, bool kPadded = true, class T, class S>
void pack_panel(T* panel, int64_t count, int64_t depth, const S* source, int64_t step, int64_t depth_step) {
  if (kPadded && count < kWidth)
    std::memset(static_cast<void*>(panel), 0, static_cast<size_t>(kWidth * depth) * sizeof(T));
  if (step == 1) {
    for (int64_t k = 0; k < depth; ++k, panel += kWidth, source += depth_step) {
      __builtin_prefetch(source + kRowsAhead * depth_step);
      if (count == kWidth) {  // a length that the compiler knows
        for (int64_t i = 0; i < kWidth; ++i) panel[i] = convert<T>(source[i]);
      } else {
        for (int64_t i = 0; i < count; ++i) panel[i] = convert<T>(source[i]);
      }
    }
    return;
  }
  constexpr int64_t kStrip = 16;  // deep enough to use whole cache lines of every source row
  for (int64_t k0 = 0; k0 < depth; k0 += kStrip) {
    const int64_t k_end = std::min(depth, k0 + kStrip), quads_end = k0 + (k_end - k0) / 4 * 4;
    int64_t k_rest = k0;
    if constexpr (std::is_same_v<T, S> || (std::is_same_v<T, float> && std::is_same_v<S, BFloat16>)) {
      if (depth_step == 1 && count >= 4) {
        for (int64_t i = 0; i < count; i += 4) {
          const int64_t first = std::min(i, count - 4);  // the last four may overlap those before
          for (int64_t k = k0; k < quads_end; k += 4)
            transpose_four<T, S>(panel + k * kWidth + first, kWidth, source + first * step + k,
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

// Panels that are packed together: 256 bytes of a row are whole cache lines, but more than four panels would
// meet in the same places of the L1 cache.
template <class T, int64_t kWidth>
inline constexpr int64_t kPanelsBeside = std::clamp<int64_t>(256 / static_cast<int64_t>(sizeof(T)) / kWidth,
                                                             1, 4);

// Up to kPanelsBeside panels of kWidth rows of A (columns of B), one after the other; `count` rows exist.
template <int64_t kWidth, class T, class S>
void pack_panels(T* panels, int64_t count, int64_t depth, const S* source, int64_t step, int64_t depth_step) {
  constexpr int64_t kBeside = kPanelsBeside<T, kWidth>;
  if (step != 1 || count < kBeside * kWidth) {
    for (int64_t i = 0; i < count; i += kWidth)
      pack_panel<kWidth>(panels + i * depth, std::min(kWidth, count - i), depth, source + i * step, step,
                         depth_step);
    return;
  }
  for (int64_t k = 0; k < depth; ++k, panels += kWidth, source += depth_step) {
    ask_for<false>(source + kRowsAhead * depth_step, kBeside * kWidth);
    TT_UNROLL
    for (int64_t p = 0; p < kBeside; ++p)
      for (int64_t i = 0; i < kWidth; ++i)
        panels[p * kWidth * depth + i] = convert<T>(source[p * kWidth + i]);
  }
}

// The same of words of kPer parts, the first in the lowest bits: panel[k * kWidth + i] holds
// source[i * step + (kPer k + p) * depth_step] for p < kPer, each with its bits `flip` inverted. Two bytes in
// a word are widened to 16 bits each. `elements` of the depth exist, and what does not is 0.
template <int64_t kWidth, int64_t kPer, class Part>
void pack_words(int32_t* panel, int64_t count, int64_t elements, const Part* source, int64_t step,
                int64_t depth_step, uint8_t flip = 0) {
  const int64_t depth = ceil_div(elements, kPer), whole = elements / kPer;
  const auto mask = static_cast<uint32_t>(flip) * 0x01010101u;
  const auto part = [](Part x) {  // as an unsigned number
    if constexpr (sizeof(Part) == 2)
      return uint32_t{x.bits};
    else
      return uint32_t{static_cast<std::conditional_t<kPer == 2, uint16_t, uint8_t>>(x)};
  };
  if (count < kWidth || whole < depth)
    std::memset(panel, 0, static_cast<size_t>(kWidth * depth) * sizeof(int32_t));
  int64_t k = 0;
  if (depth_step == 1 && count >= 4) {
    for (; k + 4 <= whole; k += 4) {
      for (int64_t i = 0; i < count; i += 4) {
        const int64_t first = std::min(i, count - 4);  // the last four may overlap those before
        transpose_four<int32_t, std::conditional_t<kPer * sizeof(Part) == 4, int32_t, Part>>(
            panel + k * kWidth + first, kWidth, source + first * step + kPer * k,
            step * static_cast<int64_t>(sizeof(Part)), static_cast<int32_t>(mask));
      }
    }
  }
  for (; k < whole; ++k) {
    int32_t* const to = panel + k * kWidth;
    const Part* const from = source + kPer * k * depth_step;
    const auto join = [&](auto apart) {
      TT_SIMD
      for (int64_t i = 0; i < count; ++i) {
        const Part* const x = from + i * apart;
        uint32_t word = part(x[0]) | part(x[depth_step]) << (32 / kPer);
        if constexpr (kPer == 4) word |= part(x[2 * depth_step]) << 16 | part(x[3 * depth_step]) << 24;
        to[i] = static_cast<int32_t>(word ^ mask);
      }
    };
    if (step == 1)
      join(std::integral_constant<int64_t, 1>());  // neighbours: vectors of them are read
    else
      join(step);
  }
  for (k = kPer * whole; k < elements; ++k) {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t x = part(source[i * step + k * depth_step]) ^ flip;
      panel[whole * kWidth + i] |= static_cast<int32_t>(x << (32 / kPer * (k % kPer)));
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
