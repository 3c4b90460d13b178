// Members of Tensor that compute or change autograd state. Each forwards to a free function or to GradState.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/graph.hpp>
#include <tinytorch/tensor/ops/elementwise.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

// Copy of a tensor to another device.
struct Transfer final : Primitive<Transfer> {
  static constexpr const char* kName = "to_device";
  Device from, target;
  Transfer(Device f, Device t) : from(f), target(t) {}
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  Device output_device(Device) const override { return target; }
  void run(const Tensors& in, Tensors& out) const override {
    const Tensor source = in[0].detach().contiguous();
    if constexpr (backend::cuda::is_built()) {
      backend::cuda::copy_bytes(out[0].view_of().data, target, source.view_of().data, from, source.bytes());
    }
  }
  Tensors vjp(const Saved&, const Tensors& g) const override { return {g[0].to(from)}; }
};

TT_API Tensor Tensor::to(DType dtype, Loc loc) const { return cast(*this, dtype, loc); }
TT_API Tensor Tensor::to(Device device, Loc loc) const {
  require_defined("to", loc, *this);
  if (device == this->device()) return *this;
  if (device.is_cuda() && !backend::cuda::is_built()) fail_without_cuda("to(" + device.str() + ")", loc);
  if (device.is_cpu() || this->device().is_cpu()) {
    backend::cuda::refuse_in_capture(("to(" + device.str() + ")").c_str(), loc);
  }
  return apply(Transfer(this->device(), device), {*this}, loc);
}
TT_API Tensor Tensor::contiguous(Loc loc) const { return tinytorch::contiguous(*this, loc); }
TT_API Tensor Tensor::clone(Loc loc) const { return tinytorch::clone(*this, loc); }
TT_API Tensor Tensor::sum(const Dims& dims, bool keepdim, Loc loc) const {
  return tinytorch::sum(*this, dims, keepdim, loc);
}
TT_API Tensor Tensor::mean(const Dims& dims, bool keepdim, Loc loc) const {
  return tinytorch::mean(*this, dims, keepdim, loc);
}

// --- autograd ---

TT_API bool Tensor::requires_grad() const { return tracks_grad(*this); }
TT_API bool Tensor::is_leaf() const { return !impl_ || !impl_->grad_state || !impl_->grad_state->producer; }

inline GradState& state_of(const Tensor& t) {
  auto& state = t.checked().grad_state;
  if (!state) state = std::make_shared<GradState>();
  return *state;
}

TT_API Tensor& Tensor::requires_grad_(bool on, Loc loc) {
  require_defined("requires_grad_", loc, *this);
  if (on) require_floating("requires_grad_", *this, loc);
  if (!is_leaf()) {
    fail("TT-GRAD-06",
         "requires_grad_: " + describe() + " was computed by '" + impl_->grad_state->producer->op->name() +
             "'; only leaves can be changed\n  hint: detach() makes a leaf with the same values",
         loc);
  }
  state_of(*this).requires_grad = on;
  return *this;
}
TT_API Tensor Tensor::grad() const { return impl_ && impl_->grad_state ? impl_->grad_state->grad : Tensor(); }
TT_API void Tensor::set_grad(const Tensor& g, Loc loc) {
  require_defined("set_grad", loc, *this);
  const bool dtype_fits =
      g.defined() && (g.dtype() == dtype() || (is_16_bit(dtype()) && g.dtype() == DType::f32));
  if (g.defined() && !(dtype_fits && g.shape() == shape() && g.device() == device())) {
    fail("TT-GRAD-09",
         "set_grad: the gradient " + g.describe() + " does not match " + describe() +
             "\n  rule: same shape, device and dtype; the gradient of a 16-bit tensor may be f32",
         loc);
  }
  GradState& state = state_of(*this);
  state.grad = g, state.wide_grad = Tensor();
}
TT_API void Tensor::zero_grad() {
  if (impl_ && impl_->grad_state) impl_->grad_state->grad = impl_->grad_state->wide_grad = Tensor();
}
TT_API Tensor& Tensor::retain_grad() {
  if (!is_leaf()) {
    GradState& state = *impl_->grad_state;
    state.producer->output_hooks[static_cast<size_t>(state.output_index)].retain = impl_->grad_state;
  }
  return *this;
}
TT_API void Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) {
  GradState& state = state_of(*this);
  if (is_leaf()) {
    state.hooks.push_back(std::move(hook));
  } else {
    state.producer->output_hooks[static_cast<size_t>(state.output_index)].hooks.push_back(std::move(hook));
  }
}
TT_API Tensor Tensor::detach() const { return alias(*this, shape(), strides(), offset()); }

}  // namespace tinytorch::inline TT_BUILD
#endif
