// A match: contenders answer one scenario of one benchmark in turns, and are graded by the answers that are
// timed.
//
//   blocks    each has one round or several. In a round every contender has two turns, in a random order and
//             back (A B B A), so that drift of the machine favours nobody. The others are stopped meanwhile.
//             Some blocks begin with fresh processes. Rounds are short where they can be, so that other work
//             on the machine meets all contenders of a round
//   warm-up   of each process, until two windows of queries have the same median (steady_state.hpp)
//   a turn    a few queries to fill the caches, the timed ones, and as many more as its share of the hidden
//             set needs. A contender cannot tell which are timed: all have one form, and new samples and
//             repeated ones are mixed at random (mixed_stream.hpp). Offline, no timed sample repeats
//             Where texts are continued, prompts are timed (text_turns.hpp), and samples are not
//   grading   the first answer to each sample counts; every later one must agree with it
//   audits    the times of new and of repeated samples in the timed turns themselves; and further turns on
//             samples asked before, on one sample repeated, and on a set that nobody saw
//
// A contender that fails, does not answer in time, answers differently, or fails an audit is out, with the
// reason. Watchers are called between blocks alone, when every contender is stopped.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinymlperf/judge/match/answer_rows.hpp>
#include <tinymlperf/judge/match/audits.hpp>
#include <tinymlperf/judge/match/beside.hpp>
#include <tinymlperf/judge/match/cache_control.hpp>
#include <tinymlperf/judge/match/compared_questions.hpp>
#include <tinymlperf/judge/match/contender_process.hpp>
#include <tinymlperf/judge/match/progress.hpp>
#include <tinymlperf/judge/match/rate_search.hpp>
#include <tinymlperf/judge/match/run_class.hpp>
#include <tinymlperf/judge/match/text_turns.hpp>
#include <tinymlperf/judge/scenarios/mixed_stream.hpp>
#include <tinymlperf/judge/scenarios/plugin_system.hpp>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/benchmarking/schedule.hpp>
#include <vector>

namespace tinymlperf::judge {

struct Contender {
  ContenderRecord record;
  std::unique_ptr<channel::Session> session;
  StartProcess start;
  double budget = 0;  // seconds for which its processes may still run
  // Answers by sample of the hidden set; empty: not answered yet.
  std::vector<Answer> graded;
  std::optional<MixedStream> stream;
  std::optional<TextTurns> texts;  // where texts are continued; prompts are not graded
  RandomSelection<AnswerBeside> beside{kAnswersBeside, 0};
  double rate = 0;    // of a server, in its last turn
  std::string marks;  // per query of the present run: '1' if it was new and else '0', or its PrefixMark
  int64_t answered = 0, compared = 0;  // samples that have an answer; answers that were compared with it
};

// Two sets of one benchmark: one that is graded and timed, and one for audits alone.
struct HiddenSets {
  Benchmark& main;
  Benchmark& fresh;
};

class Match {
 public:
  // An exception from `watcher` ends the match.
  Match(const HiddenSets& sets, Scenario scenario, const RunClass& run_class, uint64_t seed,
        RemeasuredPeaks machine = {}, Watcher watcher = {})
      : sets_(sets),
        scenario_(scenario),
        class_(run_class),
        seed_(seed),
        machine_(std::move(machine)),
        watcher_(std::move(watcher)),
        rounds_(rounds_of(class_, scenario)) {
    if (rounds_ > 1 && class_.blocks != tinytorch::benchmarking::kMostBlocks)
      throw std::invalid_argument("a class with several rounds in a block needs 12 blocks");
  }

  void operator()(std::vector<Contender>& contenders) {
    for (Benchmark* set : {&sets_.main, &sets_.fresh}) set->vary_lengths(lengths_in(scenario_));
    for (Contender& c : contenders) {
      c.graded.resize(static_cast<size_t>(sets_.main.size()));
      c.stream.emplace(sets_.main.size(), seed_ ^ 0x9E3779B97F4A7C15u);  // one order for all contenders
      if (generates(scenario_)) c.texts.emplace(scenario_, sets_.main, seed_);
      c.beside = {kAnswersBeside, seed_ ^ 0x8EBC6AF09C88C6E3u};
      c.budget = budget_of(class_, scenario_ == Scenario::server);
      attempt(c, [&] { c.session->allow(c.budget), prepare(c); });
    }
    size_t step = 0, round = 0;
    const size_t steps = class_.blocks + contenders.size();
    for (const auto& turns :
         tinytorch::benchmarking::mirrored_blocks(contenders.size(), class_.blocks * rounds_, seed_)) {
      if (round++ % rounds_ == 0) begin_block(contenders, step++, steps);
      for (const size_t i : turns) {
        reference_.push_back(reference_seconds());
        attempt(contenders[i], [&] { take_turn(contenders[i]); });
      }
    }
    for (Contender& c : contenders) {
      tell({scenario_, step++, steps, 0, class_.blocks, c.record.name});
      attempt(c, [&] { check_in_fresh_process(c); });
      attempt(c, [&] { conclude(c, contenders.front()); });
    }
    for (Contender& c : contenders) end_process(c);
  }

