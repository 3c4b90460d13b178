#include <tinytorch/backend/cpu/spmv.hpp>

#include <cmath>
#include <pruning/formats.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/pruning/bitmap.hpp>

using namespace test;

namespace {

tt::Tensor product(const tt::Tensor& x, const tt::BitmapMatrix& w, tt::DType dtype) {
  tt::Tensor y = tt::full({x.size(0), w.rows()}, 77, dtype, tt::cpu);
  tt::backend::cpu::spmv_bitmap(y.view_of(), x.view_of(), w.view());
  return y;
}

// The largest error of y relative to the sum of the magnitudes of its terms.
double error_of(const tt::Tensor& y, const tt::Tensor& x, const tt::Tensor& w) {
  const tt::Tensor X = x.to(tt::f64), W = w.to(tt::f64);
  const std::vector<double> expected = tt::matmul(X, W.t()).to_vector<double>(),
                            scale = tt::matmul(tt::abs(X), tt::abs(W).t()).to_vector<double>(),
                            got = y.to_vector<double>();
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(got[i] - expected[i]) / std::max(scale[i], 1e-30));
  return worst;
}

}  // namespace

TEST_CASE("the counts before each byte of a word") {
  for (const double density : {0.0, 0.2, 0.5, 1.0}) {
    const tt::BitmapMatrix s = tt::to_bitmap(sparse_matrix(1, 6400, density, 1));
    for (int64_t i = 0; i < 100; ++i) {
      const uint64_t word = s.view().bits[i], counts = tt::backend::cpu::counts_before_bytes(word);
      for (int b = 0; b < 8; ++b) {
        int expected = 0;
        for (int bit = 0; bit < 8 * b; ++bit) expected += static_cast<int>(word >> bit & 1);
        CHECK((counts >> (8 * b) & 0xff) == static_cast<uint64_t>(expected));
      }
    }
  }
}

TEST_CASE("products of bitmaps equal dense ones at every density, size, number of rows and dtype of values") {
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f16, tt::f64}) {
    for (const double density : {0.0, 0.02, 0.1, 0.5, 0.9, 1.0}) {
      for (const auto& [N, K] :
           {std::pair<int64_t, int64_t>{1, 1}, {3, 63}, {5, 64}, {7, 65}, {4, 200}, {33, 321}, {9, 1024}}) {
        const tt::Tensor w = sparse_matrix(N, K, density, 7, dtype);
        const tt::BitmapMatrix s = tt::to_bitmap(w);
        for (const int64_t M : {1, 2, 4, 7}) {
          const tt::DType compute = dtype == tt::f64 ? tt::f64 : tt::f32;
          const tt::Tensor x = sparse_matrix(M, K, 1, 8).to(compute);
          CHECK(error_of(product(x, s, compute), x, w) < (dtype == tt::f64 ? 1e-14 : 1e-6));
        }
      }
    }
  }
}

TEST_CASE("strided and 16-bit x, empty sizes, and rows of the same bits for any number of threads") {
  const tt::Tensor w = sparse_matrix(70, 150, 0.3, 2);
  const tt::BitmapMatrix s = tt::to_bitmap(w);
  const tt::Tensor x = sparse_matrix(150, 6, 1, 3).t();
  CHECK(same_values(product(x, s, tt::f32), product(x.contiguous(), s, tt::f32)));
  CHECK(same_values(product(x.to(tt::bf16), s, tt::f32), product(x.to(tt::bf16).to(tt::f32), s, tt::f32)));
  const tt::Tensor rounded = product(x, s, tt::bf16);
  CHECK(same_values(rounded, product(x, s, tt::f32).to(tt::bf16)));
  const tt::Tensor all = product(x, s, tt::f32);
  const int threads = tt::thread_count();
  tt::set_thread_count(1);
  CHECK(same_values(product(x, s, tt::f32), all));
  tt::set_thread_count(threads);
  CHECK(product(tt::empty({0, 150}), s, tt::f32).shape() == tt::Shape{0, 70});
  CHECK(product(tt::ones({3, 9}), tt::to_bitmap(tt::zeros({0, 9})), tt::f32).numel() == 0);
  CHECK(product(tt::empty({2, 0}), tt::to_bitmap(tt::zeros({2, 0})), tt::f32).to_vector<float>() ==
        std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("a NaN among the numbers of the next row does not reach a row") {
  tt::Tensor w = sparse_matrix(4, 640, 0.2, 4);
  w.slice(0, 2, 3).fill_(std::nanf(""));  // the numbers of the next row
  const tt::Tensor x = tt::ones({1, 640});
  const std::vector<float> y = product(x, tt::to_bitmap(w), tt::f32).to_vector<float>();
  CHECK(std::isfinite(y[1]));
  CHECK(std::isnan(y[2]));
}
