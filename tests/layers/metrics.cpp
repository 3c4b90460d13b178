#include <tinytorch/layers/metrics.hpp>

#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/tinytorch.hpp>

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

TEST_CASE("accuracy is the fraction of samples whose largest score is that of their class") {
  const tt::Tensor scores = tt::from_data({1.f, 2.f, 0.f, 5.f, 1.f, 1.f, 0.f, 0.f, 9.f}, {3, 3});
  const auto classes = [](std::vector<int64_t> c) { return tt::from_data(c); };
  CHECK(tt::accuracy(scores, classes({1, 0, 2})) == 1);
  CHECK(tt::accuracy(scores, classes({1, 1, 2})) == doctest::Approx(2.0 / 3));
  CHECK(tt::accuracy(scores, classes({0, 1, 1})) == 0);
  CHECK(std::isnan(tt::accuracy(scores, scores)));
  const tt::Tensor sequences = scores.reshape({1, 3, 3});
  CHECK(tt::accuracy(sequences, classes({1, 0, 2}).reshape({1, 3})) == 1);
  CHECK(tt::accuracy(tt::ones({0, 3}), tt::zeros({0}, tt::i64)) == 0);
}

TEST_CASE("accuracy throws for scores and classes whose shapes do not match") {
  const tt::Tensor scores = tt::ones({2, 3});
  for (const tt::Shape& shape :
       {tt::Shape{500}, tt::Shape{1}, tt::Shape{}, tt::Shape{2, 1}, tt::Shape{2, 3}}) {
    CHECK(errors::thrown_by([&] { tt::accuracy(scores, tt::zeros(shape, tt::i64)); }).code == "TT-TRAIN-04");
  }
  CHECK(errors::thrown_by([&] { tt::accuracy(scores, tt::zeros({2}, tt::i32)); }).code == "TT-TRAIN-04");
  CHECK(errors::thrown_by([&] { tt::accuracy(tt::ones({}), tt::zeros({}, tt::i64)); }).code == "TT-TRAIN-04");
}

TEST_CASE("roc_auc is the fraction of ordered pairs, where a tie counts half") {
  const auto auc = [](std::vector<double> scores, std::vector<int64_t> labels) {
    return tt::roc_auc(tt::from_data(scores), tt::from_data(labels));
  };
  CHECK(auc({1, 2, 3, 4}, {0, 0, 1, 1}) == 1);
  CHECK(auc({1, 2, 3, 4}, {1, 1, 0, 0}) == 0);
  CHECK(auc({1, 3, 2, 4}, {0, 0, 1, 1}) == 0.75);
  CHECK(auc({4, 2, 3, 1}, {1, 0, 1, 0}) == 1);          // the order of the samples does not matter
  CHECK(auc({7, 7, 7, 7, 7}, {0, 1, 0, 1, 1}) == 0.5);  // equal scores: 0.5
  CHECK(auc({1, 2, 2, 3}, {0, 0, 1, 1}) == 3.5 / 4);
  CHECK(auc({-INFINITY, 0, INFINITY}, {0, 0, 1}) == 1);
  CHECK(auc({1, 2, 3, 4}, {0, 0, 2, -1}) == 1);  // every label other than 0 is positive
  CHECK(std::isnan(auc({1, 2}, {1, 1})));
  CHECK(std::isnan(auc({1, 2}, {0, 0})));
  CHECK(std::isnan(auc({}, {})));
  CHECK(std::isnan(auc({1, NAN, 2}, {0, 1, 1})));
}

TEST_CASE("roc_auc matches its definition, with many ties and in every floating dtype") {
  tt::Generator numbers(5);
  for (int trial = 0; trial < 50; ++trial) {
    const uint64_t n = 2 + numbers.below(60), levels = 1 + numbers.below(12);
    std::vector<float> scores;
    std::vector<int64_t> labels;
    for (uint64_t i = 0; i < n; ++i) {
      scores.push_back(static_cast<float>(numbers.below(levels)));
      labels.push_back(i < 2 ? static_cast<int64_t>(i) : static_cast<int64_t>(numbers.below(2)));
    }
    double right = 0, pairs = 0;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        if (labels[i] == 0 || labels[j] != 0) continue;
        right += scores[i] > scores[j] ? 1 : (scores[i] == scores[j] ? 0.5 : 0);
        ++pairs;
      }
    }
    const tt::Tensor s = tt::from_data(scores), l = tt::from_data(labels);
    CHECK(tt::roc_auc(s, l) == doctest::Approx(right / pairs).epsilon(1e-12));
    CHECK(tt::roc_auc(s.to(tt::bf16), l) == tt::roc_auc(s, l));  // small integers are exact in bf16
    CHECK(tt::roc_auc(s * -1, l) == doctest::Approx(1 - right / pairs).epsilon(1e-12));
  }
}

TEST_CASE("roc_auc throws for scores and labels whose shapes do not match") {
  const auto code = [](const tt::Tensor& scores, const tt::Tensor& labels) {
    try {
      tt::roc_auc(scores, labels);
    } catch (const tt::Error& e) {
      return e.code();
    }
    return std::string("accepted");
  };
  const tt::Tensor labels = tt::from_data(std::vector<int64_t>{0, 1, 1});
  CHECK(code(tt::ones({3}), labels) == "accepted");
  CHECK(code(tt::ones({4}), labels) == "TT-TRAIN-04");
  CHECK(code(tt::ones({3, 1}), labels) == "TT-TRAIN-04");
  CHECK(code(tt::ones({3}), tt::ones({3})) == "TT-TRAIN-04");
}

TEST_CASE("evaluate weights batches by their samples, in evaluation mode, without a graph") {
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