 private:
  void begin_block(std::vector<Contender>& contenders, size_t block, size_t steps) {
    tell({scenario_, block, steps, block + 1, class_.blocks, {}});
    if (!is_fresh_process_due(block, class_.blocks, class_.processes)) return;
    for (Contender& c : contenders)
      attempt(c, [&] { replace_process(c, [&](Contender& fresh) { prepare(fresh); }); });
  }

  void tell(const Progress& now) const {
    if (watcher_) watcher_(now);
  }

  int64_t samples_per_query() const {
    if (scenario_ == Scenario::offline) return due(0);  // so that every turn has samples of its own
    return scenario_ == Scenario::multi_stream ? 8 : 1;
  }
  // Samples of the hidden set that were asked once this turn of a contender has ended.
  int64_t due(size_t turn) const {
    const auto turns = 2 * static_cast<int64_t>(class_.blocks * rounds_);
    return (sets_.main.size() * static_cast<int64_t>(turn + 1) + turns - 1) / turns;
  }

  Scenario untimed_form() const { return audited_form(scenario_); }

  void prepare(Contender& c) {
    c.session->prepare(sets_.main.id(), 30);
    if (scenario_ != Scenario::offline) warm_up(c);
    if (c.texts) {  // memory that the first prompt needs is there before the first one that is timed
      text_turn(c, {.scenario = scenario_, .seconds = 0, .queries = 4});
    }
    c.session->hold();
  }
  // Runs until two windows of queries have the same median. On a noisy machine a time limit ends it; in a
  // short class sooner.
  void warm_up(Contender& c) {
    const double share = 0.3 * class_.seconds / static_cast<double>(class_.processes);
    c.stream->spread(due(0) / 4, 10);  // the turns need what is new
    tinytorch::benchmarking::warm_up([&] { ask(c, main_questions(c), 1); },
                                     {.seconds_limit = std::min(3.0, share)});
  }

  Questions main_questions(Contender& c) {
    return {sets_.main, samples_per_query(), [&c](int64_t k) { return next_of(c, *c.stream, k); },
            [this, &c](int64_t sample, const Answer& answer) { grade(c, sample, answer); }};
  }
  static std::vector<int64_t> next_of(Contender& c, MixedStream& stream, int64_t k) {
    std::vector<int64_t> samples = stream.next(k);
    c.marks += stream.was_new() ? '1' : '0';
    return samples;
  }
  void grade(Contender& c, int64_t sample, const Answer& answer) {
    Answer& first = c.graded[static_cast<size_t>(sample)];
    if (first.empty()) {
      first = answer;
      ++c.answered;
      return;
    }
    ++c.compared;
    if (!sets_.main.agrees(first, answer))
      throw std::runtime_error("sample " + std::to_string(sample) + ": it was answered differently before");
  }

  void take_turn(Contender& c) {
    const Questions questions = main_questions(c);
    const bool offline = scenario_ == Scenario::offline;
    const size_t turn = c.record.turns.size();
    c.session->resume();
    c.stream->only_new(false);
    const bool is_short = offline || rounds_ > 1;
    if (!offline || c.stream->asked() >= samples_per_query()) ask(c, questions, is_short ? 1 : 3);
    const int64_t before = turn > 0 ? static_cast<int64_t>(c.record.turns.back().latencies.size()) : 0;
    c.stream->only_new(offline);
    const int64_t least = std::max<int64_t>(class_.queries / static_cast<int64_t>(rounds_), 3);
    const int64_t queries = std::max(before, rounds_ > 1 ? least : class_.queries);
    c.stream->spread(due(turn), queries);
    if (c.texts) c.texts->spread(due(turn), queries);
    Plan plan{.scenario = scenario_,
              .seconds = class_.seconds / (2.0 * static_cast<double>(class_.blocks * rounds_)),
              .queries = offline       ? 1
                         : rounds_ > 1 ? least
                                       : class_.queries,
              .seed = seed_ + turn};
    c.marks.clear();
    c.record.turns.push_back(scenario_ == Scenario::server ? server_turn(c, questions, plan)
                             : c.texts                     ? text_turn(c, plan)
                                                           : turn_of(run(c, questions, plan)));
    if (!offline) marks_of_turns(c).push_back(c.marks);
    c.stream->only_new(true);
    if (c.answered < due(turn))
      ask(c, questions, (due(turn) - c.answered + samples_per_query() - 1) / samples_per_query());
    c.stream->only_new(false);
    c.session->hold();
  }

