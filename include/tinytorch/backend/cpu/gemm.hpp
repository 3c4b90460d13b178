// Matrix product on the CPU: C = A B, or C += A B, for any strides and dtypes.
//
// Large products use packed panels and a micro-kernel (gemm/blocked.hpp, gemm/micro_kernel.hpp). Small
// products and those of few rows read the operands in place (gemm/direct.hpp). 8-bit integers have their own
// kernels (gemm/int8.hpp), and bf16 has them on some processors (core/simd_dot.hpp, gemm/amx.hpp). Work: 2 M
// N K FLOPs. Limit: two vector multiply-adds per cycle, or reading B once.
#pragma once

#include <tinytorch/backend/cpu/gemm/epilogue.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// c [M, N] = or += a [M, K] b [K, N]. All three have one dtype, or c has the accumulate type: f32 for bf16
// and f16, i32 for i8, u8 and bool. c must not overlap a or b. parallel false: the caller already runs one
// product per thread. `epilogue` is called on complete sums before they are converted to c's dtype.
TT_API void gemm(const View& c, const View& a, const View& b, bool accumulate = false, bool parallel = true,
                 const Epilogue& epilogue = {});

// True on a thread whose products add the terms of each row in one order, whatever the number of rows: the
// bits of a row of C do not depend on the rows beside it. By default, each size of product takes the order in
// which it is fastest. Products with weights as of a linear layer (contiguous along K) keep most of their
// speed; others are computed row by row.
TT_API bool& products_by_rows();

// Sets products_by_rows() until the end of the C++ scope.
class ProductsByRows {
 public:
  explicit ProductsByRows(bool on = true) : before_(products_by_rows()) { products_by_rows() = on; }
  ~ProductsByRows() { products_by_rows() = before_; }
  ProductsByRows(const ProductsByRows&) = delete;
  ProductsByRows& operator=(const ProductsByRows&) = delete;

