// Views: reshape, permute, expand, slice and functions built on them. No data is moved, except when reshape
// needs a copy.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/shape.hpp>

namespace tinytorch::inline TT_BUILD {

// A primitive whose result shares its input's storage.
template <class Self>
struct ViewPrimitive : Primitive<Self> {
  bool is_view() const override { return true; }
  void run(const Tensors&, Tensors&) const override {}
};

inline Tensor alias(const Tensor& x, const StridedShape& seen) {
  return alias(x, seen.shape, seen.strides, x.offset() + seen.first);
}

// The target shape must be complete (without -1) and possible as a view; tinytorch::reshape() ensures both.
struct Reshape final : ViewPrimitive<Reshape> {
  static constexpr const char* kName = "reshape";
  Shape shape;
  explicit Reshape(const Shape& s) : shape(s) {}
  Specs infer(const Tensors& in, Loc) const override { return {{shape, in[0].dtype()}}; }
  Tensor view(const Tensor& x) const override {
    return alias(x, shape, *reshape_strides(x.shape(), x.strides(), shape), x.offset());
  }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {vjp::reshape(g[0], s.input_shapes[0])};
  }
};

struct Permute final : ViewPrimitive<Permute> {
  static constexpr const char* kName = "permute";
  Dims order;
  explicit Permute(const Dims& o) : order(o) {}
  StridedShape rule(const Tensor& x) const { return permuted(x.shape(), x.strides(), order); }
  Specs infer(const Tensors& in, Loc) const override { return {{rule(in[0]).shape, in[0].dtype()}}; }
  Tensor view(const Tensor& x) const override { return alias(x, rule(x)); }
  Tensors vjp(const Saved&, const Tensors& g) const override { return {vjp::permute(g[0], order)}; }
};

struct Expand final : ViewPrimitive<Expand> {
  static constexpr const char* kName = "expand";
  Shape shape;
  explicit Expand(const Shape& s) : shape(s) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_valid_shape("expand: cannot expand a tensor to shape", shape, loc);
    const auto common = broadcast_shapes(in[0].shape(), shape);
    if (!common || !(*common == shape)) {
      fail("TT-SHAPE-02",
           "expand: " + in[0].describe() + " does not broadcast to " + shape.str() +
               "\n  rule: only dimensions of size 1 are stretched; new dimensions are added in front",
           loc);
    }
    return {{shape, in[0].dtype()}};
  }
  Tensor view(const Tensor& x) const override {
    return alias(x, shape, broadcast_strides(x.shape(), x.strides(), shape), x.offset());
  }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {vjp::expand(g[0], s.input_shapes[0])};
  }
};

// start and stop are positions in [0, size], with start <= stop.
struct Slice final : ViewPrimitive<Slice> {
  static constexpr const char* kName = "slice";
  int dim;
  int64_t start, stop, step;
  Slice(int d, int64_t a, int64_t b, int64_t s) : dim(d), start(a), stop(b), step(s) {}
  StridedShape rule(const Tensor& x) const { return sliced(x.shape(), x.strides(), dim, start, stop, step); }
  Specs infer(const Tensors& in, Loc) const override { return {{rule(in[0]).shape, in[0].dtype()}}; }
  Tensor view(const Tensor& x) const override { return alias(x, rule(x)); }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {vjp::slice(g[0], s.input_shapes[0], dim, start, stop, step)};
  }
};

// The opposite of Slice: a tensor of `shape` whose slice is x, and 0 elsewhere.
struct Unslice final : Primitive<Unslice> {
  static constexpr const char* kName = "unslice";
  Shape shape;
  Slice slice;
  Unslice(const Shape& s, const Slice& part) : shape(s), slice(part) {}
  Specs infer(const Tensors& in, Loc) const override { return {{shape, in[0].dtype()}}; }
  void run(const Tensors& in, Tensors& out) const override {
    const Tensor part = slice.view(out[0]);
    if (part.numel() < out[0].numel()) TT_KERNEL(out[0], fill(out[0].view_of(), 0.0));
    TT_KERNEL(out[0], copy(part.view_of(), in[0].view_of()));
  }
  Tensors vjp(const Saved&, const Tensors& g) const override { return {apply(slice, {g[0]})}; }
};

TT_API Tensor vjp::slice(const Tensor& g, const Shape& shape, int dim, int64_t start, int64_t stop,
                         int64_t step) {
  return apply(Unslice(shape, Slice(dim, start, stop, step)), {g});
}

