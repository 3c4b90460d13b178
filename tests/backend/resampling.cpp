#include <tinytorch/backend/resampling.hpp>

#include <doctest/doctest.h>

using tinytorch::backend::ResampledElement;
using tinytorch::backend::Resampling;

TEST_CASE("an output lies between two elements, and at the borders it is the first or the last one") {
  const Resampling twice{3, 6, 0.5, false, false};
  const ResampledElement want[] = {{0, 1, 0},    {0, 1, 0.25}, {0, 1, 0.75},
                                   {1, 2, 0.25}, {1, 2, 0.75}, {2, 2, 0.25}};
  for (int64_t i = 0; i < 6; ++i) {
    const ResampledElement e = twice.at(i);
    CHECK(e.low == want[i].low);
    CHECK(e.high == want[i].high);
    CHECK(e.fraction == want[i].fraction);
  }
}

TEST_CASE("nearest takes the lower element; corners map the last output to the last element") {
  const Resampling nearest{5, 3, 5.0 / 3};
  CHECK(nearest.at(0).low == 0);
  CHECK(nearest.at(1).low == 1);
  CHECK(nearest.at(2).low == 3);
  CHECK(nearest.at(2).high == 3);
  const Resampling corners{4, 7, 0.5, false, true};
  CHECK(corners.at(3).low == 1);
  CHECK(corners.at(3).fraction == 0.5);
  CHECK(corners.at(6).low == 3);
  CHECK(corners.at(6).fraction == 0);
}
