// Linear algebra: definitions in double, PyTorch's values and gradients, gradcheck, empty and singular
// matrices, errors.
#include <tinytorch/tensor/ops/linalg.hpp>
// The header above must compile by itself.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <support/errors.hpp>
#include <support/golden_calls.hpp>
#include <tinytorch/autograd/gradcheck.hpp>

namespace tt = tinytorch;
namespace linalg = tinytorch::linalg;
using nlohmann::json;
using tt::Shape;
using tt::Tensor;
using tt::Tensors;

namespace {

Tensor random(const Shape& shape, uint64_t seed, tt::DType dtype = tt::f64) {
  tt::Generator g(seed);
  return tt::randn(shape, dtype, tt::default_device(), g);
}
Tensor mT(const Tensor& A) { return A.transpose(-1, -2); }
Tensor symmetric(const Tensor& A) { return (A + mT(A)) * 0.5; }

void check_close(const Tensor& a, const Tensor& b, double tolerance) {
  REQUIRE(a.shape() == b.shape());
  if (a.numel() > 0) CHECK(tt::max(tt::abs(a.detach() - b.detach())).item<double>() < tolerance);
}
// Q^T Q = I
void check_orthonormal(const Tensor& Q, double tolerance) {
  const Tensor I = tt::eye(Q.size(-1), Q.dtype(), Q.device());
  check_close(tt::matmul(mT(Q), Q), I + tt::zeros_like(tt::matmul(mT(Q), Q)), tolerance);
}

// These are the same functions of the factors as in make_linalg.py, whose results do not depend on signs.
Tensor call(const std::string& name, const json& options, const Tensors& in) {
  const Tensor& x = in[0];
  if (name == "solve") return linalg::solve(x, in[1]);
  if (name == "inverse") return linalg::inverse(x);
  if (name == "det") return linalg::det(x);
  if (name == "cholesky") return linalg::cholesky(symmetric(x));
  if (name == "eigvalsh") return linalg::eigh(symmetric(x)).values;
  if (name == "qr_q") return linalg::qr(x).Q;
  if (name == "qr_r") return linalg::qr(x).R;
  if (name == "svdvals") return linalg::svdvals(x);
  if (name == "pinv") return linalg::pinv(x);
  if (name == "eigh") {
    const auto [values, vectors] = linalg::eigh(symmetric(x));
    const Tensor V = vectors.slice(-1, 1);
    return tt::matmul(V, mT(V)) * values.sum();
  }
  if (name == "svd") {
    const auto [U, S, Vh] = linalg::svd(x, false);
    return tt::matmul(U.slice(-1, 0, 2) * tt::tanh(S.slice(-1, 0, 2).unsqueeze(-2)), Vh.slice(-2, 0, 2));
  }
  REQUIRE(name == "matrix_norm");
  const auto order = options["order"].get<std::string>();
  if (order == "fro" || order == "nuc") return linalg::matrix_norm(x, order);
  return linalg::matrix_norm(x, std::stod(order));
}

}  // namespace

TEST_CASE("linalg: PyTorch's values and gradients, with and without gaps in memory") {
  const json golden = read_golden("linalg");
  for (const json& c : golden["cases"]) {
    const auto name = c["name"].get<std::string>();
    for (const tt::DType dtype : {tt::f64, tt::f32}) {
      INFO(name, " ", c["options"].dump(), " ", c["inputs"][0]["shape"].dump(), " ", tt::name_of(dtype));
      const double tolerance = dtype == tt::f64 ? 1e-7 : 2e-3;
      Tensors in, gaps;
      for (const json& tensor : c["inputs"]) {
        in.push_back(golden::tensor_of(tensor, dtype).requires_grad_());
        gaps.push_back(golden::strided(in.back().detach()));
      }
      const Tensor y = call(name, c["options"], in);
      CHECK(y.dtype() == dtype);
      golden::check_equal(y, c["result"], tolerance);
      golden::check_equal(call(name, c["options"], gaps), c["result"], tolerance);
      if (dtype == tt::f32) continue;  // gradients may be large
      std::vector<double> upstream(static_cast<size_t>(y.numel()));
      for (size_t k = 0; k < upstream.size(); ++k) upstream[k] = std::cos(static_cast<double>(k));
      tt::sum(y * tt::from_data(upstream).reshape(y.shape()).to(y.device())).backward();
      for (size_t i = 0; i < in.size(); ++i) golden::check_equal(in[i].grad(), c["gradients"][i], 1e-6);
    }
  }
}

