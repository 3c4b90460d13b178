// `tinymlperf run ENTRY...`: a match between entries, each in a sandboxed process, on a hidden set drawn now.
//
// The first entry is the baseline. Writes run.json with every sample, so that anyone can form the numbers again.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <tinymlperf/command.hpp>
#include <tinymlperf/judge/benchmarks.hpp>
#include <tinymlperf/judge/match.hpp>
#include <tinymlperf/judge/run_document.hpp>
#include <tinytorch/benchmarking/document.hpp>
#include <vector>

namespace tinymlperf {

struct RunOptions {
  std::vector<std::filesystem::path> entries;
  std::string benchmark = "dig", scenario = "single_stream", run_class = "smoke";
  std::filesystem::path out = "build/run";
  std::optional<uint64_t> seed;  // of the hidden set and the order; else drawn from the operating system
};

namespace detail {

inline const judge::RunClass& run_class_named(const std::string& name) {
  for (const judge::RunClass* c : {&judge::kSmoke, &judge::kRanked, &judge::kOfficial})
    if (name == c->name) return *c;
  throw std::invalid_argument("--class " + name + ": there are smoke, ranked and official");
}

// Copies of what a worker needs, in a folder that another user can reach: this very program, and the entry as it was
// when the match began. Goes with the match.
class Stage {
 public:
  Stage(const std::filesystem::path& entry) {
    namespace fs = std::filesystem;
    std::string name = (fs::temp_directory_path() / "tinymlperf-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw std::invalid_argument("cannot make a folder in " + fs::temp_directory_path().string());
    base_ = name;
    fs::permissions(base_, fs::perms(0755));
    fs::create_directory(base_ / "work");
    fs::create_directory(base_ / "entry");
    fs::copy_file("/proc/self/exe", program());
    fs::permissions(program(), fs::perms(0755));
    for (const char* file : {kModelFile, kWeightsFile}) {
      fs::copy_file(entry / file, base_ / "entry" / file);
      fs::permissions(base_ / "entry" / file, fs::perms(0644));
    }
  }
  ~Stage() {
    std::error_code ignored;
    std::filesystem::remove_all(base_, ignored);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  std::unique_ptr<channel::Session> start(const sandbox::Offers& offers) const {
    sandbox::Policy policy;
    policy.read_only = sandbox::system_paths();
    policy.read_only.push_back(program());
    policy.read_only.push_back(base_ / "entry");
    policy.work = base_ / "work";
    policy.wall_seconds = policy.cpu_seconds = 3600;
    const std::vector<std::string> command{program().string(), "worker", (base_ / "entry").string()};
    return std::make_unique<channel::Session>(command, policy, offers);
  }

 private:
  std::filesystem::path program() const { return base_ / "program"; }
  std::filesystem::path base_;
};

inline void require_entries(const std::vector<std::filesystem::path>& entries) {
  for (const auto& entry : entries)
    if (!std::filesystem::exists(entry / kModelFile) || !std::filesystem::exists(entry / kWeightsFile))
      throw std::invalid_argument(entry.string() + ": expected a folder with " + kModelFile + " and " +
                                  kWeightsFile);
}

inline judge::RunDocument play(const RunOptions& o) {
  const judge::Scenario scenario = judge::scenario_named(o.scenario);
  const judge::RunClass& run_class = run_class_named(o.run_class);
  const auto benchmark = judge::make_benchmark(o.benchmark);
  require_entries(o.entries);
  const sandbox::Offers offers = sandbox::probe();
  sandbox::require(offers, sandbox::Level::basic);
  std::random_device device;
  const uint64_t seed = o.seed.value_or((uint64_t{device()} << 32) | device());
  benchmark->draw(run_class.hidden, seed);
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<judge::Contender> contenders;
  for (const auto& entry : o.entries) {
    stages.push_back(std::make_unique<Stage>(entry));
    contenders.push_back({});
    judge::ContenderRecord& record = contenders.back().record;
    record.name = entry.lexically_normal().filename().string();
    record.model_bytes = static_cast<int64_t>(std::filesystem::file_size(entry / kWeightsFile));
    contenders.back().session = stages.back()->start(offers);
  }
  judge::Match(*benchmark, scenario, run_class, seed)(contenders);

  const Machine machine = describe_machine();
  judge::RunDocument d{.benchmark = benchmark->id(),
                       .scenario = scenario,
                       .run_class = run_class.name,
                       .hardware = hardware_class(machine),
                       .date = machine.date,
                       .seed = seed,
                       .hidden_samples = benchmark->size(),
                       .quality_metric = benchmark->metric(),
                       .quality_floor = benchmark->floor(),
                       .machine = to_json(machine),
                       .sandbox = sandbox::to_json(offers),
                       .contenders = {}};
  for (judge::Contender& c : contenders) d.contenders.push_back(std::move(c.record));
  return d;
}

inline std::string text_of(const judge::RunDocument& d) {
  const judge::Measure measure = judge::measure_of(d.scenario);
  tinytorch::document::Rows rows{{"entry", d.quality_metric,
                                  fmt::format("{} ({})", measure.name, measure.unit),
                                  "times the baseline [95 %]", ""}};
  for (const judge::ContenderRecord& c : d.contenders) {
    const auto value = judge::value_of(d.scenario, c);
    const auto ratio = judge::times_the_baseline(d.scenario, c, d.contenders.front());
    rows.push_back(
        {c.name, c.quality ? fmt::format("{:.4f}", c.quality->estimate) : "",
         value ? fmt::format("{:.4g}", *value) : "",
         ratio ? fmt::format("{:.3f} [{:.3f}, {:.3f}]", ratio->estimate, ratio->low, ratio->high) : "",
         c.out.empty() ? "" : "out: " + c.out});
  }
  return fmt::format("{}, {}, class {}, hidden set {} samples\n\n{}", d.benchmark, judge::name_of(d.scenario),
                     d.run_class, d.hidden_samples, tinytorch::document::text_table(rows));
}

}  // namespace detail

// Exit status: 0 the match was played and written, 2 it could not be played as asked.
inline int run_match(const RunOptions& o) {
  using namespace detail;
  try {
    const judge::RunDocument d = play(o);
    std::filesystem::create_directories(o.out);
    tt::write_file((o.out / "run.json").string(), to_json(d).dump(1) + "\n");
    fmt::print("{}\nwrote {}\n", text_of(d), (o.out / "run.json").string());
    return kPass;
  } catch (const std::invalid_argument& e) {
    return complain(e.what());
  } catch (const sandbox::Unavailable& e) {
    return complain(e.what());
  }
}

}  // namespace tinymlperf
