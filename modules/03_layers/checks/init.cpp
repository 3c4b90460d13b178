#include <support/check.hpp>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/tensor/functions.hpp>

using namespace course;

namespace {

struct Measured {
  double mean = 0, variance = 0, largest = 0;
};
Measured measure(const Tensor& t) {
  Measured m;
  const Numbers values = t.to_vector<double>();
  const auto n = static_cast<double>(values.size());
  for (const double v : values) m.mean += v / n;
  for (const double v : values)
    m.variance += (v - m.mean) * (v - m.mean) / n, m.largest = std::max(m.largest, std::abs(v));
  return m;
}
void expect_fans(const Shape& shape, int64_t in, int64_t out) {
  const init::Fans fans = init::fans_of(zeros(shape));
  expect_equal("fans_of a weight " + shape.str() + ": inputs of one output", fans.in, in);
  expect_equal("fans_of a weight " + shape.str() + ": outputs of one input", fans.out, out);
}
// Weights of 80 x 120 and 16 x 40 x 3 x 5 have 9600 values, so their variance is known to 3 %.
template <class F>
void expect_variance(const std::string& name, const Shape& shape, double want, bool uniform, F&& fill) {
  Generator g(seed());
  Tensor t = zeros(shape);
  fill(t, g);
  const Measured m = measure(t);
  const std::string what = name + " of " + shape.str() + ": ";
  expect(what + "variance about " + shown(want) + ", got " + shown(m.variance),
         std::abs(m.variance / want - 1) < 0.12);
  expect(what + "mean about 0, got " + shown(m.mean), std::abs(m.mean) < 6 * std::sqrt(want / 9600));
  if (!uniform) return;
  const double bound = std::sqrt(3 * want);
  expect(what + "uniform up to " + shown(bound) + "; the largest value is " + shown(m.largest),
         m.largest <= bound * (1 + 1e-6) && m.largest > 0.98 * bound, "variance of [-a, a] is a^2 / 3");
}

constexpr auto kDense = [] { return Shape{80, 120}; };
constexpr auto kKernel = [] { return Shape{16, 40, 3, 5}; };

}  // namespace

TEST_CASE("3.12 inputs and outputs of a weight") {
  expect_fans({5, 3}, 3, 5);
  expect_fans({8, 4, 3, 2}, 24, 48);
  expect_fans({1, 1}, 1, 1);
  expect_fans({2, 7, 3}, 21, 6);
  expect_throws("TT-NN-10", "fans_of a weight [5]", [] { init::fans_of(zeros({5})); });
}

TEST_CASE("3.12 standard deviations from the formulas") {
  const Tensor w = zeros({8, 4, 3, 2});  // fan-in 24, fan-out 48
  const auto check = [](const std::string& what, double got, double want) {
    expect_close(what, {got}, {want}, {}, {.dtype = f64});
  };
  check("xavier_deviation of [8, 4, 3, 2], gain 1: sqrt(2 / 72)", init::xavier_deviation(w, 1),
        std::sqrt(2.0 / 72));
  check("xavier_deviation of [8, 4, 3, 2], gain 3", init::xavier_deviation(w, 3), 3 * std::sqrt(2.0 / 72));
  check("kaiming_deviation of [8, 4, 3, 2], gain 1: sqrt(1 / 24)", init::kaiming_deviation(w, 1),
        std::sqrt(1.0 / 24));
  check("kaiming_deviation of [8, 4, 3, 2] for ReLU: sqrt(2 / 24)",
        init::kaiming_deviation(w, init::relu_gain()), std::sqrt(2.0 / 24));
}

TEST_CASE("3.12 Glorot's variance, 2 / (in + out)") {
  expect_variance("xavier_uniform", kDense(), 0.01, true,
                  [](Tensor& t, Generator& g) { init::xavier_uniform(t, 1, g); });
  expect_variance("xavier_uniform", kKernel(), 2.0 / 840, true,
                  [](Tensor& t, Generator& g) { init::xavier_uniform(t, 1, g); });
  expect_variance("xavier_normal, gain 2", kDense(), 0.04, false,
                  [](Tensor& t, Generator& g) { init::xavier_normal(t, 2, g); });
}

TEST_CASE("3.12 He's variance, 2 / in, and LeCun's, 1 / in") {
  expect_variance("kaiming_uniform", kDense(), 2.0 / 120, true,
                  [](Tensor& t, Generator& g) { init::kaiming_uniform(t, init::relu_gain(), g); });
  expect_variance("kaiming_uniform, gain 1", kKernel(), 1.0 / 600, true,
                  [](Tensor& t, Generator& g) { init::kaiming_uniform(t, 1, g); });
  expect_variance("kaiming_normal", kDense(), 2.0 / 120, false,
                  [](Tensor& t, Generator& g) { init::kaiming_normal(t, init::relu_gain(), g); });
}

TEST_CASE("3.12 a signal neither dies nor explodes through ten layers with ReLU") {
  Generator g(11);
  Tensor x = randn({32, 64}, f32, cpu, g);
  for (int layer = 0; layer < 10; ++layer) {
    Tensor w = zeros({64, 64});
    init::kaiming_uniform(w, init::relu_gain(), g);
    x = relu(matmul(x, w.t()));
  }
  double square = 0;
  for (const double v : x.to_vector<double>()) square += v * v / (32 * 64);
  expect("the mean square after ten layers of kaiming_uniform and ReLU must be near 1, got " + shown(square),
         square > 0.05 && square < 20);
}

TEST_CASE("3.12 the same generator state gives the same weights") {
  Generator a(9), b(9);
  Tensor first = zeros({3, 5}), second = zeros({3, 5}), third = zeros({3, 5});
  init::xavier_uniform(first, 1, a);
  init::xavier_uniform(second, 1, b);
  init::xavier_uniform(third, 1, a);
  expect_close("xavier_uniform from two generators of one seed", second.to_vector<double>(),
               first.to_vector<double>(), {3, 5}, {.roundings = 0});
  expect("a second weight from the same generator has other values",
         first.to_vector<double>() != third.to_vector<double>());
}
