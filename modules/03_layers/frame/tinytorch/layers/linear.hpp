// Linear: y = x W^T + b.   x [..., K], W [N, K], b [N] -> y [..., N]
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.2. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/layers/init.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

class Linear : public Module {
 public:
  Linear(int64_t in_features, int64_t out_features, bool with_bias = true,
         Generator& generator = default_generator());  // task 3.2
  inline Tensor forward(const Tensor& x) override;     // task 3.2

  Tensor weight;  // [N, K]
  Tensor bias;    // [N]; undefined without a bias
};

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/layers/linear.hpp>
