// LayerNorm, RMSNorm, GroupNorm: normalization of each sample on its own, equal in training and evaluation.
//
//   LayerNorm  (x - mean) / sqrt(var + eps) * weight + bias     over the last dimension C (Ba et al., 2016)
//   RMSNorm    x / sqrt(mean(x^2) + eps) * weight               over C, no mean (Zhang, Sennrich, 2019)
//   GroupNorm  as LayerNorm, over each group of channels        x [N, C, ...] (Wu and He, 2018)
#pragma once

#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

class LayerNorm : public Module {
 public:
  explicit LayerNorm(int64_t features, double epsilon = 1e-5) : eps(epsilon) {
    weight = add_parameter("weight", ones({features}));
    bias = add_parameter("bias", zeros({features}));
  }
  Tensor forward(const Tensor& x) override { return layer_norm(x, weight, bias, eps); }

  double eps;
  Tensor weight, bias;  // [C]
};

class RMSNorm : public Module {
 public:
  explicit RMSNorm(int64_t features, double epsilon = 1e-6) : eps(epsilon) {
    weight = add_parameter("weight", ones({features}));
  }
  Tensor forward(const Tensor& x) override { return rms_norm(x, weight, eps); }

  double eps;
  Tensor weight;  // [C]
};

class GroupNorm : public Module {
 public:
  GroupNorm(int64_t group_count, int64_t channels, double epsilon = 1e-5, TT_LOC)
      : groups(group_count), eps(epsilon) {
    if (groups < 1 || channels % groups != 0) {
      fail("TT-NN-15",
           "GroupNorm: " + std::to_string(channels) + " channels cannot be split into " +
               std::to_string(groups) + " equal groups",
           loc);
    }
    weight = add_parameter("weight", ones({channels}));
    bias = add_parameter("bias", zeros({channels}));
  }
  Tensor forward(const Tensor& x) override { return group_norm(x, groups, weight, bias, eps); }

  int64_t groups;
  double eps;
  Tensor weight, bias;  // [C]
};

}  // namespace tinytorch::inline TT_BUILD
