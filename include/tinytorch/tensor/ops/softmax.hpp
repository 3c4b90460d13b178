// softmax and log_softmax along one dimension, and logsumexp over any. The maximum is subtracted for
// stability.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/softmax.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/softmax.hpp>

namespace tinytorch::inline TT_BUILD {

struct SoftmaxOp final : Primitive<SoftmaxOp> {
  static constexpr const char* kName = "softmax";
  int dim;  // not negative
  bool logarithm;
  SoftmaxOp(int d, bool l) : dim(d), logarithm(l) {}

  const char* name() const override { return logarithm ? "log_softmax" : kName; }
  Specs infer(const Tensors& in, Loc loc) const override {
    require_floating(name(), in[0], loc);
    return {{in[0].shape(), in[0].dtype()}};
  }
  // An element takes 14 operations: maximum 1, difference 1, exponential 10, sum 1, division 1.
  double flops(const Tensors& in, const Tensors&) const override {
    return 14 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    if (logarithm) {
      TT_KERNEL(out[0], log_softmax(out[0].view_of(), in[0].view_of(), dim));
    } else {
      TT_KERNEL(out[0], softmax(out[0].view_of(), in[0].view_of(), dim));
    }
  }
  Save saves() const override { return Save::outputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {logarithm ? vjp::log_softmax(g[0], s.outputs[0], dim) : vjp::softmax(g[0], s.outputs[0], dim)};
  }
};

struct LogSumExp final : Primitive<LogSumExp> {
  static constexpr const char* kName = "logsumexp";
  Dims dims;
  bool keepdim;
  LogSumExp(const Dims& d, bool keep) : dims(d), keepdim(keep) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    require_floating(kName, in[0], loc);
    return {{ReducedDims(kName, in[0].shape(), dims, loc).result(keepdim), in[0].dtype()}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 13 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const ReducedDims r(kName, in[0].shape(), dims, Loc::current());
    TT_KERNEL(out[0], logsumexp(out[0].view_of(), in[0].view_of(), r.flag));
  }
  Save saves() const override { return Save::both; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const ReducedDims r(kName, s.input_shapes[0], dims, Loc::current());
    const Tensor grad = reshape(g[0], r.kept_dims), y = reshape(s.outputs[0], r.kept_dims);
    return {vjp::logsumexp({grad, s.inputs[0], y, s.input_shapes[0], static_cast<double>(r.count), 0})};
  }
};

// A tensor of rank 0 is treated as one row of one element.
inline Tensor apply_softmax(const Tensor& x, int dim, bool logarithm, Loc loc) {
  const char* op = logarithm ? "log_softmax" : "softmax";
  const int d = normalize_dim(dim, x.rank(), op, loc);
  if (x.rank() == 0) return reshape(apply(SoftmaxOp(0, logarithm), {reshape(x, {1}, loc)}, loc), {}, loc);
  return apply(SoftmaxOp(d, logarithm), {x}, loc);
}

TT_API Tensor softmax(const Tensor& x, int dim, Loc loc) {
  require_defined("softmax", loc, x);
  return apply_softmax(x, dim, false, loc);
}
TT_API Tensor log_softmax(const Tensor& x, int dim, Loc loc) {
  require_defined("log_softmax", loc, x);
  return apply_softmax(x, dim, true, loc);
}
TT_API Tensor logsumexp(const Tensor& x, const Dims& dims, bool keepdim, Loc loc) {
  return apply(LogSumExp(dims, keepdim), {x}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