 private:
  bool before_;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <optional>
#include <tinytorch/backend/cpu/gemm/amx.hpp>
#include <tinytorch/backend/cpu/gemm/blocked.hpp>
#include <tinytorch/backend/cpu/gemm/direct.hpp>
#include <tinytorch/backend/cpu/gemm/gemv.hpp>
#include <tinytorch/backend/cpu/gemm/int8.hpp>
#include <tinytorch/backend/cpu/loops/copy.hpp>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kMaxUnpackedWork = 64 * 64 * 64;  // multiply-adds up to which packing does not pay

// Calls f with a null pointer of the element type S of dtype t, where products of S are computed in T.
template <class T, class F>
void dispatch_source(DType t, F&& f) {
  if (t == dtype_of<T>) return f(static_cast<const T*>(nullptr));
  if constexpr (std::is_same_v<T, float>) {
    if (t == DType::bf16) return f(static_cast<const BFloat16*>(nullptr));
    return f(static_cast<const Half*>(nullptr));
  }
}

// True if a product is faster without packing. The answer must not depend on the number of threads.
template <class T>
bool is_faster_unpacked(int64_t M, int64_t N, int64_t K) {
  return M <= kFewRows || 2 * N <= kNR<T> || M * N * K <= kMaxUnpackedWork;
}

// c [M, N] = or += a b, where columns of B are contiguous: B is transposed, a strip of columns at a time.
template <class T>
void direct_transposed(T* c, int64_t c_row, const Matrix<T>& a, const Matrix<T>& b, int64_t M, int64_t N,
                       int64_t K, bool accumulate, bool parallel) {
  constexpr int64_t kStackElements = 4096, kCols = kNR<T>, kL = kLanes<T>;
  alignas(64) T on_stack[kStackElements];
  if (N <= kL && K * kL <= kStackElements) {
    pack_panel<kL, false>(on_stack, N, K, b.data, b.col, b.row);
    return direct_product(c, c_row, a, Matrix<T>{on_stack, kL, 1}, M, N, K, accumulate, parallel);
  }
  std::optional<Scratch<T>> on_heap;
  if (K * kCols > kStackElements) on_heap.emplace(K * kCols);
  T* const rows = on_heap ? on_heap->data() : on_stack;
  for (int64_t j = 0; j < N; j += kCols) {
    const int64_t cols = std::min(kCols, N - j);
    pack_panel<kCols, false>(rows, cols, K, b.data + j * b.col, b.col, b.row);
    direct_product(c + j, c_row, a, Matrix<T>{rows, kCols, 1}, M, cols, K, accumulate, parallel);
  }
}

// Computes the product without packing and returns true, or returns false if packing is faster.
template <class T>
bool gemm_unpacked(T* c, int64_t c_row, const Matrix<T>& a, const Matrix<T>& b, int64_t M, int64_t N,
                   int64_t K, bool accumulate, bool parallel) {
  if (N == 1 && c_row == 1 && M > 1) {  // c^T = b^T a^T
    const Matrix<T> row{b.data, 1, b.row};
    return gemm_unpacked(c, M, row, Matrix<T>{a.data, a.col, a.row}, 1, M, K, accumulate, parallel);
  }
  if (!is_faster_unpacked<T>(M, N, K)) return false;
  parallel = parallel && 2 * M * N * K > kParallelFlops;
  if (b.col == 1 || N == 1) {
    direct_product(c, c_row, a, b, M, N, K, accumulate, parallel);
    return true;
  }
  const bool small = M * N * K <= kMaxUnpackedWork;
  if (M <= (small ? 2 : kFewRows) && b.row == 1 && (a.col == 1 || K == 1)) {
    dot_product(c, c_row, a, b, M, N, K, accumulate, parallel);
    return true;
  }
  if (M <= kFewRows && !small) return false;
  // One thread transposes a small product: waking others takes longer.
  direct_transposed(c, c_row, a, b, M, N, K, accumulate, parallel && !small);
  return true;
}

// True if v has dtype T and contiguous rows.
template <class T>
bool has_contiguous_rows(const View& v) {
  return v.dtype == dtype_of<T> && v.strides[1] == 1;
}
// n elements of row i of a matrix from column j on, as T: in place, or converted into `buffer`.
template <class T>
const T* read_row(const View& v, int64_t i, int64_t j, int64_t n, T* buffer) {
  const int64_t offset = i * v.strides[0] + j * v.strides[1];
  if (has_contiguous_rows<T>(v)) return v.as<const T>() + offset;
  dispatch(v.dtype,
           [&]<class From>(From*) { convert_run(buffer, 1, v.as<const From>() + offset, v.strides[1], n); });
  return buffer;
}
// Stores n values into row i of a matrix from column j on, converted to its dtype.
template <class T>
void write_row(const View& v, int64_t i, int64_t j, int64_t n, const T* values) {
  dispatch(v.dtype, [&]<class To>(To*) {
    convert_run(v.as<To>() + i * v.strides[0] + j * v.strides[1], v.strides[1], values, 1, n);
  });
}

// A product under products_by_rows(), without the epilogue. False if each row is a product of its own.
template <class T, class S>
bool gemm_by_rows(T* c, int64_t c_row, const Matrix<S>& a, const Matrix<S>& b, int64_t M, int64_t N,
                  int64_t K, bool accumulate, bool parallel) {
  parallel = parallel && 2 * M * N * K > kParallelFlops;
  if (b.row != 1 && K > 1) return false;
  if constexpr (std::is_same_v<S, T> && std::is_floating_point_v<T>) {
    if (a.col != 1 && K > 1) return false;
    dot_product(c, c_row, a, b, M, N, K, accumulate, parallel);
    return true;
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    Scratch<float> rows(M * K);
    for (int64_t i = 0; i < M; ++i) convert_run(rows.data() + i * K, 1, a.data + i * a.row, a.col, K);
    dot_product(c, c_row, Matrix<float>{rows.data(), K, 1}, b, M, N, K, accumulate, parallel);
    return true;
  }
  return false;
}

template <class T>
void gemm_as(T* c, int64_t c_row, const View& a, const View& b, bool accumulate, bool parallel,
             const Epilogue& epilogue) {
  const int64_t M = a.shape[0], K = a.shape[1], N = b.shape[1];
  const SumBlock all{0, M, 0, N, c, c_row};
  if (K == 0) {
    for (int64_t i = 0; i < M && !accumulate; ++i) std::fill(c + i * c_row, c + i * c_row + N, T(0));
    return epilogue(all);
  }
  if constexpr (std::is_same_v<T, int32_t>) {
    if (a.dtype != DType::i32)
      return gemm_int8({c, DType::i32, {M, N}, {c_row, 1}}, a, b, accumulate, parallel, epilogue);
  }
  dispatch_source<T>(a.dtype, [&]<class S>(const S*) {
    const Matrix<S> matrix_a{a.as<const S>(), a.strides[0], a.strides[1]};
    const Matrix<S> matrix_b{b.as<const S>(), b.strides[0], b.strides[1]};
    if (std::is_floating_point_v<T> && products_by_rows()) {
      if (gemm_by_rows(c, c_row, matrix_a, matrix_b, M, N, K, accumulate, parallel)) return epilogue(all);
      if (M > 1) {
        const auto row = [&](const View& v, int64_t i) {
          return View{v.as<char>() + i * v.strides[0] * static_cast<int64_t>(size_of(v.dtype)),
                      v.dtype,
                      {1, v.shape[1]},
                      v.strides};
        };
        for (int64_t i = 0; i < M; ++i)
          gemm_as<T>(c + i * c_row, c_row, row(a, i), b, accumulate, parallel, Epilogue());
        return epilogue(all);
      }
    }
    if constexpr (std::is_same_v<S, T> && std::is_floating_point_v<T>) {
      if (gemm_unpacked(c, c_row, matrix_a, matrix_b, M, N, K, accumulate, parallel)) return epilogue(all);
    }
    if constexpr (std::is_same_v<S, BFloat16>) {
      if (M == 1 && !accumulate &&
          (matrix_b.row == 1 || K == 1)) {  // one row times weights of a linear layer: gemv reads them once
        Scratch<float> row(K);
        copy_view({row.data(), DType::f32, {K}, {1}}, {a.data, a.dtype, {K}, {matrix_a.col}});
        gemv({c, DType::f32, {N}, {1}}, {row.data(), DType::f32, {K}, {1}},
             {b.data, b.dtype, {N, K}, {matrix_b.col, 1}});
        return epilogue(all);
      }
      if (has_amx())
        return gemm_amx(c, c_row, Bf16PairOperand{matrix_a},
                        Bf16PairOperand{Matrix<S>{matrix_b.data, matrix_b.col, matrix_b.row}}, M, N, K,
                        accumulate, parallel, epilogue);
      if constexpr (kFastDot2)
        return gemm_blocked_pairs(c, c_row, matrix_a, matrix_b, M, N, K, accumulate, parallel, epilogue);
    }
    gemm_blocked<T, S>(c, c_row, matrix_a, matrix_b, M, N, K, accumulate, parallel, epilogue);
  });
}

TT_API bool& products_by_rows() {
  thread_local bool on = false;
  return on;
}

TT_API void gemm(const View& c, const View& a, const View& b, bool accumulate, bool parallel,
                 const Epilogue& epilogue) {
  if (c.numel() == 0) return;
  dispatch_compute(a.dtype, [&]<class T>(T*) {
    const int64_t M = c.shape[0], N = c.shape[1];
    if (has_contiguous_rows<T>(c) || (c.dtype == dtype_of<T> && N == 1)) {
      return gemm_as<T>(c.as<T>(), c.strides[0], a, b, accumulate, parallel, epilogue);
    }
    Scratch<T> result(M * N);
    const View whole{result.data(), dtype_of<T>, c.shape, {N, 1}};
    if (accumulate) copy_view(whole, c);
    const auto store = [&](const SumBlock& sums) {
      epilogue(sums);
      for (int64_t r = 0; r < sums.rows; ++r)
        write_row(c, sums.i + r, sums.j, sums.cols, sums.template at<const T>(r));
    };
    gemm_as<T>(result.data(), N, a, b, accumulate, parallel, Epilogue(store, true));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
