// Matrix products without packing, for small matrices and for few rows.
//
//   direct_product   register tiles of 1 to 2 kMR rows and 1 to kNRVectors vectors, read in place. Rows of B
//                    are contiguous. If M is small, B is read once, kFewDepth rows at a time, and C stays in
//                    cache.
//   row_product      one row times B. It reads kRowStreams rows of B at a time, from end to end.
//   dot_product      Columns of B are contiguous (weights of a linear layer), and rows of A too: each element
//                    of C is a dot product. B is read once for each few rows of A.
#pragma once

#include <array>
#include <tinytorch/backend/cpu/gemm/micro_kernel.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd_multiply_add.hpp>
#include <tinytorch/core/simd_widen.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kFewRows = 8;      // largest M for which reading B from memory dominates
inline constexpr int64_t kFewDepth = 32;    // steps of the depth in one pass if M <= kFewRows,
inline constexpr int64_t kFullDepth = 256;  // or otherwise
inline constexpr int64_t kDirectRows = 96;  // rows of C in one task

// c [kRows, N] = or += a b. N is kVectors vectors, the last of them full if kWhole, else `last` columns wide.
template <class T, int kRows, int kVectors, bool kWhole>
[[gnu::noinline]] void direct_tile(int64_t depth, const Matrix<T>& a, const T* b, int64_t b_row, T* c,
                                   int64_t c_row, bool accumulate, int64_t last) {
  const FirstLanes<T> first(kWhole ? 0 : last);
  const FirstLanes<T>* const lanes = kWhole ? nullptr : &first;
  Simd<T> sum[kRows][kVectors] = {};
  const T* x = a.data;
  for (int64_t k = 0; k < depth; ++k, x += a.col, b += b_row)
    rank_1_update<T, ScalarStep>(sum, x, a.row, b, lanes);
  store_tile<T>(sum, c, c_row, accumulate, lanes);
}

// Most rows of a tile of so many vectors: enough independent sums to hide the latency of multiply-adds, and
// few enough to fit in registers beside a row of B and a number of A.
constexpr int64_t direct_rows(int64_t vectors) {
  constexpr int64_t kRegisters = kSimdBytes == 64 ? 32 : 16;
  const int64_t most = (kRegisters - 1 - vectors) / vectors;
  return most < 2 * kMR ? most : 2 * kMR;
}

template <class T>
using DirectTile = void (*)(int64_t depth, const Matrix<T>& a, const T* b, int64_t b_row, T* c, int64_t c_row,
                            bool accumulate, int64_t last);
template <class T>
using DirectTiles = std::array<DirectTile<T>, 2 * kMR>;  // [rows - 1]
template <class T, int kVectors, bool kWhole, int... kRow>
constexpr DirectTiles<T> direct_tiles(std::integer_sequence<int, kRow...>) {
  return {direct_tile<T, kRow + 1, kVectors, kWhole>...};
}
// [vectors - 1]
template <class T, bool kWhole, int... kVector>
const DirectTiles<T>& find_direct_tiles(int64_t vectors, std::integer_sequence<int, kVector...>) {
  static constexpr DirectTiles<T> kTable[] = {direct_tiles<T, kVector + 1, kWhole>(
      std::make_integer_sequence<int, static_cast<int>(direct_rows(kVector + 1))>{})...};
  return kTable[vectors - 1];
}

// Multiplies one strip of at most kNR columns. Its M rows are cut into tiles of about equal height.
template <class T>
void direct_strip(T* c, int64_t c_row, const Matrix<T>& a, const T* b, int64_t b_row, int64_t M, int64_t cols,
                  int64_t depth, bool accumulate) {
  const int64_t vectors = ceil_div(cols, kLanes<T>), last = cols - (vectors - 1) * kLanes<T>;
  constexpr std::make_integer_sequence<int, kNRVectors> kVectors;
  const DirectTiles<T>& of_rows = last == kLanes<T> ? find_direct_tiles<T, true>(vectors, kVectors)
                                                    : find_direct_tiles<T, false>(vectors, kVectors);
  const auto rows = static_cast<uint32_t>(M), most = static_cast<uint32_t>(direct_rows(vectors));
  const uint32_t tiles = rows <= most ? 1 : ceil_div(rows, most);
  const uint32_t height = tiles == 1 ? rows : rows / tiles,
                 taller = rows - height * tiles;  // number of tiles with one row more
  int64_t i = 0;
  for (uint32_t t = 0; t < tiles; ++t) {
    const int64_t h = height + (t < taller);
    of_rows[static_cast<size_t>(h - 1)](depth, {a.data + i * a.row, a.row, a.col}, b, b_row, c + i * c_row,
                                        c_row, accumulate, last);
    i += h;
  }
}

inline constexpr int64_t kRowStreams = 8;  // rows of B read together: more are too many for prefetchers
inline constexpr int64_t kRowBlockCols = 1 << 12;  // columns of C, which stay in the cache

