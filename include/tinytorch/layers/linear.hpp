// Linear: y = x W^T + b.   x [..., K], W [N, K], b [N] -> y [..., N]
//
// W and b are initialized uniformly on [-1/sqrt(K), 1/sqrt(K)], so the variance of x W^T is a third of x's
// (LeCun, 1998).
#pragma once

#include <tinytorch/layers/init.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

class Linear : public Module {
 public:
  // Registers the parameter "weight" [out_features, in_features] and, if with_bias, "bias" [out_features],
  // and draws their values from the generator in this order. Without a bias the member `bias` is undefined.
  // add_parameter(name, tensor) registers a tensor, which then requires a gradient, and returns it;
  // init::uniform(tensor, low, high, generator) draws its values, here between -1/sqrt(K) and 1/sqrt(K).
  Linear(int64_t in_features, int64_t out_features, bool with_bias = true,
         Generator& generator = default_generator()) {
    weight = add_parameter("weight", empty({out_features, in_features}));
    const double bound = in_features > 0 ? 1 / std::sqrt(static_cast<double>(in_features)) : 0;
    init::uniform(weight, -bound, bound, generator);
    if (!with_bias) return;
    bias = add_parameter("bias", empty({out_features}));
    init::uniform(bias, -bound, bound, generator);
  }
  // x may have any number of dimensions before the last.
  Tensor forward(const Tensor& x) override { return linear(x, weight, bias); }

  Tensor weight;  // [N, K]
  Tensor bias;    // [N]; undefined without a bias
};

}  // namespace tinytorch::inline TT_BUILD
