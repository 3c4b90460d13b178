// Products, rearrangements and indexed reads and writes that are composed of other operations, which have the
// kernels and the derivatives.
//
//   tt::bmm(a, b)   tt::movedim(x, 0, -1)   tt::repeat_interleave(x, 4, 1)   tt::index_add(x, 0, i, rows)
//
// Names and semantics are PyTorch's. x has any dtype, unless a line says otherwise.
#pragma once

#include <optional>
#include <string>
#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

// --- products of floating-point matrices, which throw TT-SHAPE-04 for another rank ---
TT_API Tensor mm(const Tensor& a, const Tensor& b, TT_LOC);   // [M, K] x [K, N] -> [M, N]
TT_API Tensor mv(const Tensor& a, const Tensor& b, TT_LOC);   // [M, K] x [K] -> [M]
TT_API Tensor bmm(const Tensor& a, const Tensor& b, TT_LOC);  // [B, M, K] x [B, K, N] -> [B, M, N]
// The sum of the products of two vectors, which may be integers. Throws TT-SHAPE-02 if their lengths differ.
TT_API Tensor dot(const Tensor& a, const Tensor& b, TT_LOC);
// beta x + alpha (a b), a [M, K], b [K, N]; x broadcasts to [M, N]
TT_API Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
                    TT_LOC);
// The sum of products over the last `dims` dimensions of a and the first of b.
TT_API Tensor tensordot(const Tensor& a, const Tensor& b, int dims = 2, TT_LOC);

// --- rearrangements ---
TT_API Tensor tile(const Tensor& x, const Dims& counts, TT_LOC);  // repeat; missing leading counts are 1
// Each element `count` times in a row: [a, b] -> [a, a, b, b], along dim or of all elements in row-major
// order.
TT_API Tensor repeat_interleave(const Tensor& x, int64_t count, std::optional<int> dim = {}, TT_LOC);
TT_API Tensor movedim(const Tensor& x, int source, int destination, TT_LOC);  // view
TT_API Tensor swapaxes(const Tensor& x, int a, int b, TT_LOC);                // transpose
TT_API Tensor ravel(const Tensor& x, TT_LOC);                                 // reshape(x, {-1})
TT_API Tensor broadcast_to(const Tensor& x, const Shape& shape, TT_LOC);      // expand
TT_API Tensor expand_as(const Tensor& x, const Tensor& other, TT_LOC);
TT_API Tensor reshape_as(const Tensor& x, const Tensor& other, TT_LOC);
// Dimension dim becomes several of the given sizes, one of which may be -1. Throws TT-SHAPE-01 if these sizes
// do not multiply to that of dim.
TT_API Tensor unflatten(const Tensor& x, int dim, const Shape& sizes, TT_LOC);
TT_API Tensor hstack(const Tensors& xs, TT_LOC);  // joined along dimension 1; scalars and vectors along 0
TT_API Tensor vstack(const Tensors& xs, TT_LOC);  // joined along dimension 0; a vector is a row
TT_API Tensor fliplr(const Tensor& x, TT_LOC);    // dimension 1 backwards
TT_API Tensor flipud(const Tensor& x, TT_LOC);    // dimension 0 backwards
// Vectors of sizes N0, N1, ... -> as many tensors [N0, N1, ...] (views), the i-th of which varies along
// dimension i. indexing "xy" swaps the first two dimensions. Throws TT-RANGE-08 for another word.
TT_API Tensors meshgrid(const Tensors& xs, const std::string& indexing = "ij", TT_LOC);
// Without a list: hstack(x, y), vstack(x, y), meshgrid(x, y)
template <std::same_as<Tensor>... More>
Tensor hstack(TensorArg a, const Tensor& b, const More&... more) {
  return hstack(Tensors{a.tensor, b, more...}, a.loc);
}
template <std::same_as<Tensor>... More>
Tensor vstack(TensorArg a, const Tensor& b, const More&... more) {
  return vstack(Tensors{a.tensor, b, more...}, a.loc);
}
template <std::same_as<Tensor>... More>
Tensors meshgrid(TensorArg a, const Tensor& b, const More&... more) {
  return meshgrid(Tensors{a.tensor, b, more...}, "ij", a.loc);
}
// [..., C r^2, H, W] -> [..., C, H r, W r] and back. Throws TT-SHAPE-12 if a size is no multiple.
TT_API Tensor pixel_shuffle(const Tensor& x, int64_t factor, TT_LOC);
TT_API Tensor pixel_unshuffle(const Tensor& x, int64_t factor, TT_LOC);
TT_API Tensor diff(const Tensor& x, int64_t n = 1, int dim = -1, TT_LOC);  // x[1:] - x[:-1], n times
TT_API Tensor argsort(const Tensor& x, int dim = -1, bool descending = false, TT_LOC);  // sort().indices

