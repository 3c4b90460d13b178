// Matrix product on the CPU: C = A B, or C += A B, for any strides and dtypes.
//
// Loops around a register tile. Slabs of A and B are packed into panels that the innermost kernel reads
// strictly forward: a panel of B fits the L1 cache, a block of A the L2, a slab the L3. Packing also absorbs
// transposes, zero-pads the edges and converts 16-bit floats, so one kernel serves all. Threads wait for each
// other twice a slab, so slabs are deep. 2 M N K FLOPs; limit: two vector FMAs per cycle. Source: Van Zee and
// van de Geijn, "BLIS: a framework for rapidly instantiating BLAS functionality", 2015.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// c [M, N] (+)= a [M, K] b [K, N]. One dtype for all three, but c may be of the type that sums are kept in:
// f32 for bf16 and f16, i32 for i8, u8 and bool. c must not overlap a or b. `parallel` false: the caller
// already runs one product per thread.
TT_API void gemm(const View& c, const View& a, const View& b, bool accumulate = false, bool parallel = true);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Register tile: BLOCK_M rows by two vectors. Accumulators fill the register file but for B's two vectors and
// one of A.
inline constexpr int64_t kTileRows = kSimdBytes == 64 ? 14 : (kSimdBytes == 32 ? 6 : 6);
template <class T>
inline constexpr int64_t kTileCols = 2 * kLanes<T>;
inline constexpr int64_t kBlockK = 256;     // depth that the kernel runs through at once
inline constexpr int64_t kBlockTiles = 16;  // height of a block of A, in tiles
inline constexpr int64_t kSlabM = 16 * kBlockTiles * kTileRows, kSlabN = 3072;  // rows and columns of a slab
inline constexpr int64_t kSlabSize = int64_t{1} << 22;  // its elements, where it is deeper than kBlockK

// acc [kTileRows, kTileCols] = sum over k of a column of A (packed [K, kTileRows]) times a row of B ([K,
// kTileCols]).
template <class T>
[[gnu::noinline]] void tile_kernel(int64_t depth, const T* a, const T* b, T* c, int64_t c_row,
                                   bool accumulate) {
  constexpr int64_t kRows = kTileRows, kL = kLanes<T>;
  Simd<T> left[kRows] = {}, right[kRows] = {};
  for (int64_t k = 0; k < depth; ++k) {
    const Simd<T> b0 = simd_load(b), b1 = simd_load(b + kL);
    TT_UNROLL
    for (int64_t i = 0; i < kRows; ++i) {
      left[i] += a[i] * b0;
      right[i] += a[i] * b1;
    }
    a += kRows;
    b += 2 * kL;
  }
  TT_UNROLL
  for (int64_t i = 0; i < kRows; ++i) {
    T* row = c + i * c_row;
    simd_store(row, accumulate ? simd_load(row) + left[i] : left[i]);
    simd_store(row + kL, accumulate ? simd_load(row + kL) + right[i] : right[i]);
  }
}

// A tile that may hang over the edge of C: computed whole, then the part that exists is copied.
template <class T>
void compute_tile(int64_t depth, const T* a, const T* b, T* c, int64_t c_row, int64_t rows, int64_t cols,
                  bool accumulate) {
  if (rows == kTileRows && cols == kTileCols<T>) return tile_kernel<T>(depth, a, b, c, c_row, accumulate);
  alignas(64) T whole[kTileRows * kTileCols<T>];
  tile_kernel<T>(depth, a, b, whole, kTileCols<T>, false);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      T& out = c[i * c_row + j];
      out = accumulate ? out + whole[i * kTileCols<T> + j] : whole[i * kTileCols<T> + j];
    }
  }
}

// panel[k * width + i] = source[i * step + k * depth_step], zero for i >= count.
template <class T, class S>
void pack_panel(T* panel, int64_t width, int64_t count, int64_t depth, const S* source, int64_t step,
                int64_t depth_step) {
  if (count < width)
    std::memset(static_cast<void*>(panel), 0, static_cast<size_t>(width * depth) * sizeof(T));
  if (step == 1) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t i = 0; i < count; ++i) panel[k * width + i] = convert<T>(source[k * depth_step + i]);
    }
    return;
  }
  constexpr int64_t kStrip = 16;  // deep enough to use whole cache lines of every source row
  for (int64_t k0 = 0; k0 < depth; k0 += kStrip) {
    const int64_t k_end = std::min(depth, k0 + kStrip);
    for (int64_t i = 0; i < count; ++i) {
      const S* row = source + i * step;
      for (int64_t k = k0; k < k_end; ++k) panel[k * width + i] = convert<T>(row[k * depth_step]);
    }
  }
}

// A matrix by address, with the distance between neighbours along each side.
template <class S>
struct Matrix {
  const S* data;
  int64_t row, col;
};

