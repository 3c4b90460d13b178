// lm: which byte comes next in a text. The text is drawn from a grammar (data/grammar.hpp), so that a hidden
// one costs nothing and the least possible number of bits per byte is known; or it is the held-out part of a
// text of one's own (benchmarks/user_text.hpp), of which the seed draws the windows. No two windows of a set
// share a byte, so that none shows what is asked of another.
//
// A sample is a window of bytes, and its answer a score for each of the 256 bytes that may follow; their
// softmax is the model's distribution. One byte is scored for each window, because whoever is shown a whole
// text to score has been shown its bytes before it says them.
//
// Quality is minus the bits per byte, the mean over samples of log2 p(the byte that came): higher is better,
// and each sample has its share, so that two models are compared sample by sample. 2^-bits would be a mean of
// nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinymlperf/benchmarks/task.hpp>
#include <tinymlperf/benchmarks/user_text.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/data/grammar.hpp>
#include <utility>

namespace tinymlperf::judge {

class LanguageBenchmark final : public Benchmark, private Generation {
 public:
  LanguageBenchmark() = default;
  explicit LanguageBenchmark(UserText own) : own_(std::move(own)) {}

  std::string id() const override { return "lm"; }
  std::string task() const override { return "which byte comes next in a text"; }
  std::string metric() const override { return "minus bits per byte"; }
  // Less than 1.3 times the bits that the best of all models needs: with room for the luck of the windows.
  // That a model has at most 1.01 times the bits of another one is said by comparing their shares window by
  // window. Of a text of one's own nobody knows the least number: there a model must know more than how often
  // each byte comes.
  double floor() const override {
    if (own_) return -bits_by_frequency(own_->held_out);
    return -1.3 * tinytorch::grammar::entropy_bits_per_character();
  }

  // Throws std::invalid_argument where a text of one's own does not have so many windows.
  void draw(int64_t n, uint64_t seed) override {
    require_hidden_seed(seed);
    text_ = own_ ? own_windows(n, seed) : tinytorch::grammar::text(n * kStride, seed);
    graded_ = n;
  }
  int64_t size() const override { return graded_; }
  channel::Tensors inputs(std::span<const int64_t> samples) const override {
    std::string bytes;
    for (const int64_t s : samples) bytes += window(s, kContextBytes);
    return {tensor_of(bytes, static_cast<int64_t>(samples.size()))};
  }
  int64_t answer_size() const override { return 256; }

  Quality quality(const std::vector<Answer>& answers) const override {
    Quality q;
    for (size_t i = 0; i < answers.size(); ++i) {
      const auto came = static_cast<unsigned char>(text_[i * kStride + kContextBytes]);
      const std::vector<double> p = distribution(answers[i]);
      q.credit.push_back(p.empty() ? -kMostBits : std::max(-kMostBits, std::log2(p[came])));
    }
    q.value = tinytorch::statistics::bootstrap_mean(q.credit, {.draws = 2000});
    return q;
  }
  // The distributions share all but a thousandth of their probability (total variation).
  bool agrees(const Answer& graded, const Answer& timed) const override {
    const std::vector<double> p = distribution(graded), q = distribution(timed);
    if (p.empty() || q.empty()) return false;
    double apart = 0;
    for (size_t i = 0; i < p.size(); ++i) apart += std::abs(p[i] - q[i]);
    return apart / 2 <= kTolerance;
  }

  const Generation* generation() const override { return this; }

 private:
  static constexpr int64_t kStride = kContextBytes + 1;
  // What a byte costs at most, also where there is no distribution: an arithmetic coder of 32 bits can do
  // that.
  static constexpr double kMostBits = 32;
  static constexpr double kTolerance = 1e-3;

