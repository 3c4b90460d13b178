// apply: the common entry point of every operation.
//
//   check shapes, dtypes, devices -> run the kernel (or make the view) -> record for autograd ->
//   notify the observer
//
// Every operation is executed here and nowhere else, so CPU and CUDA give the same error messages, and this
// is the only place where autograd, profilers and graph capture attach.
#pragma once

#include <tinytorch/backend/layout.hpp>
#include <tinytorch/tensor/graph.hpp>
#include <tinytorch/tensor/observer.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

inline Device common_device(const char* op, const Tensors& inputs, Loc loc) {
  const Tensor* first = nullptr;
  for (const Tensor& t : inputs) {
    if (!t.defined()) continue;
    if (!first) first = &t;
    if (t.device() != first->device()) {
      fail("TT-DEVICE-01",
           std::string(op) + ": operands are on different devices: " + first->describe() + " and " +
               t.describe() + "\n  hint: move one with .to(" + (first->device().is_cpu() ? "cpu" : "cuda") +
               ")",
           loc);
    }
  }
  return first ? first->device() : cpu;
}

[[gnu::noinline]] inline void lay_out(TensorImpl& output, const Spec& s, const Tensors& inputs) {
  output.strides = s.channels_last ? backend::channels_last_strides(s.shape)
                                   : inputs[static_cast<size_t>(s.layout_like)].strides();
}

// A view knows the tensor that owns the values, so that in-place writes to it can be recorded there.
inline void remember_base(const Tensor& view, const Tensor& input) {
  TensorImpl& t = *view.impl();
  const TensorImpl& from = *input.impl();
  t.view = true;
  t.base = from.view && !from.base.expired() ? from.base : std::weak_ptr<TensorImpl>(input.handle());
  t.seen_writes = t.storage->recorded_writes();
}

// Throws if an operand is a view that was taken before the graph recorded an in-place write to its storage:
// its values have changed, but its history does not contain the write.
inline void require_current(const char* op, const Tensors& inputs, Loc loc) {
  for (const Tensor& t : inputs) {
    if (!t.defined() || !t.impl()->view || t.impl()->seen_writes == t.impl()->storage->recorded_writes())
      continue;
    fail("TT-GRAD-10",
         std::string(op) + ": " + t.describe() +
             " is a view that was taken before an in-place write to the same values\n  hint: take the view "
             "again "
             "after the write",
         loc);
  }
}

// Runs the kernel of an operation whose outputs are allocated.
inline void run_kernel(const PrimitiveBase& op, const Tensors& inputs, Tensors& outputs, Device device,
                       [[maybe_unused]] Loc loc) {
  if constexpr (backend::cuda::is_built()) {
    if (device.is_cuda()) {
      const backend::cuda::DeviceGuard on_device(device.index, loc);
      const backend::cuda::RangeGuard range(op.name());
      call_virtual<&PrimitiveBase::run>(op, inputs, outputs);
      return;
    }
  }
  call_virtual<&PrimitiveBase::run>(op, inputs, outputs);
}

inline Tensors execute(const PrimitiveBase& op, const Tensors& inputs, Loc loc,
                       const OpObserver* observer = op_observer()) {
  const Specs specs = call_virtual<&PrimitiveBase::infer>(op, inputs, loc);
  const Device device = op.output_device(common_device(op.name(), inputs, loc));
  if (op.is_view()) {
    Tensor out = call_virtual<&PrimitiveBase::view>(op, inputs[0]);
    remember_base(out, inputs[0]);
    return {std::move(out)};
  }
  Tensors outputs;
  outputs.reserve(specs.size());
  for (const Spec& s : specs) {
    outputs.push_back(empty(s.shape, s.dtype, device, loc));
    if (s.layout_like >= 0 || s.channels_last) lay_out(*outputs.back().impl(), s, inputs);
  }
  if (!observer || !observer->rehearses(inputs)) run_kernel(op, inputs, outputs, device, loc);
  return outputs;
}

inline Tensors apply_all(const PrimitiveBase& op, const Tensors& inputs, TT_LOC) {
  OpObserver* const observer = op_observer();
  if (observer) observer->before(op, inputs);
  Tensors outputs;
  try {
    if (grad_enabled()) require_current(op.name(), inputs, loc);
    outputs = execute(op, inputs, loc, observer);
    if ((op.differentiable() || derivative_recorded()) && records_grad(inputs))
      record(op, inputs, outputs, loc);
  } catch (const Error& e) {
    if (observer) observer->failed(op);
    if (e.code() == kUndefined)
      require_defined(op.name(), inputs, loc);  // throws again, with the name of the operation
    throw;
  } catch (...) {
    if (observer) observer->failed(op);
    throw;
  }
  if (observer) {
    const double bytes = op.is_view() ? 0.0 : bytes_moved(inputs, outputs);
    observer->after(op, inputs, outputs, {call_virtual<&PrimitiveBase::flops>(op, inputs, outputs), bytes});
  }
  return outputs;
}

// apply_all for operations whose first output is the result; the other outputs are only for the derivative.
inline Tensor apply(const PrimitiveBase& op, const Tensors& inputs, TT_LOC) {
  return std::move(apply_all(op, inputs, loc)[0]);
}

}  // namespace tinytorch::inline TT_BUILD
