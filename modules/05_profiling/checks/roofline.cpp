#include <support/check.hpp>
#include <tinytorch/profiling/roofline.hpp>

using namespace course;
using namespace profiling;

namespace {

const MachinePeaks kMachine{100e9, 20e9, 1e-6, "a machine of 100 GFLOP/s and 20 GB/s"};

void expect_value(const std::string& what, double got, double want, const std::string& guess = "") {
  expect(what + ": " + shown(want) + ", got " + shown(got), std::abs(got - want) <= 1e-12 * std::abs(want),
         guess);
}
void expect_limit(const std::string& what, Cost cost, int64_t calls, Limit want) {
  expect_equal(what, std::string(name_of(limit_of(cost, calls, kMachine))), std::string(name_of(want)));
}

}  // namespace

TEST_CASE("5.6 the ridge, and the attainable rate on both sides of it") {
  expect_value("ridge of 100 GFLOP/s and 20 GB/s, FLOP per byte", kMachine.ridge(), 5,
               "divide the arithmetic peak by the bandwidth");
  expect_value("attainable at 1 FLOP per byte", attainable(1, kMachine), 20e9,
               "20e9 bytes arrive per second, and each byte gives one FLOP");
  expect_value("attainable at 4.75 FLOP per byte", attainable(4.75, kMachine), 95e9);
  expect_value("attainable at the ridge, 5 FLOP per byte", attainable(5, kMachine), 100e9);
  expect_value("attainable at 5.25 FLOP per byte", attainable(5.25, kMachine), 100e9,
               "not more than the peak");
  expect_value("attainable at 500 FLOP per byte", attainable(500, kMachine), 100e9);
  expect_value("attainable at 0 FLOP per byte", attainable(0, kMachine), 0);
}

TEST_CASE("5.6 the lower bound of the time is the larger of arithmetic and memory time") {
  expect_value("floor_seconds of 100 GFLOP and 1 byte", floor_seconds({100e9, 1}, kMachine), 1);
  expect_value("floor_seconds of 1 FLOP and 20 GB", floor_seconds({1, 20e9}, kMachine), 1);
  expect_value("floor_seconds of 100 GFLOP and 40 GB", floor_seconds({100e9, 40e9}, kMachine), 2,
               "both overlap: 1 s of arithmetic is hidden behind 2 s of memory traffic");
  expect_value("floor_seconds of no work", floor_seconds({0, 0}, kMachine), 0);
}

TEST_CASE("5.6 floor_seconds and attainable agree") {
  for (const double intensity : {0.1, 1.0, 4.9, 5.0, 5.1, 80.0}) {
    const Cost cost{intensity * 3e9, 3e9};
    expect_value("FLOPs over floor_seconds at " + shown(intensity) + " FLOP per byte equals attainable()",
                 cost.flops / floor_seconds(cost, kMachine), attainable(intensity, kMachine));
  }
}

TEST_CASE("5.6 the limit is memory, arithmetic or overhead") {
  expect_limit("limit of 1 GFLOP over 1 GB", {1e9, 1e9}, 1, Limit::memory);
  expect_limit("limit of 10 GFLOP over 1 GB", {10e9, 1e9}, 1, Limit::compute);
  expect_limit("limit of 4.9 GFLOP over 1 GB, left of the ridge", {4.9e9, 1e9}, 1, Limit::memory);
  expect_limit("limit of 5.1 GFLOP over 1 GB, right of the ridge", {5.1e9, 1e9}, 1, Limit::compute);
  expect_limit("limit of 5 GFLOP over 1 GB, on the ridge", {5e9, 1e9}, 1, Limit::memory);
  expect_limit("limit of 1 GB alone", {0, 1e9}, 1, Limit::memory);
  expect_limit("limit of 1 GFLOP alone", {1e9, 0}, 1, Limit::compute);
  expect_limit("limit of 10 GFLOP in a million calls, of 0.1 us each where an op takes 1 us", {10e9, 1e9},
               1000000, Limit::overhead);
  expect_limit("limit of 10 GFLOP in 1000 calls, of 100 us each", {10e9, 1e9}, 1000, Limit::compute);
  expect_limit("limit of 1 GB in 100,000 calls, of 0.5 us each", {1, 1e9}, 100000, Limit::overhead);
  expect_limit("limit of calls without work", {0, 0}, 3, Limit::overhead);
  expect_limit("limit of no calls", {0, 0}, 0, Limit::overhead);
}

TEST_CASE("5.6 the share of the limit that a row reaches") {
  ProfileRow row;
  row.calls = 2;
  row.cost = {1e9, 20e9};
  row.seconds = 4;
  expect_value("share_of_limit of 20 GB in 4 s, which need at least 1 s", share_of_limit(row, kMachine), 0.25,
               "divide the lower bound of the time by the measured time");
  row.cost = {300e9, 20e9};
  expect_value("share_of_limit of 300 GFLOP and 20 GB in 4 s", share_of_limit(row, kMachine), 0.75);
  row.seconds = 3;
  expect_value("share_of_limit at the limit", share_of_limit(row, kMachine), 1);
  row.seconds = 0;
  expect_value("share_of_limit of a row without time", share_of_limit(row, kMachine), 0);
}
