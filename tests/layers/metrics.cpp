#include <tinytorch/layers/metrics.hpp>

#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/tinytorch.hpp>

#include "support/golden_file.hpp"

namespace tt = tinytorch;

namespace {
struct Identity : tt::Module {
  bool was_training = true, recorded = true;
  tt::Tensor forward(const tt::Tensor& x) override {
    was_training = training(), recorded = tt::grad_enabled();
    return x;
  }
};
}  // namespace

TEST_CASE("accuracy counts the largest score") {
  const tt::Tensor scores = tt::from_data({1.f, 2.f, 0.f, 5.f, 1.f, 1.f, 0.f, 0.f, 9.f}, {3, 3});
  const auto classes = [](std::vector<int64_t> c) { return tt::from_data(c); };
  CHECK(tt::accuracy(scores, classes({1, 0, 2})) == 1);
  CHECK(tt::accuracy(scores, classes({1, 1, 2})) == doctest::Approx(2.0 / 3));
  CHECK(tt::accuracy(scores, classes({0, 1, 1})) == 0);
  CHECK(std::isnan(tt::accuracy(scores, scores)));
}

TEST_CASE("evaluation weighs batches by their samples, in evaluation mode, without a graph") {
  Identity model;
  const tt::Tensor x = tt::from_data({1.f, 2.f, 3.f, 4.f, 10.f}, {5, 1});
  tt::DataLoader loader(x, x, {.batch_size = 2});
  const tt::Loss mean_output = [](const tt::Tensor& y, const tt::Tensor&) { return tt::mean(y); };
  const tt::Metric largest = [](const tt::Tensor& y, const tt::Tensor&) { return tt::max(y).item<double>(); };
  for (int again = 0; again < 2; ++again) {
    const tt::Evaluation result = tt::evaluate(model, loader, mean_output, largest);
    CHECK(result.samples == 5);
    CHECK(result.loss == doctest::Approx(4));
    CHECK(result.metric == doctest::Approx((2 * 2 + 4 * 2 + 10) / 5.0));
  }
  CHECK_FALSE(model.was_training);
  CHECK_FALSE(model.recorded);
  CHECK(model.training());
}
