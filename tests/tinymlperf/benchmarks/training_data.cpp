// Tests the data that the bundled models learn from: shapes, counts, and that validation data are not
// training data.
#include <doctest/doctest.h>

#include <tinymlperf/benchmarks/benchmarks.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;

TEST_CASE("each benchmark's data has the shape of its task, and repeats") {
  for (const Descriptor* about : descriptors()) {
    const Task& task = about->shape;
    CAPTURE(task.benchmark);
    const TrainingData data = training_data(task.benchmark, {10, 8});
    CHECK(data.size() >= 10);
    Shape one;
    for (int d = 1; d < data.inputs.rank(); ++d) one.push_back(data.inputs.size(d));
    CHECK(one == task.input);
    CHECK(data.targets.size(0) == data.size());
    CHECK(training_data(task.benchmark, {10, 8}).inputs.to_vector<double>() ==
          data.inputs.to_vector<double>());
    const TrainingSize size = training_size(task.benchmark);
    CHECK(size.training > size.validation);
  }
  CHECK_THROWS_AS(training_data("tea", {10, 8}), std::invalid_argument);
}

TEST_CASE("accuracy counts every sample once, whatever the batches") {
  tt::Sequential net{tt::Flatten()};
  const tt::Tensor scores = tt::from_data(std::vector<float>{0, 1, 1, 0, 0, 1, 0, 1, 1, 0}, {5, 2});
  const tt::Tensor classes = tt::from_data(std::vector<int64_t>{1, 0, 0, 1, 1});
  for (const int64_t batch : {1, 2, 3, 5, 8})
    CHECK(accuracy_of(net, scores, classes, batch) == doctest::Approx(0.6));
  CHECK_FALSE(net.training());
}
