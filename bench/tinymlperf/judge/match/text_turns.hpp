// The texts of a contender in a match: the prompts that it is asked in each turn, and its continuations, of
// which some are checked after the last turn (text_checks.hpp).
//
// In the scenario generation, prompts are the beginnings of samples, new and repeated ones mixed at random
// (mixed_stream.hpp). In shared_prefix no prompt repeats, but prompts begin alike (shared_prompts.hpp).
#pragma once

#include <optional>
#include <string>
#include <tinymlperf/benchmarks/prompt.hpp>
#include <tinymlperf/judge/match/text_checks.hpp>
#include <tinymlperf/judge/scenarios/mixed_stream.hpp>
#include <tinymlperf/judge/scenarios/plugin_system.hpp>
#include <tinymlperf/judge/scenarios/shared_prompts.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::judge {

// The lengths of texts before a checked token in a scenario; none where no text is continued.
inline TextLengths lengths_in(Scenario s) {
  if (s == Scenario::generation) return {kPromptBytes, 1, kGeneratedBytes};
  return s == Scenario::shared_prefix ? SharedPrompts::lengths() : TextLengths{};
}

class TextTurns {
 public:
  TextTurns(Scenario scenario, const Benchmark& set, uint64_t seed)
      : set_(set), tokens_(lengths_in(scenario).tokens), checks_(seed ^ 0xA0761D6478BD642Fu) {
    const uint64_t order = seed ^ 0xE7037ED1A0B428DBu;
    if (scenario == Scenario::shared_prefix)
      shared_.emplace(*set.generation(), order);
    else
      stream_.emplace(set.size(), order);
  }

  // Spreads new prompts over the next queries, where prompts repeat (MixedStream::spread).
  void spread(int64_t due, int64_t queries) {
    if (stream_) stream_->spread(due, queries);
  }

  // Asks prompts by the plan. Appends a mark for each to `marks`: '1' if it is new and otherwise '0', or its
  // PrefixMark. Throws std::runtime_error if a continuation has the wrong length; that is audit A4.
  RunRecord run(channel::Session& session, Plan plan, ContenderRecord& record, std::string& marks) {
    std::vector<Prompt> prompts;
    plan.samples = 1;
    plan.next_samples = [&](int64_t) {
      prompts.push_back(next(marks));
      return std::vector<int64_t>{std::ssize(prompts) - 1};
    };
    std::vector<std::vector<channel::Tensors>> streamed;
    std::vector<channel::Tensors> answers;
    PluginSystem system(
        session, [&](std::span<const int64_t> which) { return to_tensors(prompts.at(of(which))); },
        [&](uint64_t id, bool last, const channel::Tensors& tensors) {
          streamed.resize(std::max<size_t>(streamed.size(), id + 1));
          answers.resize(streamed.size());
          last ? void(answers[id] = tensors) : streamed[id].push_back(tensors);
        });
    RunRecord out = run_scenario(system, plan);
    for (size_t q = 0; q < out.queries.size(); ++q)
      checks_.add(prompts[of(out.queries[q].samples)].text,
                  checked_text(record, tokens_, streamed[q], answers[q]));
    return out;
  }

  int64_t tokens() const { return tokens_; }  // of each continuation
  std::span<const TextCheck> kept() const { return checks_.kept(); }

 private:
  static size_t of(std::span<const int64_t> which) { return static_cast<size_t>(which.front()); }

  Prompt next(std::string& marks) {
    if (shared_) {
      Prompt out = shared_->next();
      marks += shared_->mark();
      return out;
    }
    const int64_t sample = stream_->next(1).front();
    marks += stream_->was_new() ? '1' : '0';
    return {set_.generation()->beginning(sample), tokens_};
  }

  const Benchmark& set_;
  int64_t tokens_;
  TextChecks checks_;
  std::optional<MixedStream> stream_;
  std::optional<SharedPrompts> shared_;
};

}  // namespace tinymlperf::judge
