// An op whose cost, duration and inner ops a check sets, for checks of op observers.
#pragma once

#include <chrono>
#include <tinytorch/tensor/apply.hpp>

namespace course {

// Waits for at least this many seconds on the machine's clock.
inline void spend(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

struct Act final : Primitive<Act> {
  static constexpr const char* kName = "act";
  const char* called;
  double work;                   // FLOPs that the op states
  std::function<void()> inside;  // the body: it may spend time, call other ops, or throw
  explicit Act(double flops, std::function<void()> f = {}, const char* as = "act")
      : called(as), work(flops), inside(std::move(f)) {}
  const char* name() const override { return called; }
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  double flops(const Tensors&, const Tensors&) const override { return work; }
  void run(const Tensors&, Tensors&) const override {
    if (inside) inside();
  }
  // The derivative is an op of the same name with twice the work.
  Tensors vjp(const Saved&, const Tensors& grads) const override {
    return {apply(Act(2 * work, {}, called), {grads[0]})};
  }
};

// x and the result have 8 bytes each, so each call states 16.
inline Tensor act(const Tensor& x, double flops, std::function<void()> inside = {},
                  const char* name = "act") {
  return apply(Act(flops, std::move(inside), name), {x});
}
// A body that fails, and a caller that catches the error.
inline void failing() { fail("TT-TEST-00", "it failed"); }
template <class F>
void swallow(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    if (e.code() != "TT-TEST-00") throw;
  }
}
inline Tensor pair() { return empty({2}, f32, cpu); }

}  // namespace course
