// gradcheck: is a derivative right? Compares it with central differences, element by element.
//
//   (f(x + h) - f(x - h)) / 2h
//
// has an error of about h^2 |f'''| / 6 + eps |f| / h, smallest near h = eps^(1/3) = 6e-6 in f64. The result of
// f is first weighted by fixed random numbers, so one scalar tests every output at once.
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
  std::string message;  // the worst element when it failed
  explicit operator bool() const { return passed; }
};

// inputs: f64 leaves; those that require grad are checked, and may be views with gaps. f must be smooth
// around them.
inline GradcheckResult gradcheck(const std::function<Tensor(const Tensors&)>& f, Tensors inputs,
                                 GradcheckOptions options = {}) {
  Generator weights_of(0x9d2c5680);
  Tensor weights;
  const auto loss = [&](const Tensors& in) {
    const Tensor y = f(in);
    if (!weights) weights = no_grad([&] { return rand(y.shape(), y.dtype(), y.device(), weights_of) + 0.5; });
    return sum(y * weights);
  };
  for (Tensor& t : inputs) t.zero_grad();
  loss(inputs).backward();

  GradcheckResult result;
  double worst = 0;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].requires_grad()) continue;
    inputs[k].require_dtype(DType::f64, Loc::current());
    const Tensor grad = inputs[k].grad();
    const std::vector<double> analytic =
        grad ? grad.to_vector<double>() : std::vector<double>(static_cast<size_t>(inputs[k].numel()), 0.0);
    const std::vector<double> values = inputs[k].to_vector<double>();
    const NoGrad guard;
    for (size_t i = 0; i < values.size(); ++i) {
      int64_t index[kMaxRank];
      const int64_t offset =
          backend::locate(inputs[k].shape(), inputs[k].strides(), static_cast<int64_t>(i), index);
      Tensor element = alias(inputs[k], {}, {}, inputs[k].offset() + offset);
      element.fill_(values[i] + options.step);
      const double above = loss(inputs).item<double>();
      element.fill_(values[i] - options.step);
      const double below = loss(inputs).item<double>();
      element.fill_(values[i]);
      const double numeric = (above - below) / (2 * options.step);
      const double error = std::abs(analytic[i] - numeric);
      const double allowed = options.absolute + options.relative * std::abs(numeric);
      if (!(error <= allowed) && (result.passed || error / allowed > worst)) {
        worst = error / allowed;
        result.passed = false;
        result.message = "input " + std::to_string(k) + ", element " + std::to_string(i) +
                         ": derivative gives " + std::to_string(analytic[i]) + ", differences give " +
                         std::to_string(numeric);
      }
    }
  }
  return result;
}

}  // namespace tinytorch::inline TT_BUILD
