#include <support/errors.hpp>

#include <cmath>
#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::expect_error;

namespace {

// An output layer of V classes over N rows of C features, and the rows that are not ignored.
struct Head {
  tt::Tensor x, weight, target;
  Head(int64_t N, int64_t V, int64_t C, tt::DType dtype) {
    tt::Generator g(7);
    const auto leaf = [&](const tt::Shape& shape) {
      return tt::randn(shape, tt::f32, tt::cpu, g).to(dtype).to(tt::default_device()).requires_grad_();
    };
    x = leaf({N, C}), weight = leaf({V, C});
    std::vector<int64_t> classes;
    for (int64_t n = 0; n < N; ++n)
      classes.push_back(n % 4 == 3 ? -100 : static_cast<int64_t>(g.below(static_cast<uint64_t>(V))));
    target = tt::from_data(classes, {N});
  }
};

struct LossAndGradients {
  double loss;
  std::vector<double> x, weight;
};
LossAndGradients results(const tt::Tensor& loss, const Head& head) {
  loss.backward();
  return {loss.item<double>(), head.x.grad().to_vector<double>(), head.weight.grad().to_vector<double>()};
}
// The composition of linear and cross_entropy in f64 on the same values.
LossAndGradients composed(const Head& given, const tt::CrossEntropyOptions& options) {
  Head wide = given;
  for (tt::Tensor* t : {&wide.x, &wide.weight}) *t = t->detach().to(tt::f64).requires_grad_();
  return results(tt::cross_entropy(tt::linear(wide.x, wide.weight), wide.target, options), wide);
}
LossAndGradients fused(const Head& given, const tt::CrossEntropyOptions& options, int64_t rows) {
  Head own = given;
  for (tt::Tensor* t : {&own.x, &own.weight}) *t = t->detach().clone().requires_grad_();
  const tt::Tensor loss = tt::linear_cross_entropy(own.x, own.weight, own.target, options, rows);
  CHECK(loss.dtype() == (own.x.dtype() == tt::f64 ? tt::f64 : tt::f32));
  CHECK(loss.shape() == tt::Shape{});
  LossAndGradients out = results(loss, own);
  CHECK(own.x.grad().dtype() == own.x.dtype());
  CHECK(own.weight.grad().dtype() == own.x.dtype());
  return out;
}
// Checks |got - want| <= tolerance * the largest value of want.
void check_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  double largest = 0, worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    worst = std::isnan(got[i]) ? INFINITY : std::max(worst, std::abs(got[i] - want[i]));
  }
  CHECK(worst <= tolerance * largest);
}

}  // namespace

TEST_CASE("cross_entropy of known logits") {
  const tt::Tensor x = tt::from_data<double>({0, std::log(3.0), 0, 0}, {2, 2});
  const tt::Tensor target = tt::from_data<int64_t>({1, 0});
  CHECK(tt::cross_entropy(x, target).item<double>() ==
        doctest::Approx((std::log(4.0 / 3) + std::log(2.0)) / 2));
  CHECK(tt::cross_entropy(x, target, {.reduction = tt::Reduction::sum}).item<double>() ==
        doctest::Approx(std::log(8.0 / 3)));
  CHECK(tt::cross_entropy(x, target, {.reduction = tt::Reduction::none}).shape() == tt::Shape{2});
  CHECK(tt::cross_entropy(x, target, {.ignore_index = 1}).item<double>() == doctest::Approx(std::log(2.0)));
}

TEST_CASE("mse_loss and bce_with_logits of known values") {
  const tt::Tensor x = tt::from_data<float>({1, 2, 5}), t = tt::from_data<float>({1, 0, 1});
  CHECK(tt::mse_loss(x, t).item() == doctest::Approx(20.0 / 3));
  CHECK(tt::mse_loss(x, t, tt::Reduction::none).to_vector<double>() == std::vector<double>{0, 4, 16});
  CHECK(tt::bce_with_logits(x, t, tt::Reduction::sum).item<double>() ==
        doctest::Approx(std::log1p(std::exp(-1.0)) + 2 + std::log1p(std::exp(-2.0)) +
                        std::log1p(std::exp(-5.0))));
}

TEST_CASE("linear_cross_entropy equals cross_entropy of linear, for any chunk size") {
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    const Head head(23, 37, 16, dtype);
    for (const tt::Reduction reduction : {tt::Reduction::mean, tt::Reduction::sum}) {
      for (const double smoothing : {0.0, 0.1}) {
        const tt::CrossEntropyOptions options{.label_smoothing = smoothing, .reduction = reduction};
        const LossAndGradients want = composed(head, options);
        for (const int64_t rows : {0, 1, 5, 23, 100}) {
          INFO(std::string(name_of(dtype)), " rows ", rows, " smoothing ", smoothing);
          const LossAndGradients got = fused(head, options, rows);
          // Logits of magnitude 10 are rounded to the dtype, and dlogits as well.
          const double epsilon = tt::epsilon_of(dtype);
          CHECK(std::abs(got.loss - want.loss) <= 8 * epsilon * std::abs(want.loss));
          check_near(got.x, want.x, 8 * epsilon);
          check_near(got.weight, want.weight, 8 * epsilon);
        }
      }
    }
  }
}

TEST_CASE("linear_cross_entropy: many chunks of bf16 are as accurate as one") {
  const Head head(256, 16, 8, tt::bf16);
  const LossAndGradients one = fused(head, {}, 256), many = fused(head, {}, 1);
  // The same products, added in f32 in another order, differ by at most the last bit of bf16.
  check_near(many.weight, one.weight, 0.5 * tt::epsilon_of(tt::bf16));
  CHECK(many.loss == doctest::Approx(one.loss).epsilon(1e-6));
}

