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
#include <tinymlperf/judge/digits_benchmark.hpp>
#include <tinymlperf/judge/match.hpp>
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

inline judge::Scenario scenario_named(const std::string& name) {
  for (const auto s :
       {judge::Scenario::single_stream, judge::Scenario::multi_stream, judge::Scenario::offline})
    if (name == judge::name_of(s)) return s;
  throw std::invalid_argument("--scenario " + name + ": there are single_stream, multi_stream and offline");
}
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

inline Json to_json(const judge::Contender& c, const std::optional<Interval>& ratio) {
  return {{"name", c.name},
          {"out", c.out.empty() ? Json() : Json(c.out)},
          {"quality", c.quality ? Json{{"metric", c.quality->metric}, {"value", c.quality->value}} : Json()},
          {"turns", c.turns},
          {"latencies_seconds", c.all_latencies},
          {"times_the_baseline", ratio ? to_json(*ratio) : Json()}};
}

// Everything a match was.
struct PlayedMatch {
  judge::Scenario scenario;
  judge::RunClass run_class;
  uint64_t seed = 0;
  sandbox::Offers offers;
  judge::DigitsBenchmark benchmark;
  std::vector<judge::Contender> contenders;  // the first is the baseline
};

inline void require_entries(const std::vector<std::filesystem::path>& entries) {
  for (const auto& entry : entries)
    if (!std::filesystem::exists(entry / kModelFile) || !std::filesystem::exists(entry / kWeightsFile))
      throw std::invalid_argument(entry.string() + ": expected a folder with " + kModelFile + " and " +
                                  kWeightsFile);
}

inline void play(PlayedMatch& m, const std::vector<std::filesystem::path>& entries) {
  sandbox::require(m.offers, sandbox::Level::basic);
  m.benchmark.draw(m.run_class.hidden, m.seed);
  std::vector<std::unique_ptr<Stage>> stages;
  for (const auto& entry : entries) {
    stages.push_back(std::make_unique<Stage>(entry));
    m.contenders.push_back({});
    m.contenders.back().name = entry.lexically_normal().filename().string();
    m.contenders.back().session = stages.back()->start(m.offers);
  }
  judge::Match(m.benchmark, m.scenario, m.run_class, m.seed)(m.contenders);
}

inline Json to_json(const PlayedMatch& m) {
  Json results = Json::array();
  for (const judge::Contender& c : m.contenders)
    results.push_back(to_json(c, judge::compare(m.scenario, c, m.contenders.front())));
  return {{"schema", "tinymlperf-run-1"},
          {"benchmark", m.benchmark.id()},
          {"scenario", judge::name_of(m.scenario)},
          {"class", m.run_class.name},
          {"seed", m.seed},
          {"hidden_samples", m.benchmark.size()},
          {"measure", judge::measure_of(m.scenario).name},
          {"date", utc_now()},
          {"sandbox", sandbox::to_json(m.offers)},
          {"results", results}};
}

inline std::string text_of(const PlayedMatch& m) {
  tinytorch::document::Rows rows{
      {"entry", "quality", judge::measure_of(m.scenario).name, "times the baseline [95 %]", ""}};
  for (const judge::Contender& c : m.contenders) {
    const auto ratio = judge::compare(m.scenario, c, m.contenders.front());
    rows.push_back(
        {c.name, c.quality ? fmt::format("{:.4f}", c.quality->value) : "",
         c.turns.empty() ? "" : fmt::format("{:.4g}", tinytorch::statistics::median(c.turns)),
         ratio ? fmt::format("{:.3f} [{:.3f}, {:.3f}]", ratio->estimate, ratio->low, ratio->high) : "",
         c.out.empty() ? "" : "out: " + c.out});
  }
  return fmt::format("{}: {}, {}, class {}, hidden set {} samples\n\n{}", m.benchmark.id(),
                     m.benchmark.task(), judge::name_of(m.scenario), m.run_class.name, m.benchmark.size(),
                     tinytorch::document::text_table(rows));
}

}  // namespace detail

// Exit status: 0 the match was played and written, 2 it could not be played as asked.
inline int run_match(const RunOptions& o) {
  using namespace detail;
  try {
    if (o.benchmark != "dig") throw std::invalid_argument("--benchmark " + o.benchmark + ": there is dig");
    std::random_device device;
    PlayedMatch m{scenario_named(o.scenario),
                  run_class_named(o.run_class),
                  o.seed.value_or((uint64_t{device()} << 32) | device()),
                  sandbox::probe(),
                  {},
                  {}};
    require_entries(o.entries);
    play(m, o.entries);
    std::filesystem::create_directories(o.out);
    tt::write_file((o.out / "run.json").string(), to_json(m).dump(1) + "\n");
    fmt::print("{}\nwrote {}\n", text_of(m), (o.out / "run.json").string());
    return kPass;
  } catch (const std::invalid_argument& e) {
    return complain(e.what());
  } catch (const sandbox::Unavailable& e) {
    return complain(e.what());
  }
}

}  // namespace tinymlperf