// --- indexed reads and writes; index i64, positions >= 0 ---
// gather, where the other dimensions of x and index broadcast.
TT_API Tensor take_along_dim(const Tensor& x, const Tensor& index, int dim, TT_LOC);
// A copy of x with source's i-th slice along dim added to slice index[i]. index [N]; source has the shape of
// x with N along dim. Positions may occur several times.
TT_API Tensor index_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source, TT_LOC);
// A copy of x whose slices at the positions index [N] along dim are `value`. Dtypes: all, indices i64.
TT_API Tensor index_fill(const Tensor& x, int dim, const Tensor& index, Scalar value, TT_LOC);
// Counts how often each number of x (i64 [N], >= 0) occurs, or sums the weights [N] of each number. The
// result has max(x) + 1 elements, or `minimum` if that is more. The maximum is read on the host. There are no
// derivatives without weights.
TT_API Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minimum = 0, TT_LOC);
// Tells for each element of x whether it is one of `values` (bool, shape of x). It takes the memory of all
// pairs.
TT_API Tensor isin(const Tensor& x, const Tensor& values, TT_LOC);
// The position in each ascending row of sorted [..., N] (or [N] for all) before which a value belongs: i64 of
// the shape of values [..., M]. right: behind equal elements. NaN belongs to the end. Memory: all pairs.
TT_API Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false, TT_LOC);
TT_API Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right = false, TT_LOC);

