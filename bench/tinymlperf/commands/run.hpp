// `tinymlperf run ENTRY...`: a match between entries, each in a sandboxed process, on a hidden set drawn now.
//
// The first entry is the baseline. Writes run.json with every sample, so that anyone can form the numbers
// again.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/commands/keep_run.hpp>
#include <tinymlperf/commands/run_kernels.hpp>
#include <tinymlperf/commands/run_training.hpp>
#include <tinymlperf/judge/match.hpp>
#include <tinymlperf/judge/match_table.hpp>
#include <tinymlperf/judge/peak_memory.hpp>
#include <tinymlperf/output_folder.hpp>
#include <vector>

namespace tinymlperf {

namespace detail {

inline const judge::RunClass& run_class_named(const std::string& name) {
  for (const judge::RunClass* c :
       {&judge::kQuick, &judge::kRace, &judge::kSmoke, &judge::kRanked, &judge::kOfficial})
    if (name == c->name) return *c;
  throw std::invalid_argument(
      "--class " + name + ": there are smoke, ranked and official, and quick and race, which `race` plays");
}

// Of an entry the allocator of the program that answers for it tells it; of a plugin the sandbox has said
// what it knows.
inline void measure_memory(judge::ContenderRecord& record, const judge::Stage* stage,
                           const judge::Benchmark& benchmark) {
  if (!record.out.empty() || (record.tier != "T0" && record.worker.empty())) return;
  try {
    record.peak_bytes = judge::peak_bytes_of(*stage, benchmark);
  } catch (const std::exception& e) {  // whatever it is: the match is played, and shall not be lost
    record.out = std::string("after its match, when its memory was measured: ") + e.what();
  }
}

// Its first process. Who cannot be started is out, and the others play.
inline void start_first(judge::Contender& c) {
  try {
    c.session = c.start();
  } catch (const sandbox::Unavailable&) {
    throw;  // this machine cannot hold anybody
  } catch (const std::exception& e) {
    c.record.out = e.what();
  }
}

// `o` is resolved.
inline judge::RunDocument play_questions(const RunOptions& o) {
  const judge::Scenario scenario = judge::scenario_named(o.scenario);
  const judge::RunClass& run_class = run_class_named(o.run_class);
  std::optional<UserText> text;
  if (!o.text.empty()) text = read_user_text(o.text);
  const auto make = [&]() -> std::unique_ptr<judge::Benchmark> {
    if (text) return std::make_unique<judge::LanguageBenchmark>(*text);
    return judge::make_benchmark(o.benchmark);
  };
  const auto benchmark = make();
  if (scenario == judge::Scenario::generation && !benchmark->generation())
    throw std::invalid_argument("--scenario generation: " + o.benchmark + " generates nothing; lm does");
  const sandbox::Offers offers = sandbox_of_machine(o.real_time);
  const uint64_t seed = seed_of(o);
  const int64_t hidden = o.hidden.value_or(run_class.hidden);
  benchmark->draw(hidden, seed);
  const auto fresh = make();
  const tt::PhiloxBlock other = tt::philox(seed, 1);
  fresh->draw(hidden, (uint64_t{other.v[0]} << 32) | other.v[1]);
  std::vector<std::unique_ptr<judge::Stage>> stages;
  std::vector<judge::Contender> contenders;
  for_each_entry(o, [&](const auto& entry, const auto& worker) {
    judge::Contender& c = contenders.emplace_back();
    stages.push_back(admit(c.record, entry, o.benchmark, offers, worker));
    if (!stages.back()) return;
    c.start = [stage = stages.back().get()] { return stage->start(); };
    start_first(c);
  });
  judge::Match({*benchmark, *fresh}, scenario, run_class, seed, peaks_of_machine(), o.watcher)(contenders);
  for (size_t i = 0; i < contenders.size(); ++i)
    measure_memory(contenders[i].record, stages[i].get(), *benchmark);
  judge::RunDocument d = document_of(o, *benchmark, offers, seed);
  if (text) d.text = {{"file", text->name}, {"bytes", text->bytes()}, {"held_out", text->held_out.size()}};
  for (judge::Contender& c : contenders) d.contenders.push_back(std::move(c.record));
  return d;
}

// Whoever names a worker sees its answers beside the judge's own: each entry of data plays a second time.
inline RunOptions with_students(RunOptions o) {
  if (o.worker.empty()) return o;
  for (const auto& entry : o.entries)
    if (is_data(entry)) o.student_entries.push_back(entry);
  if (o.student_entries.empty())
    throw std::invalid_argument("--worker: it answers for entries of data, a folder with " +
                                std::string(kModelFile) + " and no code beside it; found none");
  return o;
}

inline judge::RunDocument play(const RunOptions& options) {
  const RunOptions o = resolved(options);
  return is_training(o.benchmark) ? play_training(o) : play_questions(o);
}

inline std::string text_of(const judge::RunDocument& d) {
  std::string out = judge::match_text(d);
  for (const judge::ContenderRecord& c : d.contenders)
    if (!c.replaced.empty()) out += replaced_text(c.name, c.replaced) + "\n";
  return out;
}

}  // namespace detail

// Exit status: 0 the match was played and written, 1 it was played and shown, but could not be written, 2 it
// could not be played as asked.
inline int run_match(const RunOptions& o) {
  using namespace detail;
  if (!o.text.empty() && o.benchmark != "lm")
    return complain("--text: only lm is asked about a text, not " + o.benchmark);
  if (o.benchmark == kKernelBenchmark) return run_kernel_match(o);
  try {
    const RunOptions asked = with_students(o);
    const OutputFolder folder(o.out, {"run.json"});
    const judge::RunDocument d = play(asked);
    return keep_run(o.out / "run.json", to_json(d), [&] { return text_of(d); });
  } catch (const std::invalid_argument& e) {
    return complain(e.what());
  } catch (const sandbox::Unavailable& e) {
    return complain(e.what());
  }
}

}  // namespace tinymlperf
