// `tinymlperf run ENTRY...`: a match between entries, each in a sandboxed process, on a hidden set drawn now.
//
// The first entry is the baseline. Writes run.json with every sample, so that anyone can form the numbers again.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/commands/run_kernels.hpp>
#include <tinymlperf/commands/run_options.hpp>
#include <tinymlperf/judge/benchmarks.hpp>
#include <tinymlperf/judge/match.hpp>
#include <tinymlperf/judge/quality_gate.hpp>
#include <tinymlperf/judge/run_document.hpp>
#include <tinymlperf/judge/stage.hpp>
#include <tinymlperf/machine.hpp>
#include <tinytorch/benchmarking/document.hpp>
#include <vector>

namespace tinymlperf {

namespace detail {

inline const judge::RunClass& run_class_named(const std::string& name) {
  for (const judge::RunClass* c : {&judge::kSmoke, &judge::kRanked, &judge::kOfficial})
    if (name == c->name) return *c;
  throw std::invalid_argument("--class " + name + ": there are smoke, ranked and official");
}

// Starts a contender, or says why it is out. Of a stranger's files the judge itself reads model.json alone.
inline void admit(judge::Contender& c, const std::filesystem::path& folder, const std::string& benchmark,
                  const sandbox::Offers& offers, std::vector<std::unique_ptr<judge::Stage>>& stages) {
  judge::ContenderRecord& record = c.record;
  record.name = folder.lexically_normal().filename().string();
  try {
    auto stage = std::make_unique<judge::Stage>(folder, offers);
    record.tier = stage->tier();
    if (record.tier == "T0") {
      const std::string model = read_limited(folder / kModelFile, limits::kJsonBytes);
      record.multiply_adds = parse_entry(model, task_of(benchmark)).multiply_adds;
      record.model_bytes = require_size(folder / kWeightsFile, limits::kWeightBytes);
    }
    c.session = stage->start();
    stages.push_back(std::move(stage));
  } catch (const sandbox::Unavailable&) {
    throw;  // this machine cannot hold anybody
  } catch (const std::exception& e) {
    record.out = e.what();
  }
}

inline judge::RunDocument play(const RunOptions& o) {
  const judge::Scenario scenario = judge::scenario_named(o.scenario);
  const judge::RunClass& run_class = run_class_named(o.run_class);
  const auto benchmark = judge::make_benchmark(o.benchmark);
  if (o.division != "open" && o.division != "closed")
    throw std::invalid_argument("--division " + o.division + ": there are open and closed");
  if (scenario == judge::Scenario::generation && !benchmark->generation())
    throw std::invalid_argument("--scenario generation: " + o.benchmark + " generates nothing; lm does");
  require_folders(o);
  const sandbox::Offers offers = sandbox::probe();
  sandbox::require(offers, sandbox::Level::basic);
  const uint64_t seed = seed_of(o);
  benchmark->draw(run_class.hidden, seed);
  const auto fresh = judge::make_benchmark(o.benchmark);
  const tt::PhiloxBlock other = tt::philox(seed, 1);
  fresh->draw(run_class.hidden, (uint64_t{other.v[0]} << 32) | other.v[1]);
  std::vector<std::unique_ptr<judge::Stage>> stages;
  std::vector<judge::Contender> contenders;
  for (const auto& entry : o.entries) {
    contenders.push_back({});
    admit(contenders.back(), entry, o.benchmark, offers, stages);
  }
  judge::Match({*benchmark, *fresh}, scenario, run_class, seed, ceilings_of_machine())(contenders);

  const Machine machine = describe_machine();
  judge::RunDocument d{.benchmark = benchmark->id(),
                       .scenario = scenario,
                       .division = o.division,
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
         judge::quality_gate(d, c).reason});
  }
  return fmt::format("{}, {}, class {}, hidden set {} samples\n\n{}", d.benchmark, judge::name_of(d.scenario),
                     d.run_class, d.hidden_samples, tinytorch::document::text_table(rows));
}

}  // namespace detail

// Exit status: 0 the match was played and written, 2 it could not be played as asked.
inline int run_match(const RunOptions& o) {
  using namespace detail;
  if (o.benchmark == kKernelBenchmark) return run_kernel_match(o);
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
