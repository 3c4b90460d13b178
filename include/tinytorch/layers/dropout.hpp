// Dropout: in training, sets each element to zero with probability p and scales the others by 1 / (1 - p).
// The expected value is unchanged, so evaluation is the identity.
// Source: Srivastava et al., 2014.
#pragma once

#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

class Dropout : public Module {
 public:
  // The generator must outlive the layer.
  explicit Dropout(double probability = 0.5, Generator& source = default_generator(), TT_LOC)
      : p(probability), generator(&source) {
    if (!(p >= 0 && p < 1)) {
      fail("TT-NN-16", "Dropout: the probability must be in [0, 1), got " + std::to_string(p), loc);
    }
  }
  Tensor forward(const Tensor& x) override { return training() && p > 0 ? dropout(x, p, *generator) : x; }

  double p;
  Generator* generator;
};

// Drops whole channels of x [N, C, ...], whose elements are alike in images and sequences (Tompson et al.,
// 2015).
class ChannelDropout : public Dropout {
 public:
  using Dropout::Dropout;
  Tensor forward(const Tensor& x) override {
    if (!training() || p == 0) return x;
    Shape channels{x.size(0), x.size(1)};
    for (int d = 2; d < x.rank(); ++d) channels.push_back(1);
    return x * dropout(ones(channels, x.dtype(), x.device()), p, *generator);
  }
};
using Dropout1d = ChannelDropout;  // x [N, C, L]
using Dropout2d = ChannelDropout;  // x [N, C, H, W]
using Dropout3d = ChannelDropout;  // x [N, C, D, H, W]

}  // namespace tinytorch::inline TT_BUILD
