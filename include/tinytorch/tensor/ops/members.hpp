// Members of Tensor that compute or change autograd state. Each forwards to a free function or to GradState.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/graph.hpp>
#include <tinytorch/tensor/ops/elementwise.hpp>
#include <tinytorch/tensor/ops/inplace.hpp>
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

// --- forwarding members (tensor/methods.hpp), and comparisons with numbers (tensor/overloads.hpp) ---

// clang-format off
TT_API Tensor eq(const Tensor& a, Scalar b, Loc loc) { return compare(backend::BinaryFn::eq, {a, loc}, b); }
TT_API Tensor ne(const Tensor& a, Scalar b, Loc loc) { return compare(backend::BinaryFn::ne, {a, loc}, b); }
TT_API Tensor lt(const Tensor& a, Scalar b, Loc loc) { return compare(backend::BinaryFn::lt, {a, loc}, b); }
TT_API Tensor le(const Tensor& a, Scalar b, Loc loc) { return compare(backend::BinaryFn::le, {a, loc}, b); }
TT_API Tensor gt(const Tensor& a, Scalar b, Loc loc) { return compare(backend::BinaryFn::gt, {a, loc}, b); }
TT_API Tensor ge(const Tensor& a, Scalar b, Loc loc) { return compare(backend::BinaryFn::ge, {a, loc}, b); }

