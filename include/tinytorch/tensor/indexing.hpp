// Indexing and in-place arithmetic in PyTorch's spelling, with gradients.
//
//   x[{0, kWholeRange, Span{1, 3}}]     a view                     y += x;  y *= 2;  x[0] -= 1
//   x[mask]   x[index]           copies                     x[0] = 3;  x[mask] = 0;  x[index] = rows
//
// A write to elements follows PyTorch's rules. It is recorded if the tensor or the written values require
// grad, also through a view: the base of the view becomes the result of the write. A leaf that requires grad
// refuses writes outside a NoGrad scope (TT-GRAD-04). Backward throws (TT-GRAD-02) if it needs a value that
// was overwritten. Other views of a base that were taken before a recorded write are refused when they are
// used (TT-GRAD-10), where PyTorch would compute their history anew.
#pragma once

#include <tinytorch/tensor/functions.hpp>

namespace tinytorch::inline TT_BUILD {

// Positions start, start + step, ... below stop, as in Python's start:stop:step.
struct Span {
  int64_t start = 0, stop = kEnd, step = 1;
};
inline constexpr Span kWholeRange{};

// One entry of x[{...}]: a position, which removes its dimension, or a Span, which keeps it.
struct IndexItem {
  Span span;
  bool is_position = false;
  Loc loc;
  template <std::integral I>
  IndexItem(I i, TT_LOC) : span{static_cast<int64_t>(i)}, is_position(true), loc(loc) {}
  IndexItem(Span s, TT_LOC) : span(s), loc(loc) {}
};

// The result of x[mask] or x[index]: a copy of the selected rows, which remembers where they came from, so
// that an assignment to the expression writes into x. As a variable it is an ordinary tensor.
class Selected : public Tensor {
 public:
  Selected(Tensor values, Tensor target, Tensor index, Loc loc)
      : Tensor(std::move(values)), target_(std::move(target)), index_(std::move(index)), loc_(loc) {}
  Selected(const Selected&) = default;
  Selected(Selected&&) = default;
  Selected& operator=(const Selected&) & = default;
  Selected& operator=(Selected&&) & = default;
  Selected& operator=(const Tensor& t) & {
    static_cast<Tensor&>(*this) = t;
    return *this;
  }
  void operator=(TensorArg values) &&;
  void operator=(ScalarArg number) &&;
  const Tensor& target() const { return target_; }

 private:
  Tensor target_, index_;
  Loc loc_;
};

// The positions at which x is not 0, in row-major order: i64 [N, rank]. The number of rows depends on the
// values, so a tensor on a GPU is copied to the CPU first.
TT_API Tensor nonzero(const Tensor& x, TT_LOC);
// The elements of x at which mask (bool) is true, in row-major order; both broadcast. Dtypes:
// all.
TT_API Tensor masked_select(const Tensor& x, const Tensor& mask, TT_LOC);
// A copy of x whose rows x[index] are replaced by `values`, which broadcast to the shape of x[index]. index:
// a mask (bool) of x's leading dimensions, or i64 positions in dimension 0, of any shape; negative ones count
// from the end. If a position occurs twice, the last value counts. The list of positions is read on the CPU.
TT_API Tensor index_put(const Tensor& x, const Tensor& index, const Tensor& values, TT_LOC);
// A copy of x with source's elements at the positions that gather(x, dim, index) reads; index and source have
// the same shape. If a position occurs twice, the last value counts. index is read on the CPU.
// Dtypes: all, indices i64.
TT_API Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& source, TT_LOC);
TT_API Tensor scatter(const Tensor& x, int dim, const Tensor& index, Scalar value, TT_LOC);
// Writes the elements of y, which may be a view; `values` broadcast to its shape and take its dtype and
// device.
TT_API void write_elements(const char* op, const Tensor& y, const Tensor& values, Loc loc);

TT_API Tensor operator+=(TensorArg y, TensorArg b);
TT_API Tensor operator-=(TensorArg y, TensorArg b);
TT_API Tensor operator*=(TensorArg y, TensorArg b);
TT_API Tensor operator/=(TensorArg y, TensorArg b);
TT_API Tensor operator+=(TensorArg y, Scalar b);
TT_API Tensor operator-=(TensorArg y, Scalar b);
TT_API Tensor operator*=(TensorArg y, Scalar b);
TT_API Tensor operator/=(TensorArg y, Scalar b);
// x[mask] += b reads, computes and writes back, as in Python.
inline void operator+=(Selected&& y, TensorArg b) { std::move(y) = add(y, b.tensor, b.loc); }
inline void operator-=(Selected&& y, TensorArg b) { std::move(y) = sub(y, b.tensor, b.loc); }
inline void operator*=(Selected&& y, TensorArg b) { std::move(y) = mul(y, b.tensor, b.loc); }
inline void operator/=(Selected&& y, TensorArg b) { std::move(y) = div(y, b.tensor, b.loc); }
inline void operator+=(Selected&& y, Scalar b) { std::move(y) = add(y, scalar_like(b, y)); }
inline void operator-=(Selected&& y, Scalar b) { std::move(y) = sub(y, scalar_like(b, y)); }
inline void operator*=(Selected&& y, Scalar b) { std::move(y) = mul(y, scalar_like(b, y)); }
inline void operator/=(Selected&& y, Scalar b) { std::move(y) = div(y, scalar_like(b, y)); }

}  // namespace tinytorch::inline TT_BUILD