  std::vector<std::string>& marks_of_turns(Contender& c) const {
    Evidence& e = c.record.evidence;
    return scenario_ == Scenario::shared_prefix ? e.prefixes : e.first_time;
  }

  // Queries that are not timed, in the same form as those that are.
  void ask(Contender& c, const Questions& questions, int64_t queries) {
    run(c, questions, {.scenario = untimed_form(), .seconds = 0, .queries = queries});
  }

  RunRecord run(Contender& c, const Questions& questions, Plan plan) {
    plan.samples = questions.set.size();
    plan.patience = class_.patience;
    plan.samples_per_query = questions.samples_per_query;
    plan.next_samples = questions.next;
    std::vector<channel::Tensors> answers;
    PluginSystem system(
        *c.session, [&](std::span<const int64_t> samples) { return questions.set.inputs(samples); },
        [&](uint64_t id, bool last, const channel::Tensors& tensors) {
          answers.resize(std::max<size_t>(answers.size(), id + 1));
          if (last) answers[id] = tensors;
        });
    RunRecord record = run_scenario(system, plan);
    const std::vector<bool> beside = asked_beside_others(record.queries);
    for (size_t q = 0; q < record.queries.size(); ++q) {
      const std::vector<int64_t>& samples = record.queries[q].samples;
      const std::vector<Answer> rows = rows_of(questions.set, answers[q], samples.size());
      for (size_t i = 0; i < rows.size(); ++i) questions.answered(samples[i], rows[i]);
      if (plan.scenario == Scenario::server && beside[q]) c.beside.add({samples[0], rows[0]});
    }
    return record;
  }

  // Prompts that are continued token by token. The text is checked after the last turn.
  Turn text_turn(Contender& c, Plan plan) {
    plan.patience = class_.patience;
    return turn_of(c.texts->run(*c.session, plan, c.record, c.marks));
  }
  // Asks a process that has seen no prompt and no load about texts, and about answers of a server.
  void check_in_fresh_process(Contender& c) {
    if (!c.texts && scenario_ != Scenario::server) return;
    replace_process(
        c, [&](Contender& fresh) { fresh.session->prepare(sets_.main.id(), 30), fresh.session->hold(); });
    c.session->resume();
    if (c.texts) {
      check_texts(*c.session, sets_.main, c.texts->kept(), class_.patience, seed_,
                  [&](int64_t sample, const Answer& answer) { grade(c, sample, answer); });
      c.compared += std::ssize(c.texts->kept());
    } else {
      check_alone(*c.session, sets_.main, c.beside.kept(), class_.patience, c.record);
    }
    c.session->hold();
  }
  // Returns the floor of audit A14. A baseline that fails here is out.
  std::optional<double> score_text(Contender& c, Contender& baseline) {
    if (!c.texts) return {};
    const auto floor = text_floor(sets_.main.floor(), c.record, baseline.record);
    if (!floor) return {};
    attempt(baseline, [&] {
      baseline.session->resume();
      c.record.evidence.text_bits =
          bits_of_texts(*baseline.session, sets_.main, c.texts->kept(), class_.patience);
      baseline.session->hold();
    });
    if (!baseline.record.out.empty())
      throw std::runtime_error("the baseline failed while it scored the text");
    return floor;
  }
  // Half of the last turn's rate, or one that answers to single queries promise.
  double first_rate(Contender& c, const Questions& questions) {
    if (c.rate > 0) return std::max(1.0, c.rate / 2);
    const RunRecord alone = run(c, questions, {.scenario = untimed_form(), .seconds = 0, .queries = 5});
    return easy_rate(tinytorch::statistics::median(latencies(alone)));
  }
  // The highest rate at which a percentile stays within the benchmark's bound. The percentile is p99 if the
  // class has enough queries to certify it, otherwise p90.
  Turn server_turn(Contender& c, const Questions& questions, Plan plan) {
    const double percent = class_.queries >= tinytorch::statistics::samples_to_certify(99) ? 99 : 90;
    plan.queries = std::max(class_.queries, tinytorch::statistics::samples_to_certify(percent));
    Turn best;
    std::string marks;
    best.rate = c.rate = highest_rate_near(first_rate(c, questions), [&](double rate) {
      plan.rate = rate;
      ++plan.seed;
      c.marks.clear();
      const int64_t left = due(c.record.turns.size()) - c.stream->asked();  // each run gets new samples
      c.stream->spread(c.stream->asked() + std::max<int64_t>(left / 4, 0), plan.queries);
      const RunRecord record = run(c, questions, plan);
      const bool good = keeps_bound(record, percent, sets_.main.server_bound());
      if (good || best.latencies.empty()) best = turn_of(record), marks = c.marks;
      return good;
    });
    if (!(best.rate > 0))
      throw std::runtime_error(fmt::format("one query per second is not answered within {:g} s (p{:g})",
                                           sets_.main.server_bound(), percent));
    c.marks = marks;
    return best;
  }