TT_API int TensorMethods::dim(Loc loc) const { return self().rank(loc); }
TT_API Tensor TensorMethods::abs(Loc loc) const { return tinytorch::abs(self(), loc); }
TT_API Tensor TensorMethods::exp(Loc loc) const { return tinytorch::exp(self(), loc); }
TT_API Tensor TensorMethods::log(Loc loc) const { return tinytorch::log(self(), loc); }
TT_API Tensor TensorMethods::sqrt(Loc loc) const { return tinytorch::sqrt(self(), loc); }
TT_API Tensor TensorMethods::square(Loc loc) const { return tinytorch::square(self(), loc); }
TT_API Tensor TensorMethods::tanh(Loc loc) const { return tinytorch::tanh(self(), loc); }
TT_API Tensor TensorMethods::sigmoid(Loc loc) const { return tinytorch::sigmoid(self(), loc); }
TT_API Tensor TensorMethods::relu(Loc loc) const { return tinytorch::relu(self(), loc); }
TT_API Tensor TensorMethods::neg(Loc loc) const { return tinytorch::neg(self(), loc); }
TT_API Tensor TensorMethods::sign(Loc loc) const { return tinytorch::sign(self(), loc); }
TT_API Tensor TensorMethods::floor(Loc loc) const { return tinytorch::floor(self(), loc); }
TT_API Tensor TensorMethods::round(Loc loc) const { return tinytorch::round(self(), loc); }
TT_API Tensor TensorMethods::log1p(Loc loc) const { return tinytorch::log1p(self(), loc); }
TT_API Tensor TensorMethods::expm1(Loc loc) const { return tinytorch::expm1(self(), loc); }
TT_API Tensor TensorMethods::rsqrt(Loc loc) const { return tinytorch::rsqrt(self(), loc); }
TT_API Tensor TensorMethods::reciprocal(Loc loc) const { return tinytorch::reciprocal(self(), loc); }
TT_API Tensor TensorMethods::sin(Loc loc) const { return tinytorch::sin(self(), loc); }
TT_API Tensor TensorMethods::cos(Loc loc) const { return tinytorch::cos(self(), loc); }
TT_API Tensor TensorMethods::erf(Loc loc) const { return tinytorch::erf(self(), loc); }
TT_API Tensor TensorMethods::isnan(Loc loc) const { return tinytorch::isnan(self(), loc); }
TT_API Tensor TensorMethods::isfinite(Loc loc) const { return tinytorch::isfinite(self(), loc); }
TT_API Tensor TensorMethods::pow(Scalar exponent, Loc loc) const { return tinytorch::pow(self(), exponent, loc); }
TT_API Tensor TensorMethods::clamp(Scalar low, Scalar high, Loc loc) const { return tinytorch::clamp(self(), low, high, loc); }
TT_API Tensor TensorMethods::max(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::max(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::min(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::min(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::var(const Dims& dims, int64_t correction, bool keepdim, Loc loc) const { return tinytorch::var(self(), dims, correction, keepdim, loc); }
TT_API Tensor TensorMethods::std(const Dims& dims, int64_t correction, bool keepdim, Loc loc) const { return tinytorch::stddev(self(), dims, correction, keepdim, loc); }
TT_API Tensor TensorMethods::any(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::any(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::all(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::all(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::argmax(int dim, bool keepdim, Loc loc) const { return tinytorch::argmax(self(), dim, keepdim, loc); }
TT_API Tensor TensorMethods::argmin(int dim, bool keepdim, Loc loc) const { return tinytorch::argmin(self(), dim, keepdim, loc); }
TT_API Tensor TensorMethods::argmax(Loc loc) const { return tinytorch::argmax(self(), loc); }
TT_API Tensor TensorMethods::argmin(Loc loc) const { return tinytorch::argmin(self(), loc); }
TT_API Tensor TensorMethods::prod(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::prod(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::norm(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::norm(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::logsumexp(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::logsumexp(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::cumsum(int dim, Loc loc) const { return tinytorch::cumsum(self(), dim, loc); }
TT_API Tensor TensorMethods::log_softmax(int dim, Loc loc) const { return tinytorch::log_softmax(self(), dim, loc); }
TT_API Tensor TensorMethods::softmax(int dim, Loc loc) const { return tinytorch::softmax(self(), dim, loc); }
TT_API Tensor TensorMethods::matmul(const Tensor& b, Loc loc) const { return tinytorch::matmul(self(), b, loc); }
TT_API Tensor TensorMethods::repeat(const Dims& counts, Loc loc) const { return tinytorch::repeat(self(), counts, loc); }
TT_API Tensor TensorMethods::flip(const Dims& dims, Loc loc) const { return tinytorch::flip(self(), dims, loc); }
TT_API Tensor TensorMethods::roll(const Dims& shifts, const Dims& dims, Loc loc) const { return tinytorch::roll(self(), shifts, dims, loc); }
TT_API Tensor TensorMethods::tril(int64_t diagonal, Loc loc) const { return tinytorch::tril(self(), diagonal, loc); }
TT_API Tensor TensorMethods::triu(int64_t diagonal, Loc loc) const { return tinytorch::triu(self(), diagonal, loc); }
TT_API Tensors TensorMethods::split(int64_t size, int dim, Loc loc) const { return tinytorch::split(self(), size, dim, loc); }
TT_API Tensors TensorMethods::chunk(int64_t count, int dim, Loc loc) const { return tinytorch::chunk(self(), count, dim, loc); }
TT_API Tensor TensorMethods::gather(int dim, const Tensor& index, Loc loc) const { return tinytorch::gather(self(), dim, index, loc); }
TT_API Tensor TensorMethods::index_select(int dim, const Tensor& index, Loc loc) const { return tinytorch::index_select(self(), dim, index, loc); }
TT_API Tensor TensorMethods::masked_fill(const Tensor& mask, Scalar value, Loc loc) const { return tinytorch::masked_fill(self(), mask, value, loc); }
TT_API ValuesAndIndices TensorMethods::topk(int64_t k, int dim, bool largest, Loc loc) const { return tinytorch::topk(self(), k, dim, largest, loc); }
TT_API ValuesAndIndices TensorMethods::sort(int dim, bool descending, Loc loc) const { return tinytorch::sort(self(), dim, descending, loc); }
TT_API Tensor TensorMethods::squeeze(int dim, Loc loc) const { return tinytorch::squeeze(self(), dim, loc); }
TT_API Tensor TensorMethods::squeeze(Loc loc) const { return tinytorch::squeeze(self(), loc); }

TT_API void TensorMethods::masked_fill_(const Tensor& mask, Scalar value, Loc loc) const { write_elements("masked_fill_", self(), tinytorch::masked_fill(self(), mask, value, loc), loc); }
TT_API void TensorMethods::clamp_(Scalar low, Scalar high, Loc loc) const { write_elements("clamp_", self(), tinytorch::clamp(self(), low, high, loc), loc); }
TT_API void TensorMethods::add_(Scalar value, Loc loc) const { TensorArg(self(), loc) += value; }
TT_API void TensorMethods::sub_(const Tensor& other, Loc loc) const { TensorArg(self(), loc) -= TensorArg(other, loc); }
TT_API void TensorMethods::div_(const Tensor& divisor, Loc loc) const { TensorArg(self(), loc) /= TensorArg(divisor, loc); }
TT_API void TensorMethods::div_(Scalar divisor, Loc loc) const { TensorArg(self(), loc) /= divisor; }
// clang-format on

TT_API Tensor TensorMethods::view(const Shape& shape, Loc loc) const {
  const Tensor y = tinytorch::reshape(self(), shape, loc);
  if (self().numel() == 0 || y.storage() == self().storage()) return y;
  fail("TT-SHAPE-05",
       "view: the elements of " + self().describe() + " do not lie in memory as " + shape.str() +
           " needs\n  hint: reshape() copies where a view is not possible",
       loc);
}
TT_API Tensor TensorMethods::T(Loc loc) const {
  Dims order;
  for (int d = self().rank(loc) - 1; d >= 0; --d) order.push_back(d);
  return tinytorch::permute(self(), order, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
