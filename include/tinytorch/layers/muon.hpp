// Muon: the step of a matrix is its momentum with all singular values replaced by about one.
//
//   m = momentum m + (1 - momentum) g      u = nesterov ? momentum m + (1 - momentum) g : m
//   p = (1 - lr weight_decay) p - lr s orthogonalized(u)
//
// A gradient of a linear layer has a few large singular values, and plain momentum moves along them alone.
// orthogonalized(u) is near U V^T of u = U S V^T. It takes only matrix products: five steps of a polynomial
// x -> a x + (b x x^T + c (x x^T)^2) x, whose coefficients drive every singular value to between 0.7 and 1.2.
// s makes the step's size independent of the shape. Only matrices have singular values, so biases, norms and,
// by custom, embeddings and the last layer are trained by AdamW. Names, defaults and results are PyTorch's.
// Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.
#pragma once

#include <array>
#include <concepts>
#include <tinytorch/layers/optimizer.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  int ns_steps = 5;
  // s for a matrix [M, N]: original: sqrt(max(1, M / N)). match_rms_adamw: 0.2 sqrt(max(M, N)), so that rate
  // and weight decay of AdamW fit.
  enum class Adjust { original, match_rms_adamw } adjust = Adjust::original;
};

// The factor U V^T of the singular value decomposition of x [M, N], approximately. Computed in bf16 on a CUDA
// device, as in PyTorch, and in the dtype of x on the CPU. A matrix of zeros stays zero.
TT_API Tensor orthogonalized(const Tensor& x, const MuonOptions& options = {}, TT_LOC);

// Parameters must be matrices (TT-OPT-13).
class Muon : public Optimizer {
 public:
  // Muon(net.parameters(), 0.1): the rate alone; the other options are the default ones.
  template <class Parameters, std::floating_point Rate>
  Muon(const Parameters& parameters, Rate lr, TT_LOC) : Muon(parameters, MuonOptions{.lr = lr}, loc) {}
  explicit Muon(const Tensors& parameters, MuonOptions muon_options = {}, TT_LOC)
      : Muon(numbered(parameters), muon_options, loc) {}
  explicit Muon(const NamedTensors& parameters, MuonOptions muon_options = {}, TT_LOC)
      : Optimizer(parameters, muon_options.lr, muon_options.weight_decay, {"momentum_buffer"}, loc),
        options(muon_options) {
    if (!(options.momentum >= 0 && options.momentum < 1) || options.ns_steps < 0 || !(options.eps > 0)) {
      fail("TT-OPT-07", "Muon: momentum must be in [0, 1), ns_steps >= 0 and eps > 0", loc);
    }
    for (const NamedTensor& p : parameters) Muon::require_parameter(p, loc);
  }

  const MuonOptions options;

 protected:
  TT_API void update_all(Updates& updates, const Tensor& scalars, bool clip, Loc loc) override;
  TT_API void require_parameter(const NamedTensor& parameter, Loc loc) const override;
};

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(LAYERS)
#include <algorithm>
#include <cmath>

namespace tinytorch::inline TT_BUILD {

TT_API Tensor orthogonalized(const Tensor& x, const MuonOptions& options, Loc loc) {
  if (x.rank() != 2) fail("TT-SHAPE-04", "orthogonalized: x must be a matrix, got " + x.describe(), loc);
  NoGrad no_grad;
  const auto [a, b, c] = options.ns_coefficients;
  const bool tall = x.size(0) > x.size(1);  // the products x x^T are of the smaller size
  Tensor u = tall ? x.t() : x;
  u = div(u, maximum(sqrt(sum(square(u))), scalar_like(options.eps, u, loc)));
  if (x.device().is_cuda() && x.dtype() == f32) u = u.to(bf16, loc);
  for (int step = 0; step < options.ns_steps; ++step) {
    const Tensor gram = matmul(u, u.t(), loc);
    u = u * a + matmul(gram * b + matmul(gram, gram, loc) * c, u, loc);
  }
  return (tall ? u.t() : u).to(x.dtype(), loc);
}

TT_API void Muon::require_parameter(const NamedTensor& parameter, Loc loc) const {
  if (parameter.tensor.rank() == 2) return;
  fail("TT-OPT-13",
       "Muon: the parameter '" + parameter.name + "', " + parameter.tensor.describe() +
           ", is no matrix\n  hint: train the others with AdamW: two optimizers can share a net",
       loc);
}

TT_API void Muon::update_all(Updates& updates, const Tensor& scalars, bool clip, Loc loc) {
  // With a factor that is not a number, all results are chosen to be the old values: a branch would wait for
  // the device.
  const Tensor factor = scalars.select(0, backend::kGradientFactor, loc);
  const Tensor valid = clip ? eq(factor, factor, loc) : Tensor();
  const auto set = [&](Tensor& target, const Tensor& value) {
    target.copy_(clip ? where(valid, value, target, loc) : value, loc);
  };
  for (Update& u : updates) {
    const DType dtype = u.slot->master.dtype();
    const Tensor lr = scalars.select(0, backend::kLearningRate, loc).to(dtype, loc);
    Tensor g = u.gradient.to(dtype, loc);
    if (clip) g = g * factor.to(dtype, loc);
    Tensor& m = u.slot->state[0];
    const auto towards_g = [&] { return m * options.momentum + g * (1 - options.momentum); };
    set(m, towards_g());
    const Tensor mean = options.nesterov ? towards_g() : m;
    const auto M = static_cast<double>(g.size(0)), N = static_cast<double>(g.size(1));
    const double size = options.adjust == MuonOptions::Adjust::original ? std::sqrt(std::max(1.0, M / N))
                                                                        : 0.2 * std::sqrt(std::max(M, N));
    Tensor& p = u.slot->master;
    set(p, p - (orthogonalized(mean, options, loc) * size + p * u.slot->weight_decay) * lr);
    set(u.slot->step, u.slot->step + 1);
  }
}

}  // namespace tinytorch::inline TT_BUILD
#endif
