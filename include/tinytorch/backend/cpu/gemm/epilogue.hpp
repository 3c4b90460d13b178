// What a matrix product does with its sums when they are complete and still in the cache: bias, residual,
// activation, scales.
#pragma once

#include <cstdint>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Complete sums of rows [i, i + rows) and columns [j, j + cols) of C, in the type that sums are kept in: in C
// itself where that is C's type, else in scratch memory, from where they are rounded to C afterwards.
struct Sums {
  int64_t i, rows, j, cols;
  void* data;
  int64_t row;  // from one row to the next

  // Row i + r from column j + k on.
  template <class T>
  T* at(int64_t r, int64_t k = 0) const {
    return static_cast<T*>(data) + r * row + k;
  }
};

// Is called for blocks that hold each element once, by the thread that formed them, and may change the sums.
// A reference to a function object that outlives the product, not a copy: it costs one indirect call for a
// block.
class Epilogue {
 public:
  Epilogue() = default;
  // by_rows: f touches other matrices as large as C, and is called for whole rows when the product is done.
  // Blocks are high and narrow: each piece of a row of another matrix would lie in a page of its own, which
  // costs more than to read the sums once more (measured: 1.5 times the time of 1024 x 1024 x 64).
  template <class F>
  explicit Epilogue(const F& f, bool by_rows = false)
      : call_([](const void* self, const Sums& sums) { (*static_cast<const F*>(self))(sums); }),
        self_(&f),
        by_rows_(by_rows) {}
  void operator()(const Sums& sums) const {
    if (call_) call_(self_, sums);
  }
  bool by_rows() const { return by_rows_; }

 private:
  void (*call_)(const void* self, const Sums& sums) = nullptr;
  const void* self_ = nullptr;
  bool by_rows_ = false;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
