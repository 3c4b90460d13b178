// Reductions over any set of dimensions, argmax and argmin, and the cumulative sum.
//
// Sums and products of integers and bool are i64. Floating results keep their dtype, and are accumulated in a
// wider type. The sum of no elements is 0, the product 1, and the mean NaN; max and min of no elements are an
// error.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <cmath>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/reduce.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/reduce.hpp>
#include <tinytorch/tensor/vjp/sum_to.hpp>

namespace tinytorch::inline TT_BUILD {

using backend::ReduceFn;

// The dimensions that a reduction removes, normalized and checked; an empty list means all dimensions.
struct ReducedDims {
  bool flag[kMaxRank] = {};
  Dims list;          // ascending
  Shape kept;         // remaining sizes
  Shape kept_dims;    // the shape with each reduced size replaced by 1
  int64_t count = 1;  // elements per result

  ReducedDims(const char* op, const Shape& shape, const Dims& dims, Loc loc) {
    for (int64_t d : dims) {
      const int n = normalize_dim(d, shape.size(), op, loc);
      if (flag[n] && shape.size() > 0) {
        fail("TT-SHAPE-08",
             std::string(op) + ": dimension " + std::to_string(d) + " occurs twice in " + dims.str(), loc);
      }
      flag[n] = true;
    }
    for (int d = 0; d < shape.size(); ++d) {
      if (dims.empty()) flag[d] = true;
      kept_dims.push_back(flag[d] ? 1 : shape[d]);
      if (flag[d]) {
        list.push_back(d);
        count *= shape[d];
      } else {
        kept.push_back(shape[d]);
      }
    }
  }
  const Shape& result(bool keepdim) const { return keepdim ? kept_dims : kept; }
};

enum class ReduceKind : uint8_t { sum, mean, prod, max, min, any, all, norm };
// The derivative of prod divides by the elements, or treats a zero as a constant, so that its own derivative
// would be wrong at zeros.
inline void refuse_zeros(const Tensor& x) {
  if (!any(x.detach() == 0).item<bool>()) return;
  fail("TT-GRAD-05", "prod: with create_graph, the derivative of " + x.describe() +
                         " cannot be differentiated again, because an element is 0\n  hint: write the "
                         "product as a chain of *");
}

struct Reduce final : Primitive<Reduce> {
  static constexpr const char* kName = "reduce";
  ReduceKind kind;
  Dims dims;
  bool keepdim;
  Reduce(ReduceKind k, const Dims& d, bool keep) : kind(k), dims(d), keepdim(keep) {}

