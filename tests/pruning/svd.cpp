#include <tinytorch/pruning/svd.hpp>

#include <pruning/formats.hpp>

using namespace test;

namespace {

double largest(const tt::Tensor& t) { return t.numel() == 0 ? 0 : tt::max(tt::abs(t)).item<double>(); }

}  // namespace

TEST_CASE("U diag(s) V^T is the matrix, both are orthonormal, and s falls, for any shape and dtype") {
  for (const auto& [N, K] :
       {std::pair<int64_t, int64_t>{1, 1}, {5, 5}, {9, 4}, {4, 9}, {40, 33}, {3, 0}, {0, 3}}) {
    for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16}) {
      const tt::Tensor a = sparse_matrix(N, K, 1, 3).to(dtype);
      const tt::Svd d = tt::svd(a);
      const int64_t R = std::min(N, K);
      CHECK(d.U.shape() == tt::Shape{N, R});
      CHECK(d.V.shape() == tt::Shape{K, R});
      if (R == 0) continue;
      CHECK(largest(tt::matmul(d.U * d.s, d.V.t()) - a.to(tt::f64)) < 1e-12);
      const tt::Tensor one = tt::eye(R, tt::f64, tt::cpu);
      CHECK(largest(tt::matmul(d.U.t(), d.U) - one) < 1e-12);
      CHECK(largest(tt::matmul(d.V.t(), d.V) - one) < 1e-12);
      const std::vector<double> s = d.s.to_vector<double>();
      for (size_t i = 1; i < s.size(); ++i) CHECK(s[i] <= s[i - 1]);
    }
  }
}

TEST_CASE("a matrix of low rank has zeros behind its rank; zeros, and bad matrices") {
  tt::Generator g(2);
  const tt::Tensor a =
      tt::matmul(tt::randn({20, 3}, tt::f64, tt::cpu, g), tt::randn({3, 12}, tt::f64, tt::cpu, g));
  const std::vector<double> s = tt::svd(a).s.to_vector<double>();
  CHECK(s[2] > 1e-3);
  for (size_t i = 3; i < s.size(); ++i) CHECK(s[i] < 1e-12 * s[0]);
  CHECK(largest(tt::svd(tt::zeros({4, 3})).s) == 0);
  CHECK(errors::thrown_by([] { tt::svd(tt::ones({3})); }).code == "TT-SHAPE-02");
  CHECK(errors::thrown_by([] {
          tt::svd(tt::full({3, 3}, std::numeric_limits<double>::infinity(), tt::f32, tt::cpu));
        }).code == "TT-CALIB-01");
}
