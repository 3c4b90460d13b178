// Honest submissions beside a load: each control of tests/exploits plays matches while threads keep the
// processors busy, and none may be thrown out.
//
//     bench_honest_controls --runs 40 --load 8 --json out.json
//     taskset -c 0,1 bench_honest_controls --runs 5 --first 35     the last five of them, on two processors
//
// Controls: the honest submission in three scenarios and beside itself, the honest walk through a large
// table, an honest generation, honest training and the honest kernels. A run passes, is held for review, or
// is thrown out. The exit status is 1 if a run was thrown out. A control that is ranked faster or slower than
// itself counts as "apart".
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <support/small_tasks.hpp>
#include <support/staged_exploit.hpp>
#include <support/steps_benchmark.hpp>
#include <thread>
#include <tinymlperf/benchmarks/digits.hpp>
#include <tinymlperf/benchmarks/language.hpp>
#include <tinymlperf/board/store/ranking.hpp>
#include <tinymlperf/commands/run_kernels.hpp>
#include <tinymlperf/judge/match/match.hpp>
#include <tinymlperf/judge/match/play_training.hpp>
#include <tinymlperf/judge/results/quality_gate.hpp>
#include <tinymlperf/sandbox/priority.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

// Threads that are always busy.
class Load {
 public:
  explicit Load(int64_t threads) {
    for (int64_t t = 0; t < threads; ++t)
      threads_.emplace_back([this] {
        while (!stop_) continue;
      });
  }
  ~Load() {
    stop_ = true;
    for (std::thread& t : threads_) t.join();
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// The verdict of a match on the control.
struct Verdict {
  std::string out, held;  // why it was thrown out; why it is held
  bool apart = false;     // it was told apart from itself
};

// As a ranked run, a match of turns has real-time priority where the machine allows it.
const Stage& staged(const std::string& name, bool turns = true) {
  static const sandbox::Offers offers = sandbox::probe();
  static const sandbox::Offers raised = [] {
    sandbox::Offers all = offers;
    sandbox::probe_real_time(all);
    return all;
  }();
  return test::staged_exploit(name, turns ? raised : offers);
}

// The model of the generating control is small, so its quality is not tested.
class EasyText final : public LanguageBenchmark {
 public:
  double floor() const override { return -2; }
};

// A match of `name` beside `baseline`, which is honest, too.
template <class OfBenchmark>
Verdict play(const std::string& baseline, const std::string& name, Scenario scenario, double seconds,
             uint64_t seed) {
  const RunClass ranked{"ranked", seconds, 60, 12, 512, 30, 12, 1800, 20};
  OfBenchmark main, fresh;
  main.draw(ranked.hidden, seed), fresh.draw(ranked.hidden, seed + 1);
  std::vector<Contender> contenders;
  for (const std::string& each : {baseline, name}) {
    Contender& c = contenders.emplace_back();
    c.record.name = each;
    c.start = [stage = &staged(each)] { return stage->start(); };
    c.session = c.start();
  }
  Match({main, fresh}, scenario, ranked, seed)(contenders);
  RunDocument d;
  d.scenario = scenario;
  d.quality_metric = main.metric(), d.quality_floor = main.floor();
  for (Contender& c : contenders) d.contenders.push_back(std::move(c.record));
  Verdict v;
  for (const ContenderRecord& c : d.contenders) {
    const GateResult gate = quality_gate(d, c);
    if (!gate.passed) v.out = gate.reason;
    for (const AuditResult& a : c.audits)
      if (!is_decided(a)) v.held = a.id + ": " + a.detail;
  }
  const auto ratio = times_the_baseline(scenario, d.contenders[1], d.contenders[0]);
  v.apart = ratio && baseline == name && (ratio->low > 1 || ratio->high < 1);
  return v;
}

Verdict train(uint64_t seed) {
  const std::unique_ptr<Benchmark> benchmark = make_benchmark("ttq-dig");
  benchmark->draw(300, seed);
  const channel::Tensors data = tinymlperf::detail::lesson(*benchmark, 1000);
  const TrainingRules rules{.target = 0.4, .seconds = 30};
  std::vector<TrainingContender> contenders(2);
  for (TrainingContender& c : contenders) {
    c.record.name = "ttq_honest", c.record.tier = "T2";
    c.start = [&] {
      auto session = staged("benchmarks/ttq_honest", false).start();
      session->prepare("ttq-dig", 30);
      return std::make_unique<PluginLearner>(std::move(session), data, benchmark->answer_size());
    };
  }
  TrainingMatch(*benchmark, rules, 5, "open", seed)(contenders);
  Verdict v;
  for (const TrainingContender& c : contenders)
    if (!c.record.out.empty()) v.out = c.record.out;
  return v;
}

Verdict kernels_of(uint64_t seed) {
  using namespace tinymlperf::judge::kernels;
  std::vector<KernelContender> contenders(1);
  contenders[0].record.name = "honest";
  contenders[0].session = staged("kernels/honest").start();
  KernelMatch(test::small_tasks({"softmax", "matmul", "sum_rows", "quantize_rows", "gemm_int8", "spmm_24"}, 8,
                                32, 29),
              KernelClass{"short", 6, 1, 10}, seed)(contenders);
  Verdict v;
  v.out = contenders[0].record.out;
  for (const OpRecord& op : contenders[0].record.ops)
    if (op.state != "right") v.out = op.op + ": " + op.reason;
  return v;
}

struct Control {
  std::string name;
  std::function<Verdict(uint64_t seed)> play;
};
std::vector<Control> all_controls(double seconds) {
  std::vector<Control> all;
  for (const Scenario s : {Scenario::single_stream, Scenario::multi_stream, Scenario::offline})
    all.push_back({"honest, " + std::string(name_of(s)), [=](uint64_t seed) {
                     return ::play<test::StepsBenchmark>("honest", "honest", s, seconds, seed);
                   }});
  all.push_back({"a large table", [=](uint64_t seed) {
                   return ::play<test::StepsBenchmark>("honest", "table_honest", Scenario::single_stream,
                                                       seconds, seed);
                 }});
  all.push_back({"generation", [=](uint64_t seed) {
                   return ::play<EasyText>("benchmarks/lm_honest", "benchmarks/lm_honest",
                                           Scenario::generation, seconds, seed);
                 }});
  all.push_back({"training", train});
  all.push_back({"kernels", kernels_of});
  return all;
}

struct Count {
  int64_t passed = 0, held = 0, out = 0, apart = 0;
  std::vector<std::string> reasons = {};  // of what did not pass
};

nlohmann::json json_of(const std::map<std::string, Count>& counts) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [name, c] : counts)
    rows.push_back({{"control", name},
                    {"passed", c.passed},
                    {"held", c.held},
                    {"thrown_out", c.out},
                    {"apart", c.apart},
                    {"reasons", c.reasons}});
  return rows;
}