  // Windows side by side, from one of the first bytes on, in an order of chance: another seed cuts other
  // ones.
  std::string own_windows(int64_t n, uint64_t seed) const {
    const std::string& text = own_->held_out;
    const auto length = static_cast<int64_t>(text.size());
    if (length < (n + 1) * kStride)
      throw std::invalid_argument("--text " + own_->name + ": " + std::to_string(n) + " windows of " +
                                  std::to_string(kStride) + " bytes need a text of at least " +
                                  std::to_string(((n + 1) * kStride * 5 + 2) / 3) +
                                  " bytes, of which three fifths are "
                                  "held out; found " +
                                  std::to_string(own_->bytes()) + " (--class smoke asks the fewest)");
    tinytorch::Generator random(seed);
    const auto first = static_cast<int64_t>(random.below(kStride));
    std::vector<int64_t> starts;
    for (int64_t at = first; at + kStride <= length; at += kStride) starts.push_back(at);
    std::string out;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      std::swap(starts[i], starts[i + random.below(starts.size() - i)]);
      out += text.substr(static_cast<size_t>(starts[i]), static_cast<size_t>(kStride));
    }
    return out;
  }

  std::string window(int64_t sample, int64_t bytes) const {
    return text_.substr(static_cast<size_t>(sample * kStride), static_cast<size_t>(bytes));
  }
  static channel::Tensor tensor_of(const std::string& bytes, int64_t rows) {
    const std::vector<uint8_t> values(bytes.begin(), bytes.end());
    const auto columns = static_cast<int64_t>(bytes.size()) / rows;
    return channel::make_tensor<uint8_t>(channel::DType::u8, {rows, columns}, values);
  }
  // The softmax; empty where there is none. A score of minus infinity is a byte that cannot come.
  static std::vector<double> distribution(const Answer& scores) {
    if (scores.empty()) return {};
    std::vector<double> p(scores.begin(), scores.end());
    const double highest = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x - highest);
    if (!std::isfinite(sum)) return {};
    for (double& x : p) x /= sum;
    return p;
  }

  // ---- generation
  channel::Tensors prompt(int64_t sample) const override {
    constexpr int64_t kCount[] = {kGeneratedBytes};
    return {tensor_of(window(sample, kPromptBytes), 1),
            channel::make_tensor<int64_t>(channel::DType::i64, {1}, kCount)};
  }
  int64_t tokens() const override { return kGeneratedBytes; }

  std::vector<uint8_t> check(const std::vector<channel::Tensors>& streamed,
                             const channel::Tensors& answer) const override {
    const auto byte_tensor = [](const channel::Tensors& t, size_t count) {
      return t.size() == 1 && t[0].dtype == channel::DType::u8 && t[0].bytes.size() == count;
    };
    if (!byte_tensor(answer, kGeneratedBytes))
      throw std::runtime_error("a generation must end with one u8 tensor of " +
                               std::to_string(kGeneratedBytes) + " bytes");
    const auto bytes = answer[0].values<uint8_t>();
    if (streamed.size() != bytes.size())
      throw std::runtime_error("a generation must stream " + std::to_string(bytes.size()) +
                               " tokens, one by one, found " + std::to_string(streamed.size()));
    for (size_t i = 0; i < bytes.size(); ++i)
      if (!byte_tensor(streamed[i], 1) || streamed[i][0].values<uint8_t>()[0] != bytes[i])
        throw std::runtime_error("token " + std::to_string(i + 1) +
                                 ": expected the byte of the answer that ends the generation");
    return {bytes.begin(), bytes.end()};
  }
  channel::Tensors before(int64_t sample, std::span<const uint8_t> continuation,
                          size_t place) const override {
    const std::string bytes =
        window(sample, kPromptBytes) +
        std::string(continuation.begin(), continuation.begin() + static_cast<std::ptrdiff_t>(place));
    return {tensor_of(bytes, 1)};
  }
  bool likeliest(const Answer& scores, uint8_t token) const override {
    const std::vector<double> p = distribution(scores);
    return !p.empty() && p[token] >= *std::max_element(p.begin(), p.end()) - kTolerance;
  }

  std::optional<UserText> own_;
  std::string text_;
  int64_t graded_ = 0;
};

}  // namespace tinymlperf::judge
