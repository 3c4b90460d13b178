// GEMM epilogue: bias, residual, activation and scaling, applied to blocks of C while they are in cache.
#pragma once

#include <cstdint>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Complete sums of rows [i, i + rows) and columns [j, j + cols) of C, in the accumulate type. `data` is C
// itself if C has that type; otherwise it is scratch memory that is converted to C afterwards.
struct SumBlock {
  int64_t i, rows, j, cols;
  void* data;
  int64_t row;  // row stride of data

  // Address of the sum in row i + r and column j + k.
  template <class T>
  T* at(int64_t r, int64_t k = 0) const {
    return static_cast<T*>(data) + r * row + k;
  }
};

// A function that GEMM calls on blocks of complete sums and that may change them. Each element of C is in
// exactly one block, and the thread that computed the block makes the call. The class holds a reference to a
// function object that outlives the product: it costs one indirect call for a block.
class Epilogue {
 public:
  Epilogue() = default;
  // by_rows: f reads or writes other matrices as large as C; it is then called on whole rows after the
  // product is complete. Blocks of the product are tall and narrow, so each row of a block would touch its
  // own page of the other matrix; this costs more than to read the sums again (measured: 1.5 times the time
  // of 1024 x 1024 x 64).
  template <class F>
  explicit Epilogue(const F& f, bool by_rows = false)
      : call_([](const void* self, const SumBlock& sums) { (*static_cast<const F*>(self))(sums); }),
        self_(&f),
        by_rows_(by_rows) {}
  void operator()(const SumBlock& sums) const {
    if (call_) call_(self_, sums);
  }
  bool by_rows() const { return by_rows_; }

 private:
  void (*call_)(const void* self, const SumBlock& sums) = nullptr;
  const void* self_ = nullptr;
  bool by_rows_ = false;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