// c [N] = or += x [kRows] b [kRows, N]; rows of b are contiguous.
template <class T, int kRows>
void add_rows(T* c, const T* x, int64_t x_step, const T* b, int64_t b_row, int64_t N, bool accumulate) {
  T number[kRows];
  for (int r = 0; r < kRows; ++r) number[r] = x[r * x_step];
  const auto step = [&](int64_t j, auto&& load) __attribute__((always_inline)) {
    Simd<T> sum = accumulate ? load(c + j) : Simd<T>{};
    TT_UNROLL
    for (int r = 0; r < kRows; ++r)
      sum = simd_multiply_add<T>(simd_broadcast(number[r]), load(b + r * b_row + j), sum);
    return sum;
  };
  int64_t j = 0;
  for (; j + kLanes<T> <= N; j += kLanes<T>)
    simd_store(c + j, step(j, [](const T* p) { return simd_load(p); }));
  if (j == N) return;
  const FirstLanes<T> rest(N - j);
  rest.store(c + j, step(j, [&rest](const T* p) { return rest.load(p); }));
}

// c [N] = or += a [1, K] b [K, N]; b.col == 1.
template <class T>
void row_product(T* c, const Matrix<T>& a, const Matrix<T>& b, int64_t N, int64_t K, bool accumulate,
                 bool parallel) {
  const int64_t grain = ceil_div(ceil_div(100'000, K), kNR<T>) * kNR<T>;
  maybe_parallel(parallel, N, grain, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j += kRowBlockCols) {
      const int64_t cols = std::min(kRowBlockCols, end - j);
      int64_t k = 0;
      const auto rows = [&]<int kRows>() {
        for (; k + kRows <= K; k += kRows)
          add_rows<T, kRows>(c + j, a.data + k * a.col, a.col, b.data + k * b.row + j, b.row, cols,
                             accumulate || k > 0);
      };
      rows.template operator()<kRowStreams>();
      rows.template operator()<2>();
      rows.template operator()<1>();
    }
  });
}

// c [M, N] = or += a [M, K] b [K, N]; b.col == 1.
template <class T>
void direct_product(T* c, int64_t c_row, const Matrix<T>& a, const Matrix<T>& b, int64_t M, int64_t N,
                    int64_t K, bool accumulate, bool parallel) {
  if (M <= kDirectRows && N <= kNR<T> && K <= kFullDepth && !parallel)  // one strip, no parallel loop
    return direct_strip(c, c_row, a, b.data, b.row, M, N, K, accumulate);
  if (M == 1) return row_product(c, a, b, N, K, accumulate, parallel);
  const int64_t most = M <= kFewRows ? kFewDepth : kFullDepth;
  // If there are too few strips of columns for all threads, rows are divided, too.
  const int64_t strips = ceil_div(N, kNR<T>), height = strips > 4 ? kDirectRows : kDirectRows / 8;
  const int64_t blocks = ceil_div(M, height), grain = ceil_div(100'000, std::min(M, height) * K * kNR<T>);
  maybe_parallel(parallel, strips * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t k = 0; k < K; k += most) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t i = task / strips * height, j = task % strips * kNR<T>;
        direct_strip<T>(c + i * c_row + j, c_row, {a.data + i * a.row + k * a.col, a.row, a.col},
                        b.data + k * b.row + j, b.row, std::min(height, M - i), std::min(kNR<T>, N - j),
                        std::min(most, K - k), accumulate || k > 0);
      }
    }
  });
}

inline constexpr int kDotCols = kSimdBytes == 64 ? 4 : 2;  // columns of B in a tile
inline constexpr int kDotRows = 4;                         // rows of A in a tile, at most
inline constexpr int64_t kDotElements = int64_t{1} << 17;  // elements of A in a block of rows
inline constexpr int64_t kDotPrefetchBytes = 2048;         // prefetch distance in each column

// Pairwise sum of kCount consecutive numbers, halved at each step.
template <int64_t kCount, class T>
[[gnu::always_inline]] inline T sum_of(const T* x) {
  if constexpr (kCount == 1) {
    return *x;
  } else {
    T half[kCount / 2];
    TT_UNROLL
    for (int64_t k = 0; k < kCount / 2; ++k) half[k] = multiply_add(x[k], T(1), x[k + kCount / 2]);
    return sum_of<kCount / 2>(half);
  }
}
template <class T>
[[gnu::always_inline]] inline T sum_of_lanes(Simd<T> v) {
  T x[kLanes<T>];
  simd_store(x, v);
  return sum_of<kLanes<T>>(x);
}

// kLanes<float> consecutive elements as floats.
template <class S>
[[gnu::always_inline]] inline Simd<float> load_floats(const S* p) {
  if constexpr (std::is_same_v<S, float>) {
    return simd_load(p);
  } else if constexpr (std::is_same_v<S, BFloat16>) {  // bf16 is the upper half of a float
    const Simd<uint32_t> wide = widen_words(p) << 16;
    return reinterpret_cast<Simd<float>>(wide);
  } else {
    return __builtin_convertvector(widen_bytes(p), Simd<float>);
  }
}

