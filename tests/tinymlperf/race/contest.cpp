// Networks whose answers are known in advance: class j's score is pixel j, so the brightest pixel is the
// answer.
#include <doctest/doctest.h>

#include <tinymlperf/race/contest.hpp>

using namespace tinymlperf;

namespace {

EntrySpec pixel_spec(const char* name) {
  return parse_entry(R"({"schema": 1, "name": ")" + std::string(name) +
                     R"(", "input": [1, 28, 28], "classes": 10,
                     "layers": [{"type": "flatten"}, {"type": "linear", "in": 784, "out": 10}]})");
}

Network pixel_network(const char* name) {
  tt::Tensor weight = tt::zeros({10, 784});
  for (int64_t j = 0; j < 10; ++j) weight.data<float>()[j * 784 + j] = 1;
  return Network(pixel_spec(name), tt::StateDict{{"1.bias", tt::zeros({10})}, {"1.weight", weight}});
}

// n images whose pixel (7 i mod 10) is bright; the first `wrong` labels are off by one.
LabelledImages pixels(int64_t n, int64_t wrong) {
  LabelledImages data{tt::zeros({n, 1, 28, 28}), {}};
  for (int64_t i = 0; i < n; ++i) {
    const int64_t bright = 7 * i % 10;
    data.images.data<float>()[i * 784 + bright] = 1;
    data.labels.push_back(i < wrong ? (bright + 1) % 10 : bright);
  }
  return data;
}

ContestOptions brief() {
  ContestOptions o;
  o.blocks = 5;
  o.single_seconds = o.batch_seconds = 0;
  o.fewest_single = 3;
  o.fewest_batch = 2;
  o.warm_up.seconds_limit = 0.01;
  o.seed = 4;
  return o;
}

}  // namespace

TEST_CASE("classes_of: the highest score of each row, the first of equals") {
  CHECK(classes_of(tt::from_data<float>({1, 3, 2, 5, 4, 5, -1, -2, -3}, {3, 3})) ==
        std::vector<int64_t>{1, 0, 0});
}

TEST_CASE("accuracy counts every sample once, the last short batch included") {
  const Contestant c = admit(pixel_network("a"), pixels(103, 13), 20, brief());
  CHECK(c.measurement.tested == 103);
  CHECK(c.measurement.correct == 90);
  REQUIRE(c.answers.size() == 103);
  for (int64_t i = 0; i < 103; ++i) CHECK(c.answers[static_cast<size_t>(i)] == 7 * i % 10);
}

TEST_CASE("peak memory: the weights plus what a forward pass keeps alive, more for a batch") {
  const Contestant c = admit(pixel_network("a"), pixels(64, 0), 64, brief());
  const int64_t weights = (7840 + 10) * 4;
  CHECK(c.measurement.peak_bytes_single >= weights + 10 * 4);
  CHECK(c.measurement.peak_bytes_single < weights + 784 * 4 * 4);
  CHECK(c.measurement.peak_bytes_batch >= weights + 64 * 10 * 4);
  CHECK(c.measurement.peak_bytes_batch > c.measurement.peak_bytes_single);
  CHECK(c.network.weight_bytes() == weights);
}

TEST_CASE("a contest gives every entry the same blocks with positive times and right answers") {
  const LabelledImages hidden = pixels(40, 0);
  std::vector<Contestant> contestants;
  for (const char* name : {"a", "b"}) contestants.push_back(admit(pixel_network(name), hidden, 16, brief()));
  run_contest(contestants, hidden, 16, brief());
  for (const Contestant& c : contestants) {
    REQUIRE(c.measurement.blocks.size() == 5);
    for (const Block& b : c.measurement.blocks) {
      CHECK(b.single.size() == 3);
      CHECK(b.batch.size() == 2);
      for (const double t : b.single) CHECK((t > 0 && t < 10));
      for (const double t : b.batch) CHECK((t > 0 && t < 10));
    }
    CHECK(c.measurement.timed_mismatches == 0);
  }
}

TEST_CASE("a timed answer that differs from the graded one is counted") {
  const LabelledImages hidden = pixels(40, 0);
  std::vector<Contestant> contestants;
  contestants.push_back(admit(pixel_network("a"), hidden, 16, brief()));
  for (int64_t& answer : contestants[0].answers) answer = (answer + 1) % 10;
  run_contest(contestants, hidden, 16, brief());
  // Each block: one unrecorded and three single calls, one unrecorded and two batches of 16.
  CHECK(contestants[0].measurement.timed_mismatches == 5 * (4 + 3 * 16));
}
