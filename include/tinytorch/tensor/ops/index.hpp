// Joining and indexing: cat, stack, pad, flip, tril, triu, index_select, gather, scatter_add, sort, topk.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <atomic>
#include <cmath>
#include <tinytorch/backend/cpu/index.hpp>
#include <tinytorch/backend/cpu/sort.hpp>
#include <tinytorch/backend/cuda/device/fault.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/fill.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/index.hpp>

namespace tinytorch::inline TT_BUILD {

// Positions [start, start + length) of t along dim, as a view for the copy kernel.
inline backend::View part(const Tensor& t, int dim, int64_t start, int64_t length) {
  backend::View v = t.view_of();
  v.data = v.as<char>() + start * v.strides[dim] * static_cast<int64_t>(size_of(v.dtype));
  v.shape[dim] = length;
  return v;
}

// Throws TT-RANGE-05 with the first index outside [0, size). Indices on a GPU are checked by a kernel there,
// so the error is thrown at the next synchronization.
inline void require_in_range(const char* op, const Tensor& index, int64_t size, Loc loc) {
  const auto message = [=](int64_t value, int64_t position) {
    return std::string(op) + ": index " + std::to_string(value) + " at position " + std::to_string(position) +
           " is outside [0, " + std::to_string(size) + ")";
  };
  if (index.device().is_cuda()) {
    if constexpr (backend::cuda::is_built()) {
      return backend::cuda::check_range(index.view_of(), size, {}, message, loc);
    }
  }
  if (index.is_contiguous()) {  // the common case: without a branch per element
    const int64_t* values = index.data<int64_t>();
    std::atomic<bool> inside{true};
    parallel_for(index.numel(), 65536, [&](int64_t begin, int64_t end) {
      uint64_t largest = 0;  // negative indices become large unsigned numbers
      TT_SIMD
      for (int64_t i = begin; i < end; ++i) largest = std::max(largest, static_cast<uint64_t>(values[i]));
      if (largest >= static_cast<uint64_t>(size)) inside = false;
    });
    if (inside) return;
  }
  int64_t at = 0;
  for_each_element<int64_t>(index.view_of(), [&](int64_t v) {
    if (v < 0 || v >= size) {
      fail("TT-RANGE-05", message(v, at), loc);
    }
    ++at;
  });
}

struct Cat final : Primitive<Cat> {
  static constexpr const char* kName = "cat";
  int dim;
  explicit Cat(int d) : dim(d) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    Shape shape = in[0].shape();
    int64_t total = 0;
    for (const Tensor& t : in) {
      Shape other = t.shape();
      bool fits = other.size() == shape.size();
      if (fits) {
        total = std::min(total + other[dim], 2 * kMaxElements);  // too large for a tensor, without overflow
        other[dim] = shape[dim];
        fits = other == shape;
      }
      if (!fits) {
        fail("TT-SHAPE-11",
             "cat: all sizes but dimension " + std::to_string(dim) +
                 " must agree: " + describe_operands({in[0], t}),
             loc);
      }
    }
    shape[dim] = total;
    return {{shape, in[0].dtype()}};
  }
  void run(const Tensors& in, Tensors& out) const override {
    int64_t at = 0;
    for (const Tensor& t : in) {
      TT_KERNEL(out[0], copy(part(out[0], dim, at, t.shape()[dim]), t.view_of()));
      at += t.shape()[dim];
    }
  }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::cat(g[0], s.input_shapes, dim); }
};

struct Pad final : Primitive<Pad> {
  static constexpr const char* kName = "pad";
  std::vector<std::pair<int64_t, int64_t>> widths;
  Scalar value;
  Pad(std::vector<std::pair<int64_t, int64_t>> w, Scalar v) : widths(std::move(w)), value(v) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_holds(in[0], value, loc);
    Shape shape = in[0].shape();
    bool valid = static_cast<int>(widths.size()) == shape.size();
    for (int d = 0; valid && d < shape.size(); ++d) {
      const auto [before, after] = widths[static_cast<size_t>(d)];
      valid = before >= 0 && after >= 0;
      // Each width is limited to kMaxElements, which is already too large for a tensor, so that the sum does
      // not overflow; empty() then throws for the shape.
      shape[d] += valid ? std::min(before, kMaxElements) + std::min(after, kMaxElements) : 0;
    }
    if (!valid) {
      fail("TT-SHAPE-12",
           "pad: needs one (before, after) pair of sizes >= 0 per dimension of " + in[0].describe() +
               "\n  hint: slice() removes elements",
           loc);
    }
    return {{shape, in[0].dtype()}};
  }
  void run(const Tensors& in, Tensors& out) const override {
    fill_values(out[0], value);
    backend::View inner = out[0].view_of();
    for (int d = 0; d < inner.rank(); ++d) {
      const int64_t before = widths[static_cast<size_t>(d)].first;
      inner.data = inner.as<char>() + before * inner.strides[d] * static_cast<int64_t>(size_of(inner.dtype));
    }
    inner.shape = in[0].shape();
    TT_KERNEL(in[0], copy(inner, in[0].view_of()));
  }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {vjp::pad(g[0], s.input_shapes[0], widths)};
  }
};

