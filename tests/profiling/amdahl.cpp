// Amdahl's law with values computed by hand, and profiles before and after a change.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/profiling/amdahl.hpp>

using namespace tinytorch::profiling;

namespace {

Profile profile_of(double part, double rest, double between) {
  Profile p;
  p.scopes = {{"", -1, 0, 0}};
  for (const auto& [name, seconds] : {std::pair{"matmul", part / 2}, {"matmul", part / 2}, {"add", rest}}) {
    OpRecord op;
    op.name = name;
    op.device_seconds = seconds;
    p.ops.push_back(op);
  }
  p.ops[1].backward = true;
  p.seconds = part + rest + between;
  return p;
}

}  // namespace

TEST_CASE("amdahl_speedup and amdahl_bound give textbook values") {
  CHECK(amdahl_speedup(0.5, 2) == doctest::Approx(4.0 / 3));
  CHECK(amdahl_speedup(0.95, 20) == doctest::Approx(1 / (0.05 + 0.0475)));
  CHECK(amdahl_speedup(0, 10) == 1);
  CHECK(amdahl_speedup(1, 10) == doctest::Approx(10));
  CHECK(amdahl_bound(0.95) == doctest::Approx(20));
  CHECK(std::isinf(amdahl_bound(1)));
}

TEST_CASE("a change of one part alone has the predicted speedup") {
  const AmdahlCheck c = check_amdahl(profile_of(6, 3, 1), profile_of(2, 3, 1), "matmul");
  CHECK(c.share == doctest::Approx(0.6));
  CHECK(c.factor == doctest::Approx(3));
  CHECK(c.bound == doctest::Approx(2.5));
  CHECK(c.predicted == doctest::Approx(10.0 / 6));
  CHECK(c.measured == doctest::Approx(c.predicted));
  CHECK(c.rest_seconds == doctest::Approx(0));
}

TEST_CASE("a change that slows down the rest is below the prediction, and the added time is reported") {
  const AmdahlCheck c = check_amdahl(profile_of(6, 3, 1), profile_of(2, 4, 1.5), "matmul");
  CHECK(c.measured < c.predicted);
  CHECK(c.rest_seconds == doctest::Approx(1.5));
}

TEST_CASE("a part that takes no time afterwards reaches the bound; a part without time before throws") {
  const AmdahlCheck c = check_amdahl(profile_of(6, 3, 1), profile_of(0, 3, 1), "matmul");
  CHECK(std::isinf(c.factor));
  CHECK(c.predicted == doctest::Approx(c.bound));
  CHECK(errors::thrown_by([] { check_amdahl(profile_of(1, 1, 1), profile_of(1, 1, 1), "conv"); }).code ==
        "TT-PROF-01");
}
