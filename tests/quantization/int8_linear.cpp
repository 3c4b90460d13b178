#include <tinytorch/quantization/int8_linear.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <quantization/planted.hpp>
#include <support/errors.hpp>
#include <tinytorch/layers/linear.hpp>

using namespace tinytorch;

namespace {

// Each row of x rounded to multiples of its largest magnitude / 127, in double.
std::vector<double> rounded_rows(const Tensor& x) {
  std::vector<double> v = x.to_vector<double>();
  const auto K = static_cast<size_t>(x.size(1));
  for (size_t row = 0; row < v.size(); row += K) {
    double largest = 0;
    for (size_t k = row; k < row + K; ++k) largest = std::max(largest, std::abs(v[k]));
    const double scale = largest / 127;
    for (size_t k = row; k < row + K && scale > 0; ++k) v[k] = scale * std::nearbyint(v[k] / scale);
  }
  return v;
}

}  // namespace

TEST_CASE("a dynamic layer multiplies rounded rows, for any sizes and dtypes") {
  const NoGrad no_grad;
  Generator g(3);
  for (const auto& [M, N, K] : {std::tuple{1, 1, 1}, {3, 5, 7}, {17, 33, 64}, {2, 9, 300}}) {
    const Tensor w = randn({N, K}, f32, cpu, g), b = randn({N}, f32, cpu, g);
    DynamicLinear layer(w, b);
    for (const DType dtype : {f32, bf16, f16}) {
      const Tensor x = randn({M, K}, f32, cpu, g).to(dtype);
      const Tensor y = layer(x);
      CHECK(y.dtype() == dtype);
      const std::vector<double> xs = rounded_rows(x), ws = rounded_rows(w), bs = b.to_vector<double>(),
                                got = y.to_vector<double>();
      for (int64_t m = 0; m < M; ++m) {
        for (int64_t n = 0; n < N; ++n) {
          double sum = bs[static_cast<size_t>(n)], size = std::abs(sum);
          for (int64_t k = 0; k < K; ++k) {
            const double p = xs[static_cast<size_t>(m * K + k)] * ws[static_cast<size_t>(n * K + k)];
            sum += p, size += std::abs(p);
          }
          const double eps = dtype == f32 ? 1e-5 : dtype == f16 ? 1e-3 : 8e-3;
          // A value halfway between two codes may have the other one.
          CHECK(std::abs(got[static_cast<size_t>(m * N + n)] - sum) <=
                eps * size + 0.02 * size / std::sqrt(static_cast<double>(K)) * (K > 100 ? 0.1 : 1));
        }
      }
    }
  }
}

TEST_CASE("the planted layer has the ratios of scales by token") {
  const NoGrad no_grad;
  for (const bool outliers : {false, true}) {
    const test::Layer layer = test::planted_layer(outliers);
    DynamicLinear integers(layer.w);
    const double got = sqnr_db(matmul(layer.x.to(f64), layer.w.to(f64).t()), integers(layer.x).to(f64));
    CHECK(std::abs(got - (outliers ? 30.3 : 37.3)) < 1.5);
  }
}

TEST_CASE("a row is the same alone and among others; zeros give the bias; a NaN stays in its row") {
  const NoGrad no_grad;
  Generator g(4);
  const Tensor w = randn({8, 40}, f32, cpu, g), b = randn({8}, f32, cpu, g);
  DynamicLinear layer(w, b);
  Tensor x = randn({2, 3, 40}, f32, cpu, g) * 3;
  x.data<float>()[0] = 100;
  const Tensor y = layer(x);
  CHECK(y.shape() == Shape{2, 3, 8});
  CHECK(test::same_numbers(y.select(0, 1).select(0, 2), layer(x.select(0, 1).select(0, 2))));
  CHECK(test::same_numbers(layer(zeros({1, 40})).reshape({8}), b));
  x.data<float>()[41] = NAN;
  const std::vector<double> bad = layer(x).to_vector<double>();
  for (size_t i = 0; i < bad.size(); ++i) CHECK(std::isnan(bad[i]) == (i / 8 == 1));
  CHECK(layer(empty({0, 40})).shape() == Shape{0, 8});
}

TEST_CASE("a dynamic layer takes the place of a layer, and holds no floats of its weight") {
  const NoGrad no_grad;
  Linear layer(64, 32);
  const Tensor x = randn({5, 64}), before = layer(x);
  layer.replace(std::make_shared<DynamicLinear>(layer.weight, layer.bias));
  CHECK(sqnr_db(before, layer(x)) > 30);
  const StateDict state = layer.state_dict();
  CHECK(state.at("weight").dtype() == i8);
  CHECK(state.at("weight_scale").shape() == Shape{32});
  CHECK(layer.replacement()->parameter_count() == 0);
}

TEST_CASE("what has no codes is refused") {
  Tensor w = ones({2, 3});
  DynamicLinear layer(w);
  test::expect_error("TT-SHAPE-02", "x [..., K]", [&] { (void)layer(ones({2, 4})); });
  test::expect_error("TT-SHAPE-02", "[N, K]", [&] { DynamicLinear(ones({3})); });
  test::expect_error("TT-DTYPE-02", "f64", [&] { (void)layer(ones({2, 3}, f64)); });
  w.data<float>()[1] = INFINITY;
  test::expect_error("TT-CALIB-01", "NaN or an infinity", [&] { DynamicLinear{w}; });
}
