// CompiledCall: a compiled function as one primitive, so that autograd, profilers and other captures see one
// operation.
//
// Its operands are the arguments of the function and the parameters that it uses; its results are those of
// the function and the values that the derivative needs. The derivative is a second executable.
#pragma once

#include <memory>
#include <tinytorch/acceleration/capture_gradient.hpp>
#include <tinytorch/acceleration/executable.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// The executables of a compiled function for arguments of one kind.
struct CallPlan {
  std::unique_ptr<Executable> forward, backward;  // backward is null if no result has a gradient
  size_t arguments = 0, results = 0;
  Tensors leaves;                   // parameters with a gradient
  std::vector<int> tracked;         // results that have a gradient
  std::vector<int> gradient_of;     // per argument and leaf: the result of `backward`, or -1
  std::vector<bool> reads_operand;  // per argument and leaf: whether `backward` reads its elements
  double flops = 0;
};

struct CompiledCall final : Primitive<CompiledCall> {
  static constexpr const char* kName = "compiled";
  std::shared_ptr<CallPlan> plan;
  GeneratorState random;  // where this call draws its random numbers
  CompiledCall(std::shared_ptr<CallPlan> p, GeneratorState place) : plan(std::move(p)), random(place) {}

  Specs infer(const Tensors&, Loc) const override {
    Specs specs;
    const size_t results = plan->forward->graph().outputs.size();
    for (size_t k = 0; k < results; ++k) {
      specs.push_back(k < plan->results ? plan->forward->result_spec(k) : plan->forward->memory_spec(k));
    }
    return specs;
  }
  double flops(const Tensors&, const Tensors&) const override { return plan->flops; }
  void run(const Tensors& in, Tensors& out) const override {
    plan->forward->run(Tensors(in.begin(), in.begin() + plan->arguments), out, random);
  }
  bool differentiable() const override { return plan->backward != nullptr; }
  Save saves() const override { return Save::inputs_and_extras; }
  bool saves_input(size_t k) const override { return plan->reads_operand[k]; }
  Tensors vjp(const Saved& saved, const Tensors& grads) const override {
    if (grad_enabled()) fail_no_derivative("compiled_grad");
    Tensors in(saved.inputs.begin(), saved.inputs.begin() + plan->arguments);
    for (size_t k = plan->results; k < saved.outputs.size(); ++k) in.push_back(saved.outputs[k]);
    for (const int k : plan->tracked) {
      const Spec spec = plan->forward->result_spec(static_cast<size_t>(k));
      const Tensor& g = grads[static_cast<size_t>(k)];
      in.push_back(g.defined() ? g.contiguous() : zeros(spec.shape, spec.dtype, grads_device(grads)));
    }
    Tensors out;
    const size_t results = plan->backward->graph().outputs.size();
    for (size_t k = 0; k < results; ++k) {
      const Spec spec = plan->backward->result_spec(k);
      out.push_back(empty(spec.shape, spec.dtype, grads_device(grads)));
      if (spec.channels_last) out.back().impl()->strides = backend::channels_last_strides(spec.shape);
    }
    plan->backward->run(in, out, random);  // masks of the forward pass
    Tensors of_inputs;
    for (const int k : plan->gradient_of) of_inputs.push_back(k < 0 ? Tensor() : out[static_cast<size_t>(k)]);
    return of_inputs;
  }

 private:
  static Device grads_device(const Tensors& grads) {
    for (const Tensor& g : grads) {
      if (g.defined()) return g.device();
    }
    return cpu;
  }
};

}  // namespace tinytorch::inline TT_BUILD
