// Checks of the tensors that an optimizer trains, and of its options.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/kept_layout.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <unordered_map>

namespace tinytorch::inline TT_BUILD {

// Each parameter must be a distinct floating-point leaf tensor that requires a gradient.
inline void require_trainable(const NamedTensors& parameters, Loc loc) {
  std::unordered_map<const TensorImpl*, std::string> known;
  for (const NamedTensor& p : parameters) {
    require_defined(("the optimizer's parameter '" + p.name + "'").c_str(), loc, p.tensor);
    const auto [same, is_new] = known.try_emplace(p.tensor.impl(), p.name);
    if (!is_new) {
      fail("TT-OPT-12",
           "the optimizer was given one tensor twice, as '" + same->second + "' and as '" + p.name +
               "'\n  hint: every step would train it twice; net.named_parameters() names each tensor once",
           loc);
    }
    if (!is_floating(p.tensor.dtype())) {
      fail("TT-OPT-02",
           "the optimizer's parameter '" + p.name + "', " + p.tensor.describe() +
               ", cannot be trained\n  rule: parameters are f32, f64, bf16 or f16\n  hint: convert it with "
               ".to(f32)",
           loc);
    }
    if (p.tensor.requires_grad() && p.tensor.is_leaf()) continue;
    fail(
        "TT-OPT-12",
        "the optimizer's parameter '" + p.name + "', " + p.tensor.describe() +
            (p.tensor.is_leaf() ? ", requires no gradient\n  hint: leave frozen ones out, or switch it on by "
                                  "requires_grad_()"
                                : ", was computed by an op and gets no gradient of its own\n  hint: train "
                                  "the tensor that it was computed from"),
        loc);
  }
}

inline void require_rate(double lr, Loc loc) {
  if (lr >= 0 && std::isfinite(lr)) return;
  fail("TT-OPT-03", "the learning rate must be a finite number >= 0, got " + std::to_string(lr), loc);
}
inline void require_weight_decay(double weight_decay, Loc loc) {
  if (!(weight_decay >= 0)) fail("TT-OPT-04", "weight_decay must be >= 0", loc);
}

// The own rate and weight decay of a group, whose optimizer has the rate `lr_of_optimizer`.
inline void require_group(std::optional<double> lr, std::optional<double> weight_decay,
                          double lr_of_optimizer, Loc loc) {
  if (weight_decay) require_weight_decay(*weight_decay, loc);
  if (!lr) return;
  require_rate(*lr, loc);
  if (lr_of_optimizer != 0) return;
  fail(
      "TT-OPT-03",
      "a group cannot have its own learning rate while the optimizer's is 0, because a group keeps the ratio "
      "of both\n  hint: set_lr() first",
      loc);
}

// The gradient in the memory layout of the master, which is row-major in most cases.
inline Tensor with_layout_of(const Tensor& master, const Tensor& gradient, Loc loc) {
  if (master.is_contiguous()) return gradient.contiguous(loc);
  if (gradient.strides() == master.strides()) return gradient;
  return empty_like(master, gradient.dtype(), loc).copy_(gradient.detach(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
