// Linear: y = x W^T + b.   x [..., K], W [N, K], b [N] -> y [..., N]
//
// W and b start uniform on [-1/sqrt(K), 1/sqrt(K)], so that y has a third of x's variance (LeCun, 1998).
#pragma once

#include <tinytorch/layers/init.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

class Linear : public Module {
 public:
  // Registers the parameters "weight" [out_features, in_features] and, if wanted, "bias" [out_features], and
  // draws them, in this order, from the generator. Without a bias the member stays undefined.
  Linear(int64_t in_features, int64_t out_features, bool with_bias = true,
         Generator& generator = default_generator()) {
    weight = add_parameter("weight", empty({out_features, in_features}));
    const double bound = in_features > 0 ? 1 / std::sqrt(static_cast<double>(in_features)) : 0;
    init::uniform(weight, -bound, bound, generator);
    if (!with_bias) return;
    bias = add_parameter("bias", empty({out_features}));
    init::uniform(bias, -bound, bound, generator);
  }
  // Any number of dimensions before the last.
  Tensor forward(const Tensor& x) override { return linear(x, weight, bias); }

  Tensor weight;  // [N, K]
  Tensor bias;    // [N], or undefined
};

}  // namespace tinytorch::inline TT_BUILD
