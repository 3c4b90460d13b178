// NoGrad: a scope in which operations are not recorded for autograd.
//
//   { tt::NoGrad guard; weight.add_(update); }
#pragma once

#include <tinytorch/tensor/graph.hpp>

namespace tinytorch::inline TT_BUILD {

class NoGrad {
 public:
  // Stores this thread's flag and switches it off. grad_enabled() returns a reference, to which one assigns.
  NoGrad() : before_(grad_enabled()) { grad_enabled() = false; }
  // Restores the stored value; it is false if this scope is inside of another one.
  ~NoGrad() { grad_enabled() = before_; }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

// Turns recording on or off until the end of the C++ scope, also inside of a NoGrad.
class GradMode {
 public:
  explicit GradMode(bool on) : before_(grad_enabled()) { grad_enabled() = on; }
  ~GradMode() { grad_enabled() = before_; }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};

// Runs f without recording and returns its result.
template <class F>
decltype(auto) no_grad(F&& f) {
  const NoGrad guard;
  return f();
}

}  // namespace tinytorch::inline TT_BUILD
