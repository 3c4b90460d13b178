// The first step of a fast matrix product: the order of its three loops.
//
//   float a[6], b[12], c[8];
//   product_ikj(Rows<float>{c, 2, 4}, Rows<const float>{a, 2, 3}, Rows<const float>{b, 3, 4});
//
// Both orders compute 2 M N K operations and the same sums. product_ijk walks down a column of b, where each
// number is in another cache line: M N K lines. product_ikj walks along rows of b and of c: M N K / 16 lines
// of 16 floats each, and the compiler can use vectors. backend/cpu/gemm.hpp has the library's own product;
// the headers of this folder are the steps that lead to it.
#pragma once

#include <cstdint>
#include <tinytorch/core/config.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD::backend::cpu::ladder {

// A matrix whose rows are contiguous: element [i, j] is data[i * pitch + j]. The products below read and
// write matrices only by (i, j), rows and cols, so that another type can count the accesses.
template <class T>
struct Rows {
  using Number = std::remove_const_t<T>;
  Rows(T* first, int64_t row_count, int64_t col_count) : Rows(first, row_count, col_count, col_count) {}
  Rows(T* first, int64_t row_count, int64_t col_count, int64_t row_pitch)
      : data(first), rows(row_count), cols(col_count), pitch(row_pitch) {}
  T& operator()(int64_t i, int64_t j) const { return data[i * pitch + j]; }

  T* data;
  int64_t rows, cols, pitch;
};

// c [M, N] = a [M, K] b [K, N], one sum after the other: for each i, for each j, over k in order. The sum is
// a local number, so that each element of c is written once. What c was before is not read.
template <class C, class A, class B>
void product_ijk(const C& c, const A& a, const B& b) {
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.cols; ++j) {
      typename C::Number sum = 0;
      for (int64_t k = 0; k < a.cols; ++k) sum += a(i, k) * b(k, j);
      c(i, j) = sum;
    }
  }
}

// Computes c = a b, one row of b after the other: for each i, row i of c becomes 0; then for each k, a(i, k)
// times row k of b is added to it. Each sum still runs over k in order.
template <class C, class A, class B>
void product_ikj(const C& c, const A& a, const B& b) {
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.cols; ++j) c(i, j) = 0;
    for (int64_t k = 0; k < a.cols; ++k) {
      const auto x = a(i, k);
      for (int64_t j = 0; j < c.cols; ++j) c(i, j) += x * b(k, j);
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu::ladder
