// Elementwise divisions with a whole quotient: floor_divide, remainder and fmod.
//
//   tt::floor_divide(x, 3)   tt::remainder(x, 3)   // Python's // and %
//   tt::fmod(x, 3)                                 // C's fmod: the result has the sign of x
//
// Names and semantics are PyTorch's. Kernels: backend/cpu/division.hpp.
#pragma once

#include <tinytorch/tensor/operators.hpp>
#include <tinytorch/tensor/overloads.hpp>

namespace tinytorch::inline TT_BUILD {

// a and b have one dtype, but not bool, and broadcast. Floats follow IEEE 754 if b is 0 (infinity or NaN); an
// integer b with a 0 is an error (TT-RANGE-08), for which b of integers is read on the host.
// floor(a / b), without the rounding of a / b. It has no derivative.
TT_API Tensor floor_divide(const Tensor& a, const Tensor& b, TT_LOC);
// a - floor_divide(a, b) b, with the sign of b.
TT_API Tensor remainder(const Tensor& a, const Tensor& b, TT_LOC);
// a - trunc(a / b) b, with the sign of a; exact.
TT_API Tensor fmod(const Tensor& a, const Tensor& b, TT_LOC);

// A number takes the dtype of the tensor.
inline Tensor floor_divide(const Tensor& a, Scalar b, TT_LOC) {
  return floor_divide(a, number_like("floor_divide", 1, b, a, loc), loc);
}
inline Tensor remainder(const Tensor& a, Scalar b, TT_LOC) {
  return remainder(a, number_like("remainder", 1, b, a, loc), loc);
}
inline Tensor fmod(const Tensor& a, Scalar b, TT_LOC) {
  return fmod(a, number_like("fmod", 1, b, a, loc), loc);
}

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <string>
#include <tinytorch/backend/cpu/division.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/kept_layout.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

struct Divide final : Primitive<Divide> {
  static constexpr const char* kName = "division";
  backend::Division fn;
  explicit Divide(backend::Division f) : fn(f) {}

  const char* name() const override {
    constexpr const char* kNames[] = {"floor_divide", "remainder", "fmod"};
    return kNames[static_cast<size_t>(fn)];
  }
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(name(), in, loc);
    require_accepted(name(), Accepts::numbers, in[0], loc);
    const Shape shape = broadcast_or_fail(name(), in[0], in[1], loc);
    if (!is_floating(in[1].dtype()) && !all(in[1]).item<bool>()) {
      fail("TT-RANGE-08",
           std::string(name()) + ": an integer divisor is 0 in " + in[1].describe() +
               "\n  hint: divide floats, which give infinity or NaN, or replace the zeros by where()",
           loc);
    }
    return {{shape, in[0].dtype(), kept_layout(in, shape)}};
  }
  double flops(const Tensors&, const Tensors& out) const override {
    return 10 * static_cast<double>(out[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], division(fn, out[0].view_of(), in[0].view_of(), in[1].view_of()));
  }
  Save saves() const override { return Save::inputs; }
  bool differentiable() const override { return fn != backend::Division::floor; }
  // The quotient is constant almost everywhere: d (a - q b) = da - q db.
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const Tensor da = s.needs_grad[0] ? sum_to(g[0], s.input_shapes[0]) : Tensor();
    if (!s.needs_grad[1]) return {da, Tensor()};
    const Tensor &a = s.inputs[0], &b = s.inputs[1];
    const Tensor q = a / b, whole = fn == backend::Division::remainder ? floor_divide(a, b)
                                                                       : sign(q) * tinytorch::floor(abs(q));
    return {da, sum_to(-(g[0] * whole), s.input_shapes[1])};
  }
};

TT_API Tensor floor_divide(const Tensor& a, const Tensor& b, Loc loc) {
  return apply(Divide(backend::Division::floor), {a, b}, loc);
}
TT_API Tensor remainder(const Tensor& a, const Tensor& b, Loc loc) {
  return apply(Divide(backend::Division::remainder), {a, b}, loc);
}
TT_API Tensor fmod(const Tensor& a, const Tensor& b, Loc loc) {
  return apply(Divide(backend::Division::fmod), {a, b}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