template <class F>
void maybe_parallel(bool parallel, int64_t n, int64_t grain, F&& f) {
  if (parallel) return parallel_for(n, grain, f);
  f(int64_t{0}, n);
}

inline int64_t tiles_of(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

// Rows m0 to m0 + M of A and columns n0 to n0 + N of B, between k0 and k0 + depth of both; packed, panel after
// panel.
struct Slab {
  int64_t m0, n0, k0, M, N, depth;
};

// The panels of A, and those of B if `with_right`.
template <class T, class S>
void pack_slab(T* packed_a, T* packed_b, const Matrix<S>& a, const Matrix<S>& b, const Slab& slab,
               bool with_right, bool parallel) {
  constexpr int64_t kCols = kTileCols<T>;
  const int64_t lefts = tiles_of(slab.M, kTileRows), rights = with_right ? tiles_of(slab.N, kCols) : 0;
  maybe_parallel(parallel, lefts + rights, 4, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      if (t < lefts) {
        const int64_t row = t * kTileRows;
        pack_panel(packed_a + row * slab.depth, kTileRows, std::min(kTileRows, slab.M - row), slab.depth,
                   a.data + (slab.m0 + row) * a.row + slab.k0 * a.col, a.row, a.col);
      } else {
        const int64_t col = (t - lefts) * kCols;
        pack_panel(packed_b + col * slab.depth, kCols, std::min(kCols, slab.N - col), slab.depth,
                   b.data + slab.k0 * b.row + (slab.n0 + col) * b.col, b.col, b.row);
      }
    }
  });
}

// C = or += the product of a packed slab; c is its corner. Tasks are blocks of C, all of about one size and
// some for each thread; in a task, a block of A stays in the L2 cache while panels of B pass over it.
template <class T>
void multiply_slab(T* c, int64_t c_row, const T* packed_a, const T* packed_b, const Slab& slab,
                   bool accumulate, bool parallel) {
  constexpr int64_t kCols = kTileCols<T>;
  const int64_t m_tiles = tiles_of(slab.M, kTileRows), n_tiles = tiles_of(slab.N, kCols);
  const int64_t block = tiles_of(m_tiles, tiles_of(m_tiles, kBlockTiles)), blocks = tiles_of(m_tiles, block);
  const int64_t wanted = parallel ? std::clamp<int64_t>(8 * thread_count() / blocks, 1, n_tiles) : 1;
  const int64_t strip = tiles_of(n_tiles, wanted), strips = tiles_of(n_tiles, strip);
  maybe_parallel(parallel, blocks * strips, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t i0 = task % blocks * block, j0 = task / blocks * strip;
      for (int64_t k = 0; k < slab.depth; k += kBlockK) {
        const int64_t depth = std::min(kBlockK, slab.depth - k);
        for (int64_t j = j0; j < std::min(n_tiles, j0 + strip); ++j) {
          for (int64_t i = i0; i < std::min(m_tiles, i0 + block); ++i) {
            const int64_t row = i * kTileRows, col = j * kCols;
            compute_tile(depth, packed_a + row * slab.depth + k * kTileRows,
                         packed_b + col * slab.depth + k * kCols, c + row * c_row + col, c_row,
                         std::min(kTileRows, slab.M - row), std::min(kCols, slab.N - col),
                         accumulate || k > 0);
          }
        }
      }
    }
  });
}

// C (contiguous columns, rows c_row apart) = or += A B.
template <class T, class S>
void gemm_blocked(T* c, int64_t c_row, const Matrix<S>& a, const Matrix<S>& b, int64_t M, int64_t N,
                  int64_t K, bool accumulate, bool parallel) {
  constexpr int64_t kCols = kTileCols<T>;
  const int64_t height = std::min(tiles_of(M, kTileRows) * kTileRows, kSlabM);
  const int64_t width = std::min(tiles_of(N, kCols) * kCols, kSlabN);
  const int64_t most = std::max(kBlockK, kSlabSize / (height + width) / kBlockK * kBlockK);
  Scratch<T> packed_a(height * std::min(K, most)), packed_b(width * std::min(K, most));
  parallel = parallel && 2 * M * N * K > 400'000;
  for (int64_t n0 = 0; n0 < N; n0 += width) {
    for (int64_t k0 = 0; k0 < K; k0 += most) {
      for (int64_t m0 = 0; m0 < M; m0 += height) {
        const Slab slab{
            m0, n0, k0, std::min(height, M - m0), std::min(width, N - n0), std::min(most, K - k0)};
        pack_slab(packed_a.data(), packed_b.data(), a, b, slab, m0 == 0, parallel);
        multiply_slab(c + m0 * c_row + n0, c_row, packed_a.data(), packed_b.data(), slab,
                      accumulate || k0 > 0, parallel);
      }
    }
  }
}

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