TEST_CASE("linear_cross_entropy is deterministic, with any number of threads") {
  const Head head(64, 50, 16, tt::f32);
  const int before = tt::thread_count();
  const LossAndGradients first = fused(head, {}, 13);
  for (const int threads : {1, 3}) {
    tt::set_thread_count(threads);
    const LossAndGradients again = fused(head, {}, 13);
    CHECK(again.loss == first.loss);
    CHECK(again.x == first.x);
    CHECK(again.weight == first.weight);
  }
  tt::set_thread_count(before);
}

TEST_CASE("linear_cross_entropy without rows, with ignored rows, and without gradients") {
  tt::Tensor weight = tt::ones({3, 2}).requires_grad_(), x = tt::zeros({0, 2}).requires_grad_();
  const tt::Tensor none = tt::zeros({0}, tt::i64);
  CHECK(std::isnan(tt::linear_cross_entropy(x, weight, none).item<double>()));
  CHECK(tt::linear_cross_entropy(x, weight, none, {.reduction = tt::Reduction::sum}).item<double>() == 0);
  tt::linear_cross_entropy(x, weight, none).backward();
  CHECK(weight.grad().to_vector() == std::vector<float>(6, 0.0f));
  CHECK(x.grad().shape() == tt::Shape{0, 2});

  const tt::Tensor rows = tt::ones({2, 2}).requires_grad_();
  const tt::Tensor loss = tt::linear_cross_entropy(rows, weight, tt::full({2}, -100, tt::i64));
  CHECK(std::isnan(loss.item<double>()));
  loss.backward();
  CHECK(rows.grad().to_vector() == std::vector<float>(4, 0.0f));

  // One operand or no operand requires grad; any leading dimensions.
  const tt::Tensor target = tt::from_data<int64_t>({0, 1, 2, 0}, {2, 2}), plain = tt::rand({2, 2, 2});
  weight.zero_grad();
  const tt::Tensor by_weight = tt::linear_cross_entropy(plain, weight, target);
  by_weight.backward();
  CHECK(weight.grad().shape() == tt::Shape{3, 2});
  const tt::NoGrad no_grad;
  const tt::Tensor without = tt::linear_cross_entropy(plain, weight, target, {}, 3);
  CHECK(without.item() == doctest::Approx(std::log(3.0)));
  CHECK(by_weight.item() == doctest::Approx(without.item()));
}

TEST_CASE("linear_cross_entropy never allocates all logits") {
  const int64_t N = 1024, V = 1000, C = 8;
  const Head head(N, V, C, tt::f32);
  const bool on_cpu = tt::default_device().is_cpu();
  const auto bytes = [&](bool peak) {
    if (on_cpu) return peak ? tt::allocator_stats().peak : tt::allocator_stats().current;
    const tt::backend::cuda::MemoryStats stats = tt::backend::cuda::memory_stats(0);
    return peak ? stats.peak : stats.current;
  };
  on_cpu ? tt::reset_peak() : tt::backend::cuda::reset_peak(0);
  const size_t before = bytes(false);
  tt::linear_cross_entropy(head.x, head.weight, head.target, {}, 64).backward();
  CHECK(bytes(true) - before < static_cast<size_t>(N * V) * sizeof(float) / 3);
}

TEST_CASE("losses: operands that do not fit are errors that name them") {
  const tt::Tensor x = tt::zeros({3, 4}), target = tt::zeros({3}, tt::i64);
  expect_error("TT-SHAPE-02", "scores [N, C, ...]", [&] { tt::cross_entropy(tt::zeros({2, 3, 4}), target); });
  expect_error("TT-SHAPE-02", "hint: flatten", [&] { tt::cross_entropy(x, tt::zeros({4}, tt::i64)); });
  expect_error("TT-DTYPE-04", "i64", [&] { tt::cross_entropy(x, tt::zeros({3})); });
  expect_error("TT-DTYPE-02", "floating", [&] { tt::cross_entropy(tt::zeros({3, 4}, tt::i32), target); });
  expect_error("TT-RANGE-05", "target 4 of sample 2", [&] {
    tt::cross_entropy(x, tt::from_data<int64_t>({0, 3, 4}));
  });
  expect_error("TT-RANGE-05", "target -1 of sample 0", [&] {
    tt::cross_entropy(x, tt::from_data<int64_t>({-1, 3, 0}));
  });
  expect_error("TT-RANGE-08", "label_smoothing",
               [&] { tt::cross_entropy(x, target, {.label_smoothing = 1.5}); });
  const tt::Tensor weight = tt::zeros({4, 5}), features = tt::zeros({3, 5});
  expect_error("TT-RANGE-05", "linear_cross_entropy: target 4 of sample 2", [&] {
    tt::linear_cross_entropy(features, weight, tt::from_data<int64_t>({0, 3, 4}));
  });
  expect_error("TT-SHAPE-02", "weight [V, C]", [&] { tt::linear_cross_entropy(x, weight, target); });
  expect_error("TT-SHAPE-02", "target [...]",
               [&] { tt::linear_cross_entropy(features.t(), weight, target); });
  expect_error("TT-DTYPE-03", "linear_cross_entropy",
               [&] { tt::linear_cross_entropy(features.to(tt::f64), weight, target); });
  expect_error("TT-RANGE-07", "hint: cross_entropy(linear", [&] {
    tt::linear_cross_entropy(features, weight, target, {.reduction = tt::Reduction::none});
  });
  expect_error("TT-SHAPE-02", "mse_loss", [&] { tt::mse_loss(x, tt::zeros({3, 1})); });
  expect_error("TT-DTYPE-03", "bce_with_logits", [&] { tt::bce_with_logits(x, tt::zeros({3, 4}, tt::f64)); });
}
