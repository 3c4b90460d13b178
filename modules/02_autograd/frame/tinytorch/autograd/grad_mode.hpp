// NoGrad: a scope in which operations are not recorded for autograd.
//
// The frame of a course header: it has the given parts, and includes the functions of task 2.5. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/tensor/graph.hpp>

namespace tinytorch::inline TT_BUILD {

class NoGrad {
 public:
  NoGrad();   // task 2.5
  ~NoGrad();  // task 2.5
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

#include <tasks/autograd/grad_mode.hpp>
