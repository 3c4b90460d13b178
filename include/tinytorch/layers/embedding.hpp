// Embedding: one learned row per token. index i64 [...] -> [..., C]. The weight [V, C] is initialized by a
// standard normal distribution.
#pragma once

#include <tinytorch/layers/init.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

class Embedding : public Module {
 public:
  Embedding(int64_t vocabulary, int64_t features, Generator& generator = default_generator()) {
    weight = add_parameter("weight", empty({vocabulary, features}));
    init::normal(weight, 0, 1, generator);
  }
  Tensor forward(const Tensor& index) override { return embedding(weight, index); }

  Tensor weight;  // [V, C]
};

}  // namespace tinytorch::inline TT_BUILD
