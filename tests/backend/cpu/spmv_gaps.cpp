#include <tinytorch/backend/cpu/spmv_gaps.hpp>

#include <cmath>
#include <pruning/formats.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/pruning/gaps.hpp>

using namespace test;

namespace gap_products {

tt::Tensor product(const tt::Tensor& x, const tt::GapMatrix& w, tt::DType dtype) {
  tt::Tensor y = tt::full({x.size(0), w.rows()}, 77, dtype, tt::cpu);
  tt::backend::cpu::spmv_gaps(y.view_of(), x.view_of(), w.view());
  return y;
}
// The largest error of y relative to the sum of the magnitudes of its terms, from sums in double.
double error_of(const tt::Tensor& y, const tt::Tensor& x, const tt::Tensor& w) {
  const std::vector<double> a = x.to_vector<double>(), b = w.to_vector<double>(), got = y.to_vector<double>();
  const auto M = static_cast<size_t>(x.size(0)), N = static_cast<size_t>(w.size(0)),
             K = static_cast<size_t>(w.size(1));
  double worst = 0;
  for (size_t m = 0; m < M; ++m) {
    for (size_t n = 0; n < N; ++n) {
      double sum = 0, scale = 1e-30;
      for (size_t k = 0; k < K; ++k)
        sum += a[m * K + k] * b[n * K + k], scale += std::abs(a[m * K + k] * b[n * K + k]);
      worst = std::max(worst, std::abs(got[m * N + n] - sum) / scale);
    }
  }
  return worst;
}

}  // namespace gap_products

TEST_CASE("products of gaps equal dense ones at every density, size, number of rows and dtype of values") {
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f16, tt::f64}) {
    for (const double density : {0.0, 0.02, 0.1, 0.5, 1.0}) {
      for (const auto& [N, K] : {std::pair<int64_t, int64_t>{1, 1}, {3, 63}, {5, 64}, {33, 321}, {9, 1024}}) {
        const tt::Tensor w = sparse_matrix(N, K, density, 7, dtype);
        const tt::GapMatrix s = tt::to_gaps(w);
        for (const int64_t M : {1, 4, 7}) {
          const tt::DType compute = dtype == tt::f64 ? tt::f64 : tt::f32;
          const tt::Tensor x = sparse_matrix(M, K, 1, 8).to(compute);
          CHECK(gap_products::error_of(gap_products::product(x, s, compute), x, w) <
                (dtype == tt::f64 ? 1e-14 : 1e-6));
        }
      }
    }
  }
}

TEST_CASE("gaps: strided and 16-bit x, empty sizes, infinities beside zeros, any number of threads") {
  using gap_products::product;
  const tt::Tensor w = sparse_matrix(70, 150, 0.3, 2);
  const tt::GapMatrix s = tt::to_gaps(w);
  const tt::Tensor x = sparse_matrix(150, 6, 1, 3).t();
  CHECK(same_values(product(x, s, tt::f32), product(x.contiguous(), s, tt::f32)));
  CHECK(same_values(product(x.to(tt::bf16), s, tt::f32), product(x.to(tt::bf16).to(tt::f32), s, tt::f32)));
  CHECK(same_values(product(x, s, tt::bf16), product(x, s, tt::f32).to(tt::bf16)));
  const tt::Tensor all = product(x, s, tt::f32);
  const int threads = tt::thread_count();
  tt::set_thread_count(1);
  CHECK(same_values(product(x, s, tt::f32), all));
  tt::set_thread_count(threads);
  CHECK(product(tt::empty({0, 150}), s, tt::f32).shape() == tt::Shape{0, 70});
  CHECK(product(tt::ones({3, 9}), tt::to_gaps(tt::zeros({0, 9})), tt::f32).numel() == 0);
  CHECK(product(tt::empty({2, 0}), tt::to_gaps(tt::zeros({2, 0})), tt::f32).to_vector<float>() ==
        std::vector<float>{0, 0, 0, 0});
  // Entries between far numbers have the number 0; an infinity in their column changes nothing.
  tt::Tensor far = tt::zeros({1, 100}), infinite = tt::ones({1, 100});
  far.data<float>()[99] = 2;
  for (int64_t k = 0; k < 99; ++k) infinite.data<float>()[k] = std::numeric_limits<float>::infinity();
  CHECK(product(infinite, tt::to_gaps(far), tt::f32).item<float>() == 2);
}
