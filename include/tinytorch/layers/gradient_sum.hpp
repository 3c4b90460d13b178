// GradientSum: the gradients of several backward passes, added up in f32 where parameters have 16 bits.
//
//   for (const Batch& batch : batches) { loss(batch).backward(); sum.add(); }
//   sum.give(), optimizer.step(), sum.clear();
//
// backward() adds to grad() in the parameter's own dtype, and of eight bf16 gradients (8 significant bits)
// the last ones would lose three bits each. The sums keep their memory, so that all three calls can be
// captured in CUDA graphs.
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
  // Adds each parameter's gradient, and takes it away.
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
  // Makes the sums the parameters' gradients, of f32 for 16 bits, which optimizers take. Their memory stays
  // here.
  void give() {
    for (Part& part : parts_) {
      if (part.has_any) part.parameter.set_grad(part.sum);
    }
  }
  // Back to zero; given gradients are taken away.
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
    bool has_any = false;  // a backward pass reached it
  };
  std::vector<Part> parts_;
};

}  // namespace tinytorch::inline TT_BUILD