// Replaces a size of -1 by the size that makes the element counts agree.
inline Shape complete_shape(const Tensor& x, const Shape& asked, Loc loc) {
  Shape shape = asked;
  int unknown = -1;
  for (int d = 0; d < shape.size() && unknown < 0; ++d) {
    if (shape[d] == -1) shape[unknown = d] = 1;
  }
  bool fits = is_valid_shape(shape);
  if (fits && unknown >= 0) {
    const int64_t known = shape.numel();
    fits = known > 0 && x.numel() % known == 0;
    if (fits) shape[unknown] = x.numel() / known;
  }
  if (!fits || shape.numel() != x.numel()) {
    fail("TT-SHAPE-05",
         "reshape: " + x.describe() + " (" + std::to_string(x.numel()) + " elements) does not fit " +
             asked.str() + "\n  hint: sizes must multiply to the same count; one may be -1",
         loc);
  }
  return shape;
}

TT_API Tensor reshape(const Tensor& x, const Shape& shape, Loc loc) {
  require_defined("reshape", loc, x);
  const Shape to = complete_shape(x, shape, loc);
  const bool viewable = reshape_strides(x.shape(), x.strides(), to).has_value();
  return apply(Reshape(to), {viewable ? x : contiguous(x, loc)}, loc);
}

TT_API Tensor flatten(const Tensor& x, int start, int end, Loc loc) {
  require_defined("flatten", loc, x);
  const int first = normalize_dim(start, x.rank(), "flatten", loc),
            last = normalize_dim(end, x.rank(), "flatten", loc);
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) {
    if (d > first && d <= last) {
      shape.back() *= x.shape()[d];
    } else {
      shape.push_back(x.shape()[d]);
    }
  }
  return reshape(x, x.rank() == 0 ? Shape{1} : shape, loc);
}

TT_API Tensor permute(const Tensor& x, const Dims& order, Loc loc) {
  require_defined("permute", loc, x);
  Dims normalized;
  bool seen[kMaxRank] = {};
  bool valid = order.size() == x.rank();
  for (int64_t d : order) {
    const int n = normalize_dim(d, x.rank(), "permute", loc);
    valid = valid && !seen[n];
    seen[n] = true;
    normalized.push_back(n);
  }
  if (!valid) {
    fail("TT-SHAPE-08",
         "permute: the order " + order.str() + " must name each dimension of " + x.describe() + " once", loc);
  }
  return apply(Permute(normalized), {x}, loc);
}

TT_API Tensor transpose(const Tensor& x, int a, int b, Loc loc) {
  require_defined("transpose", loc, x);
  Dims order;
  for (int d = 0; d < x.rank(); ++d) order.push_back(d);
  if (x.rank() == 0) return x;
  std::swap(order[normalize_dim(a, x.rank(), "transpose", loc)],
            order[normalize_dim(b, x.rank(), "transpose", loc)]);
  return apply(Permute(order), {x}, loc);
}

TT_API Tensor squeeze(const Tensor& x, int dim, Loc loc) {
  require_defined("squeeze", loc, x);
  const int d = normalize_dim(dim, x.rank(), "squeeze", loc);
  if (x.rank() == 0 || x.shape()[d] != 1) return x;
  Shape shape = x.shape();
  shape.erase(d);
  return reshape(x, shape, loc);
}

TT_API Tensor unsqueeze(const Tensor& x, int dim, Loc loc) {
  require_defined("unsqueeze", loc, x);
  Shape shape = x.shape();
  shape.insert(normalize_dim(dim, x.rank() + 1, "unsqueeze", loc), 1);
  return reshape(x, shape, loc);
}

TT_API Tensor expand(const Tensor& x, const Shape& shape, Loc loc) {
  require_defined("expand", loc, x);
  Shape to = shape;
  const int shift = shape.size() - x.rank();
  for (int d = 0; d < to.size(); ++d) {
    if (to[d] == -1 && d >= shift && shift >= 0) to[d] = x.shape()[d - shift];
  }
  if (to == x.shape()) return x;
  return apply(Expand(to), {x}, loc);
}

