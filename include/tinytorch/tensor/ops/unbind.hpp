// unbind: the parts of a tensor along one dimension, such as the steps of a sequence or the gates of a cell.
//
// The parts are copies. Views, which split() and select() give, would be cheaper forward, but the gradient of
// each view is a tensor as large as x: a loop over T steps would write T^2 of them. The gradient of unbind is
// one stack of the gradients of all parts.
#pragma once

#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

// x[.., i, ..] along dim for every i, without that dimension. A dimension of size 0 gives no tensors.
TT_API Tensors unbind(const Tensor& x, int dim = 0, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/index.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops/index.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

struct Unbind final : Primitive<Unbind> {
  static constexpr const char* kName = "unbind";
  int dim;
  explicit Unbind(int d) : dim(d) {}
  Specs infer(const Tensors& in, Loc) const override {
    const Shape& x = in[0].shape();
    Shape part;
    for (int d = 0; d < x.size(); ++d) {
      if (d != dim) part.push_back(x[d]);
    }
    Specs specs;
    for (int64_t i = 0; i < x[dim]; ++i) specs.push_back({part, in[0].dtype()});
    return specs;
  }
  void run(const Tensors& in, Tensors& out) const override {
    const Shape& x = in[0].shape();
    for (size_t i = 0; i < out.size(); ++i) {
      backend::View from = part(in[0], dim, static_cast<int64_t>(i), 1);
      from.shape = out[i].shape();
      Shape strides;
      for (int d = 0; d < x.size(); ++d) {
        if (d != dim) strides.push_back(from.strides[d]);
      }
      from.strides = strides;
      TT_KERNEL(out[i], copy(out[i].view_of(), from));
    }
  }
  // A part that no loss depends on has no gradient.
  Tensors vjp(const Saved&, const Tensors& g) const override {
    Tensors parts;
    for (const Tensor& part : g) parts.push_back(part.defined() ? part : zeros_like(g[0]));
    return {stack(parts, dim)};
  }
};

TT_API Tensors unbind(const Tensor& x, int dim, Loc loc) {
  require_defined("unbind", loc, x);
  if (x.rank() == 0) fail("TT-SHAPE-03", "unbind: a scalar has no dimension, got " + x.describe(), loc);
  const int d = normalize_dim(dim, x.rank(), "unbind", loc);
  if (x.size(d) == 0) return {};
  return apply_all(Unbind(d), {x}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
