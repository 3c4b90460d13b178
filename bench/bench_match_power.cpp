// Coverage and power of the ranks of a ranked match, in simulated matches of two entries:
//
//     bench_match_power --json bench/results/match_power.json
//     bench_match_power --record 240     also on the noise of this machine, recorded for so many seconds
//
// Two equal entries must have different ranks in at most 5 % of the matches (and two standard errors of that
// share), and entries that differ by 5 % must be ranked in their order in at least 90 %; otherwise the exit
// status is 1. Entries take 2, 5 and 35 ms for a query. The simulated noise has drift, bursts in spells,
// heavy tails, and an offset of each process (tests/support/simulated_match.hpp). Recorded noise is that of a
// fixed piece of work that this program repeats, for longer than a match, which takes about 120 s.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/results_file.hpp>
#include <support/simulated_match.hpp>
#include <tinymlperf/support/machine.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/benchmarking/statistics.hpp>

using namespace tinymlperf;

namespace {

constexpr double kSlice = 1e-3;

// Seconds of a piece of work that takes about `kSlice`, as shares of their median.
std::vector<double> record_noise(double seconds) {
  const tinytorch::benchmarking::SteadyClock clock;
  volatile double number = 3;  // the compiler must not know it, since all others follow from it
  const auto work = [&](int64_t steps) {
    const double start = clock();
    double x = number;
    for (int64_t i = 0; i < steps; ++i) x = x * 0.5 + 0.5;
    number = x + 2;
    return clock() - start;
  };
  double best = 1;
  for (int i = 0; i < 50; ++i) best = std::min(best, work(100'000));
  const auto steps = static_cast<int64_t>(100'000 * kSlice / best);
  std::vector<double> out;
  for (const double end = clock() + seconds; clock() < end;) out.push_back(work(steps));
  const double usual = tinytorch::statistics::median(out);
  for (double& x : out) x /= usual;
  return out;
}

struct Options {
  int64_t matches = 1000;
  double record = 0;
  uint64_t seed = 1;
  std::string json, commit;
};

// Prints and returns one row for each kind of entry; `noise(random)` makes the noise of one match.
template <class MakeNoise>
Json rows_of(const Options& o, uint64_t seed, const char* name, bool& good, MakeNoise&& noise) {
  Json rows = Json::array();
  for (const double seconds : {2e-3, 5e-3, 35e-3}) {
    const auto of = [&](double ratio) {
      return test::separation(judge::kRanked, {seconds, ratio}, o.matches, seed++, noise);
    };
    const test::Separation equal = of(1), three = of(1.03), five = of(1.05);
    const double most = 0.05 + 2 * std::sqrt(0.05 * 0.95 / static_cast<double>(o.matches));
    good = good && equal.share() <= most && five.power() >= 0.90;
    fmt::print("{:9} {:2.0f} ms a query: equal entries apart {:.3f}; in order at 3 % {:.3f}, at 5 % {:.3f}\n",
               name, seconds * 1e3, equal.share(), three.power(), five.power());
    std::fflush(stdout);
    rows.push_back({{"noise", name},
                    {"seconds", seconds},
                    {"equal_apart", equal.share()},
                    {"in_order_3_percent", three.power()},
                    {"in_order_5_percent", five.power()}});
  }
  return rows;
}

int run(int argc, char** argv) {
  CLI::App app("Coverage and power of the ranks of a ranked match");
  Options o;
  app.add_option("--matches", o.matches)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--record", o.record,
                 "seconds for which the noise of this machine is recorded; 0: not at all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", o.seed)->capture_default_str();
  app.add_option("--json", o.json, "JSON file for the results");
  app.add_option("--commit", o.commit, "commit that was built, for the JSON file");
  CLI11_PARSE(app, argc, argv);

  const bench::ResultsFile file(o.json);
  bool good = true;
  Json rows = rows_of(o, o.seed, "simulated", good,
                      [](tinytorch::Generator& random) { return test::MachineNoise(random); });
  if (o.record > 0) {
    const std::vector<double> factors = record_noise(o.record);
    for (const double percent : {50.0, 90.0, 99.0, 99.9})
      fmt::print("recorded: {:g} % of slices take up to {:.3f} times the median\n", percent,
                 tinytorch::statistics::percentile(factors, percent));
    for (Json& row : rows_of(o, o.seed + 100, "recorded", good, [&](tinytorch::Generator& random) {
           return test::RecordedNoise(factors, kSlice, random);
         }))
      rows.push_back(std::move(row));
  }
  file.finish({{"machine", to_json(describe_machine())},
               {"commit", o.commit},
               {"matches", o.matches},
               {"seed", o.seed},
               {"class", judge::kRanked.name},
               {"blocks", judge::kRanked.blocks},
               {"rounds", judge::kRanked.rounds},
               {"seconds_each", judge::kRanked.seconds},
               {"recorded_seconds", o.record},
               {"rows", rows}});
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_match_power", [&] { return run(argc, argv); });
}
