// The first step of a fast matrix product: the order of its three loops.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.1. It is cut
// from the library's header by modules/frames.py.
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

template <class C, class A, class B>
void product_ijk(const C& c, const A& a, const B& b);  // task 6.1
template <class C, class A, class B>
void product_ikj(const C& c, const A& a, const B& b);  // task 6.1

}  // namespace tinytorch::inline TT_BUILD::backend::cpu::ladder

#include <tasks/backend/cpu/ladder/loops.hpp>
