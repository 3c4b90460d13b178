// lm: language modelling by bytes: which byte comes next in a text. The text is drawn from a grammar
// (data/grammar.hpp), so that a hidden one costs nothing and the least possible number of bits per byte is
// known; or it is the held-out part of a user's text (user_text.hpp), whose windows the seed draws. No two
// windows of a set share a byte, so that none reveals the answer of another.
//
// A sample is a window of bytes, and its answer a score for each of the 256 bytes that may follow; their
// softmax is the model's distribution. Only one byte of each window is scored, because a contender that gets
// a whole text can read the bytes that it should predict.
//
// Quality is minus the bits per byte, the mean over samples of log2 p(next byte). Higher is better, and each
// sample has its own term, so that two models are compared sample by sample.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <tinymlperf/benchmarks/descriptor.hpp>
#include <tinymlperf/benchmarks/prompt.hpp>
#include <tinymlperf/benchmarks/user_text.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/data/grammar.hpp>
#include <tinytorch/transformer/language_model.hpp>
#include <utility>

namespace tinymlperf {

const Descriptor& language_descriptor();

namespace judge {

class LanguageBenchmark : public Described, private Generation {
 public:
  LanguageBenchmark() : Described(language_descriptor()) {}
  explicit LanguageBenchmark(UserText own) : LanguageBenchmark() { own_ = std::move(own); }

  // The least number of bits is unknown for a user's text, so a model must be better there than the
  // frequencies of the bytes.
  double floor() const override { return own_ ? -bits_by_frequency(own_->held_out) : Described::floor(); }

  // Throws std::invalid_argument if a user's text does not have so many windows.
  void draw(int64_t n, uint64_t seed) override {
    require_hidden_seed(seed);
    text_ = own_ ? own_windows(n, seed) : tinytorch::grammar::text(n * kStride, seed);
    graded_ = n, seed_ = seed;
  }
  int64_t size() const override { return graded_; }
  channel::Tensors inputs(std::span<const int64_t> samples) const override {
    std::string bytes;
    for (const int64_t s : samples) {
      if (length(s) != length(samples.front()))
        throw std::logic_error("lm: samples of different lengths do not fit in one query");
      bytes += window(s, length(s));
    }
    const auto rows = static_cast<int64_t>(samples.size());
    return {byte_tensor(bytes, {rows, std::ssize(bytes) / rows})};
  }
  int64_t answer_size() const override { return 256; }

  Quality quality(const std::vector<Answer>& answers) const override {
    Quality q;
    for (size_t i = 0; i < answers.size(); ++i) {
      const auto sample = static_cast<int64_t>(i);
      const auto came = static_cast<uint8_t>(text_[static_cast<size_t>(sample * kStride + length(sample))]);
      q.credit.push_back(-bits(answers[i], came));
    }
    q.value = tinytorch::statistics::bootstrap_mean(q.credit, {.draws = 2000});
    return q;
  }
  // The total variation distance of the distributions is at most a thousandth.
  bool agrees(const Answer& graded, const Answer& timed) const override {
    const std::vector<double> p = distribution(graded), q = distribution(timed);
    if (p.empty() || q.empty()) return false;
    double apart = 0;
    for (size_t i = 0; i < p.size(); ++i) apart += std::abs(p[i] - q[i]);
    return apart / 2 <= kTolerance;
  }

  void vary_lengths(const TextLengths& lengths) override { lengths_ = lengths; }
  double work(int64_t sample) const override { return static_cast<double>(length(sample)); }
  const Generation* generation() const override { return this; }

 private:
  static constexpr int64_t kStride = kContextBytes + 1;
  // The most bits of a byte, also if the answer is no distribution: an arithmetic coder of 32 bits needs no
  // more.
  static constexpr double kMostBits = 32;
  static constexpr double kTolerance = 1e-3;

  // Adjacent windows from one of the first bytes on, in a random order: another seed cuts other windows.
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

  // Bytes of a sample before the one that is scored.
  int64_t length(int64_t sample) const {
    if (lengths_.tokens == 0) return kContextBytes;
    tinytorch::Generator random(seed_ ^ (0x9E3779B97F4A7C15u * (static_cast<uint64_t>(sample) + 1)));
    const int64_t place = place_of(random.below(uint64_t{1} << 32), lengths_.tokens);
    return lengths_.least + length_drawn(random, lengths_.prompts) + place;
  }
  std::string window(int64_t sample, int64_t bytes) const {
    return text_.substr(static_cast<size_t>(sample * kStride), static_cast<size_t>(bytes));
  }
  // The softmax; empty if there is none. A score of minus infinity is an impossible byte.
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
  std::string beginning(int64_t sample) const override { return window(sample, kPromptBytes); }
  // The part of a user's text that may be learned, from a random place on and then from its beginning.
  std::string other_text(int64_t bytes, uint64_t seed) const override {
    if (!own_) return tinytorch::grammar::text(bytes, seed);
    const std::string& text = own_->to_learn;
    size_t at = tinytorch::Generator(seed).below(text.size());
    std::string out;
    for (; std::ssize(out) < bytes; at = (at + 1) % text.size()) out += text[at];
    return out;
  }
  channel::Tensors before(const std::string& text) const override {
    return {byte_tensor(text, {1, std::ssize(text)})};
  }
  bool likeliest(const Answer& scores, uint8_t token) const override {
    const std::vector<double> p = distribution(scores);
    return !p.empty() && p[token] >= *std::max_element(p.begin(), p.end()) - kTolerance;
  }
  double bits(const Answer& scores, uint8_t token) const override {
    const std::vector<double> p = distribution(scores);
    return p.empty() ? kMostBits : std::min(kMostBits, -std::log2(p[token]));
  }

