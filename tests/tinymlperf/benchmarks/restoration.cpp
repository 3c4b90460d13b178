#include <tinymlperf/benchmarks/restoration.hpp>

#include <doctest/doctest.h>

#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("a clip's score is the mean squared error over its windows, however many clips there are") {
  // Window w of 2 numbers holds w; what restores it is off by w of clip / 12.
  for (const int64_t clips : {1, 2, 300}) {
    const int64_t windows = clips * 12;
    std::vector<float> values;
    for (int64_t w = 0; w < windows; ++w) values.insert(values.end(), 2, static_cast<float>(w / 12));
    const tt::Tensor x = tt::from_data(values, {windows, 2});
    const tt::Tensor scores =
        tinymlperf::restoration_errors([](const tt::Tensor& some) { return some * 1.5; }, x);
    REQUIRE(scores.shape() == tt::Shape{clips});
    const auto found = scores.to_vector<double>();
    for (int64_t c = 0; c < clips; ++c)
      CHECK(found[static_cast<size_t>(c)] == doctest::Approx(0.25 * static_cast<double>(c * c)));
  }
}
