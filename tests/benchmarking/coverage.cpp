// How often intervals hold the truth that say 95 %, in 1,000 simulated runs: what their headers promise, from
// both sides. The standard error of a share near 95 % is 0.7 %. paired_ratio.cpp has the same for ratios.
#include <doctest/doctest.h>

#include <functional>
#include <support/few.hpp>
#include <support/noise.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>

namespace st = tinytorch::statistics;
using tinytorch::Generator;

namespace {

constexpr int kRuns = 1000;

double share_that_holds(double truth, const std::function<st::Interval(int run)>& interval) {
  int held = 0;
  for (int run = 0; run < kRuns; ++run) {
    const st::Interval i = interval(run);
    held += i.low <= truth && truth <= i.high;
  }
  return static_cast<double>(held) / kRuns;
}

// Of a call's time, over the whole session where the machine drifts.
double true_median(Noise noise) {
  Generator random(99);
  return st::median(noise_factors(noise, 400'001, random));
}

// bootstrap_median of so many calls one after the other, as the timer has them.
double median_coverage(Noise noise, size_t calls) {
  Generator random(3000 + static_cast<uint64_t>(noise));
  return share_that_holds(true_median(noise), [&](int run) {
    const auto seconds = noise_factors(noise, calls, random);
    return st::bootstrap_median(seconds, {.draws = 200, .seed = static_cast<uint64_t>(run)});
  });
}

// Processes one after the other, 15 calls in each: what differs between them, beside the calls' own noise.
enum class Between { kNormal, kDrift, kBimodal };

// Median of all calls of all processes that there could be. In logarithms: a process's center, and 0.5 % for
// a call.
std::vector<std::vector<double>> processes_of(Between between, size_t count, Generator& random) {
  std::vector<std::vector<double>> out(count, std::vector<double>(15));
  for (size_t i = 0; i < count; ++i) {
    double center = 0.02 * normal_number(random);
    if (between == Between::kDrift)
      center += 0.03 * (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    if (between == Between::kBimodal) center += random.uniform() < 0.3 ? 0.05 : 0;
    for (double& x : out[i]) x = center + 0.005 * normal_number(random);
  }
  return out;
}

double hierarchical_coverage(Between between, size_t count) {
  Generator random(4000 + static_cast<uint64_t>(between));
  std::vector<double> all;
  for (const auto& process : processes_of(between, 20'000, random))
    all.insert(all.end(), process.begin(), process.end());
  return share_that_holds(st::median(all), [&](int run) {
    return st::bootstrap_hierarchical_median(processes_of(between, count, random),
                                             {.draws = 150, .seed = static_cast<uint64_t>(run)});
  });
}

}  // namespace

TEST_CASE("the median of independent calls: 93 to 97 %, whatever their distribution" *
          test::repeats_for_minutes()) {
  for (const Noise noise : {Noise::kLognormal, Noise::kHeavyTails, Noise::kBimodal}) {
    const double share = median_coverage(noise, 61);
    CAPTURE(name_of(noise));
    CAPTURE(share);
    CHECK(share >= 0.93);
    CHECK(share <= 0.97);
    const double few = median_coverage(noise, 11);
    CAPTURE(few);
    CHECK(few >= 0.91);
    CHECK(few <= 0.96);
  }
}

TEST_CASE("the median of calls that are not independent: why its header says what it is") {
  CHECK(median_coverage(Noise::kLinearDrift, 61) > 0.98);
  const double bursts = median_coverage(Noise::kBursts, 61);
  CAPTURE(bursts);
  CHECK(bursts >= 0.70);
  CHECK(bursts <= 0.82);
}

TEST_CASE("the hierarchical median of 30 processes: 93 to 97 %, under drift and in two modes as well" *
          test::repeats_for_minutes()) {
  for (const Between between : {Between::kNormal, Between::kDrift, Between::kBimodal}) {
    const double share = hierarchical_coverage(between, 30);
    CAPTURE(static_cast<int>(between));
    CAPTURE(share);
    CHECK(share >= 0.93);
    CHECK(share <= 0.97);
  }
}
