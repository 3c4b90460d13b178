// Transformer layers by their definitions, in double, on plain arrays, and conversions between tensors and
// numbers.
#pragma once

#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

#include "reference.hpp"

namespace course {

inline Numbers numbers_of(const Tensor& x) { return x.to(f64).to_vector<double>(); }
inline Tensor tensor_of(const Shape& shape, const Numbers& numbers, DType dtype = f32) {
  return from_data(numbers, shape).to(dtype);
}
inline Tensor random_tensor(const Shape& shape, DType dtype = f32, double size = 1) {
  return tensor_of(shape, Values::random(f64, shape, Layout::contiguous, -size, size).numbers(), dtype);
}
inline Tensor random_tokens(const Shape& shape, int64_t V) {
  return tensor_of(shape, Values::random(i64, shape, Layout::contiguous, 0, static_cast<double>(V)).numbers(),
                   i64);
}
inline void expect_close(const std::string& what, const Tensor& got, const Numbers& want, const Shape& shape,
                         Tolerance tolerance = {}) {
  expect_equal(what + ": shape", got.shape(), shape);
  tolerance.dtype = got.dtype();
  expect_close(what, numbers_of(got), want, shape, tolerance);
}

// Random values for all parameters, in f64. Initial values (biases of 0, weights of 1) would hide mistakes.
template <class M>
void randomize(M& module, double size = 0.5) {
  module.to(f64);
  const NoGrad no_grad;
  for (const NamedTensor& p : module.named_parameters()) {
    Tensor parameter = p.tensor;
    parameter.copy_(random_tensor(parameter.shape(), f64, size));
  }
}

// The parameters of a module as numbers, by path.
struct Parameters {
  std::map<std::string, Numbers> all;
  std::string at;  // prefix of all names

