// The coverage of 95 % intervals in 1,000 simulated runs, compared with the values in the headers, from both
// sides. The standard error of a coverage near 95 % is 0.7 %. paired_ratio.cpp tests ratios in the same way.
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

// The true median of a call's time over the whole session, if the machine drifts.
double true_median(Noise noise) {
  Generator random(99);
  return st::median(noise_factors(noise, 400'001, random));
}

// bootstrap_median of consecutive calls, as in the timer.
double median_coverage(Noise noise, size_t calls) {
  Generator random(3000 + static_cast<uint64_t>(noise));
  return share_that_holds(true_median(noise), [&](int run) {
    const auto seconds = noise_factors(noise, calls, random);
    return st::bootstrap_median(seconds, {.draws = 200, .seed = static_cast<uint64_t>(run)});
  });
}

// Consecutive processes of 15 calls each. Processes differ from each other, in addition to the noise of
// calls.
enum class Between { kNormal, kDrift, kBimodal };

// The true median over all possible processes and calls. In logarithms a call is the center of its process
// plus 0.5 % noise.
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

TEST_CASE("the median of independent calls: coverage of 93 to 97 % for all distributions" *
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

TEST_CASE("the median of dependent calls: coverage as documented in bootstrap.hpp") {
  CHECK(median_coverage(Noise::kLinearDrift, 61) > 0.98);
  const double bursts = median_coverage(Noise::kBursts, 61);
  CAPTURE(bursts);
  CHECK(bursts >= 0.70);
  CHECK(bursts <= 0.82);
}

TEST_CASE("the hierarchical median of 30 processes: coverage of 93 to 97 %, with drift and two modes" *
          test::repeats_for_minutes()) {
  for (const Between between : {Between::kNormal, Between::kDrift, Between::kBimodal}) {
    const double share = hierarchical_coverage(between, 30);
    CAPTURE(static_cast<int>(between));
    CAPTURE(share);
    CHECK(share >= 0.93);
    CHECK(share <= 0.97);
  }
}
