// How stable ranks are: the same contenders play again and again, beside a load that comes and goes.
//
//   bench_rank_stability --runs 40 --out stability.json           --jobs 8: side by side, with two processors each
//
// Four programs do a known number of steps: one, another that is equal to it, and two that do 3 % and 6 % more. A run is
// a match of all four with the first as the baseline; ranks are those of a leaderboard (by the lower end of the interval,
// those that overlap share one). A competing thread keeps one core busy in bursts of random length. Written are the
// share of runs in which the three different ones stand in their order, and that in which the two equal ones share a rank.
#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <fstream>
#include <memory>
#include <support/steps_benchmark.hpp>
#include <thread>
#include <tinymlperf/judge/match.hpp>
#include <tinymlperf/judge/stage.hpp>
#include <tinymlperf/machine.hpp>
#include <tinytorch/benchmarking/ranking.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

// A plugin of so many thousandths of the task's steps.
std::unique_ptr<Stage> stage_of(int thousandths, const sandbox::Offers& offers) {
  const TemporaryFolder folder;
  const std::filesystem::path task = std::filesystem::path(TINYTORCH_SOURCE_DIR) / "tests/exploits/task.hpp";
  std::filesystem::copy_file(task, folder / "task.hpp");
  // What is beyond the task is work for nothing, so that all give the right answers.
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

// Keeps a core busy in bursts of up to a fifth of a second, about half of the time.
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
  std::vector<int> thousandths;  // of further steps
  std::vector<std::unique_ptr<Stage>> stages;
};

// Ranks in the order of the programs; empty when one of them was out, with the reason on the error output.
std::vector<int64_t> ranks_of(const Programs& programs, const RunClass& run_class, uint64_t seed) {
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
  std::vector<Interval> ratios;
  for (const Contender& c : contenders) {
    if (!c.record.out.empty()) {
      fmt::print(stderr, "out: {}\n", c.record.out);
      return {};
    }
    ratios.push_back(*times_the_baseline(Scenario::single_stream, c.record, contenders.front().record));
  }
  std::vector<int64_t> ranks(ratios.size());
  for (const auto& [index, rank] : tinytorch::statistics::rank_with_ties(ratios)) ranks[index] = rank;
  return ranks;
}

struct Options {
  int64_t runs = 40, jobs = 1;
  double seconds = 10;
  bool quiet = false;
};

// Plays runs first, first + step, ...; the ranks of each, or nothing where somebody was out.
std::vector<std::vector<int64_t>> play(const Options& o, int64_t first, int64_t step) {
  const sandbox::Offers offers = sandbox::probe();
  Programs programs{{0, 0, 32, 64}, {}};
  for (const int t : programs.thousandths) programs.stages.push_back(stage_of(t, offers));
  const RunClass run_class{"ranked", o.seconds, 60, 12, 512, 30, 12};
  std::unique_ptr<Load> load;
  if (!o.quiet) load = std::make_unique<Load>();
  std::vector<std::vector<int64_t>> out;
  for (int64_t r = first; r < o.runs; r += step) {
    out.push_back(ranks_of(programs, run_class, 1000 + 2 * static_cast<uint64_t>(r)));
    fmt::print("run {:3}: ranks {}\n", r + 1, Json(out.back()).dump());
    std::fflush(stdout);
  }
  return out;
}

// Side by side, each with two processors of its own, as if on so many machines.
std::vector<std::vector<int64_t>> play_all(const Options& o) {
  if (o.jobs == 1) return play(o, 0, 1);
  const TemporaryFolder folder;
  for (int64_t j = 0; j < o.jobs; ++j) {
    if (fork() != 0) continue;
    cpu_set_t two;
    CPU_ZERO(&two);
    CPU_SET(static_cast<size_t>(2 * j), &two), CPU_SET(static_cast<size_t>(2 * j + 1), &two);
    if (sched_setaffinity(0, sizeof two, &two) != 0) std::_Exit(1);
    tinytorch::write_file((folder / std::to_string(j)).string(), Json(play(o, j, o.jobs)).dump());
    std::_Exit(0);
  }
  while (wait(nullptr) > 0) continue;
  std::vector<std::vector<int64_t>> out;
  for (int64_t j = 0; j < o.jobs; ++j) {
    std::ifstream file(folder / std::to_string(j));
    for (const Json& ranks : Json::parse(file)) out.push_back(ranks.get<std::vector<int64_t>>());
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("stability of ranks");
  Options o;
  std::string out;
  app.add_option("--runs", o.runs)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--jobs", o.jobs, "side by side, with two processors each")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", o.seconds, "of each contender in a run")->capture_default_str();
  app.add_flag("--quiet", o.quiet, "without the competing load");
  app.add_option("--out", out, "a JSON file");
  CLI11_PARSE(app, argc, argv);

  const auto all = play_all(o);
  int64_t order = 0, strict = 0, equal = 0, played = 0;
  for (const auto& ranks : all) {
    if (ranks.empty()) continue;
    ++played;
    equal += ranks[0] == ranks[1];
    strict += ranks[0] < ranks[2] && ranks[2] < ranks[3];
    order += ranks[0] <= ranks[2] && ranks[2] <= ranks[3];
  }
  const auto share = [&](int64_t count) { return static_cast<double>(count) / static_cast<double>(o.runs); };
  fmt::print(
      "{} of {} runs: the three different ones stand in their order in {:.3f} (none of them sharing a rank "
      "in "
      "{:.3f}), the two equal ones share a rank in {:.3f}\n",
      played, o.runs, share(order), share(strict), share(equal));
  if (!out.empty()) {
    const Json j{{"machine", to_json(describe_machine())},
                 {"runs", o.runs},
                 {"played", played},
                 {"side_by_side", o.jobs},
                 {"seconds_each", o.seconds},
                 {"load", !o.quiet},
                 {"ranks", all},
                 {"in_order", share(order)},
                 {"in_order_without_ties", share(strict)},
                 {"equal_share_a_rank", share(equal)}};
    tinytorch::write_file(out, j.dump() + "\n");
  }
  return played == o.runs ? 0 : 1;
}
