// gradcheck: compares a derivative with central differences, element by element.
//
//   (f(x + h) - f(x - h)) / 2h
//
// The central difference has an error of about h^2 |f'''| / 6 + eps |f| / h, which is smallest near
// h = eps^(1/3) = 6e-6 in f64. The outputs of f are first weighted by fixed random numbers and summed, so one
// scalar tests all outputs at once.
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

// Numerical derivative of f with respect to element i (row-major) of x: (f(x + h) - f(x - h)) / 2h. f reads x
// itself, so the element is changed in place, at the position given by x's strides, and restored exactly.
inline double central_difference(const std::function<double()>& f, const Tensor& x, int64_t i, double h) {
  const NoGrad guard;
  int64_t index[kMaxRank];
  const int64_t offset = backend::locate(x.shape(), x.strides(), i, index);
  Tensor element = alias(x, {}, {}, x.offset() + offset);
  const double value = element.item<double>();
  element.fill_(value + h);
  const double above = f();
  element.fill_(value - h);
  const double below = f();
  element.fill_(value);
  return (above - below) / (2 * h);
}

// The error of one element as a multiple of the allowed error. An element is wrong if this is above 1 or NaN.
inline double excess(double analytic, double numeric, const GradcheckOptions& options) {
  return std::abs(analytic - numeric) / (options.absolute + options.relative * std::abs(numeric));
}

// The inputs that require grad are checked; they must be f64 leaves, and may be views with gaps. f must be
// smooth around them. The message names the element with the largest excess.
inline GradcheckResult gradcheck(const std::function<Tensor(const Tensors&)>& f, Tensors inputs,
                                 GradcheckOptions options = {}) {
  Generator weights_of(0x9d2c5680);
  Tensor weights;
  const auto loss = [&] {
    const Tensor y = f(inputs);
    if (!weights.defined())
      weights = no_grad([&] { return rand(y.shape(), y.dtype(), y.device(), weights_of) + 0.5; });
    return sum(y * weights);
  };
  for (Tensor& t : inputs) t.zero_grad();
  loss().backward();

  GradcheckResult result;
  double worst = 0;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& x = inputs[k];
    if (!x.requires_grad()) continue;
    x.require_dtype(DType::f64, Loc::current());
    const std::vector<double> analytic = (x.grad().defined() ? x.grad() : zeros_like(x)).to_vector<double>();
    for (int64_t i = 0; i < x.numel(); ++i) {
      const double slope = analytic[static_cast<size_t>(i)];
      const double numeric = central_difference([&] { return loss().item<double>(); }, x, i, options.step);
      const double error = excess(slope, numeric, options);
      if (error <= 1 || (!result.passed && !(error > worst))) continue;
      worst = error;
      result = {false, "input " + std::to_string(k) + ", element " + std::to_string(i) +
                           ": derivative gives " + std::to_string(slope) + ", differences give " +
                           std::to_string(numeric)};
    }
  }
  return result;
}

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
