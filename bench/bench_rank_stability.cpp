// Stability of ranks: repeats a match of the same four programs while another thread loads the machine.
//
//     bench_rank_stability --runs 40 --out stability.json
//     bench_rank_stability --runs 40 --jobs 8      eight concurrent jobs with two processors each
// Two programs do the same number of steps; the third and the fourth do 3.2 % and 6.4 % more. Ranks are those
// of judge/match_ranks.hpp. The competing thread keeps one core busy in bursts of random length. Required: in
// 95 % of the runs the three different programs have distinct ranks in the right order, and in 90 % the two
// equal programs share a rank. Otherwise the exit status is 1. For comparison the results also contain the
// ranks by confidence intervals of the ratio to the baseline. A leaderboard ranks that way, because its
// entries were measured only against the baseline.
#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <common/guarded.hpp>
#include <common/results_file.hpp>
#include <fstream>
#include <memory>
#include <support/steps_benchmark.hpp>
#include <thread>
#include <tinymlperf/judge/match/match.hpp>
#include <tinymlperf/judge/match/stage.hpp>
#include <tinymlperf/judge/results/match_ranks.hpp>
#include <tinymlperf/support/machine.hpp>
#include <tinytorch/benchmarking/ranking.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tree/source_folder.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

// A plugin that does thousandths / 1000 of the task's steps in addition to them.
std::unique_ptr<Stage> stage_of(int thousandths, const sandbox::Offers& offers) {
  const TemporaryFolder folder;
  const std::filesystem::path task =
      std::filesystem::path(tinytorch_tree::kSourceFolder) / "tests/exploits/task.hpp";
  std::filesystem::copy_file(task, folder / "task.hpp");
  // The result of the additional steps is discarded, so that all programs give the right answers.
  std::ofstream(folder / kPluginFile) << fmt::format(
      R"(#include "task.hpp"
int main() {{
  return tinymlperf::serve([](const tinymlperf::Query& query) {{
    const auto more = task::answers(query, {} * task::kSteps / 1000);
    asm volatile("" : : "r"(more.data()) : "memory");
    return task::as_tensors(task::answers(query));
  }});
}})",
      thousandths);
  return std::make_unique<Stage>(folder / "", offers);
}

// A thread that keeps a core busy about half of the time, in bursts of up to 0.2 s.
class Load {
 public:
  Load() : thread_([this] { run(); }) {}
  ~Load() {
    stop_ = true;
    thread_.join();
  }

 private:
  void run() {
    tinytorch::Generator random(1);
    const tinytorch::benchmarking::SteadyClock clock;
    while (!stop_) {
      const double end = clock() + random.uniform(0.0, 0.2);
      while (clock() < end && !stop_) continue;
      std::this_thread::sleep_for(std::chrono::duration<double>(random.uniform(0.0, 0.2)));
    }
  }
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

struct Programs {
  std::vector<int> thousandths;  // additional steps, in thousandths of the task's
  std::vector<std::unique_ptr<Stage>> stages;
};

struct Ranks {  // one rank per program
  std::vector<int64_t> by_blocks, by_intervals;
};

// Plays one match. Both lists are empty if a program was disqualified; the reason goes to stderr.
Ranks ranks_of(const Programs& programs, const RunClass& run_class, uint64_t seed) {
  test::StepsBenchmark main, fresh;
  main.draw(run_class.hidden, seed);
  fresh.draw(run_class.hidden, seed + 1);
  std::vector<Contender> contenders;
  for (const auto& stage : programs.stages) {
    contenders.push_back({});
    contenders.back().start = [&stage] { return stage->start(); };
    contenders.back().session = stage->start();
  }
  Match({main, fresh}, Scenario::single_stream, run_class, seed)(contenders);
  RunDocument document;
  std::vector<Interval> ratios;
  for (Contender& c : contenders) {
    if (!c.record.out.empty()) {
      fmt::print(stderr, "bench_rank_stability: a program was disqualified: {}\n", c.record.out);
      return {};
    }
    document.contenders.push_back(std::move(c.record));
    ratios.push_back(*times_the_baseline(Scenario::single_stream, document.contenders.back(),
                                         document.contenders.front()));
  }
  Ranks ranks;
  for (const auto& rank : match_ranks(document)) ranks.by_blocks.push_back(rank.value());
  ranks.by_intervals.resize(ratios.size());
  for (const auto& [index, rank] : tinytorch::statistics::rank_with_ties(ratios))
    ranks.by_intervals[index] = rank;
  return ranks;
}

// Ranks of all runs, and the shares of runs in which they are right.
struct Shares {
  std::vector<std::vector<int64_t>> all = {};
  int64_t played = 0, apart = 0, in_order = 0, equal = 0;