  explicit Parameters(const Module& module) {
    for (const auto& [name, tensor] : module.state_dict()) all[name] = numbers_of(tensor);
  }
  Parameters below(const std::string& name) const {
    Parameters part = *this;
    part.at += name + ".";
    return part;
  }
  bool has(const std::string& name) const { return all.count(at + name) > 0; }
  const Numbers& operator[](const std::string& name) const { return all.at(at + name); }
};

// Linear layer: x [rows, K] -> x W^T + b [rows, N].
inline Numbers linear_of(const Parameters& p, const Numbers& x, int64_t K) {
  const Numbers& W = p["weight"];
  const size_t k = static_cast<size_t>(K), n = W.size() / k;
  Numbers y;
  for (size_t r = 0; r < x.size() / k; ++r) {
    for (size_t i = 0; i < n; ++i) {
      double sum = p.has("bias") ? p["bias"][i] : 0;
      for (size_t j = 0; j < k; ++j) sum += x[r * k + j] * W[i * k + j];
      y.push_back(sum);
    }
  }
  return y;
}

// LayerNorm, or RMSNorm if there is no bias.
inline Numbers norm_of(const Parameters& p, const Numbers& x, double eps) {
  const size_t C = p["weight"].size();
  Numbers y(x.size());
  for (size_t r = 0; r < x.size(); r += C) {
    double mean = 0, square = 0;
    for (size_t c = 0; c < C; ++c) mean += p.has("bias") ? x[r + c] / static_cast<double>(C) : 0;
    for (size_t c = 0; c < C; ++c) square += (x[r + c] - mean) * (x[r + c] - mean) / static_cast<double>(C);
    for (size_t c = 0; c < C; ++c) {
      y[r + c] =
          (x[r + c] - mean) / std::sqrt(square + eps) * p["weight"][c] + (p.has("bias") ? p["bias"][c] : 0);
    }
  }
  return y;
}

inline double silu_of(double x) { return x / (1 + std::exp(-x)); }
inline double activation_of(double x, backend::Activation fn) {
  switch (fn) {
    case backend::Activation::relu:
      return x > 0 ? x : 0;
    case backend::Activation::silu:
      return silu_of(x);
    case backend::Activation::gelu:
      return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
    case backend::Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default:
      return x;
  }
}

inline Numbers mlp_of(const Parameters& p, const Numbers& x, int64_t C, backend::Activation fn) {
  Numbers h = linear_of(p.below("up"), x, C);
  const auto F = static_cast<int64_t>(p["up.weight"].size()) / C;
  for (double& v : h) v = activation_of(v, fn);
  return linear_of(p.below("down"), h, F);
}

struct HeadSizes {
  int64_t B, T, C, H, G, D;
  std::string str() const {
    return "B " + std::to_string(B) + ", T " + std::to_string(T) + ", C " + std::to_string(C) + ", heads " +
           std::to_string(H) + ", groups " + std::to_string(G) + ", head size " + std::to_string(D);
  }
};

// Self-attention of x [B, T, C]; theta > 0 selects rotary positions.
inline Numbers self_attention_of(const Parameters& p, const Numbers& x, const HeadSizes& s,
                                 const backend::AttentionParameters& rules, double theta = 0) {
  const Numbers joined = linear_of(p.below("qkv"), x, s.C);  // [B, T, (H + 2G) D]
  const int64_t width = (s.H + 2 * s.G) * s.D;
  const auto heads = [&](int64_t first, int64_t count, bool turns) {
    Numbers part;
    for (int64_t b = 0; b < s.B; ++b) {
      for (int64_t h = first; h < first + count; ++h) {
        for (int64_t t = 0; t < s.T; ++t) {
          const double* v = joined.data() + (b * s.T + t) * width + h * s.D;
          for (int64_t d = 0; d < s.D; ++d) {
            const int64_t half = s.D / 2, pair = d % std::max<int64_t>(half, 1);
            const double angle = static_cast<double>(t) *
                                 std::pow(theta, -2.0 * static_cast<double>(pair) / static_cast<double>(s.D));
            const double other = d < half ? -v[d + half] : v[d - half];
            part.push_back(turns ? v[d] * std::cos(angle) + other * std::sin(angle) : v[d]);
          }
        }
      }
    }
    return part;
  };
  AttentionReference a{.s = {s.B, s.H, s.G, s.T, s.T, s.D}, .p = rules};
  a.p.scale = 1 / std::sqrt(static_cast<double>(s.D));
  a.q = heads(0, s.H, theta > 0), a.k = heads(s.H, s.G, theta > 0), a.v = heads(s.H + s.G, s.G, false);
  a.forward();
  Numbers mixed;  // [B, T, H D]
  for (int64_t b = 0; b < s.B; ++b) {
    for (int64_t t = 0; t < s.T; ++t) {
      for (int64_t h = 0; h < s.H; ++h) {
        for (int64_t d = 0; d < s.D; ++d)
          mixed.push_back(a.out[static_cast<size_t>(((b * s.H + h) * s.T + t) * s.D + d)]);
      }
    }
  }
  return linear_of(p.below("projection"), mixed, s.H * s.D);
}

inline Numbers plus(Numbers a, const Numbers& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// A pre-norm block with an Mlp.
inline Numbers block_of(const Parameters& p, const Numbers& x, const HeadSizes& s, double eps,
                        backend::Activation fn = backend::Activation::gelu_tanh) {
  const Numbers a = self_attention_of(p.below("attention"), norm_of(p.below("attention_norm"), x, eps), s,
                                      {.causal = true});
  const Numbers middle = plus(x, a);
  return plus(middle, mlp_of(p.below("mlp"), norm_of(p.below("mlp_norm"), middle, eps), s.C, fn));
}

// Expects, after loss.backward(), that every parameter has a gradient with a nonzero element.
inline void expect_gradients(const std::string& what, const Module& module) {
  for (const NamedTensor& p : module.named_parameters()) {
    const Tensor g = p.tensor.grad();
    expect(what + ": there is a gradient of " + p.name, g.defined() && g.shape() == p.tensor.shape(),
           "it has none");
    double size = 0;
    for (const double v : numbers_of(g)) size += std::abs(v);
    expect(what + ": the gradient of " + p.name + " is not zero", size > 0 && std::isfinite(size),
           "its sum of magnitudes is " + shown(size));
  }
}

}  // namespace course
