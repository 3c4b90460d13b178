// Functions that the formats of sparse matrices share: they find the elements of a matrix that are kept, and
// check the parts of a matrix that was read from a file.
#pragma once

#include <cstring>
#include <string>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD::pruning {

// A matrix on the CPU, row by row, and which of its elements are stored: all that differ from 0, NaN too.
struct KeptElements {
  Tensor matrix;  // contiguous, on the CPU
  Tensor kept;    // bool [N, K]
  int64_t N = 0, K = 0;

  // Throws TT-SHAPE-02 unless w is a matrix.
  KeptElements(const char* op, const Tensor& w, Loc loc) {
    const NoGrad no_grad;
    require_defined(op, loc, w);
    if (w.rank() != 2)
      fail("TT-SHAPE-02", std::string(op) + ": needs a matrix [N, K], got " + w.describe(), loc);
    matrix = w.detach().to(cpu, loc).contiguous();
    kept = ne(matrix, zeros(Shape{}, matrix.dtype(), cpu, loc), loc);
    N = w.size(0), K = w.size(1);
  }
  bool at(int64_t n, int64_t k) const { return flags()[n * K + k]; }
  int64_t count() const {
    int64_t all = 0;
    for (int64_t i = 0; i < N * K; ++i) all += flags()[i] ? 1 : 0;
    return all;
  }
  const uint8_t* bytes() const { return static_cast<const uint8_t*>(matrix.raw()); }
  size_t element() const { return size_of(matrix.dtype()); }

 private:
  const bool* flags() const { return static_cast<const bool*>(kept.raw()); }
};

// Throws TT-PRUNE-05, because the parts of a sparse matrix contradict each other.
inline void require_part(bool fits, const char* format, const std::string& rule, Loc loc) {
  if (fits) return;
  fail("TT-PRUNE-05",
       std::string("these tensors are no parts of a ") + format + " matrix\n  rule: " + rule +
           "\n  hint: take all parts from the same matrix or file",
       loc);
}
inline bool is_part(const Tensor& t, DType dtype, const Shape& shape) {
  return t.defined() && t.dtype() == dtype && t.shape() == shape && t.is_contiguous();
}
// Returns true if offsets [n + 1] begin with 0, never descend, and end with `last`. They may be on any
// device.
inline bool are_offsets(const Tensor& offsets, int64_t n, int64_t last, Loc loc) {
  if (n < 0 || !is_part(offsets, DType::i64, {n + 1})) return false;
  const Tensor here = offsets.to(cpu, loc);
  const auto* const at = here.data<int64_t>();
  for (int64_t i = 0; i < n; ++i)
    if (at[i] > at[i + 1]) return false;
  return at[0] == 0 && at[n] == last;
}

// The part, or a copy of it if it begins between multiples of 16 bytes, which kernels read at once.
inline Tensor aligned_part(const Tensor& t, Loc loc) {
  return reinterpret_cast<uintptr_t>(t.view_of().data) % 16 == 0 ? t : t.clone(loc);
}

// The bytes of a part; 0 if it is undefined.
inline int64_t bytes_of_part(const Tensor& t) {
  return t.defined() ? t.numel() * static_cast<int64_t>(size_of(t.dtype())) : 0;
}

}  // namespace tinytorch::inline TT_BUILD::pruning