TEST_CASE("linalg: factors multiply to the matrix") {
  uint64_t seed = 0;
  for (const tt::DType t : {tt::f64, tt::f32}) {
    const double tolerance = t == tt::f64 ? 1e-11 : 2e-4;
    for (const auto& [batch, m, n] : {std::tuple{Shape{}, 1, 1},
                                      {Shape{}, 7, 4},
                                      {Shape{2, 3}, 4, 7},
                                      {Shape{}, 40, 33},
                                      {Shape{0}, 3, 2},
                                      {Shape{2}, 0, 3},
                                      {Shape{}, 5, 5}}) {
      Shape shape = batch;
      shape.push_back(m), shape.push_back(n);
      INFO(shape.str(), " ", tt::name_of(t));
      const Tensor A = random(shape, ++seed, t);
      for (const bool full : {false, true}) {
        const int64_t k = std::min(m, n);
        const auto [U, S, Vh] = linalg::svd(A, full);
        CHECK(U.size(-1) == (full ? m : k));
        CHECK(Vh.size(-2) == (full ? n : k));
        check_orthonormal(U, tolerance);
        check_orthonormal(mT(Vh), tolerance);
        check_close(tt::matmul(U.slice(-1, 0, k) * S.unsqueeze(-2), Vh.slice(-2, 0, k)), A, tolerance);
        if (S.numel() > 0) CHECK(tt::all(S.slice(-1, 0, k - 1) >= S.slice(-1, 1)).item<bool>());
        const auto [Q, R] = linalg::qr(A, full);
        CHECK(Q.size(-1) == (full ? m : k));
        check_orthonormal(Q, tolerance);
        check_close(tt::matmul(Q, R), A, tolerance);
        check_close(tt::triu(R), R, 1e-30);
      }
      if (m == 0) continue;
      const Tensor P = linalg::pinv(A);
      check_close(tt::matmul(tt::matmul(A, P), A), A, 10 * tolerance);
      check_close(tt::matmul(tt::matmul(P, A), P), P, 100 * tolerance);
      const Tensor C = tt::matmul(A, mT(A)) + tt::eye(m, t, A.device());
      const Tensor L = linalg::cholesky(C);
      check_close(tt::tril(L), L, 1e-30);
      check_close(tt::matmul(L, mT(L)), C, 100 * tolerance);
      const auto [values, V] = linalg::eigh(C);
      check_orthonormal(V, tolerance);
      check_close(tt::matmul(V * values.unsqueeze(-2), mT(V)), C, 100 * tolerance);
      check_close(tt::matmul(linalg::inverse(C), C) * 1, tt::eye(m, t, A.device()) + tt::zeros_like(C),
                  100 * tolerance);
      if (t == tt::f64)
        check_close(linalg::det(C) / tt::prod(values, {-1}), tt::ones_like(linalg::det(C)), 1e-9);
    }
  }
}

TEST_CASE("linalg: derivatives against differences") {
  const auto right = [](const std::function<Tensor(const Tensors&)>& f, Tensors at) {
    for (Tensor& t : at) t.requires_grad_();
    const auto result = tt::gradcheck(f, at, {.step = 1e-6, .absolute = 1e-5, .relative = 1e-4});
    INFO(result.message);
    CHECK(result.passed);
  };
  const Tensor A = random({2, 3, 3}, 50), P = tt::matmul(A, mT(A)) + tt::eye(3, tt::f64, A.device());
  right([](const Tensors& in) { return linalg::solve(in[0], in[1]); }, {P.clone(), random({3, 2}, 51)});
  right([](const Tensors& in) { return linalg::inverse(in[0]); }, {P.clone()});
  right([](const Tensors& in) { return linalg::det(in[0]); }, {A.clone()});
  right([](const Tensors& in) { return linalg::cholesky(symmetric(in[0])); }, {P.clone()});
  right([](const Tensors& in) { return linalg::eigh(symmetric(in[0])).values; }, {A.clone()});
  right([](const Tensors& in) { return linalg::eigh(symmetric(in[0])).vectors; }, {A.clone()});
  right([](const Tensors& in) { return linalg::qr(in[0]).Q; }, {random({4, 3}, 52)});
  right([](const Tensors& in) { return linalg::qr(in[0]).R; }, {random({2, 3, 3}, 53)});
  for (const Shape& shape : {Shape{4, 3}, Shape{3, 4}, Shape{2, 3, 3}}) {
    right([](const Tensors& in) { return linalg::svd(in[0], false).U; }, {random(shape, 54)});
    right([](const Tensors& in) { return linalg::svd(in[0], true).S; }, {random(shape, 55)});
    right([](const Tensors& in) { return linalg::svd(in[0], false).Vh; }, {random(shape, 56)});
    right([](const Tensors& in) { return linalg::pinv(in[0]); }, {random(shape, 57)});
  }
}

