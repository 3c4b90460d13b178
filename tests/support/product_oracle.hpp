// The product x w^T in double, as a check of kernels that round: each sum has the magnitude of its terms
// beside it, because an error of a few units of that magnitude is rounding, and a larger one is a bug.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace test {

// The error that is allowed to an element: of_sum |sum| + of_terms (the sum of its terms' magnitudes), and
// half of the smallest number of f16, 2^-25, because a result of f16 may be subnormal.
struct ProductBound {
  double of_sum = 0, of_terms = 0;
};

// The largest error of got [M, N] against x [M, K] w [N, K]^T, as a multiple of the bound. It is infinite if
// an element is NaN.
inline double worst_of_product(const std::vector<double>& got, const std::vector<double>& x,
                               const std::vector<double>& w, int64_t M, int64_t N, int64_t K,
                               const ProductBound& bound) {
  const auto at = [](const std::vector<double>& v, int64_t i) { return v[static_cast<size_t>(i)]; };
  double worst = 0;
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      double sum = 0, terms = 0;
      for (int64_t k = 0; k < K; ++k) {
        const double p = at(x, m * K + k) * at(w, n * K + k);
        sum += p, terms += std::abs(p);
      }
      const double off = std::abs(at(got, m * N + n) - sum) /
                         (bound.of_sum * std::abs(sum) + bound.of_terms * terms + 0x1p-25);
      if (std::isnan(off)) return std::numeric_limits<double>::infinity();
      if (off > worst) worst = off;
    }
  }
  return worst;
}

}  // namespace test