  void add(const std::vector<int64_t>& ranks) {
    all.push_back(ranks);
    if (ranks.empty()) return;
    ++played;
    apart += ranks[0] < ranks[2] && ranks[2] < ranks[3];
    in_order += ranks[0] <= ranks[2] && ranks[2] <= ranks[3];
    equal += ranks[0] == ranks[1];
  }
  double of(int64_t count) const { return static_cast<double>(count) / static_cast<double>(all.size()); }
  Json json() const {
    return {{"ranks", all},
            {"three_apart_in_order", of(apart)},
            {"in_order_or_shared", of(in_order)},
            {"equal_share_a_rank", of(equal)}};
  }
};

struct Options {
  int64_t runs = 40, jobs = 1;
  double seconds = 10;
  bool quiet = false, real_time = true;
};

// Plays the runs first, first + step, ... and returns both lists of ranks of each run.
Json play(const Options& o, int64_t first, int64_t step, const bench::ResultsFile& file) {
  sandbox::Offers offers = sandbox::probe();
  if (o.real_time) sandbox::probe_real_time(offers);
  Programs programs{{0, 0, 32, 64}, {}};
  for (const int t : programs.thousandths) programs.stages.push_back(stage_of(t, offers));
  const RunClass run_class{"ranked", o.seconds, 60, 12, 512, 30, 12};
  std::unique_ptr<Load> load;
  if (!o.quiet) load = std::make_unique<Load>();
  Json out = Json::array();
  for (int64_t r = first; r < o.runs; r += step) {
    const Ranks ranks = ranks_of(programs, run_class, 1000 + 2 * static_cast<uint64_t>(r));
    out.push_back({ranks.by_blocks, ranks.by_intervals});
    fmt::print("run {:3}: ranks {}, by intervals {}\n", r + 1, Json(ranks.by_blocks).dump(),
               Json(ranks.by_intervals).dump());
    std::fflush(stdout);
    file.keep(out);
  }
  return out;
}

// Plays the runs in `jobs` concurrent processes, each pinned to two processors of its own.
Json play_all(const Options& o, const bench::ResultsFile& file) {
  if (o.jobs == 1) return play(o, 0, 1, file);
  const TemporaryFolder folder;
  for (int64_t j = 0; j < o.jobs; ++j) {
    if (fork() != 0) continue;
    cpu_set_t two;
    CPU_ZERO(&two);
    CPU_SET(static_cast<size_t>(2 * j), &two), CPU_SET(static_cast<size_t>(2 * j + 1), &two);
    if (sched_setaffinity(0, sizeof two, &two) != 0) std::_Exit(1);
    const bench::ResultsFile mine((folder / std::to_string(j)).string());
    mine.finish(play(o, j, o.jobs, mine));
    std::_Exit(0);
  }
  while (wait(nullptr) > 0) continue;
  Json out = Json::array();
  for (int64_t j = 0; j < o.jobs; ++j) {
    const bench::ResultsFile its((folder / std::to_string(j)).string());
    std::filesystem::path path = folder / std::to_string(j);
    // The job ended early. Its finished runs count; main() fails because runs are missing.
    if (!std::filesystem::exists(path)) {
      fmt::print(stderr, "bench_rank_stability: job {} ended before its last run\n", j + 1);
      path = its.partial();
    }
    if (std::ifstream results(path); results)
      for (Json& ranks : Json::parse(results)) out.push_back(std::move(ranks));
    file.keep(out);
  }
  return out;
}

int run(int argc, char** argv) {
  CLI::App app("Stability of the ranks of a match");
  Options o;
  std::string out, commit;
  app.add_option("--runs", o.runs)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--jobs", o.jobs, "concurrent processes, with two processors each")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", o.seconds, "seconds of each program in a run")->capture_default_str();
  app.add_flag("--quiet", o.quiet, "without the competing load");
  app.add_flag("!--no-real-time", o.real_time,
               "without real-time priority, so that the load interrupts the match");
  app.add_option("--out", out, "JSON file for the results");
  app.add_option("--commit", commit, "commit that was built, for the JSON file");
  CLI11_PARSE(app, argc, argv);

  Shares blocks, intervals;
  const bench::ResultsFile file(out);
  for (const Json& run : play_all(o, file)) {
    blocks.add(run.at(0).get<std::vector<int64_t>>());
    intervals.add(run.at(1).get<std::vector<int64_t>>());
  }
  fmt::print(
      "{} of {} runs: the three different programs have distinct ranks in the right order in a share of "
      "{:.3f} (by "
      "intervals {:.3f}); the two equal programs share a rank in {:.3f}\n",
      blocks.played, o.runs, blocks.of(blocks.apart), intervals.of(intervals.apart), blocks.of(blocks.equal));
  file.finish({{"machine", to_json(describe_machine())},
               {"commit", commit},
               {"runs", o.runs},
               {"played", blocks.played},
               {"side_by_side", o.jobs},
               {"seconds_each", o.seconds},
               {"load", !o.quiet},
               {"real_time", o.real_time},
               {"match", blocks.json()},
               {"by_intervals", intervals.json()}});
  const bool stable = blocks.of(blocks.apart) >= 0.95 && blocks.of(blocks.equal) >= 0.90;
  return blocks.played == o.runs && stable ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_rank_stability", [&] { return run(argc, argv); });
}