  std::optional<UserText> own_;
  std::string text_;
  int64_t graded_ = 0;
  uint64_t seed_ = 0;
  TextLengths lengths_;
};

}  // namespace judge

namespace detail {

constexpr int64_t kWindowBytes = kContextBytes + 1;

// i64 [n, kWindowBytes], side by side
inline tt::Tensor text_windows(const std::string& text) {
  std::vector<int64_t> bytes;
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return tt::from_data(bytes, {static_cast<int64_t>(bytes.size()) / kWindowBytes, kWindowBytes});
}

// i64 [n, kWindowBytes], from random places of a text with at least one window
inline tt::Tensor some_windows(std::string_view text, int64_t n, uint64_t seed) {
  tt::Generator random(seed);
  std::string out;
  for (int64_t i = 0; i < n; ++i)
    out += text.substr(random.below(text.size() - kWindowBytes + 1), kWindowBytes);
  return text_windows(out);
}

inline tt::Tensor text_loss(tt::Module& net, const tt::Tensor& x, const tt::Tensor& target) {
  return dynamic_cast<tt::LanguageModel&>(net).loss(x, target);
}

// Every byte of a window is learned from those before it; validation scores the last one, as the benchmark
// does.
inline TrainingData windows_to_learn(const tt::Tensor& windows, const tt::Tensor& held_out) {
  const auto minus_bits = [=](tt::Module& net) {
    const tt::NoGrad no_grad;
    net.eval();
    auto& model = dynamic_cast<tt::LanguageModel&>(net);
    const tt::Tensor last = model.features(held_out.slice(1, 0, kContextBytes)).select(1, -1);  // [N, C]
    return -tt::cross_entropy(model.head(last), held_out.select(1, -1)).item<double>() / std::log(2.0);
  };
  return {windows.slice(1, 0, kContextBytes).contiguous(), windows.slice(1, 1).contiguous(), text_loss,
          "minus bits per byte", minus_bits};
}

}  // namespace detail

// Training data of a user's text (user_text.hpp): validation is on its last tenth, which is not learned.
inline TrainingData text_to_learn(const TrainingSize& size, std::string_view text) {
  const size_t first = text.size() - text.size() / 10;
  return detail::windows_to_learn(detail::some_windows(text.substr(0, first), size.training, kTrainingSeed),
                                  detail::some_windows(text.substr(first), size.validation, kValidationSeed));
}

namespace detail {

inline TrainingData generated_text_to_learn(const TrainingSize& size) {
  const auto windows = [](int64_t n, uint64_t seed) {
    return text_windows(tt::grammar::text(n * kWindowBytes, seed));
  };
  return windows_to_learn(windows(size.training, kTrainingSeed), windows(size.validation, kValidationSeed));
}

inline std::vector<BundledModel> language_models() {
  const auto gpt = [](int64_t features, int64_t layers, int64_t heads) {
    return Json{{"type", "gpt"},
                {"context", kContextBytes},
                {"features", features},
                {"layers", layers},
                {"heads", heads}};
  };
  return {
      {"gpt", "Two blocks of 64 features. The baseline.", 4, 5e-3, gpt(64, 2, 4), 16},
      {"gpt-narrow", "One block of 16 features: too small.", 4, 5e-3, gpt(16, 1, 2), 16},
  };
}

}  // namespace detail

// The floor is 1.3 times the bits of the best possible model, with room for the randomness of the windows. In
// the closed division two models are compared window by window (judge/results/quality_gate.hpp).
inline const Descriptor& language_descriptor() {
  static const double floor = -1.3 * tinytorch::grammar::entropy_bits_per_character();
  static const Descriptor about{.shape = {"lm", {kContextBytes}, 256, "outputs", true, false},
                                .question = "which byte comes next in a text",
                                .metric = "minus bits per byte",
                                .floor = floor,
                                .size = {8000, 1000},
                                .data = detail::generated_text_to_learn,
                                .recipes = detail::language_models,
                                .judged = judge::make_new<judge::LanguageBenchmark>,
                                .target = TrainingTarget{.ranked = floor, .smoke = -4.5}};
  return about;
}

}  // namespace tinymlperf