TT_API Tensor rand_like(const Tensor& x, TT_LOC);  // shape, dtype and device of x
TT_API Tensor randn_like(const Tensor& x, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <tinytorch/tensor/ops/index.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>
#include <tinytorch/tensor/ops/shape.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

TT_API Tensor mm(const Tensor& a, const Tensor& b, Loc loc) {
  require_defined("mm", loc, a, b);
  for (const Tensor* t : {&a, &b}) require_rank("mm", *t, 2, "a matrix", loc);
  return matmul(a, b, loc);
}
TT_API Tensor mv(const Tensor& a, const Tensor& b, Loc loc) {
  require_defined("mv", loc, a, b);
  require_rank("mv", a, 2, "a matrix [M, K]", loc);
  require_rank("mv", b, 1, "a vector [K]", loc);
  return matmul(a, b, loc);
}
TT_API Tensor bmm(const Tensor& a, const Tensor& b, Loc loc) {
  require_defined("bmm", loc, a, b);
  for (const Tensor* t : {&a, &b}) require_rank("bmm", *t, 3, "a batch of matrices", loc);
  if (a.shape()[0] != b.shape()[0]) {
    fail("TT-SHAPE-02",
         "bmm: needs batches of one size: " + describe_operands({a, b}) +
             "\n  hint: matmul broadcasts a batch of size 1",
         loc);
  }
  return matmul(a, b, loc);
}
TT_API Tensor dot(const Tensor& a, const Tensor& b, Loc loc) {
  require_defined("dot", loc, a, b);
  if (a.rank() != 1 || a.shape() != b.shape()) {
    fail("TT-SHAPE-02",
         "dot: needs two vectors of one length: " + describe_operands({a, b}) +
             "\n  hint: matmul multiplies matrices",
         loc);
  }
  return is_floating(a.dtype()) ? matmul(a, b, loc) : sum(mul(a, b, loc), {}, false, loc);
}
TT_API Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha, Loc loc) {
  require_defined("addmm", loc, x, a, b);
  const Tensor product = mm(a, b, loc), scaled = alpha == 1 ? product : mul(product, Scalar(alpha), loc);
  const Tensor base = expand(x, product.shape(), loc);  // x never widens the product
  if (beta == 0) return scaled;                         // as in PyTorch, a NaN of x does not count then
  return add(beta == 1 ? base : mul(base, Scalar(beta), loc), scaled, loc);
}
TT_API Tensor tensordot(const Tensor& a, const Tensor& b, int dims, Loc loc) {
  require_defined("tensordot", loc, a, b);
  bool fits = dims >= 0 && dims <= a.rank() && dims <= b.rank();
  for (int d = 0; fits && d < dims; ++d) fits = a.shape()[a.rank() - dims + d] == b.shape()[d];
  if (!fits) {
    fail("TT-SHAPE-13",
         "tensordot: the last " + std::to_string(dims) +
             " dimensions of the first operand must be the first " + std::to_string(dims) +
             " of the second: " + describe_operands({a, b}),
         loc);
  }
  Shape shape;
  int64_t rows = 1, columns = 1, depth = 1;
  for (int d = 0; d < a.rank() - dims; ++d) shape.push_back(a.shape()[d]), rows *= a.shape()[d];
  for (int d = 0; d < dims; ++d) depth *= b.shape()[d];
  for (int d = dims; d < b.rank(); ++d) shape.push_back(b.shape()[d]), columns *= b.shape()[d];
  const Tensor product = matmul(reshape(a, {rows, depth}, loc), reshape(b, {depth, columns}, loc), loc);
  return reshape(product, shape, loc);
}

