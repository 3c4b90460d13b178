// Matrix product on the CPU: C = A B, or C += A B, for any strides and dtypes.
//
// Five loops around a register tile. Slices of A and B are packed into panels that the innermost kernel reads
// strictly forward: a panel of B fits the L1 cache, a block of A the L2. Packing also absorbs transposes,
// zero-pads the edges and converts 16-bit floats, so one kernel serves all. 2 M N K FLOPs; limit: two vector
// FMAs per cycle. Source: Van Zee and van de Geijn, "BLIS: a framework for rapidly instantiating BLAS
// functionality", 2015.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// c [M, N] (+)= a [M, K] b [K, N]. One dtype for all three, but c may be of the type that sums are kept in:
// f32 for bf16 and f16, i32 for i8, u8 and bool. c must not overlap a or b. `parallel` false: the caller already runs one product per thread.
TT_API void gemm(const View& c, const View& a, const View& b, bool accumulate = false, bool parallel = true);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BACKEND_BODIES
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/simd.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Register tile: BLOCK_M rows by two vectors. Accumulators fill the register file but for B's two vectors and
// one of A.
inline constexpr int64_t kTileRows = kSimdBytes == 64 ? 14 : (kSimdBytes == 32 ? 6 : 6);
template <class T>
inline constexpr int64_t kTileCols = 2 * kLanes<T>;
inline constexpr int64_t kBlockK = 256;   // depth of a packed slice
inline constexpr int64_t kBlockN = 3072;  // columns of B packed at a time

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

// C (contiguous columns, rows c_row apart) = or += A B.
template <class T, class S>
void gemm_blocked(T* c, int64_t c_row, Matrix<S> a, Matrix<S> b, int64_t M, int64_t N, int64_t K,
                  bool accumulate, bool parallel) {
  constexpr int64_t kCols = kTileCols<T>;
  const int64_t m_tiles = (M + kTileRows - 1) / kTileRows;
  const int64_t n_block = std::min((N + kCols - 1) / kCols * kCols, kBlockN);
  const int64_t depth_max = std::min(K, kBlockK);
  Scratch<T> packed_a(m_tiles * kTileRows * depth_max), packed_b(n_block * depth_max);
  parallel = parallel && 2 * M * N * K > 400'000;
  for (int64_t n0 = 0; n0 < N; n0 += n_block) {
    const int64_t cols = std::min(n_block, N - n0), n_tiles = (cols + kCols - 1) / kCols;
    for (int64_t k0 = 0; k0 < K; k0 += kBlockK) {
      const int64_t depth = std::min(kBlockK, K - k0);
      maybe_parallel(parallel, m_tiles, 4, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          pack_panel(packed_a.data() + t * kTileRows * depth, kTileRows,
                     std::min(kTileRows, M - t * kTileRows), depth,
                     a.data + t * kTileRows * a.row + k0 * a.col, a.row, a.col);
        }
      });
      maybe_parallel(parallel, n_tiles, 4, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          pack_panel(packed_b.data() + t * kCols * depth, kCols, std::min(kCols, cols - t * kCols), depth,
                     b.data + k0 * b.row + (n0 + t * kCols) * b.col, b.col, b.row);
        }
      });
      const bool add = accumulate || k0 > 0;
      // Tasks run down blocks of A that stay in the L2 cache while every panel of B passes over them.
      const int64_t block_tiles = std::clamp<int64_t>(m_tiles / (2 * thread_count()), 1, 16);
      const int64_t m_blocks = (m_tiles + block_tiles - 1) / block_tiles;
      const bool split_n = m_blocks < 2 * thread_count();
      const int64_t n_chunk = split_n ? std::max<int64_t>(1, n_tiles / (2 * thread_count())) : n_tiles;
      const int64_t n_chunks = (n_tiles + n_chunk - 1) / n_chunk;
      maybe_parallel(parallel, m_blocks * n_chunks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t i0 = task / n_chunks * block_tiles, j0 = task % n_chunks * n_chunk;
          for (int64_t j = j0; j < std::min(n_tiles, j0 + n_chunk); ++j) {
            for (int64_t i = i0; i < std::min(m_tiles, i0 + block_tiles); ++i) {
              compute_tile(depth, packed_a.data() + i * kTileRows * depth,
                           packed_b.data() + j * kCols * depth, c + i * kTileRows * c_row + n0 + j * kCols,
                           c_row, std::min(kTileRows, M - i * kTileRows), std::min(kCols, cols - j * kCols),
                           add);
            }
          }
        }
      });
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
