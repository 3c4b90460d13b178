// A benchmark as the judge uses it: draws the hidden set, makes the inputs of queries, and grades answers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tinymlperf/channel/tensor.hpp>
#include <tinytorch/benchmarking/paired_auc.hpp>
#include <tinytorch/benchmarking/samples.hpp>
#include <vector>

namespace tinymlperf::judge {

using Answer = std::vector<float>;  // to one sample

struct Quality {
  tinytorch::statistics::Interval value;  // higher is better
  std::vector<double> credit;  // per sample, if quality is their mean, for paired comparisons; else empty
  tinytorch::statistics::PairWins wins = {};  // per sample, if quality is an area under the ROC curve
};

// The scenarios of a benchmark of text, in which prompts (prompt.hpp) are continued.
class Generation {
 public:
  virtual ~Generation() = default;
  // The prompt of a sample, the first kPromptBytes of its text: no byte of them is graded.
  virtual std::string beginning(int64_t sample) const = 0;
  // Other text of the same kind, of which no sample has a part.
  virtual std::string other_text(int64_t bytes, uint64_t seed) const = 0;
  // An untimed check of a token: the query for the text before it, in the form of Benchmark::inputs(); if the
  // answer calls the token the likeliest; and the bits that the token takes by the answer.
  virtual channel::Tensors before(const std::string& text) const = 0;
  virtual bool likeliest(const Answer& scores, uint8_t token) const = 0;
  virtual double bits(const Answer& scores, uint8_t token) const = 0;
};

// The lengths of texts before a checked token: those of the prompts, and a place in a continuation.
struct TextLengths {
  int64_t least = 0, prompts = 1;  // bytes of the shortest prompt; number of lengths that prompts have
  int64_t tokens = 0;              // of each continuation
};

// The place of a check in a continuation of n tokens, from 64 random bits. A quarter of the checks are of the
// first token: all text before it is the judge's, so that nothing in it can be recognized.
inline int64_t place_of(uint64_t bits, int64_t n) {
  return bits % 4 == 0 ? 0 : static_cast<int64_t>(bits / 4 % static_cast<uint64_t>(n));
}

// The bytes of a prompt beyond the shortest: one of so many lengths, half of them among the first two.
template <class Random>
int64_t length_drawn(Random& random, int64_t lengths) {
  const int64_t few = random.below(2) == 0 ? std::min<int64_t>(lengths, 2) : lengths;
  return static_cast<int64_t>(random.below(static_cast<uint64_t>(few)));
}

class Benchmark {
 public:
  virtual ~Benchmark() = default;
  virtual std::string id() const = 0;                   // "dig"
  virtual std::string task() const = 0;                 // in a sentence
  virtual std::string metric() const = 0;               // "accuracy"
  virtual double floor() const = 0;                     // least quality of a result that is ranked
  virtual double server_bound() const { return 0.01; }  // seconds, for a server's percentile

  // Draws the hidden set: `n` samples of a seed that is not known before the match.
  virtual void draw(int64_t n, uint64_t seed) = 0;
  virtual int64_t size() const = 0;
  virtual channel::Tensors inputs(std::span<const int64_t> samples) const = 0;
  // Numbers of the answer to one sample; a query's answer holds them one sample after another.
  virtual int64_t answer_size() const = 0;
  virtual Quality quality(const std::vector<Answer>& answers) const = 0;
  // True if a timed answer agrees with the graded one.
  virtual bool agrees(const Answer& graded, const Answer& timed) const = 0;
  // The inputs of samples get different lengths: those of the text before the checked tokens of
  // continuations, so that a question and a check have one form. Call it before the first inputs().
  virtual void vary_lengths(const TextLengths&) {}
  // The work of a sample relative to that of others.
  virtual double work(int64_t) const { return 1; }
  // nullptr for a benchmark that does not generate.
  virtual const Generation* generation() const { return nullptr; }
};

}  // namespace tinymlperf::judge
