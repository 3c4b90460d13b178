// A match: contenders answer one scenario of one benchmark in turns, graded and timed by the same answers.
//
//   graded   each contender answers the whole hidden set once
//   timed    blocks in which every contender has two turns, in a random order and back (A B B A), so that a machine
//            that drifts favours nobody; every timed answer is compared with the graded one
// A contender that breaks, says nothing for too long, or answers differently when it is timed is out, with the reason.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tinymlperf/judge/benchmark.hpp>
#include <tinymlperf/judge/plugin_system.hpp>
#include <tinymlperf/judge/run_document.hpp>
#include <tinytorch/benchmarking/schedule.hpp>
#include <vector>

namespace tinymlperf::judge {

// How much is measured. Smoke shows that everything works and ranks nothing.
struct RunClass {
  const char* name;
  double seconds;   // of each contender and scenario, all turns together
  int64_t queries;  // at least, in each turn
  size_t blocks;
  int64_t hidden;  // samples of the hidden set
};
inline constexpr RunClass kSmoke{"smoke", 1, 12, 6, 512}, kRanked{"ranked", 10, 60, 12, 10000},
    kOfficial{"official", 60, 662, 12, 10000};

struct Contender {
  ContenderRecord record;
  std::unique_ptr<channel::Session> session;
  std::optional<Quality> quality;
  std::vector<Answer> graded;
};

class Match {
 public:
  Match(Benchmark& benchmark, Scenario scenario, const RunClass& run_class, uint64_t seed)
      : benchmark_(benchmark), scenario_(scenario), class_(run_class), seed_(seed) {}

  void operator()(std::vector<Contender>& contenders) {
    for (Contender& c : contenders) attempt(c, [&] { grade(c); });
    uint64_t turn = 0;
    for (const auto& block :
         tinytorch::benchmarking::mirrored_blocks(contenders.size(), class_.blocks, seed_)) {
      for (const size_t i : block) {
        ++turn;
        Contender& c = contenders[i];
        if (c.record.out.empty()) attempt(c, [&] { take_turn(c, seed_ + turn); });
      }
    }
    for (Contender& c : contenders) {
      if (c.session) c.session->finish(5);
    }
  }

 private:
  template <class F>
  void attempt(Contender& c, F&& f) {
    try {
      f();
    } catch (const std::exception& e) {
      c.record.out = e.what();
    }
  }

  // Row i of a query's answer belongs to its sample i.
  std::vector<Answer> rows_of(const channel::Tensors& tensors, size_t samples) const {
    const auto each = static_cast<size_t>(benchmark_.answer_size());
    if (tensors.size() != 1 || tensors[0].dtype != channel::DType::f32 ||
        tensors[0].values<float>().size() != samples * each)
      throw std::runtime_error("an answer must be one f32 tensor of " + std::to_string(samples) + " x " +
                               std::to_string(each) + " values");
    std::vector<Answer> rows;
    const auto values = tensors[0].values<float>();
    for (size_t i = 0; i < samples; ++i)
      rows.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(i * each),
                        values.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
    return rows;
  }

  void grade(Contender& c) {
    constexpr int64_t kTogether = 64;
    c.session->prepare(benchmark_.id(), 30);
    c.graded.resize(static_cast<size_t>(benchmark_.size()));
    uint64_t id = 0;
    for (int64_t first = 0; first < benchmark_.size(); first += kTogether) {
      std::vector<int64_t> samples;
      for (int64_t s = first; s < std::min(first + kTogether, benchmark_.size()); ++s) samples.push_back(s);
      c.session->ask(++id, benchmark_.inputs(samples));
      channel::Event event = c.session->next(30);
      while (event.frame.kind != channel::Kind::answer) event = c.session->next(30);
      const auto rows = rows_of(channel::parse_tensors(event.frame.payload), samples.size());
      for (size_t i = 0; i < rows.size(); ++i) c.graded[static_cast<size_t>(samples[i])] = rows[i];
    }
    c.quality = benchmark_.quality(c.graded);
    c.record.quality = c.quality->value;
  }

  void take_turn(Contender& c, uint64_t seed) {
    Plan plan{.scenario = scenario_,
              .seconds = class_.seconds / (2.0 * static_cast<double>(class_.blocks)),
              .queries = class_.queries,
              .samples = benchmark_.size(),
              .seed = seed};
    if (scenario_ == Scenario::multi_stream) plan.samples_per_query = 8;
    if (scenario_ == Scenario::offline) plan.queries = 1, plan.samples_per_query = benchmark_.size();
    std::vector<channel::Tensors> answers;
    PluginSystem system(
        *c.session, [&](std::span<const int64_t> samples) { return benchmark_.inputs(samples); },
        [&](uint64_t id, bool last, const channel::Tensors& tensors) {
          answers.resize(std::max<size_t>(answers.size(), id + 1));
          if (last) answers[id] = tensors;
        });
    const RunRecord run = run_scenario(system, plan);
    for (size_t q = 0; q < run.queries.size(); ++q) check_answers(c, run.queries[q], answers[q]);
    c.record.turns.push_back({run.seconds, samples_answered(run), latencies(run)});
  }
  void check_answers(const Contender& c, const QueryRecord& query, const channel::Tensors& answer) const {
    const auto rows = rows_of(answer, query.samples.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!benchmark_.agrees(c.graded[static_cast<size_t>(query.samples[i])], rows[i]))
        throw std::runtime_error("sample " + std::to_string(query.samples[i]) +
                                 ": the timed answer is not the one that was graded");
    }
  }

  Benchmark& benchmark_;
  Scenario scenario_;
  RunClass class_;
  uint64_t seed_;
};

}  // namespace tinymlperf::judge
