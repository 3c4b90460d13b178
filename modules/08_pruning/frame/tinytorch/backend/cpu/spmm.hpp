// Products with a sparse weight and many columns: C [N, M] = w [N, K] B [K, M].
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.6. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/backend/sparse_view.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// c [N, M] = w [N, K] b [K, M]. Floating dtypes with any strides; values of w are f32, bf16, f16 or f64. Sums
// are f32, or f64 for values of f64. A result does not depend on the number of threads.
TT_API void spmm_csr(const View& c, const CsrView& w, const View& b);
TT_API void spmm_bsr(const View& c, const BsrView& w, const View& b);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS) || defined(TINYTORCH_TASK)
#include <algorithm>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd_multiply_add.hpp>
#include <type_traits>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kSpmmVectors = 4;  // vectors of a panel
template <class T>
inline constexpr int64_t kSpmmPanel = kSpmmVectors* kLanes<T>;

template <class T>
void pack_panel(T* panel, const View& b, int64_t first);  // task 8.6
template <class T, class S, class Column>
void csr_row(T* sums, const CsrView& w, const Column* columns, int64_t n, const T* panel);  // task 8.6

// Calls rows(panel, begin, end, store) for ranges of rows of the result and each panel of b. store(n, sums)
// writes the sums of row n.
template <class T, class Rows>
void for_panels(const View& c, const View& b, int64_t N, int64_t grain, Rows&& rows) {
  constexpr int64_t kPanel = kSpmmPanel<T>;
  const int64_t K = b.shape[0], M = b.shape[1];
  Scratch<T> panel(std::max<int64_t>(1, K) * kPanel);
  const bool plain = c.dtype == dtype_of<T>;
  for (int64_t first = 0; first < M; first += kPanel) {
    pack_panel(panel.data(), b, first);
    const int64_t width = std::min(kPanel, M - first);
    const auto store = [&](int64_t n, const T* sums) {
      View to{static_cast<uint8_t*>(c.data) +
                  (n * c.strides[0] + first * c.strides[1]) * static_cast<int64_t>(size_of(c.dtype)),
              c.dtype,
              {width},
              {c.strides[1]}};
      if (!plain) return copy_view(to, contiguous_view(sums, to));
      for (int64_t m = 0; m < width; ++m) to.as<T>()[m * c.strides[1]] = sums[m];
    };
    parallel_for(N, grain, [&](int64_t begin, int64_t end) { rows(panel.data(), begin, end, store); });
  }
}

inline constexpr int64_t kSpmmNumbers = 4096;  // numbers of w that are worth a thread

template <class T, class S, class Column>
void spmm_csr_as(const View& c, const CsrView& w, const View& b) {
  const int64_t grain =
      std::max<int64_t>(1, kSpmmNumbers / std::max<int64_t>(1, w.nnz / std::max<int64_t>(1, w.rows)));
  for_panels<T>(c, b, w.rows, grain, [&](const T* panel, int64_t begin, int64_t end, auto&& store) {
    T sums[kSpmmPanel<T>];
    for (int64_t n = begin; n < end; ++n) {
      csr_row<T, S>(sums, w, static_cast<const Column*>(w.columns_of), n, panel);
      store(n, sums);
    }
  });
}

inline constexpr int64_t kBsrRows = kSimdBytes == 64 ? 4 : 2;  // rows whose sums are in registers together

// sums [kBsrRows, kSpmmPanel] = rows r to r + kBsrRows - 1 of block row `at` of w, times the panel.
template <class T, class S>
void bsr_rows(T* sums, const BsrView& w, int64_t at, int64_t r, const T* panel) {
  constexpr int64_t kL = kLanes<T>;
  Simd<T> acc[kBsrRows][kSpmmVectors] = {};
  for (int64_t i = w.offsets[at]; i < w.offsets[at + 1]; ++i) {
    const S* const block = static_cast<const S*>(w.values) + (i * w.block + r) * w.block;
    const int64_t first = w.columns_of[i] * w.block, depth = std::min(w.block, w.columns - first);
    const T* row = panel + first * kSpmmPanel<T>;
    for (int64_t k = 0; k < depth; ++k, row += kSpmmPanel<T>) {
      Simd<T> x[kSpmmVectors];
      TT_UNROLL
      for (int64_t j = 0; j < kSpmmVectors; ++j) x[j] = simd_load(row + j * kL);
      TT_UNROLL
      for (int64_t q = 0; q < kBsrRows; ++q) {
        const Simd<T> v = simd_broadcast(convert<T>(block[q * w.block + k]));
        TT_UNROLL
        for (int64_t j = 0; j < kSpmmVectors; ++j) acc[q][j] = simd_multiply_add<T>(v, x[j], acc[q][j]);
      }
    }
  }
  for (int64_t q = 0; q < kBsrRows; ++q)
    for (int64_t j = 0; j < kSpmmVectors; ++j) simd_store(sums + q * kSpmmPanel<T> + j * kL, acc[q][j]);
}

template <class T, class S>
void spmm_bsr_as(const View& c, const BsrView& w, const View& b) {
  for_panels<T>(c, b, w.block_rows(), 1, [&](const T* panel, int64_t begin, int64_t end, auto&& store) {
    T sums[kBsrRows * kSpmmPanel<T>];
    for (int64_t at = begin; at < end; ++at) {
      for (int64_t r = 0; r < w.block; r += kBsrRows) {
        if (at * w.block + r >= w.rows) break;
        bsr_rows<T, S>(sums, w, at, r, panel);
        for (int64_t q = 0; q < std::min(kBsrRows, w.rows - at * w.block - r); ++q)
          store(at * w.block + r + q, sums + q * kSpmmPanel<T>);
      }
    }
  });
}

// run<T, S>() for the type S of the values and the compute type T.
template <class Run>
void with_sparse_type(const char* op, DType dtype, Run&& run) {
  switch (dtype) {
    case DType::f32:
      return run.template operator()<float, float>();
    case DType::bf16:
      return run.template operator()<float, BFloat16>();
    case DType::f16:
      return run.template operator()<float, Half>();
    case DType::f64:
      return run.template operator()<double, double>();
    default:
      fail("TT-DTYPE-02", std::string(op) + ": the values must be floating, got " + name_of(dtype));
  }
}

TT_API void spmm_bsr(const View& c, const BsrView& w, const View& b) {
  if (c.numel() == 0) return;
  with_sparse_type("spmm_bsr", w.dtype, [&]<class T, class S>() { spmm_bsr_as<T, S>(c, w, b); });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#pragma GCC diagnostic pop

#include <tasks/backend/cpu/spmm.hpp>
#endif