  const char* name() const override {
    constexpr const char* kNames[] = {"sum", "mean", "prod", "max", "min", "any", "all", "norm"};
    return kNames[static_cast<size_t>(kind)];
  }
  Specs infer(const Tensors& in, Loc loc) const override {
    const ReducedDims r(name(), in[0].shape(), dims, loc);
    const DType t = in[0].dtype();
    if (kind == ReduceKind::mean || kind == ReduceKind::norm) require_floating(name(), in[0], loc);
    if ((kind == ReduceKind::max || kind == ReduceKind::min) && r.count == 0 && r.kept.numel() > 0) {
      fail("TT-SHAPE-10",
           std::string(name()) + ": no elements, so there is no extreme value, got " + in[0].describe(), loc);
    }
    if (kind == ReduceKind::any || kind == ReduceKind::all) return {{r.result(keepdim), DType::boolean}};
    const bool widens = (kind == ReduceKind::sum || kind == ReduceKind::prod) && !is_floating(t);
    return {{r.result(keepdim), widens ? DType::i64 : t}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return static_cast<double>(in[0].numel()) * (kind == ReduceKind::norm ? 2 : 1);
  }
  ReduceFn fn() const {
    constexpr ReduceFn kFn[] = {ReduceFn::sum, ReduceFn::sum, ReduceFn::prod, ReduceFn::max,
                                ReduceFn::min, ReduceFn::any, ReduceFn::all,  ReduceFn::sum_square};
    return kFn[static_cast<size_t>(kind)];
  }
  bool reduction(ReductionStep& described) const override {
    described = {fn(), kind == ReduceKind::mean, dims};
    return kind != ReduceKind::norm;  // which also takes a root
  }
  void run(const Tensors& in, Tensors& out) const override {
    const ReducedDims r(name(), in[0].shape(), dims, Loc::current());
    const double divisor = kind == ReduceKind::mean ? static_cast<double>(r.count) : 1.0;
    if (r.count == 1 && kind <= ReduceKind::min) {  // one element per result: a copy
      backend::View to = out[0].view_of();
      to.shape = r.kept_dims;
      to.strides = contiguous_strides(to.shape);
      TT_KERNEL(out[0], copy(to, in[0].view_of()));
      return;
    }
    if (kind != ReduceKind::norm) {
      TT_KERNEL(out[0], reduce(fn(), out[0].view_of(), in[0].view_of(), r.flag, divisor));
      return;
    }
    // Squares of f16 easily exceed its range, and their rounding error would enter the root.
    const bool narrow = is_16_bit(in[0].dtype());
    const Tensor squares = narrow ? empty(out[0].shape(), DType::f32, in[0].device()) : out[0];
    TT_KERNEL(squares, reduce(fn(), squares.view_of(), in[0].view_of(), r.flag));
    TT_KERNEL(out[0], unary(backend::UnaryFn::sqrt, out[0].view_of(), squares.view_of()));
  }
  Save saves() const override {
    if (kind == ReduceKind::sum || kind == ReduceKind::mean) return Save::nothing;
    return kind == ReduceKind::prod ? Save::inputs : Save::both;
  }
  bool differentiable() const override { return kind != ReduceKind::any && kind != ReduceKind::all; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const ReducedDims r(name(), s.input_shapes[0], dims, Loc::current());
    const Tensor grad = reshape(g[0], r.kept_dims);
    const Tensor x = s.inputs.empty() ? Tensor() : s.inputs[0];
    const Tensor y = s.outputs.empty() ? Tensor() : reshape(s.outputs[0], r.kept_dims);
    const vjp::ReduceContext c{grad, x, y, s.input_shapes[0], static_cast<double>(r.count), 0};
    switch (kind) {
      case ReduceKind::sum:
        return {vjp::sum(c)};
      case ReduceKind::mean:
        return {vjp::mean(c)};
      case ReduceKind::prod:
        if (grad_enabled()) refuse_zeros(x);
        return {vjp::prod(c, r.list)};
      case ReduceKind::norm:
        return {vjp::norm(c)};
      default:
        return {vjp::extreme(c, r.list)};
    }
  }
};

// Variance, or standard deviation, in two passes: the mean, then the mean of squared deviations from it. The
// mean is kept for the derivative.
struct Var final : Primitive<Var> {
  static constexpr const char* kName = "var";
  Dims dims;
  int64_t correction;
  bool keepdim, root;
  Var(const Dims& d, int64_t c, bool keep, bool r) : dims(d), correction(c), keepdim(keep), root(r) {}
  const char* name() const override { return root ? "stddev" : kName; }
  Specs infer(const Tensors& in, Loc loc) const override {
    require_floating(name(), in[0], loc);
    const ReducedDims r(name(), in[0].shape(), dims, loc);
    return {{r.result(keepdim), in[0].dtype()}, {r.kept_dims, in[0].dtype()}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 4 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const ReducedDims r(name(), in[0].shape(), dims, Loc::current());
    const double n = static_cast<double>(r.count);
    // For 16-bit data, mean and variance are computed in f32, so that their rounding does not enter the
    // result.
    const bool narrow = is_16_bit(in[0].dtype());
    const DType wide = narrow ? DType::f32 : in[0].dtype();
    const Device device = in[0].device();
    const Tensor mean = narrow ? empty(r.kept_dims, wide, device) : out[1];
    const Tensor distance = empty(in[0].shape(), wide, device);
    const Tensor& x = narrow ? distance : in[0];
    TT_KERNEL(mean, reduce(ReduceFn::sum, mean.view_of(), in[0].view_of(), r.flag, n));
    if (narrow) TT_KERNEL(distance, copy(distance.view_of(), in[0].view_of()));
    TT_KERNEL(distance, binary(backend::BinaryFn::sub, distance.view_of(), x.view_of(), mean.view_of()));
    const double divisor = n - static_cast<double>(correction);
    const Tensor variance = narrow && root ? empty(out[0].shape(), wide, device) : out[0];
    TT_KERNEL(variance, reduce(ReduceFn::sum_square, variance.view_of(), distance.view_of(), r.flag,
                               std::max(divisor, 0.0)));
    if (root) TT_KERNEL(out[0], unary(backend::UnaryFn::sqrt, out[0].view_of(), variance.view_of()));
    if (narrow) TT_KERNEL(out[1], copy(out[1].view_of(), mean.view_of()));
  }
  Save saves() const override { return Save::both; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const ReducedDims r(name(), s.input_shapes[0], dims, Loc::current());
    const Tensor grad = reshape(g[0], r.kept_dims), y = reshape(s.outputs[0], r.kept_dims);
    const vjp::ReduceContext c{grad,
                               s.inputs[0],
                               y,
                               s.input_shapes[0],
                               static_cast<double>(r.count),
                               static_cast<double>(correction)};
    // The saved mean is outside of the graph; a derivative that is differentiated again depends on x by it.
    const Tensor centre = grad_enabled() ? mean(s.inputs[0], dims, true).reshape(r.kept_dims) : s.outputs[1];
    return {root ? vjp::stddev(c, centre) : vjp::var(c, centre)};
  }
};

struct ArgExtreme final : Primitive<ArgExtreme> {
  static constexpr const char* kName = "argmax";
  int dim;
  bool keepdim, largest;
  ArgExtreme(int d, bool keep, bool large) : dim(d), keepdim(keep), largest(large) {}
  const char* name() const override { return largest ? "argmax" : "argmin"; }
  Specs infer(const Tensors& in, Loc loc) const override {
    const ReducedDims r(name(), in[0].shape(), {dim}, loc);
    if (r.count == 0 && r.kept.numel() > 0) {
      fail("TT-SHAPE-10",
           std::string(name()) + ": no elements, so there is no extreme value, got " + in[0].describe(), loc);
    }
    return {{r.result(keepdim), DType::i64}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const Tensor x = in[0].rank() == 0 ? in[0].detach().reshape({1}) : in[0];
    TT_KERNEL(out[0], arg_extreme(out[0].view_of(), x.view_of(), dim < 0 ? dim + x.rank() : dim, largest));
  }
  bool differentiable() const override { return false; }
};

struct CumSum final : Primitive<CumSum> {
  static constexpr const char* kName = "cumsum";
  int dim;
  explicit CumSum(int d) : dim(d) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    normalize_dim(dim, in[0].rank(), kName, loc);
    return {{in[0].shape(), is_floating(in[0].dtype()) ? in[0].dtype() : DType::i64}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    if (in[0].rank() == 0) {
      TT_KERNEL(out[0], copy(out[0].view_of(), in[0].view_of()));
    } else {
      TT_KERNEL(out[0], cumsum(out[0].view_of(), in[0].view_of(), dim < 0 ? dim + in[0].rank() : dim));
    }
  }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {s.input_shapes[0].empty() ? g[0] : vjp::cumsum(g[0], dim)};
  }
};

inline Tensor reduce(ReduceKind kind, const Tensor& x, const Dims& dims, bool keepdim, Loc loc) {
  return apply(Reduce(kind, dims, keepdim), {x}, loc);
}

// clang-format off
TT_API Tensor sum(const Tensor& x, const Dims& dims, bool keepdim, Loc loc) { return reduce(ReduceKind::sum, x, dims, keepdim, loc); }
TT_API Tensor mean(const Tensor& x, const Dims& dims, bool keepdim, Loc loc) { return reduce(ReduceKind::mean, x, dims, keepdim, loc); }
TT_API Tensor prod(const Tensor& x, const Dims& dims, bool keepdim, Loc loc) { return reduce(ReduceKind::prod, x, dims, keepdim, loc); }
TT_API Tensor max(const Tensor& x, const Dims& dims, bool keepdim, Loc loc) { return reduce(ReduceKind::max, x, dims, keepdim, loc); }
TT_API Tensor min(const Tensor& x, const Dims& dims, bool keepdim, Loc loc) { return reduce(ReduceKind::min, x, dims, keepdim, loc); }
TT_API Tensor any(const Tensor& x, const Dims& dims, bool keepdim, Loc loc) { return reduce(ReduceKind::any, x, dims, keepdim, loc); }
TT_API Tensor all(const Tensor& x, const Dims& dims, bool keepdim, Loc loc) { return reduce(ReduceKind::all, x, dims, keepdim, loc); }
TT_API Tensor norm(const Tensor& x, const Dims& dims, bool keepdim, Loc loc) { return reduce(ReduceKind::norm, x, dims, keepdim, loc); }
TT_API Tensor var(const Tensor& x, const Dims& dims, int64_t correction, bool keepdim, Loc loc) { return apply(Var(dims, correction, keepdim, false), {x}, loc); }
TT_API Tensor stddev(const Tensor& x, const Dims& dims, int64_t correction, bool keepdim, Loc loc) { return apply(Var(dims, correction, keepdim, true), {x}, loc); }
TT_API Tensor argmax(const Tensor& x, int dim, bool keepdim, Loc loc) { return apply(ArgExtreme(dim, keepdim, true), {x}, loc); }
TT_API Tensor argmin(const Tensor& x, int dim, bool keepdim, Loc loc) { return apply(ArgExtreme(dim, keepdim, false), {x}, loc); }
TT_API Tensor cumsum(const Tensor& x, int dim, Loc loc) { return apply(CumSum(dim), {x}, loc); }
// clang-format on

}  // namespace tinytorch::inline TT_BUILD
#endif
