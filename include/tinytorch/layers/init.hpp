// Weight initializers: they fill a tensor in place so that the variance of signals stays stable through the
// layers.
//
//   Xavier   Var[w] = gain^2 * 2 / (fan_in + fan_out)   for tanh, sigmoid, linear   (Glorot and Bengio, 2010)
//   Kaiming  Var[w] = gain^2 / fan_in                   gain^2 = 2 for ReLU         (He et al., 2015)
//            with gain 1 it keeps the variance of a linear layer's output           (LeCun et al., 1998)
//
// A uniform distribution on [-a, a] has the variance a^2 / 3, so a = sqrt(3 Var). Weights are [out, in] or
// [out, in, KH, KW]: fan_in = in KH KW, fan_out = out KH KW. Every function draws from the generator that is
// passed to it, so equal generator states give equal weights.
#pragma once

#include <cmath>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::init {

struct Fans {
  int64_t in = 0, out = 0;
};
// fan_in is the number of inputs that each output sums; fan_out is the number of outputs that each input
// affects. Throws TT-NN-10 for a weight of rank 0 or 1, which has neither.
inline Fans fans_of(const Tensor& weight, TT_LOC) {
  if (weight.rank() < 2) {
    fail("TT-NN-10",
         "this initializer needs a weight of rank 2 or more to count its inputs, got " + weight.describe() +
             "\n  hint: use init::normal or init::uniform for a vector",
         loc);
  }
  const int64_t receptive = weight.shape().numel() / std::max<int64_t>(1, weight.size(0) * weight.size(1));
  return {weight.size(1) * receptive, weight.size(0) * receptive};
}

// Gain: the factor on the standard deviation, relative to a linear layer, that keeps the variance of a signal
// through the activation function.
inline double relu_gain() { return std::sqrt(2.0); }
inline double leaky_relu_gain(double slope) { return std::sqrt(2.0 / (1.0 + slope * slope)); }
inline double tanh_gain() { return 5.0 / 3.0; }

// While an object of this class lives, initializers of this thread leave tensors as they are, for models
// whose values are about to be loaded. The values of such a tensor are undefined until then.
class WithoutInitialization {
 public:
  WithoutInitialization() : before_(std::exchange(active(), true)) {}
  ~WithoutInitialization() { active() = before_; }
  WithoutInitialization(const WithoutInitialization&) = delete;
  WithoutInitialization& operator=(const WithoutInitialization&) = delete;
  static bool& active() {
    static thread_local bool on = false;
    return on;
  }

 private:
  bool before_;
};

inline void constant(Tensor t, double value) {
  if (WithoutInitialization::active()) return;
  NoGrad no_grad;
  t.fill_(value);
}
// Uniform on [low, high). If low == high, every element is low.
inline void uniform(Tensor t, double low, double high, Generator& generator = default_generator()) {
  if (WithoutInitialization::active()) return;
  NoGrad no_grad;
  if (low == high) return constant(t, low);
  t.copy_(tinytorch::uniform(low, high, t.shape(), t.dtype(), t.device(), generator));
}
inline void normal(Tensor t, double mean, double deviation, Generator& generator = default_generator()) {
  if (WithoutInitialization::active()) return;
  NoGrad no_grad;
  t.copy_(randn(t.shape(), t.dtype(), t.device(), generator)).mul_(deviation);
  t.add_(full(Shape{}, mean, t.dtype(), t.device()));
}

// Standard deviations of the two initializers.
inline double xavier_deviation(const Tensor& t, double gain) {
  const Fans fans = fans_of(t);
  return gain * std::sqrt(2.0 / static_cast<double>(fans.in + fans.out));
}
inline double kaiming_deviation(const Tensor& t, double gain) {
  return gain / std::sqrt(static_cast<double>(fans_of(t).in));
}

// Each initializer exists as a normal distribution, and as a uniform one on [-a, a] with the same variance.
inline void xavier_normal(Tensor t, double gain = 1, Generator& generator = default_generator()) {
  normal(t, 0, xavier_deviation(t, gain), generator);
}
inline void xavier_uniform(Tensor t, double gain = 1, Generator& generator = default_generator()) {
  const double bound = std::sqrt(3.0) * xavier_deviation(t, gain);
  uniform(t, -bound, bound, generator);
}
inline void kaiming_normal(Tensor t, double gain = relu_gain(), Generator& generator = default_generator()) {
  normal(t, 0, kaiming_deviation(t, gain), generator);
}
inline void kaiming_uniform(Tensor t, double gain = relu_gain(), Generator& generator = default_generator()) {
  const double bound = std::sqrt(3.0) * kaiming_deviation(t, gain);
  uniform(t, -bound, bound, generator);
}

// PyTorch's names, which end in an underscore because they write to t.
inline void constant_(Tensor t, double value) { constant(t, value); }
inline void zeros_(Tensor t) { constant(t, 0); }
inline void ones_(Tensor t) { constant(t, 1); }
inline void uniform_(Tensor t, double low = 0, double high = 1) { uniform(t, low, high); }
inline void normal_(Tensor t, double mean = 0, double deviation = 1) { normal(t, mean, deviation); }
inline void xavier_uniform_(Tensor t, double gain = 1) { xavier_uniform(t, gain); }
inline void xavier_normal_(Tensor t, double gain = 1) { xavier_normal(t, gain); }
inline void kaiming_uniform_(Tensor t, double gain = relu_gain()) { kaiming_uniform(t, gain); }
inline void kaiming_normal_(Tensor t, double gain = relu_gain()) { kaiming_normal(t, gain); }

// Quantile function of the standard normal distribution: Newton's method on the logarithm of the smaller tail
// probability. The first guess is Polya's approximation (1945).
inline double normal_quantile(double p) {
  const double tail = p > 0.5 ? 1 - p : p;
  double x = -std::sqrt(-1.5707963267948966 * std::log(4 * tail * (1 - tail)));
  for (int i = 0; i < 6; ++i) {  // Newton on log(cdf), which is almost linear in the tail
    const double cdf = 0.5 * std::erfc(-x * 0.7071067811865476);
    const double density = 0.3989422804014327 * std::exp(-0.5 * x * x);
    if (density < 1e-300) break;
    x -= std::log(cdf / tail) * cdf / density;
  }
  return p > 0.5 ? -x : x;
}

// Normal distribution truncated to [low, high], by inversion of its distribution function. low and high are
// values, not multiples of the deviation.
inline void truncated_normal(Tensor t, double mean, double deviation, double low, double high,
                             Generator& generator = default_generator(), TT_LOC) {
  if (!(low < high) || !(deviation > 0)) {
    fail("TT-NN-11", "truncated_normal: needs low < high and a deviation above 0", loc);
  }
  NoGrad no_grad;
  const auto cdf = [](double x) { return 0.5 * std::erfc(-x * 0.7071067811865476); };
  const double from = cdf((low - mean) / deviation), to = cdf((high - mean) / deviation);
  const uint64_t first = generator.reserve(static_cast<uint64_t>(t.numel()));
  std::vector<double> values(static_cast<size_t>(t.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    const PhiloxBlock b = philox(generator.state().seed, first + i);
    const double p = from + (to - from) * uniform_from_bits(b.v[0], b.v[1]);
    values[i] = std::clamp(mean + deviation * normal_quantile(p), low, high);
  }
  t.copy_(from_data(values, t.shape()).to(t.dtype()).to(t.device()));
}

}  // namespace tinytorch::inline TT_BUILD::init