int run(int argc, char** argv) {
  CLI::App app("Honest submissions beside a load");
  int64_t runs = 40, first = 0, load = 8;
  double seconds = 2;
  std::string path, only;
  app.add_option("--runs", runs, "matches of each control")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--first", first, "number of the first run, from which its draws follow")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--load", load, "threads that are always busy")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seconds", seconds, "seconds of each contender in a match; a ranked run takes 50")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--only", only, "controls whose name contains this text");
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  const bench::ResultsFile file(path);
  std::map<std::string, Count> counts;
  int64_t out = 0;
  const Load busy(load);
  for (int64_t r = first; r < first + runs; ++r) {
    for (const Control& control : all_controls(seconds)) {
      if (control.name.find(only) == std::string::npos) continue;
      const tinytorch::benchmarking::SteadyClock clock;
      const double start = clock();
      const Verdict v = control.play(1000 + 2 * static_cast<uint64_t>(r));
      Count& c = counts[control.name];
      ++(!v.out.empty() ? c.out : !v.held.empty() ? c.held : c.passed);
      c.apart += v.apart;
      const std::string reason = !v.out.empty() ? v.out : v.held;
      if (!reason.empty()) c.reasons.push_back(reason);
      out += !v.out.empty();
      fmt::print("run {:3}, {}: {:.1f} s{}{}\n", r + 1, control.name, clock() - start,
                 reason.empty()  ? ""
                 : v.out.empty() ? ", held: "
                                 : ", thrown out: ",
                 reason);
      std::fflush(stdout);
    }
    file.keep(json_of(counts));
  }
  for (const auto& [name, c] : counts)
    fmt::print("{:24} {:3} passed, {:3} held, {:3} thrown out of {}; {} told apart from itself\n", name,
               c.passed, c.held, c.out, runs, c.apart);
  file.finish({{"machine", bench::provenance()},
               {"runs", runs},
               {"first", first},
               {"load", load},
               {"seconds_each", seconds},
               {"controls", json_of(counts)}});
  if (counts.empty()) throw std::invalid_argument("no control has '" + only + "' in its name");
  return out == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_honest_controls", [&] { return run(argc, argv); });
}
