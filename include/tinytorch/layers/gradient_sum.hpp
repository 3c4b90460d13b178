// GradientSum: the sum of the gradients of several backward passes, in f32 for 16-bit parameters.
//
//   for (const Batch& batch : batches) { loss(batch).backward(); sum.add(); }
//   sum.give(), optimizer.step(), sum.clear();
//
// backward() accumulates into grad() in the parameter's dtype. In a sum of eight bf16 gradients (8
// significant bits) the last ones would lose three bits each. The sums keep their memory, so CUDA graphs can
// capture all three calls.
#pragma once

#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/tensor/operators.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

class GradientSum {
 public:
  explicit GradientSum(const Tensors& parameters, TT_LOC) {
    for (const Tensor& p : parameters) {
      const DType wide = is_16_bit(p.dtype()) ? DType::f32 : p.dtype();
      parts_.push_back({p, zeros(p.shape(), wide, p.device(), loc)});
    }
  }
  // Adds the gradient of each parameter to its sum, and clears the gradient.
  void add(TT_LOC) {
    const NoGrad no_grad;
    for (Part& part : parts_) {
      const Tensor gradient = part.parameter.grad();
      if (!gradient.defined()) continue;
      part.sum.add_(gradient.to(part.sum.dtype(), loc), 1, loc);
      part.parameter.zero_grad();
      part.has_any = true;
    }
  }
  // Sets each sum as the gradient of its parameter. For a 16-bit parameter this gradient is f32, which
  // optimizers accept. The gradients share the memory of the sums.
  void give() {
    for (Part& part : parts_) {
      if (part.has_any) part.parameter.set_grad(part.sum);
    }
  }
  // Sets the sums to zero and clears the gradients of the parameters.
  void clear(TT_LOC) {
    const NoGrad no_grad;
    for (Part& part : parts_) {
      part.parameter.zero_grad();
      if (part.has_any) part.sum.fill_(0, loc);
    }
  }

 private:
  struct Part {
    Tensor parameter, sum;
    bool has_any = false;  // true once a gradient has been added
  };
  std::vector<Part> parts_;
};

}  // namespace tinytorch::inline TT_BUILD
