#include <tinytorch/quantization/cholesky.hpp>

#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

// A A^T + I, positive definite.
tt::Tensor definite(int64_t K, uint64_t seed) {
  tt::Generator generator(seed);
  const tt::Tensor a = tt::randn({K, K + 3}, tt::f64, tt::cpu, generator);
  return tt::matmul(a, a.t()) + tt::eye(K, tt::f64, tt::cpu);
}
double largest(const tt::Tensor& x) { return tt::max(tt::abs(x)).item<double>(); }

}  // namespace

TEST_CASE("the factor is lower triangular and its square is the matrix, for sizes around the block") {
  for (const int64_t K : {1, 2, 63, 64, 65, 130}) {
    const tt::Tensor a = definite(K, static_cast<uint64_t>(K)), L = tt::cholesky(a),
                     back = tt::matmul(L, L.t());
    CHECK(largest(back - a) <= 1e-12 * largest(a) * static_cast<double>(K));
    CHECK(largest(tt::triu(L, 1)) == 0);
    const tt::Tensor inverse = tt::inverse_of_lower(L);
    CHECK(largest(tt::matmul(inverse, L) - tt::eye(K, tt::f64, tt::cpu)) <= 1e-11);
    CHECK(largest(tt::triu(inverse, 1)) == 0);
    CHECK(tt::cholesky(a).to_vector<double>() == L.to_vector<double>());
    CHECK(largest(tt::cholesky(a.t()) - L) == 0);  // another layout
  }
}

TEST_CASE("a factor by hand") {
  const tt::Tensor L = tt::cholesky(tt::from_data({4.0, 2.0, 2.0, 10.0}, {2, 2}, tt::cpu));
  CHECK(L.to_vector<double>() == std::vector<double>{2, 0, 1, 3});
  CHECK(tt::inverse_of_lower(L).to_vector<double>() == std::vector<double>{0.5, 0, -1.0 / 6, 1.0 / 3});
}

TEST_CASE("matrices without a factor are refused") {
  for (const std::vector<double>& a :
       {std::vector<double>{1, 2, 2, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}, {std::nan(""), 0, 0, 1}})
    test::expect_error("TT-CALIB-04", "not positive definite", [&] {
      (void)tt::cholesky(tt::from_data(a, {2, 2}, tt::cpu));
    });
  test::expect_error("TT-SHAPE-02", "square matrix", [] {
    (void)tt::cholesky(tt::ones({2, 3}, tt::f64, tt::cpu));
  });
  test::expect_error("TT-SHAPE-02", "of f64", [] { (void)tt::cholesky(tt::ones({2, 2}, tt::f32, tt::cpu)); });
}
