// gradcheck: compares a derivative with central differences, element by element.
//
// The frame of a course header: it has the given parts, and includes the functions of task 2.7. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <cmath>
#include <functional>
#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/autograd/grad.hpp>
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

// Checks second derivatives: gradcheck() of the gradients of f, which are functions of the inputs and of the
// gradient of the result. f must be twice differentiable around the inputs.
inline GradcheckResult gradgradcheck(const std::function<Tensor(const Tensors&)>& f, Tensors inputs,
                                     GradcheckOptions options = {}) {
  Generator upstream_of(0x6c078965);
  Tensor upstream = no_grad([&] {
    const Tensor y = f(inputs);
    return rand(y.shape(), y.dtype(), y.device(), upstream_of) + 0.5;
  });
  upstream.requires_grad_();
  inputs.push_back(upstream);
  const auto gradients = [&f](const Tensors& all) {
    const GradMode recording(true);  // also where gradcheck takes differences
    const Tensors own(all.begin(), all.end() - 1);
    Tensors leaves, flat;
    for (const Tensor& t : own) {
      if (t.requires_grad()) leaves.push_back(t);
    }
    const Tensors found =
        grad(f(own), leaves, {.gradient = all.back(), .create_graph = true, .allow_unused = true});
    for (const Tensor& g : found) {
      if (g.defined()) flat.push_back(reshape(g, {-1}));
    }
    return flat.empty() ? all.back() * 0 : cat(flat);
  };
  return gradcheck(gradients, std::move(inputs), options);
}

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/autograd/gradcheck.hpp>