// c [kRows, kCols] = or += dot products of rows of a and columns of b, whose elements are S. Tiles of all
// shapes give an element the same bits, so multiply-adds are explicit.
template <class T, class S, int kRows, int kCols>
[[gnu::noinline]] void dot_tile(int64_t depth, const T* a, int64_t a_row, const S* b, int64_t b_col, T* c,
                                int64_t c_row, int64_t c_col, bool accumulate) {
  constexpr int64_t kL = kLanes<T>, kAhead = kDotPrefetchBytes / static_cast<int64_t>(sizeof(S));
  Simd<T> sum[kRows][kCols] = {};
  const auto step = [&](auto&& load_a, auto&& load_b, int64_t k) __attribute__((always_inline)) {
    Simd<T> column[kCols];
    TT_UNROLL
    for (int j = 0; j < kCols; ++j) keep_in_register(column[j] = load_b(b + j * b_col + k));
    TT_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const Simd<T> row = load_a(a + i * a_row + k);
      TT_UNROLL
      for (int j = 0; j < kCols; ++j) sum[i][j] = simd_multiply_add<T>(row, column[j], sum[i][j]);
    }
  };
  const auto load = [](const T* p) __attribute__((always_inline)) { return simd_load(p); };
  const auto load_column = [](const S* p) __attribute__((always_inline)) {
    if constexpr (std::is_same_v<T, S>)
      return simd_load(p);
    else
      return load_floats(p);
  };
  int64_t k = 0;
  for (; k + kL <= depth; k += kL) {
    if constexpr (kRows <= 2) {
      TT_UNROLL
      for (int j = 0; j < kCols; ++j) prefetch<false>(b + j * b_col + k + kAhead, 1);
    }
    step(load, load_column, k);
  }
  if (k < depth) {
    const FirstLanes<T> rest(depth - k);
    if constexpr (std::is_same_v<T, S>) {
      const auto part = [&rest](const T* p) { return rest.load(p); };
      step(part, part, k);
    } else {
      T column[kCols][kL] = {};
      for (int j = 0; j < kCols; ++j)
        for (int64_t i = k; i < depth; ++i) column[j][i - k] = convert<T>(b[j * b_col + i]);
      for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < kCols; ++j)
          sum[i][j] = simd_multiply_add<T>(rest.load(a + i * a_row + k), simd_load(column[j]), sum[i][j]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kCols; ++j) {
      T& out = c[i * c_row + j * c_col];
      const T value = sum_of_lanes<T>(sum[i][j]);
      out = accumulate ? multiply_add(value, T(1), out) : value;
    }
  }
}

template <class T, class S, int kCols>
void dot_rows(int64_t M, int64_t depth, const Matrix<T>& a, const S* b, int64_t b_col, T* c, int64_t c_row,
              int64_t c_col, bool accumulate) {
  int64_t i = 0;
  const auto rows = [&]<int kRows>() {
    for (; i + kRows <= M; i += kRows)
      dot_tile<T, S, kRows, kCols>(depth, a.data + i * a.row, a.row, b, b_col, c + i * c_row, c_row, c_col,
                                   accumulate);
  };
  rows.template operator()<kDotRows>();
  rows.template operator()<2>();
  rows.template operator()<1>();
}

// c [M, N] = or += a [M, K] b [K, N]; a.col == 1 and b.row == 1. The bits of an element of C depend on its
// row of A and its column of B alone, not on M or N. The columns of a tile come from kDotCols parts of a
// task's columns, so that a thread reads as many long sequential streams, as in gemm/gemv.hpp. A block of
// rows of A stays in the L2 cache while B is read past it.
template <class T, class S>
void dot_product(T* c, int64_t c_row, const Matrix<T>& a, const Matrix<S>& b, int64_t M, int64_t N, int64_t K,
                 bool accumulate, bool parallel) {
  const int64_t grain = ceil_div(ceil_div(100'000, M * K), kDotCols) * kDotCols;
  const int64_t block = std::max<int64_t>(kDotRows, kDotElements / K / kDotRows * kDotRows);
  maybe_parallel(parallel, N, grain, [&](int64_t begin, int64_t end) {
    const int64_t part = (end - begin) / kDotCols;
    for (int64_t i = 0; i < M; i += block) {
      const int64_t rows = std::min(block, M - i);
      const Matrix<T> above{a.data + i * a.row, a.row, a.col};
      T* const to = c + i * c_row;
      for (int64_t j = begin; j < begin + part; ++j)
        dot_rows<T, S, kDotCols>(rows, K, above, b.data + j * b.col, part * b.col, to + j, c_row, part,
                                 accumulate);
      for (int64_t j = begin + kDotCols * part; j < end; ++j)
        dot_rows<T, S, 1>(rows, K, above, b.data + j * b.col, b.col, to + j, c_row, 1, accumulate);
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