  void conclude(Contender& c, Contender& baseline) {
    const Quality quality = sets_.main.quality(c.graded);
    c.record.quality = quality.value;
    const bool binary = std::ranges::all_of(quality.credit, [](double x) { return x == 0 || x == 1; });
    if (binary)
      for (const double x : quality.credit) c.record.credit += x == 1 ? '1' : '0';
    else
      c.record.minus_bits = quality.credit;
    c.record.wins = quality.wins;
    Evidence& evidence = c.record.evidence;
    evidence.clock = reference_;
    if (c.texts) evidence.tokens = c.texts->tokens();
    const std::vector<int64_t> first{0};
    double bytes = 0;
    for (const channel::Tensor& t : sets_.main.inputs(first)) bytes += static_cast<double>(t.bytes.size());
    evidence.least_seconds =
        least_seconds_of(c.record.turns, machine_, 2.0 * static_cast<double>(c.record.multiply_adds), bytes);
    std::vector<AuditResult>& audits = c.record.audits;
    const std::vector<AuditResult> measured = decided_audits(c, score_text(c, baseline));
    audits.insert(audits.begin(), measured.front());
    audits.insert(audits.end(), measured.begin() + 1, measured.end());
    for (const AuditResult& a : audits)
      if (accuses(a)) throw std::runtime_error("audit " + a.id + ", " + a.name + ": " + a.detail);
  }

  // If repeated samples are too fast, an honest control of the same size says how much of it caches can gain.
  std::vector<AuditResult> decided_audits(Contender& c, std::optional<double> text_floor) {
    std::vector<AuditResult> all = looked_audits(c, text_floor);
    Evidence& evidence = c.record.evidence;
    if (std::ranges::none_of(all, [](const AuditResult& a) { return is_about_gain(a) && accuses(a); }))
      return all;
    const ControlledWork work{.bytes = sandbox::filled_bytes_of(c.session->members()),
                              .samples = sets_.main.size(),
                              .samples_per_query = samples_per_query(),
                              .seconds = seconds_of_new(evidence.fresh)};
    evidence.caches = measure_cache_effect(work, seed_);
    return measured_audits(scenario_, c.record.turns, evidence, text_floor);
  }

  // Asks the questions of A2 and A3 again, in turns that are pooled, while these audits are not decided.
  std::vector<AuditResult> looked_audits(Contender& c, std::optional<double> text_floor) {
    const tinytorch::benchmarking::SteadyClock clock;
    const double start = clock();
    for (int look = 1;; ++look) {
      compare_questions(c, static_cast<uint64_t>(look));
      c.record.evidence.answered = c.answered, c.record.evidence.compared = c.compared;
      std::vector<AuditResult> all =
          measured_audits(scenario_, c.record.turns, c.record.evidence, text_floor);
      const bool open = std::ranges::any_of(
          all, [](const AuditResult& a) { return !is_decided(a) && (a.id == "A2" || a.id == "A3"); });
      if (!open || look == kLooks || clock() - start > std::max(3.0, class_.seconds)) return all;
      // No sample of a fresh set may repeat.
      sets_.fresh.draw(sets_.fresh.size(), seed_ ^ (0xE7037ED1A0B428DBu * static_cast<uint64_t>(look)));
    }
  }

  void compare_questions(Contender& c, uint64_t look) {
    const Scenario form = untimed_form();
    c.session->resume();
    judge::compare_questions(
        main_questions(c), sets_.fresh, form, {seed_, look}, c.record.evidence,
        [&](const Questions& questions, int64_t queries) {
          if (form != Scenario::offline) ask(c, questions, 1);
          return turn_of(run(c, questions, {.scenario = form, .seconds = 0, .queries = queries}));
        });
    c.session->hold();
  }

  HiddenSets sets_;
  Scenario scenario_;
  RunClass class_;
  uint64_t seed_;
  RemeasuredPeaks machine_;
  Watcher watcher_;
  size_t rounds_;  // of a block
  std::vector<double> reference_;
};

}  // namespace tinymlperf::judge