TT_API Tensor tile(const Tensor& x, const Dims& counts, Loc loc) {
  require_defined("tile", loc, x);
  Dims all;
  for (int d = static_cast<int>(counts.size()); d < x.rank(); ++d) all.push_back(1);
  for (const int64_t n : counts) all.push_back(n);
  return repeat(x, all, loc);
}
TT_API Tensor repeat_interleave(const Tensor& x, int64_t count, std::optional<int> dim, Loc loc) {
  require_defined("repeat_interleave", loc, x);
  if (count < 0) fail("TT-SHAPE-12", "repeat_interleave: needs a count of at least 0", loc);
  if (!dim) return repeat_interleave(reshape(x, {x.numel()}, loc), count, 0, loc);
  const int d = indexed_dim("repeat_interleave", x, *dim, loc);
  Shape repeated = x.shape(), result = x.shape();
  repeated.insert(d + 1, count);
  result[d] *= count;
  const Tensor y = reshape(expand(unsqueeze(x, d + 1, loc), repeated, loc), result, loc);
  return y.storage() == x.storage() ? clone(y, loc) : y;
}
TT_API Tensor movedim(const Tensor& x, int source, int destination, Loc loc) {
  require_defined("movedim", loc, x);
  const int from = normalize_dim(source, x.rank(), "movedim", loc);
  const int to = normalize_dim(destination, x.rank(), "movedim", loc);
  Dims order;
  for (int d = 0; d < x.rank(); ++d)
    if (d != from) order.push_back(d);
  if (x.rank() > 0) order.insert(to, from);
  return permute(x, order, loc);
}
TT_API Tensor swapaxes(const Tensor& x, int a, int b, Loc loc) { return transpose(x, a, b, loc); }
TT_API Tensor ravel(const Tensor& x, Loc loc) {
  require_defined("ravel", loc, x);
  return reshape(x, {x.numel()}, loc);
}
TT_API Tensor broadcast_to(const Tensor& x, const Shape& shape, Loc loc) { return expand(x, shape, loc); }
TT_API Tensor expand_as(const Tensor& x, const Tensor& other, Loc loc) {
  require_defined("expand_as", loc, x, other);
  return expand(x, other.shape(), loc);
}
TT_API Tensor reshape_as(const Tensor& x, const Tensor& other, Loc loc) {
  require_defined("reshape_as", loc, x, other);
  return reshape(x, other.shape(), loc);
}
TT_API Tensor unflatten(const Tensor& x, int dim, const Shape& sizes, Loc loc) {
  require_defined("unflatten", loc, x);
  const int d = indexed_dim("unflatten", x, dim, loc);
  int64_t product = 1, open = 0;
  for (const int64_t n : sizes) n == -1 ? ++open : product *= n;
  const int64_t size = x.shape()[d];
  if (open > 1 || (open == 1 ? product == 0 || size % product != 0 : product != size)) {
    fail("TT-SHAPE-01",
         "unflatten: dimension " + std::to_string(d) + " of " + x.describe() + " cannot have the sizes " +
             sizes.str(),
         loc);
  }
  Shape shape;
  for (int i = 0; i < d; ++i) shape.push_back(x.shape()[i]);
  for (const int64_t n : sizes) shape.push_back(n == -1 ? size / product : n);
  for (int i = d + 1; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return reshape(x, shape, loc);
}

// Returns the tensors with dimensions of size 1 added in front, up to `rank`.
inline Tensors with_rank(const char* op, const Tensors& xs, int rank, Loc loc) {
  if (xs.empty()) fail("TT-SHAPE-10", std::string(op) + ": needs at least one tensor", loc);
  Tensors all;
  for (const Tensor& t : xs) {
    require_defined(op, loc, t);
    Tensor y = t;
    while (y.rank() < rank) y = unsqueeze(y, 0, loc);
    all.push_back(y);
  }
  return all;
}
TT_API Tensor hstack(const Tensors& xs, Loc loc) {
  const Tensors all = with_rank("hstack", xs, 1, loc);
  return cat(all, all[0].rank() == 1 ? 0 : 1, loc);
}
TT_API Tensor vstack(const Tensors& xs, Loc loc) { return cat(with_rank("vstack", xs, 2, loc), 0, loc); }
TT_API Tensor fliplr(const Tensor& x, Loc loc) { return flip(x, {1}, loc); }
TT_API Tensor flipud(const Tensor& x, Loc loc) { return flip(x, {0}, loc); }

TT_API Tensors meshgrid(const Tensors& xs, const std::string& indexing, Loc loc) {
  if (indexing != "ij" && indexing != "xy")
    fail("TT-RANGE-08", "meshgrid: indexing is \"ij\" or \"xy\", got \"" + indexing + "\"", loc);
  const Tensors all = with_rank("meshgrid", xs, 1, loc);
  const int count = static_cast<int>(all.size());
  Shape shape;
  for (const Tensor& t : all) {
    require_rank("meshgrid", t, 1, "a vector", loc);
    shape.push_back(t.numel());
  }
  Tensors grids;
  for (int i = 0; i < count; ++i) {
    Shape along;
    for (int d = 0; d < count; ++d) along.push_back(d == i ? shape[d] : 1);
    const Tensor grid = expand(reshape(all[static_cast<size_t>(i)], along, loc), shape, loc);
    grids.push_back(indexing == "xy" && count > 1 ? transpose(grid, 0, 1, loc) : grid);
  }
  return grids;
}

// The sizes of the leading dimensions of x [..., C, H, W], followed by `more`.
inline Shape image_shape(const Tensor& x, std::initializer_list<int64_t> more) {
  Shape shape;
  for (int d = 0; d < x.rank() - 3; ++d) shape.push_back(x.shape()[d]);
  for (const int64_t n : more) shape.push_back(n);
  return shape;
}
inline void require_factor(const char* op, const Tensor& x, bool fits, Loc loc) {
  if (fits) return;
  fail("TT-SHAPE-12",
       std::string(op) + ": the sizes of " + x.describe() +
           " are no multiples of the factor (of its square, for channels), which is at least 1",
       loc);
}
TT_API Tensor pixel_shuffle(const Tensor& x, int64_t r, Loc loc) {
  require_defined("pixel_shuffle", loc, x);
  if (x.rank() < 3) fail("TT-SHAPE-04", "pixel_shuffle: needs x [..., C, H, W], got " + x.describe(), loc);
  const int n = x.rank() - 3;
  const int64_t C = x.shape()[n], H = x.shape()[n + 1], W = x.shape()[n + 2];
  require_factor("pixel_shuffle", x, r > 0 && C % (r * r) == 0, loc);
  Tensor y = reshape(x, image_shape(x, {C / (r * r), r, r, H, W}), loc);
  y = movedim(movedim(y, n + 1, n + 3, loc), n + 1, n + 4, loc);  // [..., C, H, r, W, r]
  return reshape(y, image_shape(x, {C / (r * r), H * r, W * r}), loc);
}
TT_API Tensor pixel_unshuffle(const Tensor& x, int64_t r, Loc loc) {
  require_defined("pixel_unshuffle", loc, x);
  if (x.rank() < 3) fail("TT-SHAPE-04", "pixel_unshuffle: needs x [..., C, H, W], got " + x.describe(), loc);
  const int n = x.rank() - 3;
  const int64_t C = x.shape()[n], H = x.shape()[n + 1], W = x.shape()[n + 2];
  require_factor("pixel_unshuffle", x, r > 0 && H % r == 0 && W % r == 0, loc);
  Tensor y = reshape(x, image_shape(x, {C, H / r, r, W / r, r}), loc);
  y = movedim(movedim(y, n + 2, n + 1, loc), n + 4, n + 2, loc);  // [..., C, r, r, H / r, W / r]
  return reshape(y, image_shape(x, {C * r * r, H / r, W / r}), loc);
}
TT_API Tensor diff(const Tensor& x, int64_t n, int dim, Loc loc) {
  require_defined("diff", loc, x);
  if (n < 0) fail("TT-RANGE-08", "diff: needs n >= 0, got " + std::to_string(n), loc);
  const int d = indexed_dim("diff", x, dim, loc);
  Tensor y = x;
  for (int64_t i = 0; i < n && y.shape()[d] > 0; ++i) {
    const int64_t size = y.shape()[d];
    y = sub(slice(y, d, 1, kEnd, 1, loc), slice(y, d, 0, size - 1, 1, loc), loc);
  }
  return y;
}
TT_API Tensor argsort(const Tensor& x, int dim, bool descending, Loc loc) {
  return sort(x, dim, descending, loc).indices;
}

TT_API Tensor take_along_dim(const Tensor& x, const Tensor& index, int dim, Loc loc) {
  require_defined("take_along_dim", loc, x, index);
  require_index("take_along_dim", index, loc);
  const int d = indexed_dim("take_along_dim", x, dim, loc);
  if (x.rank() != index.rank()) {
    fail("TT-SHAPE-13", "take_along_dim: needs operands of one rank: " + describe_operands({x, index}), loc);
  }
  // The shapes broadcast outside d.
  const Tensor one = slice(x, d, 0, 0, 1, loc), other = slice(index, d, 0, 0, 1, loc);
  Shape of_x = broadcast_or_fail("take_along_dim", one, other, loc), of_index = of_x;
  of_x[d] = x.shape()[d], of_index[d] = index.shape()[d];
  return gather(expand(x, of_x, loc), d, expand(index, of_index, loc), loc);
}
// index [N] as i64 of `shape`, along dimension d.
inline Tensor spread_index(const char* op, const Tensor& index, int d, const Shape& shape, Loc loc) {
  require_index(op, index, loc);
  require_rank(op, index, 1, "positions [N]", loc);
  Shape column;
  for (int i = 0; i < shape.size(); ++i) column.push_back(i == d ? index.numel() : 1);
  return expand(reshape(index, column, loc), shape, loc);
}
TT_API Tensor index_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Loc loc) {
  require_defined("index_add", loc, x, index, source);
  const int d = indexed_dim("index_add", x, dim, loc);
  Shape shape = x.shape();
  shape[d] = index.numel();
  if (!(source.shape() == shape)) {
    fail("TT-SHAPE-02",
         "index_add: the source must have the shape " + shape.str() + ": " +
             describe_operands({x, index, source}),
         loc);
  }
  return scatter_add(x, d, spread_index("index_add", index, d, shape, loc), source, loc);
}
TT_API Tensor index_fill(const Tensor& x, int dim, const Tensor& index, Scalar value, Loc loc) {
  require_defined("index_fill", loc, x, index);
  const int d = indexed_dim("index_fill", x, dim, loc);
  const Tensor none = zeros({x.shape()[d]}, DType::i64, x.device(), loc);
  const Tensor hits = index_add(none, 0, index, ones({index.numel()}, DType::i64, x.device(), loc), loc);
  Shape column;
  for (int i = 0; i < x.rank(); ++i) column.push_back(i == d ? x.shape()[d] : 1);
  const Tensor mask = reshape(gt(hits, Scalar(0), loc), column, loc);
  return masked_fill(x, expand(mask, x.shape(), loc), value, loc);
}
TT_API Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minimum, Loc loc) {
  require_defined("bincount", loc, x);
  require_index("bincount", x, loc);
  require_rank("bincount", x, 1, "numbers [N]", loc);
  const int64_t largest = x.numel() == 0 ? -1 : max(x, {}, false, loc).item<int64_t>();
  const int64_t size = std::max({largest + 1, minimum, int64_t{0}});
  const Tensor source = weights.defined() ? weights : ones(x.shape(), DType::i64, x.device(), loc);
  return index_add(zeros({size}, source.dtype(), x.device(), loc), 0, x, source, loc);
}
TT_API Tensor isin(const Tensor& x, const Tensor& values, Loc loc) {
  require_defined("isin", loc, x, values);
  const Tensor all = reshape(values.detach(), {values.numel()}, loc);
  return any(eq(unsqueeze(x.detach(), -1, loc), all, loc), {-1}, false, loc);
}
TT_API Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right, Loc loc) {
  require_defined("searchsorted", loc, sorted, values);
  if (sorted.rank() == 0) fail("TT-SHAPE-04", "searchsorted: needs sorted rows [..., N], got a scalar", loc);
  const bool rows = sorted.rank() > 1;
  bool fits = !rows || values.rank() == sorted.rank();
  for (int d = 0; fits && rows && d < sorted.rank() - 1; ++d) fits = sorted.shape()[d] == values.shape()[d];
  if (!fits) {
    fail("TT-SHAPE-02",
         "searchsorted: needs one row of values for each sorted row: " + describe_operands({sorted, values}),
         loc);
  }
  const Tensor all = rows ? unsqueeze(sorted.detach(), -2, loc) : sorted.detach();
  const Tensor each = unsqueeze(values.detach(), -1, loc);
  const Tensor behind = right ? gt(all, each, loc) : ge(all, each, loc);
  return sum(cast(logical_not(behind, loc), DType::i64, loc), {-1}, false, loc);
}
TT_API Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right, Loc loc) {
  require_defined("bucketize", loc, x, boundaries);
  require_rank("bucketize", boundaries, 1, "ascending boundaries [N]", loc);
  return searchsorted(boundaries, x, right, loc);
}

TT_API Tensor rand_like(const Tensor& x, Loc loc) {
  require_defined("rand_like", loc, x);
  return rand(x.shape(), x.dtype(), x.device(), default_generator(), loc);
}
TT_API Tensor randn_like(const Tensor& x, Loc loc) {
  require_defined("randn_like", loc, x);
  return randn(x.shape(), x.dtype(), x.device(), default_generator(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
