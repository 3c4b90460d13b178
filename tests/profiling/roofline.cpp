// The roofline with values computed by hand, at its ridge and on both sides.
#include <doctest/doctest.h>

#include <tinytorch/profiling/roofline.hpp>

using namespace tinytorch::profiling;
using tinytorch::Cost;

namespace {
const MachinePeaks kMachine{100e9, 20e9, 1e-6, "a machine"};  // ridge at 5 FLOP per byte
}

TEST_CASE("attainable FLOP/s grow with the intensity up to the ridge") {
  CHECK(kMachine.ridge() == 5);
  CHECK(attainable(1, kMachine) == 20e9);
  CHECK(attainable(5, kMachine) == 100e9);
  CHECK(attainable(500, kMachine) == 100e9);
  CHECK(attainable(0, kMachine) == 0);
}

TEST_CASE("floor_seconds is the time of the slower of arithmetic and memory") {
  CHECK(floor_seconds({100e9, 1}, kMachine) == 1);
  CHECK(floor_seconds({1, 20e9}, kMachine) == 1);
  CHECK(floor_seconds({100e9, 40e9}, kMachine) == 2);
}

TEST_CASE("limit_of is memory, compute, or overhead for very small work") {
  CHECK(limit_of({1e9, 1e9}, 1, kMachine) == Limit::memory);
  CHECK(limit_of({10e9, 1e9}, 1, kMachine) == Limit::compute);
  CHECK(limit_of({10e9, 1e9}, 1000000, kMachine) == Limit::overhead);  // 100 ns per call
  CHECK(limit_of({0, 0}, 3, kMachine) == Limit::overhead);
  CHECK(limit_of({0, 1e9}, 1, kMachine) == Limit::memory);
  CHECK(std::string(name_of(Limit::overhead)) == "overhead");
  CHECK(std::string(name_of(Limit::compute)) == "compute");
}

TEST_CASE("share_of_limit is 1 for a row at the machine's limit") {
  ProfileRow row;
  row.calls = 2;
  row.cost = {1e9, 20e9};
  row.seconds = 4;
  CHECK(share_of_limit(row, kMachine) == 0.25);
  CHECK(limit_of(row, kMachine) == Limit::memory);
  row.seconds = 0;
  CHECK(share_of_limit(row, kMachine) == 0);
}
