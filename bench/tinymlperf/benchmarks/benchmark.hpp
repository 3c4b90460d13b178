// A benchmark: what is asked, what is right, how good is good enough. The judge knows no more of one, so
// another is a class and a line in benchmarks.hpp.
#pragma once

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
  std::vector<double>
      credit;  // of each sample, where quality is their mean: for paired comparisons; else empty
  tinytorch::statistics::PairWins wins = {};  // of each sample, where quality is an area under the ROC curve
};

// What the scenario `generation` asks of a benchmark of text: a prompt, continued token by token by the
// likeliest. The inputs are two tensors, u8 [1, T] and the number of tokens, i64 [1]; each token is one u8,
// and the answer is all of them.
class Generation {
 public:
  virtual ~Generation() = default;
  virtual channel::Tensors prompt(int64_t sample) const = 0;
  virtual int64_t tokens() const = 0;  // of each continuation
  // The continuation; throws std::runtime_error unless so many tokens were streamed, and they are the answer.
  virtual std::vector<uint8_t> check(const std::vector<channel::Tensors>& streamed,
                                     const channel::Tensors& answer) const = 0;
  // To find out, untimed, whether a token was the likeliest: what is asked about the text before it, and what
  // the answer says.
  virtual channel::Tensors before(int64_t sample, std::span<const uint8_t> continuation,
                                  size_t place) const = 0;
  virtual bool likeliest(const Answer& scores, uint8_t token) const = 0;
};

class Benchmark {
 public:
  virtual ~Benchmark() = default;
  virtual std::string id() const = 0;                   // "dig"
  virtual std::string task() const = 0;                 // in a sentence
  virtual std::string metric() const = 0;               // "accuracy"
  virtual double floor() const = 0;                     // least quality of a result that is ranked
  virtual double server_bound() const { return 0.01; }  // seconds that a server's percentile may take

  // The hidden set: `n` samples that follow from a seed which nobody knows before.
  virtual void draw(int64_t n, uint64_t seed) = 0;
  virtual int64_t size() const = 0;
  virtual channel::Tensors inputs(std::span<const int64_t> samples) const = 0;
  // Numbers that answer one sample; a query's answer holds them one sample after the other.
  virtual int64_t answer_size() const = 0;
  virtual Quality quality(const std::vector<Answer>& answers) const = 0;
  // Whether a timed answer says the same as the one that was graded.
  virtual bool agrees(const Answer& graded, const Answer& timed) const = 0;
  // Nothing for a benchmark that does not generate.
  virtual const Generation* generation() const { return nullptr; }
};

}  // namespace tinymlperf::judge