struct Flip final : Primitive<Flip> {
  static constexpr const char* kName = "flip";
  Dims dims;  // normalized
  explicit Flip(const Dims& d) : dims(d) {}
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const Tensors& in, Tensors& out) const override {
    backend::View x = in[0].view_of();
    if (x.numel() == 0) return;
    for (int64_t d : dims) {
      const int k = static_cast<int>(d);
      x.data = x.as<char>() + (x.shape[k] - 1) * x.strides[k] * static_cast<int64_t>(size_of(x.dtype));
      x.strides[k] = -x.strides[k];
    }
    TT_KERNEL(out[0], copy(out[0].view_of(), x));
  }
  Tensors vjp(const Saved&, const Tensors& g) const override { return {vjp::flip(g[0], dims)}; }
};

struct Triangle final : Primitive<Triangle> {
  static constexpr const char* kName = "tril";
  int64_t diagonal;
  bool lower;
  Triangle(int64_t d, bool l) : diagonal(d), lower(l) {}
  const char* name() const override { return lower ? "tril" : "triu"; }
  Specs infer(const Tensors& in, Loc loc) const override {
    if (in[0].rank() < 2) {
      fail("TT-SHAPE-04", std::string(name()) + ": expected matrices [..., M, N], got " + in[0].describe(),
           loc);
    }
    return {{in[0].shape(), in[0].dtype()}};
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], copy(out[0].view_of(), in[0].view_of()));
    TT_KERNEL(out[0], zero_triangle(out[0].view_of(), diagonal, lower));
  }
  Tensors vjp(const Saved&, const Tensors& g) const override {
    return {vjp::triangle(g[0], diagonal, lower)};
  }
};

struct IndexSelect final : Primitive<IndexSelect> {
  static constexpr const char* kName = "index_select";
  int dim;
  explicit IndexSelect(int d) : dim(d) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_index(kName, in[1], loc);
    require_rank(kName, in[1], 1, "an index vector [N]", loc);
    require_in_range(kName, in[1], in[0].shape()[dim], loc);
    Shape shape = in[0].shape();
    shape[dim] = in[1].numel();
    return {{shape, in[0].dtype()}};
  }
  void run(const Tensors& in, Tensors& out) const override {
    const Tensor x = in[0].detach().contiguous(), index = in[1].contiguous();
    const RowLayout l(x.shape(), dim);
    TT_KERNEL(out[0], take_rows(out[0].view_of(), x.view_of(), index.view_of(), l.outer, index.numel(),
                                l.size, l.inner));
  }
  Save saves() const override { return Save::inputs; }
  bool saves_input(size_t i) const override { return i == 1; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {vjp::index_select(g[0], s.input_shapes[0], dim, s.inputs[1]), Tensor()};
  }
};

// Checks the index of gather and scatter_add: it has the rank of x, and along dimensions other than dim it is
// not larger than x.
inline void require_gatherable(const char* op, const Tensor& x, const Tensor& index, int dim, Loc loc) {
  require_index(op, index, loc);
  bool fits = index.rank() == x.rank();
  for (int d = 0; fits && d < x.rank(); ++d) fits = d == dim || index.shape()[d] <= x.shape()[d];
  if (!fits) {
    fail("TT-SHAPE-13",
         std::string(op) + ": the index " + index.describe() + " must have the rank of " + x.describe() +
             " and fit into it outside dimension " + std::to_string(dim),
         loc);
  }
  require_in_range(op, index, x.shape()[dim], loc);
}

