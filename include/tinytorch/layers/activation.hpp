// Activation functions as modules, for use in a Sequential. The functions themselves are tensor ops.
#pragma once

#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tensor/ops/composed_math.hpp>

namespace tinytorch::inline TT_BUILD {

// max(x, 0)
class ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return relu(x); }
};
// x for x > 0, slope x otherwise
class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : slope(negative_slope) {}
  Tensor forward(const Tensor& x) override { return leaky_relu(x, slope); }
  double slope;
};
class Tanh : public Module {
 public:
  Tensor forward(const Tensor& x) override { return tanh(x); }
};
// 1 / (1 + e^-x)
class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};
// x Phi(x) with the exact normal distribution function Phi (Hendrycks and Gimpel, 2016)
class GELU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return gelu(x); }
};
// x sigmoid(x)
class SiLU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return silu(x); }
};
// log(1 + e^(beta x)) / beta
class Softplus : public Module {
 public:
  explicit Softplus(double steepness = 1) : beta(steepness) {}
  Tensor forward(const Tensor& x) override { return softplus(x, beta); }
  double beta;
};
// x for x > 0, alpha (e^x - 1) otherwise (Clevert, Unterthiner, Hochreiter, 2016)
class ELU : public Module {
 public:
  explicit ELU(double scale = 1) : alpha(scale) {}
  Tensor forward(const Tensor& x) override { return elu(x, alpha); }
  double alpha;
};
// x min(max(x + 3, 0), 6) / 6 (Howard et al., "Searching for MobileNetV3", 2019)
class Hardswish : public Module {
 public:
  Tensor forward(const Tensor& x) override { return hardswish(x); }
};
// x tanh(softplus(x)) (Misra, 2020)
class Mish : public Module {
 public:
  Tensor forward(const Tensor& x) override { return mish(x); }
};
class Softmax : public Module {
 public:
  explicit Softmax(int dimension = -1) : dim(dimension) {}
  Tensor forward(const Tensor& x) override { return softmax(x, dim); }
  int dim;
};
class LogSoftmax : public Module {
 public:
  explicit LogSoftmax(int dimension = -1) : dim(dimension) {}
  Tensor forward(const Tensor& x) override { return log_softmax(x, dim); }
  int dim;
};
class LogSigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return logsigmoid(x); }
};
// x / (1 + |x|)
class Softsign : public Module {
 public:
  Tensor forward(const Tensor& x) override { return softsign(x); }
};
// clamp(x, 0, 6)
class ReLU6 : public Module {
 public:
  Tensor forward(const Tensor& x) override { return relu6(x); }
};
// clamp(x, low, high)
class Hardtanh : public Module {
 public:
  explicit Hardtanh(double minimum = -1, double maximum = 1) : low(minimum), high(maximum) {}
  Tensor forward(const Tensor& x) override { return hardtanh(x, low, high); }
  double low, high;
};
// clamp(x / 6 + 1 / 2, 0, 1)
class Hardsigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return hardsigmoid(x); }
};
// 1.0507 elu(x, 1.6733) (Klambauer et al., "Self-Normalizing Neural Networks", 2017)
class SELU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return selu(x); }
};
// The first half of a dimension times sigmoid of the second (Dauphin et al., 2017)
class GLU : public Module {
 public:
  explicit GLU(int dimension = -1) : dim(dimension) {}
  Tensor forward(const Tensor& x) override { return glu(x, dim); }
  int dim;
};
// x where x > 0, else weight x, with one learned weight, or one for each channel of x [N, C, ...] (He et al.,
// 2015)
class PReLU : public Module {
 public:
  explicit PReLU(int64_t channels = 1, double start = 0.25) {
    weight = add_parameter("weight", full({channels}, start));
  }
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }
  Tensor weight;  // [channels]
};

// alpha elu(x / alpha) (Barron, 2017)
class CELU : public Module {
 public:
  explicit CELU(double scale = 1) : alpha(scale) {}
  Tensor forward(const Tensor& x) override { return celu(x, alpha); }
  double alpha;
};
// softmax(-x)
class Softmin : public Module {
 public:
  explicit Softmin(int dimension = -1) : dim(dimension) {}
  Tensor forward(const Tensor& x) override { return softmin(x, dim); }
  int dim;
};
// x where |x| > lambda, else 0
class Hardshrink : public Module {
 public:
  explicit Hardshrink(double limit = 0.5) : lambda(limit) {}
  Tensor forward(const Tensor& x) override { return hardshrink(x, lambda); }
  double lambda;
};
// x - clamp(x, -lambda, lambda)
class Softshrink : public Module {
 public:
  explicit Softshrink(double limit = 0.5) : lambda(limit) {}
  Tensor forward(const Tensor& x) override { return softshrink(x, lambda); }
  double lambda;
};
// x - tanh(x)
class Tanhshrink : public Module {
 public:
  Tensor forward(const Tensor& x) override { return tanhshrink(x); }
};
// x where x > limit, else value
class Threshold : public Module {
 public:
  Threshold(double lower, double replacement) : limit(lower), value(replacement) {}
  Tensor forward(const Tensor& x) override { return threshold(x, limit, value); }
  double limit, value;
};

}  // namespace tinytorch::inline TT_BUILD
