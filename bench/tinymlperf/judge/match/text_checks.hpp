// Checks of generated text: that a contender streams what its model says, and that this is text.
//
// After the timed turns, a process that saw no prompt is asked for the scores of the next token, before
// tokens of the contender's continuations and in as many real windows, in a random order. Both kinds of
// question have one form and the same lengths, and their ids are of one sequence, so neither tells its
// purpose. The streamed token must be the likeliest by these scores, and the answer to a real window must
// agree with the graded one.
//
// A submission can recognize its own text by what it says, and then call each of its tokens likely. Therefore
// the baseline scores the same tokens (audit A14, results/measured_audits.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinymlperf/benchmarks/prompt.hpp>
#include <tinymlperf/channel/session.hpp>
#include <tinymlperf/judge/match/answer_rows.hpp>
#include <tinymlperf/judge/results/run_document.hpp>
#include <tinymlperf/support/random_selection.hpp>
#include <tinytorch/core/random.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::judge {

// The continuation of a streamed answer; a failure is audit A4.
inline std::string checked_text(ContenderRecord& record, int64_t tokens,
                                const std::vector<channel::Tensors>& streamed,
                                const channel::Tensors& answer) {
  try {
    return continuation_of(tokens, streamed, answer);
  } catch (const std::runtime_error& e) {
    record.audits.push_back({"A4", "output length", false, e.what()});
    throw std::runtime_error(std::string("audit A4, output length: ") + e.what());
  }
}

struct TextCheck {
  std::string prompt, continuation;
  size_t place;  // of the checked token in the continuation

  uint8_t token() const { return static_cast<uint8_t>(continuation[place]); }
  std::string before() const { return prompt + continuation.substr(0, place); }
};

// One place of each continuation; of many continuations, a random selection.
class TextChecks {
 public:
  explicit TextChecks(uint64_t seed) : selection_(512, seed) {}

  void add(std::string prompt, std::string continuation) {
    const auto place = static_cast<size_t>(
        place_of(selection_.random().below(uint64_t{1} << 32), static_cast<int64_t>(continuation.size())));
    selection_.add({std::move(prompt), std::move(continuation), place});
  }
  std::span<const TextCheck> kept() const { return selection_.kept(); }

 private:
  RandomSelection<TextCheck> selection_;
};

// The answer to a question about one sample.
inline Answer answer_of(channel::Session& session, uint64_t id, const Benchmark& set,
                        const channel::Tensors& question, double patience) {
  session.ask(id + 1, question);  // the channel counts queries from 1
  return rows_of(set, channel::parse_tensors(session.next(patience).frame.payload), 1).front();
}

// Asks about the checked tokens and about as many real windows. `real` gets the answers to the windows.
// Throws std::runtime_error if a token is not the one that the contender calls the likeliest.
inline void check_texts(channel::Session& session, const Benchmark& set, std::span<const TextCheck> checks,
                        double patience, uint64_t seed,
                        const std::function<void(int64_t sample, const Answer&)>& real) {
  const Generation& text = *set.generation();
  tinytorch::Generator random(seed);
  std::vector<size_t> order(2 * checks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  for (size_t id = 0; id < order.size(); ++id) {
    if (order[id] >= checks.size()) {
      const std::vector<int64_t> one{static_cast<int64_t>(random.below(static_cast<uint64_t>(set.size())))};
      real(one.front(), answer_of(session, id, set, set.inputs(one), patience));
      continue;
    }
    const TextCheck& c = checks[order[id]];
    const Answer scores = answer_of(session, id, set, text.before(c.before()), patience);
    if (!text.likeliest(scores, c.token()))
      throw std::runtime_error("token " + std::to_string(c.place + 1) +
                               " of a continuation is not the one that it calls the likeliest");
  }
}

// The bits of each checked token by the scores of `session`, the baseline's.
inline std::vector<double> bits_of_texts(channel::Session& session, const Benchmark& set,
                                         std::span<const TextCheck> checks, double patience) {
  const Generation& text = *set.generation();
  std::vector<double> out;
  for (const TextCheck& c : checks)
    out.push_back(
        text.bits(answer_of(session, out.size(), set, text.before(c.before()), patience), c.token()));
  return out;
}

}  // namespace tinymlperf::judge
