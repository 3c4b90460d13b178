// In-place writes that the graph records: += -= *= /= and assignment to elements.
//
// The new values are computed by ordinary operations and copied into the tensor. Then the tensor takes the
// place of the result in the graph. For a view v of a base b, two nodes are added:
//
//   b' = WriteRegion(b, values)    b with the region of v replaced: gradients outside it go to b, inside to
//   values v' = Region(b')                the view again
#pragma once

#include <tinytorch/tensor/indexing.hpp>
#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/layout.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops/composed_math.hpp>
#include <tinytorch/tensor/ops/creation.hpp>
#include <tinytorch/tensor/ops/division.hpp>
#include <tinytorch/tensor/ops/shape.hpp>
#include <tinytorch/tensor/vjp/inplace.hpp>

namespace tinytorch::inline TT_BUILD {

struct WriteRegion final : ViewPrimitive<WriteRegion> {
  static constexpr const char* kName = "write_region";
  vjp::Region at;
  explicit WriteRegion(const vjp::Region& r) : at(r) {}
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  Tensor view(const Tensor& x) const override { return alias(x, x.shape(), x.strides(), x.offset()); }
  Tensors vjp(const Saved&, const Tensors& g) const override { return vjp::write_region(g[0], at); }
};

// The tensor of which y is a view, or an undefined tensor.
inline Tensor base_of(const Tensor& y) { return y.impl()->view ? Tensor(y.impl()->base.lock()) : Tensor(); }

inline void require_not_leaf(const char* op, const Tensor& t, Loc loc) {
  if (!tracks_grad(t) || !t.is_leaf()) return;
  fail("TT-GRAD-04",
       std::string(op) + ": " + t.describe() +
           " is a leaf that requires grad, and an in-place write would overwrite it\n  hint: wrap the write "
           "in "
           "a NoGrad scope, or write to a copy made by an operation",
       loc);
}

// Overwrites the elements of y; `values` has its dtype and device and broadcasts to its shape.
inline void overwrite(const Tensor& y, const Tensor& values, Loc loc) {
  const Tensor near = without_overlap(y, values, loc);
  announce_write(Cast(near.dtype(), y.dtype()), y, {near});
  TT_KERNEL(y, copy(y.view_of(), near.view_of()));
  count_write(y, loc);
}

// y, whose values are being overwritten by `result`, gets the history of `result`.
inline void move_history(const char* op, const Tensor& y, const Tensor& result, Loc loc) {
  const Tensor base = base_of(y);
  if (!base.defined()) {
    overwrite(y, result, loc);
    y.impl()->grad_state = result.impl()->grad_state;
    y.impl()->view = false;  // its base is gone, so it is the only place of the graph in this storage
    y.storage()->count_recorded_write();
    return;
  }
  if (!backend::is_dense(base.shape(), base.strides())) {
    fail("TT-GRAD-04",
         std::string(op) + ": cannot record an in-place write to a view of " + base.describe() +
             ", whose elements have gaps between them in memory\n  hint: write to a view of its clone()",
         loc);
  }
  const vjp::Region at{base.shape(), base.strides(), y.shape(), y.strides(), y.offset() - base.offset()};
  overwrite(y, result, loc);
  const Tensor written = apply(WriteRegion(at), {base, result}, loc);
  base.impl()->grad_state = written.impl()->grad_state;
  y.storage()->count_recorded_write();
  y.impl()->grad_state = apply(RegionOf(at), {base}, loc).impl()->grad_state;
  y.impl()->seen_writes = y.storage()->recorded_writes();
}

// True if a write of `values` to y must be recorded; throws if it is not allowed.
inline bool must_record(const char* op, const Tensor& y, const Tensor& values, Loc loc) {
  require_not_expanded(op, y, loc);
  if (!grad_enabled()) return false;
  const Tensor base = base_of(y);
  require_not_leaf(op, y, loc);
  if (base.defined()) require_not_leaf(op, base, loc);
  return tracks_grad(y) || tracks_grad(values) || tracks_grad(base);
}

TT_API void write_elements(const char* op, const Tensor& y, const Tensor& values, Loc loc) {
  require_defined(op, loc, y, values);
  const bool recorded = must_record(op, y, values, loc);
  require_expandable(op, y, values, loc);
  const Tensor fitting = values.to(y.device(), loc).to(y.dtype(), loc);
  if (!recorded) return overwrite(y, fitting, loc);
  const Tensor result = expand(fitting, y.shape(), loc);
  // Without a base, y takes the place of the result in the graph, so the result must not be the values
  // themselves. If they do not require grad, the write ends y's history.
  move_history(op, y, base_of(y).defined() ? result : clone(result, loc), loc);
}

inline Tensor compute_in_place(backend::BinaryFn fn, const char* op, const Tensor& y, const Tensor& b,
                               Loc loc) {
  require_defined(op, loc, y, b);
  const bool recorded = must_record(op, y, b, loc);
  require_same_dtype(op, {y, b}, loc);
  common_device(op, {y, b}, loc);
  require_expandable(op, y, b, loc);
  if (fn == backend::BinaryFn::div) require_accepted(op, Accepts::floating, y, loc);
  require_accepted(op, Accepts::numbers, y, loc);
  if (!recorded) {
    const Tensor near = without_overlap(y, b, loc);
    announce_write(Binary(fn), y, {y, near});
    TT_KERNEL(y, binary(fn, y.view_of(), y.view_of(), near.view_of()));
    count_write(y, loc);
    return y;
  }
  // Products save their factors, so the old values of y are copied.
  const bool saves = fn == backend::BinaryFn::mul || fn == backend::BinaryFn::div;
  const Tensor before = saves ? clone(y, loc) : y;
  move_history(op, y, apply(Binary(fn), {before, b}, loc), loc);
  return y;
}

// clang-format off
TT_API Tensor operator+=(TensorArg y, TensorArg b) { return compute_in_place(backend::BinaryFn::add, "add", y.tensor, b.tensor, y.loc); }
TT_API Tensor operator-=(TensorArg y, TensorArg b) { return compute_in_place(backend::BinaryFn::sub, "sub", y.tensor, b.tensor, y.loc); }
TT_API Tensor operator*=(TensorArg y, TensorArg b) { return compute_in_place(backend::BinaryFn::mul, "mul", y.tensor, b.tensor, y.loc); }
TT_API Tensor operator/=(TensorArg y, TensorArg b) { return compute_in_place(backend::BinaryFn::div, "div", y.tensor, b.tensor, y.loc); }
TT_API Tensor operator+=(TensorArg y, Scalar b) { return y += TensorArg(scalar_operand("add", y, b), y.loc); }
TT_API Tensor operator-=(TensorArg y, Scalar b) { return y -= TensorArg(scalar_operand("sub", y, b), y.loc); }
TT_API Tensor operator*=(TensorArg y, Scalar b) { return y *= TensorArg(scalar_operand("mul", y, b), y.loc); }
TT_API Tensor operator/=(TensorArg y, Scalar b) { return y /= TensorArg(scalar_operand("div", y, b), y.loc); }
// clang-format on

// --- operators on masks, and the remainder ---

// The values of y that an in-place operation reads. A recorded operation may save them, so they are a copy.
inline Tensor before_write(const Tensor& y, Loc loc) {
  return grad_enabled() && tracks_grad(y) ? clone(y, loc) : y;
}
// y, whose elements become `values`.
inline Tensor written(const char* op, const Tensor& y, const Tensor& values, Loc loc) {
  write_elements(op, y, values, loc);
  return y;
}

inline const Tensor& mask_of(const char* op, const Tensor& x, Loc loc) {
  if (x.dtype(loc) == DType::boolean) return x;
  fail("TT-DTYPE-06",
       std::string(op) + ": needs bool tensors, got " + x.describe() +
           "\n  hint: x != 0 makes a bool tensor; numbers have no bitwise operations",
       loc);
}
// clang-format off
TT_API Tensor operator~(TensorArg x) { return logical_not(mask_of("~", x.tensor, x.loc), x.loc); }
TT_API Tensor operator&(const Tensor& a, TensorArg b) { return logical_and(mask_of("&", a, b.loc), mask_of("&", b.tensor, b.loc), b.loc); }
TT_API Tensor operator|(const Tensor& a, TensorArg b) { return logical_or(mask_of("|", a, b.loc), mask_of("|", b.tensor, b.loc), b.loc); }
TT_API Tensor operator^(const Tensor& a, TensorArg b) { return logical_xor(mask_of("^", a, b.loc), mask_of("^", b.tensor, b.loc), b.loc); }
TT_API Tensor operator&=(TensorArg y, TensorArg b) { return written("&=", y.tensor, y.tensor & b, y.loc); }
TT_API Tensor operator|=(TensorArg y, TensorArg b) { return written("|=", y.tensor, y.tensor | b, y.loc); }
TT_API Tensor operator^=(TensorArg y, TensorArg b) { return written("^=", y.tensor, y.tensor ^ b, y.loc); }
TT_API Tensor operator%(TensorArg a, TensorArg b) { return remainder(a.tensor, b.tensor, a.loc); }
TT_API Tensor operator%(TensorArg a, Scalar b) { return remainder(a.tensor, b, a.loc); }
TT_API Tensor operator%=(TensorArg y, TensorArg b) { return written("%=", y.tensor, remainder(before_write(y.tensor, y.loc), b.tensor, y.loc), y.loc); }
TT_API Tensor operator%=(TensorArg y, Scalar b) { return written("%=", y.tensor, remainder(before_write(y.tensor, y.loc), b, y.loc), y.loc); }
// clang-format on

TT_API void Tensor::operator=(TensorArg values) && {
  write_elements("assignment", *this, values.tensor, values.loc);
}
TT_API void Tensor::operator=(ScalarArg number) && {
  write_elements("assignment", *this, scalar_like(number.value, *this, number.loc), number.loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