struct Gather final : Primitive<Gather> {
  static constexpr const char* kName = "gather";
  int dim;
  explicit Gather(int d) : dim(d) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_gatherable(kName, in[0], in[1], dim, loc);
    return {{in[1].shape(), in[0].dtype()}};
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], gather(out[0].view_of(), in[0].view_of(), in[1].view_of(), dim));
  }
  Save saves() const override { return Save::inputs; }
  bool saves_input(size_t i) const override { return i == 1; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {vjp::gather(g[0], s.input_shapes[0], dim, s.inputs[1]), Tensor()};
  }
};

struct ScatterAdd final : Primitive<ScatterAdd> {
  static constexpr const char* kName = "scatter_add";
  int dim;
  explicit ScatterAdd(int d) : dim(d) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_gatherable(kName, in[0], in[1], dim, loc);
    require_same_dtype(kName, {in[0], in[2]}, loc);
    require_accepted(kName, Accepts::numbers, in[0], loc);
    if (!(in[2].shape() == in[1].shape())) {
      fail("TT-SHAPE-13",
           "scatter_add: source and index must have the same shape: " + describe_operands({in[2], in[1]}),
           loc);
    }
    return {{in[0].shape(), in[0].dtype()}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return static_cast<double>(in[2].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    // For 16-bit data, the sums are computed in f32, because they can have many terms.
    const bool narrow = is_16_bit(in[0].dtype()) && in[1].numel() > 0;
    const Tensor sums = narrow ? empty(in[0].shape(), DType::f32, in[0].device()) : out[0];
    const Tensor source = narrow ? in[2].detach().to(DType::f32) : in[2];
    TT_KERNEL(sums, copy(sums.view_of(), in[0].view_of()));
    if (in[1].numel() > 0)
      TT_KERNEL(sums, scatter_add(sums.view_of(), in[1].view_of(), source.view_of(), dim));
    if (narrow) TT_KERNEL(sums, copy(out[0].view_of(), sums.view_of()));
  }
  Save saves() const override { return Save::inputs; }
  bool saves_input(size_t i) const override { return i == 1; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return vjp::scatter_add(g[0], dim, s.inputs[1]);
  }
};

// The first k elements of each row, sorted along the last dimension.
struct SortRows final : Primitive<SortRows> {
  static constexpr const char* kName = "sort";
  int64_t k;
  bool descending;
  SortRows(int64_t count, bool d) : k(count), descending(d) {}
  Specs infer(const Tensors& in, Loc) const override {
    Shape shape = in[0].shape();
    shape[in[0].rank() - 1] = k;
    return {{shape, in[0].dtype()}, {shape, DType::i64}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    const auto n = static_cast<double>(in[0].shape().back());
    return static_cast<double>(in[0].numel()) * std::log2(std::max(n, 2.0));  // number of comparisons
  }
  void run(const Tensors& in, Tensors& out) const override {
    const int64_t n = in[0].shape().back(), rows = n == 0 ? 0 : in[0].numel() / n;
    const Tensor x = in[0].detach().contiguous();
    TT_KERNEL(out[0], sort_rows(out[0].reshape({rows, k}).view_of(), out[1].reshape({rows, k}).view_of(),
                                x.reshape({rows, n}).view_of(), k, descending));
  }
  Save saves() const override { return Save::extras; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {vjp::gather(g[0], s.input_shapes[0], g[0].rank() - 1, s.outputs[1])};
  }
};

TT_API Tensor cat(const Tensors& xs, int dim, Loc loc) {
  require_defined("cat", xs, loc);
  if (xs.empty() || xs[0].rank() == 0) {
    fail("TT-SHAPE-11",
         "cat: needs at least one tensor, each of rank 1 or more\n  hint: stack() joins scalars", loc);
  }
  return apply(Cat(normalize_dim(dim, xs[0].rank(), "cat", loc)), xs, loc);
}
TT_API Tensor stack(const Tensors& xs, int dim, Loc loc) {
  require_defined("stack", xs, loc);
  if (xs.empty()) fail("TT-SHAPE-11", "stack: needs at least one tensor", loc);
  const int d = normalize_dim(dim, xs[0].rank() + 1, "stack", loc);
  Tensors raised;
  for (const Tensor& t : xs) {
    if (!(t.shape() == xs[0].shape())) {
      fail("TT-SHAPE-11", "stack: all shapes must agree: " + describe_operands({xs[0], t}), loc);
    }
    raised.push_back(unsqueeze(t, d, loc));
  }
  return cat(raised, d, loc);
}
TT_API Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& widths, Scalar value,
                  Loc loc) {
  return apply(Pad(widths, value), {x}, loc);
}
TT_API Tensor pad(const Tensor& x, std::initializer_list<int64_t> widths, Scalar value, Loc loc) {
  require_defined("pad", loc, x);
  const auto padded = static_cast<int>(widths.size() / 2);
  if (widths.size() % 2 != 0 || padded > x.rank()) {
    fail("TT-RANGE-08",
         "pad: " + std::to_string(widths.size()) + " widths do not fit " + x.describe() +
             "\n  rule: two for each padded dimension, the last dimension first",
         loc);
  }
  std::vector<std::pair<int64_t, int64_t>> pairs(static_cast<size_t>(x.rank()));
  for (int d = 0; d < padded; ++d) {
    const int64_t* const width = widths.begin() + 2 * d;
    pairs[static_cast<size_t>(x.rank() - 1 - d)] = {width[0], width[1]};
  }
  return pad(x, pairs, value, loc);
}
TT_API Tensor flip(const Tensor& x, const Dims& dims, Loc loc) {
  require_defined("flip", loc, x);
  Dims normalized;
  for (int64_t d : dims) normalized.push_back(normalize_dim(d, x.rank(), "flip", loc));
  return x.rank() == 0 ? x : apply(Flip(normalized), {x}, loc);
}
// Limits the diagonal, to avoid overflow: all diagonals outside the matrix are equivalent.
inline int64_t clamp_diagonal(int64_t diagonal) { return std::clamp(diagonal, -kMaxElements, kMaxElements); }
TT_API Tensor tril(const Tensor& x, int64_t diagonal, Loc loc) {
  return apply(Triangle(clamp_diagonal(diagonal), true), {x}, loc);
}
TT_API Tensor triu(const Tensor& x, int64_t diagonal, Loc loc) {
  return apply(Triangle(clamp_diagonal(diagonal), false), {x}, loc);
}

inline int indexed_dim(const char* op, const Tensor& x, int dim, Loc loc) {
  if (x.rank() == 0)
    fail("TT-SHAPE-03", std::string(op) + ": a tensor of rank 0 has no dimension to index", loc);
  return normalize_dim(dim, x.rank(), op, loc);
}
TT_API Tensor index_select(const Tensor& x, int dim, const Tensor& index, Loc loc) {
  require_defined("index_select", loc, x, index);
  return apply(IndexSelect(indexed_dim("index_select", x, dim, loc)), {x, index}, loc);
}
TT_API Tensor gather(const Tensor& x, int dim, const Tensor& index, Loc loc) {
  require_defined("gather", loc, x, index);
  return apply(Gather(indexed_dim("gather", x, dim, loc)), {x, index}, loc);
}
TT_API Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Loc loc) {
  require_defined("scatter_add", loc, x, index, source);
  return apply(ScatterAdd(indexed_dim("scatter_add", x, dim, loc)), {x, index, source}, loc);
}

inline ValuesAndIndices first_sorted(const Tensor& x, int64_t k, int dim, bool descending, Loc loc) {
  Tensors result = apply_all(SortRows(k, descending), {transpose(x, dim, -1, loc)}, loc);
  return {transpose(result[0], dim, -1, loc), transpose(result[1], dim, -1, loc)};
}
TT_API ValuesAndIndices sort(const Tensor& x, int dim, bool descending, Loc loc) {
  require_defined("sort", loc, x);
  const int d = indexed_dim("sort", x, dim, loc);
  return first_sorted(x, x.shape()[d], d, descending, loc);
}
TT_API ValuesAndIndices topk(const Tensor& x, int64_t k, int dim, bool largest, Loc loc) {
  require_defined("topk", loc, x);
  const int d = indexed_dim("topk", x, dim, loc);
  if (k < 0 || k > x.shape()[d]) {
    fail("TT-RANGE-06",
         "topk: k = " + std::to_string(k) + " is outside [0, " + std::to_string(x.shape()[d]) +
             "], the size of dimension " + std::to_string(d) + " of " + x.describe(),
         loc);
  }
  return first_sorted(x, k, d, largest, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
