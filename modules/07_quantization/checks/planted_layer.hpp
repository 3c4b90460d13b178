// A linear layer y [M, N] = x [M, K] w [N, K]^T whose inputs are correlated, with or without four channels
// that are 30 times as large as a large one of the others. Everything is computed here, in double.
#pragma once

#include <support/check.hpp>

namespace course {

inline Numbers normal(size_t count, double size = 1) {
  std::normal_distribution<double> draw(0, size);
  Numbers x(count);
  for (double& v : x) v = draw(random_source());
  return x;
}
// a [rows, K] b [columns, K]^T
inline Numbers product(const Numbers& a, const Numbers& b, size_t K) {
  const size_t rows = a.size() / K, columns = b.size() / K;
  Numbers y(rows * columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      const double *p = a.data() + i * K, *q = b.data() + j * K;
      double sum = 0;
      for (size_t k = 0; k < K; ++k) sum += p[k] * q[k];
      y[i * columns + j] = sum;
    }
  }
  return y;
}
// 10 log10(signal / error), in decibels.
inline double decibels(const Numbers& exact, const Numbers& got) {
  double signal = 0, error = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    signal += exact[i] * exact[i];
    error += (exact[i] - got[i]) * (exact[i] - got[i]);
  }
  return 10 * std::log10(signal / error);
}
// Each `together` neighbours become multiples of their largest magnitude / most.
inline Numbers rounded(const Numbers& x, size_t together, double most) {
  Numbers y(x.size());
  for (size_t first = 0; first < x.size(); first += together) {
    double largest = 0;
    for (size_t i = first; i < first + together; ++i) largest = std::max(largest, std::abs(x[i]));
    const double scale = largest > 0 ? largest / most : 1;
    for (size_t i = first; i < first + together; ++i) y[i] = std::nearbyint(x[i] / scale) * scale;
  }
  return y;
}

struct PlantedLayer {
  size_t M, N, K;
  Numbers x, w, y;

  explicit PlantedLayer(bool outliers, size_t rows = 192, size_t outputs = 48, size_t inputs = 128)
      : M(rows), N(outputs), K(inputs) {
    const double size = 1 / std::sqrt(static_cast<double>(K));
    x = product(normal(M * K), normal(K * K, size), K);
    for (size_t k = 0; k < K; ++k) {
      const bool large = outliers && k % (K / 4) == 17;
      const double scale = large ? 60 : std::exp(normal(1)[0] / 2);
      for (size_t m = 0; m < M; ++m) x[m * K + k] *= scale;
    }
    w = normal(N * K, size);
    for (Numbers* const values : {&x, &w})
      for (double& v : *values) v = static_cast<double>(static_cast<float>(v));  // tensors are f32
    y = product(x, w, K);
  }
  // The outputs, if the layer has these inputs and weights instead.
  double with(const Numbers& inputs, const Numbers& weights) const {
    return decibels(y, product(inputs, weights, K));
  }
};

}  // namespace course
