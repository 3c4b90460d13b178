// Matrices for the tests of sparse formats and kernels.
#pragma once

#include <limits>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>

namespace test {

namespace tt = tinytorch;

// Normal numbers [N, K], of which about `density` are kept; the first and the last of three rows are empty.
inline tt::Tensor sparse_matrix(int64_t N, int64_t K, double density, uint64_t seed,
                                tt::DType dtype = tt::f32) {
  tt::Generator g(seed);
  const tt::Tensor w = tt::randn({N, K}, tt::f32, tt::cpu, g), keep = tt::rand({N, K}, tt::f32, tt::cpu, g);
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t k = 0; k < K; ++k) {
      float& x = w.data<float>()[n * K + k];
      const bool empty_row = density < 1 && N >= 3 && (n == 0 || n == N - 1);
      x = dtype == tt::i8 ? x * 40 : x;
      if (empty_row || static_cast<double>(keep.data<float>()[n * K + k]) >= density) x = 0;
    }
  }
  return w.to(dtype);
}

inline bool same_values(const tt::Tensor& a, const tt::Tensor& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) return false;
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i)
    if (!(x[i] == y[i] || (x[i] != x[i] && y[i] != y[i]))) return false;
  return true;
}

inline int64_t nonzero_count(const tt::Tensor& w) {
  int64_t count = 0;
  for (const double x : w.to_vector<double>()) count += x != 0 ? 1 : 0;
  return count;
}

inline const std::vector<tt::DType> kStoredTypes{tt::f32, tt::f64, tt::bf16, tt::f16, tt::i8, tt::i32};

}  // namespace test