TT_API Tensor slice(const Tensor& x, int dim, int64_t start, int64_t stop, int64_t step, Loc loc) {
  require_defined("slice", loc, x);
  if (x.rank() == 0) fail("TT-SHAPE-03", "slice: a tensor of rank 0 has no dimension to slice", loc);
  const int d = normalize_dim(dim, x.rank(), "slice", loc);
  if (step < 1) {
    fail("TT-RANGE-03",
         "slice: step must be at least 1, got " + std::to_string(step) + "\n  hint: flip() reverses", loc);
  }
  const int64_t size = x.shape()[d];
  const int64_t first = slice_position(start, size), last = std::max(first, slice_position(stop, size));
  // A step larger than the size selects one element, so the step can be limited to the size; this avoids an
  // overflow of step * stride.
  return apply(Slice(d, first, last, std::min(step, std::max<int64_t>(size, 1))), {x}, loc);
}

TT_API Tensor select(const Tensor& x, int dim, int64_t index, Loc loc) {
  require_defined("select", loc, x);
  if (x.rank() == 0) fail("TT-SHAPE-03", "select: a tensor of rank 0 has no dimension to select from", loc);
  const int d = normalize_dim(dim, x.rank(), "select", loc);
  const int64_t size = x.shape()[d], at = index < 0 ? index + size : index;
  if (at < 0 || at >= size) {
    fail("TT-RANGE-04",
         "select: index " + std::to_string(index) + " is outside dimension " + std::to_string(d) + " of " +
             x.describe(),
         loc);
  }
  return squeeze(apply(Slice(d, at, at + 1, 1), {x}, loc), d, loc);
}

TT_API Tensors split(const Tensor& x, int64_t size, int dim, Loc loc) {
  require_defined("split", loc, x);
  if (size < 1) fail("TT-RANGE-03", "split: the size of a part must be at least 1", loc);
  const int d = normalize_dim(dim, x.rank(), "split", loc);
  Tensors parts;
  int64_t at = 0;
  do {  // an empty tensor gives one empty part
    parts.push_back(slice(x, d, at, at + size, 1, loc));
    at += size;
  } while (at < x.size(d));
  return parts;
}
TT_API Tensors split(const Tensor& x, const Dims& sizes, int dim, Loc loc) {
  require_defined("split", loc, x);
  const int d = normalize_dim(dim, x.rank(), "split", loc);
  Tensors parts;
  int64_t at = 0;
  bool valid = true;
  for (const int64_t size : sizes) valid = valid && size >= 0, at += size;
  if (!valid || at != x.size(d)) {
    fail("TT-SHAPE-12",
         "split: the sizes add up to " + std::to_string(at) + ", but dimension " + std::to_string(d) +
             " of " + x.describe() + " has " + std::to_string(x.size(d)),
         loc);
  }
  at = 0;
  for (const int64_t size : sizes) {
    parts.push_back(slice(x, d, at, at + size, 1, loc));
    at += size;
  }
  return parts;
}
TT_API Tensors chunk(const Tensor& x, int64_t count, int dim, Loc loc) {
  require_defined("chunk", loc, x);
  if (count < 1) fail("TT-RANGE-03", "chunk: the number of parts must be at least 1", loc);
  const int d = normalize_dim(dim, x.rank(), "chunk", loc);
  const int64_t size = x.size(d);
  return split(x, std::max<int64_t>(1, size / count + (size % count != 0 ? 1 : 0)), d, loc);
}

// clang-format off
TT_API Tensor Tensor::reshape(const Shape& shape, Loc loc) const { return tinytorch::reshape(*this, shape, loc); }
TT_API Tensor Tensor::flatten(int start, int end, Loc loc) const { return tinytorch::flatten(*this, start, end, loc); }
TT_API Tensor Tensor::transpose(int a, int b, Loc loc) const { return tinytorch::transpose(*this, a, b, loc); }
TT_API Tensor Tensor::t(Loc loc) const { return tinytorch::transpose(*this, -2, -1, loc); }
TT_API Tensor Tensor::permute(const Dims& order, Loc loc) const { return tinytorch::permute(*this, order, loc); }
TT_API Tensor Tensor::expand(const Shape& shape, Loc loc) const { return tinytorch::expand(*this, shape, loc); }
TT_API Tensor Tensor::unsqueeze(int dim, Loc loc) const { return tinytorch::unsqueeze(*this, dim, loc); }
TT_API Tensor Tensor::slice(int dim, int64_t start, int64_t stop, int64_t step, Loc loc) const { return tinytorch::slice(*this, dim, start, stop, step, loc); }
TT_API Tensor Tensor::select(int dim, int64_t index, Loc loc) const { return tinytorch::select(*this, dim, index, loc); }
// clang-format on

}  // namespace tinytorch::inline TT_BUILD

#include <tinytorch/tensor/ops/elementwise.hpp>
#endif