template <class T>
T dot(const T* x, const T* y, int64_t n) {
  constexpr int64_t kL = kLanes<T>;
  Simd<T> a{}, b{}, c{}, d{};
  int64_t i = 0;
  for (; i + 4 * kL <= n; i += 4 * kL) {
    a += simd_load(x + i) * simd_load(y + i);
    b += simd_load(x + i + kL) * simd_load(y + i + kL);
    c += simd_load(x + i + 2 * kL) * simd_load(y + i + 2 * kL);
    d += simd_load(x + i + 3 * kL) * simd_load(y + i + 3 * kL);
  }
  for (; i + kL <= n; i += kL) a += simd_load(x + i) * simd_load(y + i);
  const Simd<T> all = (a + b) + (c + d);
  T sum{};
  for (int64_t k = 0; k < kL; ++k) sum = multiply_add(all[k], T(1), sum);
  for (; i < n; ++i) sum = multiply_add(x[i], y[i], sum);
  return sum;
}

// One row of A: the product is bound by reading B once, and packing would read it twice.
template <class T>
void vector_times_matrix(T* c, const T* a, Matrix<T> b, int64_t N, int64_t K, bool accumulate,
                         bool parallel) {
  const int64_t grain = std::max<int64_t>(16, 65536 / std::max<int64_t>(K, 1));
  maybe_parallel(parallel, N, grain, [&](int64_t begin, int64_t end) {
    if (b.row == 1) {
      for (int64_t j = begin; j < end; ++j) {
        const T sum = dot(a, b.data + j * b.col, K);
        c[j] = accumulate ? multiply_add(sum, T(1), c[j]) : sum;
      }
      return;
    }
    if (!accumulate) std::fill(c + begin, c + end, T(0));
    for (int64_t k = 0; k < K; ++k) {
      const T* row = b.data + k * b.row;
      const T x = a[k];
      TT_SIMD
      for (int64_t j = begin; j < end; ++j) c[j] = multiply_add(x, row[j], c[j]);
    }
  });
}

// Sources S whose products are computed in T.
template <class T, class F>
void dispatch_source(DType t, F&& f) {
  if (t == dtype_of<T>) return f(static_cast<const T*>(nullptr));
  if constexpr (std::is_same_v<T, float>) {
    if (t == DType::bf16) return f(static_cast<const BFloat16*>(nullptr));
    return f(static_cast<const Half*>(nullptr));
  } else if constexpr (std::is_same_v<T, int32_t>) {
    if (t == DType::i8) return f(static_cast<const int8_t*>(nullptr));
    return f(static_cast<const uint8_t*>(nullptr));  // also bool, stored as 0 or 1
  }
}

template <class T>
void gemm_as(T* c, int64_t c_row, const View& a, const View& b, bool accumulate, bool parallel) {
  const int64_t M = a.shape[0], K = a.shape[1], N = b.shape[1];
  if (K == 0 && !accumulate) {
    for (int64_t i = 0; i < M; ++i) std::fill(c + i * c_row, c + i * c_row + N, T(0));
  }
  if (K == 0) return;
  dispatch_source<T>(a.dtype, [&]<class S>(const S*) {
    const Matrix<S> left{a.as<const S>(), a.strides[0], a.strides[1]};
    const Matrix<S> right{b.as<const S>(), b.strides[0], b.strides[1]};
    if constexpr (std::is_same_v<S, T>) {
      if (M == 1 && left.col == 1 && (right.row == 1 || right.col == 1)) {
        return vector_times_matrix(c, left.data, right, N, K, accumulate, parallel);
      }
      if (N == 1 && c_row == 1 && right.row == 1 && (left.row == 1 || left.col == 1)) {  // c^T = b^T A^T
        return vector_times_matrix(c, right.data, Matrix<T>{left.data, left.col, left.row}, M, K, accumulate,
                                   parallel);
      }
    }
    gemm_blocked<T, S>(c, c_row, left, right, M, N, K, accumulate, parallel);
  });
}

TT_API void gemm(const View& c, const View& a, const View& b, bool accumulate, bool parallel) {
  if (c.numel() == 0) return;
  dispatch_compute(a.dtype, [&]<class T>(T*) {
    const int64_t M = c.shape[0], N = c.shape[1];
    if (c.dtype == dtype_of<T> && (c.strides[1] == 1 || N == 1)) {
      return gemm_as<T>(c.as<T>(), c.strides[0], a, b, accumulate, parallel);
    }
    Scratch<T> result(M * N);
    const View whole{result.data(), dtype_of<T>, c.shape, {N, 1}};
    if (accumulate) copy(whole, c);
    gemm_as<T>(result.data(), N, a, b, accumulate, parallel);
    copy(c, whole);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
