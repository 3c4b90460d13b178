// Data on which the methods of quantization/ have known results: heavy-tailed weights, and a linear layer
// with correlated inputs, with or without four outlier channels.
#pragma once

#include <cmath>
#include <tinytorch/quantization/granularity.hpp>
#include <vector>

namespace test {

namespace tt = tinytorch;

// Student's t with 5 degrees of freedom: a normal number divided by the root of a mean of five squares.
inline std::vector<float> student_t5(int64_t count, uint64_t seed) {
  tt::Generator generator(seed);
  const std::vector<float> z = tt::randn({6 * count}, tt::f32, tt::cpu, generator).to_vector();
  std::vector<float> t;
  for (size_t i = 0; i < z.size(); i += 6) {
    float squares = 0;
    for (size_t k = 1; k < 6; ++k) squares += z[i + k] * z[i + k];
    t.push_back(z[i] / std::sqrt(squares / 5));
  }
  return t;
}

// [128, 4096] of t5, of which the largest is 66. The largest of so many values of t5 differs by a factor of
// two from one sample to the next, and it alone decides the result of one scale for all; so it is planted.
inline tt::Tensor heavy_tailed_weights() {
  std::vector<float> values = student_t5(128 * 4096, 7);
  for (float& x : values) x = std::abs(x) > 66 ? std::copysign(30.0f, x) : x;
  values[777'777 % values.size()] = -66;
  return tt::from_data(values, {128, 4096}, tt::cpu);
}

// x [1024, 256] and w [256, 256]. x = Z A, with normal Z and A, so that the channels are correlated, times a
// scale for each channel: e^(z / 2) for normal z, and 60 (30 times that of a large channel, 2) for four
// outliers.
struct Layer {
  tt::Tensor x, w;
};
inline Layer planted_layer(bool outliers, uint64_t seed = 3) {
  constexpr int64_t K = 256;
  tt::Generator g(seed);
  const tt::Tensor Z = tt::randn({1024, K}, tt::f32, tt::cpu, g);
  const tt::Tensor A = tt::randn({K, K}, tt::f32, tt::cpu, g) * (1 / std::sqrt(static_cast<double>(K)));
  const tt::Tensor scale = tt::exp(tt::randn({K}, tt::f32, tt::cpu, g) * 0.5);
  if (outliers) {
    for (const int64_t channel : {17, 80, 143, 206}) scale.data<float>()[channel] = 60;
  }
  const tt::Tensor w = tt::randn({K, K}, tt::f32, tt::cpu, g) * (1 / std::sqrt(static_cast<double>(K)));
  return {tt::matmul(Z, A) * scale, w};
}

// The signal-to-noise ratio of the outputs x w^T, if x and w are replaced by others.
inline double output_sqnr(const Layer& layer, const tt::Tensor& x, const tt::Tensor& w) {
  const auto product = [](const tt::Tensor& a, const tt::Tensor& b) {
    return tt::matmul(a.to(tt::f64), b.to(tt::f64).t());
  };
  return tt::sqnr_db(product(layer.x, layer.w), product(x, w));
}

inline bool same_numbers(const tt::Tensor& a, const tt::Tensor& b) {
  return a.shape() == b.shape() && a.to_vector<double>() == b.to_vector<double>();
}

}  // namespace test
