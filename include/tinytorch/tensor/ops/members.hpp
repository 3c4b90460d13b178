// Members of Tensor that compute or change autograd state. Each forwards to a free function or to GradState.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/graph.hpp>
#include <tinytorch/tensor/ops/composed_math.hpp>
#include <tinytorch/tensor/ops/composed_shape.hpp>
#include <tinytorch/tensor/ops/diagonal.hpp>
#include <tinytorch/tensor/ops/division.hpp>
#include <tinytorch/tensor/ops/elementwise.hpp>
#include <tinytorch/tensor/ops/inplace.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>
#include <tinytorch/tensor/ops/sampling.hpp>
#include <tinytorch/tensor/ops/statistics.hpp>
#include <tinytorch/tensor/ops/unbind.hpp>
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

TT_API Tensor TensorMethods::ceil(Loc loc) const { return tinytorch::ceil(self(), loc); }
TT_API Tensor TensorMethods::trunc(Loc loc) const { return tinytorch::trunc(self(), loc); }
TT_API Tensor TensorMethods::frac(Loc loc) const { return tinytorch::frac(self(), loc); }
TT_API Tensor TensorMethods::tan(Loc loc) const { return tinytorch::tan(self(), loc); }
TT_API Tensor TensorMethods::sinh(Loc loc) const { return tinytorch::sinh(self(), loc); }
TT_API Tensor TensorMethods::cosh(Loc loc) const { return tinytorch::cosh(self(), loc); }
TT_API Tensor TensorMethods::atanh(Loc loc) const { return tinytorch::atanh(self(), loc); }
TT_API Tensor TensorMethods::exp2(Loc loc) const { return tinytorch::exp2(self(), loc); }
TT_API Tensor TensorMethods::log2(Loc loc) const { return tinytorch::log2(self(), loc); }
TT_API Tensor TensorMethods::log10(Loc loc) const { return tinytorch::log10(self(), loc); }
TT_API Tensor TensorMethods::logical_not(Loc loc) const { return tinytorch::logical_not(self(), loc); }
TT_API Tensor TensorMethods::isinf(Loc loc) const { return tinytorch::isinf(self(), loc); }
TT_API Tensor TensorMethods::add(const Tensor& other, Loc loc) const { return tinytorch::add(self(), other, loc); }
TT_API Tensor TensorMethods::add(Scalar number, Loc loc) const { return tinytorch::add(self(), number, loc); }
TT_API Tensor TensorMethods::sub(const Tensor& other, Loc loc) const { return tinytorch::sub(self(), other, loc); }
TT_API Tensor TensorMethods::sub(Scalar number, Loc loc) const { return tinytorch::sub(self(), number, loc); }
TT_API Tensor TensorMethods::mul(const Tensor& other, Loc loc) const { return tinytorch::mul(self(), other, loc); }
TT_API Tensor TensorMethods::mul(Scalar number, Loc loc) const { return tinytorch::mul(self(), number, loc); }
TT_API Tensor TensorMethods::div(const Tensor& other, Loc loc) const { return tinytorch::div(self(), other, loc); }
TT_API Tensor TensorMethods::div(Scalar number, Loc loc) const { return tinytorch::div(self(), number, loc); }
TT_API Tensor TensorMethods::maximum(const Tensor& other, Loc loc) const { return tinytorch::maximum(self(), other, loc); }
TT_API Tensor TensorMethods::maximum(Scalar number, Loc loc) const { return tinytorch::maximum(self(), number, loc); }
TT_API Tensor TensorMethods::minimum(const Tensor& other, Loc loc) const { return tinytorch::minimum(self(), other, loc); }
TT_API Tensor TensorMethods::minimum(Scalar number, Loc loc) const { return tinytorch::minimum(self(), number, loc); }
TT_API Tensor TensorMethods::eq(const Tensor& other, Loc loc) const { return tinytorch::eq(self(), other, loc); }
TT_API Tensor TensorMethods::eq(Scalar number, Loc loc) const { return tinytorch::eq(self(), number, loc); }
TT_API Tensor TensorMethods::ne(const Tensor& other, Loc loc) const { return tinytorch::ne(self(), other, loc); }
TT_API Tensor TensorMethods::ne(Scalar number, Loc loc) const { return tinytorch::ne(self(), number, loc); }
TT_API Tensor TensorMethods::lt(const Tensor& other, Loc loc) const { return tinytorch::lt(self(), other, loc); }
TT_API Tensor TensorMethods::lt(Scalar number, Loc loc) const { return tinytorch::lt(self(), number, loc); }
TT_API Tensor TensorMethods::le(const Tensor& other, Loc loc) const { return tinytorch::le(self(), other, loc); }
TT_API Tensor TensorMethods::le(Scalar number, Loc loc) const { return tinytorch::le(self(), number, loc); }
TT_API Tensor TensorMethods::gt(const Tensor& other, Loc loc) const { return tinytorch::gt(self(), other, loc); }
TT_API Tensor TensorMethods::gt(Scalar number, Loc loc) const { return tinytorch::gt(self(), number, loc); }
TT_API Tensor TensorMethods::ge(const Tensor& other, Loc loc) const { return tinytorch::ge(self(), other, loc); }
TT_API Tensor TensorMethods::ge(Scalar number, Loc loc) const { return tinytorch::ge(self(), number, loc); }
TT_API Tensor TensorMethods::floor_divide(const Tensor& other, Loc loc) const { return tinytorch::floor_divide(self(), other, loc); }
TT_API Tensor TensorMethods::floor_divide(Scalar number, Loc loc) const { return tinytorch::floor_divide(self(), number, loc); }
TT_API Tensor TensorMethods::remainder(const Tensor& other, Loc loc) const { return tinytorch::remainder(self(), other, loc); }
TT_API Tensor TensorMethods::remainder(Scalar number, Loc loc) const { return tinytorch::remainder(self(), number, loc); }
TT_API Tensor TensorMethods::fmod(const Tensor& other, Loc loc) const { return tinytorch::fmod(self(), other, loc); }
TT_API Tensor TensorMethods::fmod(Scalar number, Loc loc) const { return tinytorch::fmod(self(), number, loc); }
TT_API Tensor TensorMethods::pow(const Tensor& exponent, Loc loc) const { return tinytorch::pow(self(), exponent, loc); }
TT_API Tensor TensorMethods::logical_and(const Tensor& other, Loc loc) const { return tinytorch::logical_and(self(), other, loc); }
TT_API Tensor TensorMethods::logical_or(const Tensor& other, Loc loc) const { return tinytorch::logical_or(self(), other, loc); }
TT_API Tensor TensorMethods::logical_xor(const Tensor& other, Loc loc) const { return tinytorch::logical_xor(self(), other, loc); }
TT_API Tensor TensorMethods::logaddexp(const Tensor& other, Loc loc) const { return tinytorch::logaddexp(self(), other, loc); }
TT_API Tensor TensorMethods::clamp_min(Scalar bound, Loc loc) const { return tinytorch::clamp_min(self(), bound, loc); }
TT_API Tensor TensorMethods::clamp_max(Scalar bound, Loc loc) const { return tinytorch::clamp_max(self(), bound, loc); }
TT_API Tensor TensorMethods::clip(Scalar low, Scalar high, Loc loc) const { return tinytorch::clamp(self(), low, high, loc); }
TT_API Tensor TensorMethods::lerp(const Tensor& end, const Tensor& weight, Loc loc) const { return tinytorch::lerp(self(), end, weight, loc); }
TT_API Tensor TensorMethods::lerp(const Tensor& end, double weight, Loc loc) const { return tinytorch::lerp(self(), end, weight, loc); }
TT_API Tensor TensorMethods::addcmul(const Tensor& a, const Tensor& b, Scalar value, Loc loc) const { return tinytorch::addcmul(self(), a, b, value, loc); }
TT_API Tensor TensorMethods::addcdiv(const Tensor& a, const Tensor& b, Scalar value, Loc loc) const { return tinytorch::addcdiv(self(), a, b, value, loc); }
TT_API Tensor TensorMethods::nan_to_num(double nan, Loc loc) const { return tinytorch::nan_to_num(self(), nan, {}, {}, loc); }
TT_API Tensor TensorMethods::where(const Tensor& condition, const Tensor& other, Loc loc) const { return tinytorch::where(condition, self(), other, loc); }
TT_API Tensor TensorMethods::where(const Tensor& condition, Scalar other, Loc loc) const { return tinytorch::where(condition, self(), other, loc); }
TT_API Tensor TensorMethods::isclose(const Tensor& other, double relative, double absolute, bool equal_nan, Loc loc) const { return tinytorch::isclose(self(), other, relative, absolute, equal_nan, loc); }
TT_API bool TensorMethods::allclose(const Tensor& other, double relative, double absolute, bool equal_nan, Loc loc) const { return tinytorch::allclose(self(), other, relative, absolute, equal_nan, loc); }
TT_API bool TensorMethods::equal(const Tensor& other, Loc loc) const { return tinytorch::equal(self(), other, loc); }
TT_API Tensor TensorMethods::sum(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::sum(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::mean(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::mean(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::amax(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::amax(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::amin(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::amin(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::nansum(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::nansum(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::nanmean(const Dims& dims, bool keepdim, Loc loc) const { return tinytorch::nanmean(self(), dims, keepdim, loc); }
TT_API Tensor TensorMethods::count_nonzero(const Dims& dims, Loc loc) const { return tinytorch::count_nonzero(self(), dims, loc); }
TT_API Tensor TensorMethods::median(Loc loc) const { return tinytorch::median(self(), loc); }
TT_API ValuesAndIndices TensorMethods::median(int dim, bool keepdim, Loc loc) const { return tinytorch::median(self(), dim, keepdim, loc); }
TT_API Tensor TensorMethods::quantile(double q, std::optional<int> dim, bool keepdim, Loc loc) const { return tinytorch::quantile(self(), q, dim, keepdim, loc); }
TT_API Tensor TensorMethods::cumprod(int dim, Loc loc) const { return tinytorch::cumprod(self(), dim, loc); }
TT_API Tensor TensorMethods::diff(int64_t n, int dim, Loc loc) const { return tinytorch::diff(self(), n, dim, loc); }
TT_API Tensor TensorMethods::cov(int64_t correction, Loc loc) const { return tinytorch::cov(self(), correction, loc); }
TT_API Tensor TensorMethods::corrcoef(Loc loc) const { return tinytorch::corrcoef(self(), loc); }
TT_API Tensor TensorMethods::histc(int64_t bins, double low, double high, Loc loc) const { return tinytorch::histc(self(), bins, low, high, loc); }
TT_API Tensor TensorMethods::bincount(Loc loc) const { return tinytorch::bincount(self(), {}, 0, loc); }
TT_API Tensor TensorMethods::trace(Loc loc) const { return tinytorch::trace(self(), loc); }
TT_API Tensor TensorMethods::dot(const Tensor& b, Loc loc) const { return tinytorch::dot(self(), b, loc); }
TT_API Tensor TensorMethods::mm(const Tensor& b, Loc loc) const { return tinytorch::mm(self(), b, loc); }
TT_API Tensor TensorMethods::mv(const Tensor& b, Loc loc) const { return tinytorch::mv(self(), b, loc); }
TT_API Tensor TensorMethods::bmm(const Tensor& b, Loc loc) const { return tinytorch::bmm(self(), b, loc); }
TT_API Tensor TensorMethods::outer(const Tensor& b, Loc loc) const { return tinytorch::outer(self(), b, loc); }
TT_API Tensor TensorMethods::addmm(const Tensor& a, const Tensor& b, double beta, double alpha, Loc loc) const { return tinytorch::addmm(self(), a, b, beta, alpha, loc); }
TT_API Tensor TensorMethods::narrow(int dim, int64_t start, int64_t length, Loc loc) const { return tinytorch::narrow(self(), dim, start, length, loc); }
TT_API SmallVector<Tensor, 4> TensorMethods::unbind(int dim, Loc loc) const { return tinytorch::unbind(self(), dim, loc); }
TT_API Tensor TensorMethods::unflatten(int dim, const Shape& sizes, Loc loc) const { return tinytorch::unflatten(self(), dim, sizes, loc); }
TT_API Tensor TensorMethods::ravel(Loc loc) const { return tinytorch::ravel(self(), loc); }
TT_API Tensor TensorMethods::tile(const Dims& counts, Loc loc) const { return tinytorch::tile(self(), counts, loc); }
TT_API Tensor TensorMethods::repeat_interleave(int64_t count, std::optional<int> dim, Loc loc) const { return tinytorch::repeat_interleave(self(), count, dim, loc); }
TT_API Tensor TensorMethods::broadcast_to(const Shape& shape, Loc loc) const { return tinytorch::broadcast_to(self(), shape, loc); }
TT_API Tensor TensorMethods::expand_as(const Tensor& other, Loc loc) const { return tinytorch::expand_as(self(), other, loc); }
TT_API Tensor TensorMethods::reshape_as(const Tensor& other, Loc loc) const { return tinytorch::reshape_as(self(), other, loc); }
TT_API Tensor TensorMethods::view_as(const Tensor& other, Loc loc) const { return view(other.shape(loc), loc); }
TT_API Tensor TensorMethods::swapaxes(int a, int b, Loc loc) const { return tinytorch::swapaxes(self(), a, b, loc); }
TT_API Tensor TensorMethods::swapdims(int a, int b, Loc loc) const { return tinytorch::swapaxes(self(), a, b, loc); }
TT_API Tensor TensorMethods::movedim(int source, int destination, Loc loc) const { return tinytorch::movedim(self(), source, destination, loc); }
TT_API Tensor TensorMethods::mT(Loc loc) const { return self().t(loc); }
TT_API Tensor TensorMethods::diagonal(int64_t offset, int dim1, int dim2, Loc loc) const { return tinytorch::diagonal(self(), offset, dim1, dim2, loc); }
TT_API Tensor TensorMethods::diag(int64_t diagonal, Loc loc) const { return tinytorch::diag(self(), diagonal, loc); }
TT_API Tensor TensorMethods::masked_select(const Tensor& mask, Loc loc) const { return tinytorch::masked_select(self(), mask, loc); }
TT_API Tensor TensorMethods::take_along_dim(const Tensor& index, int dim, Loc loc) const { return tinytorch::take_along_dim(self(), index, dim, loc); }
TT_API Tensor TensorMethods::scatter(int dim, const Tensor& index, const Tensor& source, Loc loc) const { return tinytorch::scatter(self(), dim, index, source, loc); }
TT_API Tensor TensorMethods::scatter(int dim, const Tensor& index, Scalar value, Loc loc) const { return tinytorch::scatter(self(), dim, index, value, loc); }
TT_API Tensor TensorMethods::scatter_add(int dim, const Tensor& index, const Tensor& source, Loc loc) const { return tinytorch::scatter_add(self(), dim, index, source, loc); }
TT_API Tensor TensorMethods::index_add(int dim, const Tensor& index, const Tensor& source, Loc loc) const { return tinytorch::index_add(self(), dim, index, source, loc); }
TT_API Tensor TensorMethods::index_fill(int dim, const Tensor& index, Scalar value, Loc loc) const { return tinytorch::index_fill(self(), dim, index, value, loc); }
TT_API Tensor TensorMethods::index_put(const Tensor& index, const Tensor& values, Loc loc) const { return tinytorch::index_put(self(), index, values, loc); }
TT_API Tensor TensorMethods::nonzero(Loc loc) const { return tinytorch::nonzero(self(), loc); }
TT_API UniqueValues TensorMethods::unique(Loc loc) const { return tinytorch::unique(self(), loc); }
TT_API UniqueValues TensorMethods::unique(int dim, Loc loc) const { return tinytorch::unique(self(), dim, loc); }
TT_API Tensor TensorMethods::argsort(int dim, bool descending, Loc loc) const { return tinytorch::argsort(self(), dim, descending, loc); }
TT_API ValuesAndIndices TensorMethods::kthvalue(int64_t k, int dim, bool keepdim, Loc loc) const { return tinytorch::kthvalue(self(), k, dim, keepdim, loc); }
TT_API Tensor TensorMethods::cpu(Loc loc) const { return self().to(tinytorch::cpu, loc); }
TT_API Tensor TensorMethods::cuda(Loc loc) const { return self().to(tinytorch::cuda, loc); }
TT_API Tensor TensorMethods::to(Device device, DType dtype, Loc loc) const { return self().to(device, loc).to(dtype, loc); }
TT_API Tensor TensorMethods::to(const Tensor& other, Loc loc) const { return to(other.device(loc), other.dtype(loc), loc); }
TT_API Tensor TensorMethods::type_as(const Tensor& other, Loc loc) const { return self().to(other.dtype(loc), loc); }
TT_API SmallVector<Tensor, 4> TensorMethods::split(const Dims& sizes, int dim, Loc loc) const { return tinytorch::split(self(), sizes, dim, loc); }
TT_API const Shape& TensorMethods::sizes(Loc loc) const { return self().shape(loc); }
TT_API int64_t TensorMethods::nelement(Loc loc) const { return self().numel(loc); }
TT_API int64_t TensorMethods::stride(int dim, Loc loc) const { return self().strides(loc)[normalize_dim(dim, self().rank(loc), "stride", loc)]; }
TT_API int64_t TensorMethods::element_size(Loc loc) const { return static_cast<int64_t>(size_of(self().dtype(loc))); }
TT_API bool TensorMethods::is_floating_point(Loc loc) const { return is_floating(self().dtype(loc)); }
TT_API bool TensorMethods::is_cuda(Loc loc) const { return self().device(loc).is_cuda(); }
TT_API Tensor TensorMethods::abs_(Loc loc) const { return written("abs_", self(), tinytorch::abs(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::neg_(Loc loc) const { return written("neg_", self(), tinytorch::neg(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::exp_(Loc loc) const { return written("exp_", self(), tinytorch::exp(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::log_(Loc loc) const { return written("log_", self(), tinytorch::log(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::log2_(Loc loc) const { return written("log2_", self(), tinytorch::log2(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::log10_(Loc loc) const { return written("log10_", self(), tinytorch::log10(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::sqrt_(Loc loc) const { return written("sqrt_", self(), tinytorch::sqrt(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::rsqrt_(Loc loc) const { return written("rsqrt_", self(), tinytorch::rsqrt(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::square_(Loc loc) const { return written("square_", self(), tinytorch::square(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::reciprocal_(Loc loc) const { return written("reciprocal_", self(), tinytorch::reciprocal(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::sin_(Loc loc) const { return written("sin_", self(), tinytorch::sin(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::cos_(Loc loc) const { return written("cos_", self(), tinytorch::cos(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::tan_(Loc loc) const { return written("tan_", self(), tinytorch::tan(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::tanh_(Loc loc) const { return written("tanh_", self(), tinytorch::tanh(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::sigmoid_(Loc loc) const { return written("sigmoid_", self(), tinytorch::sigmoid(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::relu_(Loc loc) const { return written("relu_", self(), tinytorch::relu(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::floor_(Loc loc) const { return written("floor_", self(), tinytorch::floor(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::ceil_(Loc loc) const { return written("ceil_", self(), tinytorch::ceil(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::round_(Loc loc) const { return written("round_", self(), tinytorch::round(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::trunc_(Loc loc) const { return written("trunc_", self(), tinytorch::trunc(before_write(self(), loc), loc), loc); }
TT_API Tensor TensorMethods::remainder_(Scalar number, Loc loc) const { return written("remainder_", self(), tinytorch::remainder(before_write(self(), loc), number, loc), loc); }
TT_API Tensor TensorMethods::floor_divide_(Scalar number, Loc loc) const { return written("floor_divide_", self(), tinytorch::floor_divide(before_write(self(), loc), number, loc), loc); }
TT_API Tensor TensorMethods::pow_(Scalar exponent, Loc loc) const { return written("pow_", self(), tinytorch::pow(before_write(self(), loc), exponent, loc), loc); }
TT_API Tensor TensorMethods::clamp_min_(Scalar bound, Loc loc) const { return written("clamp_min_", self(), tinytorch::clamp_min(before_write(self(), loc), bound, loc), loc); }
TT_API Tensor TensorMethods::clamp_max_(Scalar bound, Loc loc) const { return written("clamp_max_", self(), tinytorch::clamp_max(before_write(self(), loc), bound, loc), loc); }
TT_API Tensor TensorMethods::clip_(Scalar low, Scalar high, Loc loc) const { return written("clip_", self(), tinytorch::clamp(before_write(self(), loc), low, high, loc), loc); }
TT_API Tensor TensorMethods::lerp_(const Tensor& end, double weight, Loc loc) const { return written("lerp_", self(), tinytorch::lerp(before_write(self(), loc), end, weight, loc), loc); }
TT_API Tensor TensorMethods::addcmul_(const Tensor& a, const Tensor& b, Scalar value, Loc loc) const { return written("addcmul_", self(), tinytorch::addcmul(before_write(self(), loc), a, b, value, loc), loc); }
TT_API Tensor TensorMethods::addcdiv_(const Tensor& a, const Tensor& b, Scalar value, Loc loc) const { return written("addcdiv_", self(), tinytorch::addcdiv(before_write(self(), loc), a, b, value, loc), loc); }
TT_API Tensor TensorMethods::index_fill_(int dim, const Tensor& index, Scalar value, Loc loc) const { return written("index_fill_", self(), tinytorch::index_fill(before_write(self(), loc), dim, index, value, loc), loc); }
TT_API Tensor TensorMethods::index_add_(int dim, const Tensor& index, const Tensor& source, Loc loc) const { return written("index_add_", self(), tinytorch::index_add(before_write(self(), loc), dim, index, source, loc), loc); }
TT_API Tensor TensorMethods::index_put_(const Tensor& index, const Tensor& values, Loc loc) const { return written("index_put_", self(), tinytorch::index_put(before_write(self(), loc), index, values, loc), loc); }
TT_API Tensor TensorMethods::scatter_(int dim, const Tensor& index, const Tensor& source, Loc loc) const { return written("scatter_", self(), tinytorch::scatter(before_write(self(), loc), dim, index, source, loc), loc); }
TT_API Tensor TensorMethods::scatter_(int dim, const Tensor& index, Scalar value, Loc loc) const { return written("scatter_", self(), tinytorch::scatter(before_write(self(), loc), dim, index, value, loc), loc); }
TT_API Tensor TensorMethods::scatter_add_(int dim, const Tensor& index, const Tensor& source, Loc loc) const { return written("scatter_add_", self(), tinytorch::scatter_add(before_write(self(), loc), dim, index, source, loc), loc); }
TT_API Tensor TensorMethods::tril_(int64_t diagonal, Loc loc) const { return written("tril_", self(), tinytorch::tril(before_write(self(), loc), diagonal, loc), loc); }
TT_API Tensor TensorMethods::triu_(int64_t diagonal, Loc loc) const { return written("triu_", self(), tinytorch::triu(before_write(self(), loc), diagonal, loc), loc); }
TT_API Tensor TensorMethods::masked_fill_(const Tensor& mask, Scalar value, Loc loc) const { return written("masked_fill_", self(), tinytorch::masked_fill(before_write(self(), loc), mask, value, loc), loc); }
TT_API Tensor TensorMethods::clamp_(Scalar low, Scalar high, Loc loc) const { return written("clamp_", self(), tinytorch::clamp(before_write(self(), loc), low, high, loc), loc); }
TT_API Tensor TensorMethods::add_(Scalar value, Loc loc) const { return TensorArg(self(), loc) += value; }
TT_API Tensor TensorMethods::sub_(const Tensor& other, Scalar alpha, Loc loc) const { return TensorArg(self(), loc) -= TensorArg(alpha.real == 1 ? other : tinytorch::mul(other, alpha, loc), loc); }
TT_API Tensor TensorMethods::sub_(Scalar value, Loc loc) const { return TensorArg(self(), loc) -= value; }
TT_API Tensor TensorMethods::mul_(const Tensor& factor, Loc loc) const { return TensorArg(self(), loc) *= TensorArg(factor, loc); }
TT_API Tensor TensorMethods::div_(const Tensor& divisor, Loc loc) const { return TensorArg(self(), loc) /= TensorArg(divisor, loc); }
TT_API Tensor TensorMethods::div_(Scalar divisor, Loc loc) const { return TensorArg(self(), loc) /= divisor; }
// clang-format on

TT_API Tensor TensorMethods::normal_(double mean, double deviation, Loc loc) const {
  const Tensor& x = self();
  const Tensor drawn = randn(x.shape(loc), x.dtype(), x.device(), default_generator(), loc);
  return written("normal_", x, tinytorch::add(tinytorch::mul(drawn, deviation, loc), mean, loc), loc);
}
TT_API Tensor TensorMethods::uniform_(double low, double high, Loc loc) const {
  const Tensor& x = self();
  const Tensor drawn = uniform(low, high, x.shape(loc), x.dtype(), x.device(), default_generator(), loc);
  return written("uniform_", x, drawn, loc);
}
TT_API Tensor TensorMethods::bernoulli_(double p, Loc loc) const {
  const Tensor& x = self();
  const Tensor drawn = bernoulli(p, x.shape(loc), x.dtype(), x.device(), default_generator(), loc);
  return written("bernoulli_", x, drawn, loc);
}
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
