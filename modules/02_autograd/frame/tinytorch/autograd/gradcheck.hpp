// gradcheck: compares a derivative with central differences, element by element.
//
// The frame of a course header: it has the given parts, and includes the functions of task 2.7. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <cmath>
#include <functional>
#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/backend/layout.hpp>

namespace tinytorch::inline TT_BUILD {

struct GradcheckOptions {
  double step = 1e-5;
  double absolute = 1e-6;
  double relative = 1e-5;
};

struct GradcheckResult {
  bool passed = true;
  std::string message;  // the worst element, if it failed
  explicit operator bool() const { return passed; }
};

// Task 2.7.
inline double central_difference(const std::function<double()>& f, const Tensor& x, int64_t i, double h);

// The error of one element as a multiple of the allowed error. An element is wrong if this is above 1 or NaN.
inline double excess(double analytic, double numeric, const GradcheckOptions& options) {
  return std::abs(analytic - numeric) / (options.absolute + options.relative * std::abs(numeric));
}

inline GradcheckResult gradcheck(const std::function<Tensor(const Tensors&)>& f, Tensors inputs,
                                 GradcheckOptions options = {});  // task 2.7

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/autograd/gradcheck.hpp>