TEST_CASE("linalg: rank deficiency, no elements, one side") {
  const Tensor ones = tt::ones({3, 2}, tt::f64);  // singular values sqrt(6) and 0
  check_close(linalg::pinv(ones), tt::full({2, 3}, 1.0 / 6, tt::f64), 1e-12);
  check_close(linalg::pinv(tt::zeros({2, 3})), tt::zeros({3, 2}), 1e-30);
  check_close(linalg::pinv(tt::eye(2) * tt::from_data({1.0f, 0.1f}), 0.5),
              tt::eye(2) * tt::from_data({1.0f, 0.0f}), 1e-6);
  CHECK(linalg::det(ones.slice(0, 0, 2)).item<double>() == 0);
  CHECK(linalg::det(tt::zeros({0, 0})).item<double>() == 1);
  CHECK(linalg::solve(tt::zeros({0, 0}), tt::zeros({0, 2})).shape() == Shape{0, 2});
  CHECK(linalg::solve(tt::eye(3), tt::zeros({3, 0})).shape() == Shape{3, 0});
  CHECK(linalg::cholesky(tt::zeros({4, 0, 0})).shape() == Shape{4, 0, 0});
  CHECK(linalg::eigh(tt::zeros({0, 0})).values.shape() == Shape{0});
  CHECK(linalg::svd(tt::zeros({3, 0})).U.shape() == Shape{3, 3});
  CHECK(linalg::pinv(tt::zeros({3, 0})).shape() == Shape{0, 3});
  const Tensor lower = tt::from_data({2.0f, 99.0f, 0.0f, 3.0f}, {2, 2});  // only the lower triangle counts
  CHECK(linalg::eigh(lower).values.to_vector() == std::vector<float>{2, 3});
  CHECK(std::isnan(linalg::det(tt::full({2, 2}, std::nan(""))).item<double>()));
}

TEST_CASE("linalg: errors") {
  const Tensor wide = tt::zeros({2, 3}), zeros = tt::zeros({2, 2}), x = tt::ones({2});
  const Tensor nan = tt::full({2, 2}, std::nan(""));
  const std::function<void(const Tensor&)> square[] = {
      [](const Tensor& t) { linalg::solve(t, tt::ones({2})); }, [](const Tensor& t) { linalg::inverse(t); },
      [](const Tensor& t) { linalg::det(t); }, [](const Tensor& t) { linalg::cholesky(t); },
      [](const Tensor& t) { linalg::eigh(t); }};
  for (const auto& f : square) test::expect_error("TT-SHAPE-02", "linalg", [&] { f(wide); });
  const std::function<void(const Tensor&)> any[] = {[](const Tensor& t) { linalg::svd(t); },
                                                    [](const Tensor& t) { linalg::qr(t); },
                                                    [](const Tensor& t) { linalg::pinv(t); },
                                                    [](const Tensor& t) { linalg::matrix_norm(t); },
                                                    square[1],
                                                    square[2]};
  for (const auto& f : any) {
    test::expect_error("TT-SHAPE-04", "linalg", [&] { f(x); });
    test::expect_error("TT-DTYPE-02", "linalg", [&] { f(zeros.to(tt::f16)); });
    test::expect_error("TT-DTYPE-02", "linalg", [&] { f(zeros.to(tt::i64)); });
  }
  test::expect_error("TT-LINALG-01", "singular", [&] { linalg::solve(zeros, x); });
  test::expect_error("TT-LINALG-01", "matrix 1 of the batch", [&] {
    linalg::inverse(tt::stack({tt::eye(2), zeros}));
  });
  test::expect_error("TT-LINALG-01", "positive definite", [&] { linalg::cholesky(-tt::eye(2)); });
  for (const auto& f : {std::function(square[3]), std::function(square[4]), std::function(any[0])})
    test::expect_error("TT-LINALG-01", "linalg", [&] { f(nan); });
  test::expect_error("TT-SHAPE-02", "solve", [&] { linalg::solve(tt::eye(2), tt::ones({3})); });
  test::expect_error("TT-SHAPE-02", "broadcast", [&] {
    linalg::solve(tt::zeros({2, 3, 3}), tt::zeros({5, 3, 1}));
  });
  test::expect_error("TT-DTYPE-03", "solve", [&] { linalg::solve(tt::eye(2), tt::ones({2}, tt::f64)); });
  test::expect_error("TT-RANGE-08", "matrix_norm", [&] { linalg::matrix_norm(zeros, 3); });
  test::expect_error("TT-RANGE-08", "matrix_norm", [&] { linalg::matrix_norm(zeros, "max"); });
  const Tensor A = random({2, 3}, 60).requires_grad_();
  test::expect_error("TT-GRAD-05", "qr", [&] { linalg::qr(A).Q.sum().backward(); });
  test::expect_error("TT-GRAD-05", "svd", [&] { linalg::svd(A).U.sum().backward(); });
}
