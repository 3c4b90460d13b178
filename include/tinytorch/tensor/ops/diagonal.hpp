// The diagonal of matrices: diagonal, diag and trace.
//
//   tt::diagonal(x)   tt::diag(v)   tt::trace(x)
//
// Names and semantics are PyTorch's, and a tensor may have any dtype. Offset k > 0 lies k columns to the
// right of the main diagonal, k < 0 lies -k rows below it.
#pragma once

#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

// The elements x[.., i, .., i + offset, ..] of dimensions dim1 and dim2, as the last dimension of the result.
// It is a view if x is contiguous and the two dimensions are its last, otherwise a copy. Throws TT-SHAPE-03
// if the two dimensions are the same.
TT_API Tensor diagonal(const Tensor& x, int64_t offset = 0, int dim1 = 0, int dim2 = 1, TT_LOC);
// A vector becomes the diagonal of a matrix of zeros, and of a matrix the diagonal is returned. Throws
// TT-SHAPE-04 for another rank.
TT_API Tensor diag(const Tensor& x, int64_t offset = 0, TT_LOC);
// The sum of the diagonal of a matrix.
TT_API Tensor trace(const Tensor& x, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <string>
#include <tinytorch/tensor/rules.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

TT_API Tensor diagonal(const Tensor& x, int64_t offset, int dim1, int dim2, Loc loc) {
  require_defined("diagonal", loc, x);
  const int a = normalize_dim(dim1, x.rank(), "diagonal", loc);
  const int b = normalize_dim(dim2, x.rank(), "diagonal", loc);
  if (a == b) {
    fail("TT-SHAPE-03",
         "diagonal: the two dimensions are both " + std::to_string(a) + " of " + x.describe() +
             "\n  hint: a diagonal needs two different dimensions",
         loc);
  }
  Dims order;
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) {
    if (d == a || d == b) continue;
    order.push_back(d);
    shape.push_back(x.shape()[d]);
  }
  order.push_back(a), order.push_back(b);
  const int64_t rows = x.shape()[a], columns = x.shape()[b];
  const int64_t length = std::max<int64_t>(
      0, std::min(rows + std::min<int64_t>(offset, 0), columns - std::max<int64_t>(offset, 0)));
  const int last = shape.size();
  shape.push_back(rows * columns);
  const Tensor flat = reshape(permute(x, order, loc), shape, loc);
  if (length == 0) return slice(flat, last, 0, 0, 1, loc);
  const int64_t first = offset < 0 ? -offset * columns : offset, step = columns + 1;
  return slice(flat, last, first, first + (length - 1) * step + 1, step, loc);
}

TT_API Tensor diag(const Tensor& x, int64_t offset, Loc loc) {
  require_defined("diag", loc, x);
  if (x.rank() == 2) return diagonal(x, offset, 0, 1, loc);
  require_rank("diag", x, 1, "a vector or a matrix", loc);
  const int64_t shift = offset < 0 ? -offset : offset, n = x.shape()[0] + shift;
  // Element i of x lies in row i of the matrix for an offset >= 0, and in column i otherwise.
  const Tensor spread = reshape(pad(x, std::vector<std::pair<int64_t, int64_t>>{{0, shift}}, 0, loc),
                                offset < 0 ? Shape{1, n} : Shape{n, 1}, loc);
  const Tensor position = arange(0, n, 1, DType::i64, x.device(), loc);
  const Tensor on_it = eq(add(reshape(position, {n, 1}, loc), Scalar(offset), loc), position, loc);
  return where(on_it, spread, scalar_like(0, x, loc), loc);
}

TT_API Tensor trace(const Tensor& x, Loc loc) {
  require_defined("trace", loc, x);
  require_rank("trace", x, 2, "a matrix", loc);
  return sum(diagonal(x, 0, 0, 1, loc), {}, false, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
