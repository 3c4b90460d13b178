// Measures networks against each other on one hidden set: accuracy, memory, then times in interleaved blocks.
//
// Every timed call gets another sample of the hidden set, and its answer is compared with the accuracy run
// after the clock has stopped: the same code is timed that was graded. Inputs are prepared before the clock
// starts.
#pragma once

#include <tinymlperf/entries/network.hpp>
#include <tinymlperf/race/score.hpp>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/core/allocator.hpp>
#include <utility>
#include <vector>

namespace tinymlperf {

namespace benchmarking = tinytorch::benchmarking;

struct LabelledImages {
  tt::Tensor images;            // f32 [N, C, H, W]
  std::vector<int64_t> labels;  // N classes
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  tt::Tensor batch(int64_t start, int64_t count) const {
    return images.slice(0, start, std::min(start + count, size()));
  }
};

struct ContestOptions {
  size_t blocks = 12;
  double single_seconds = 0.04, batch_seconds = 0.2;  // per entry and block, as far as the limits below allow
  int64_t fewest_single = 8, most_single = 64;
  int64_t fewest_batch = 2, most_batch = 8;
  benchmarking::WarmUpOptions warm_up{.window = 5, .tolerance = 0.01, .seconds_limit = 0.5};
  uint64_t seed = 0;  // of the order
};

struct Contestant {
  Network network;
  Measurement measurement;
  std::vector<int64_t> answers;               // to the hidden set, from the accuracy run
  int64_t calls_single = 0, calls_batch = 0;  // per block
  bool settled = false;                       // warm-up reached steady times
};

// The class with the highest score in each row; the first one when several are equal.
inline std::vector<int64_t> classes_of(const tt::Tensor& scores) {
  const auto values = scores.to_vector<float>();
  const auto classes = static_cast<size_t>(scores.size(1));
  std::vector<int64_t> out;
  for (size_t row = 0; row < values.size(); row += classes) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(row);
    out.push_back(std::max_element(first, first + static_cast<std::ptrdiff_t>(classes)) - first);
  }
  return out;
}

namespace detail {

inline void answer_hidden_set(Contestant& c, const LabelledImages& hidden, int64_t batch) {
  for (int64_t start = 0; start < hidden.size(); start += batch) {
    const auto answers = classes_of(c.network.forward(hidden.batch(start, batch)));
    c.answers.insert(c.answers.end(), answers.begin(), answers.end());
  }
  c.measurement.tested = hidden.size();
  for (size_t i = 0; i < c.answers.size(); ++i) c.measurement.correct += c.answers[i] == hidden.labels[i];
}

// Weights plus the most that lives at once while the batch runs.
inline int64_t peak_bytes(const Network& network, const tt::Tensor& x) {
  const size_t before = tt::allocator_stats().current;
  tt::reset_peak();
  network.forward(x);
  return network.weight_bytes() + static_cast<int64_t>(tt::allocator_stats().peak - before);
}

// One timed call on the samples from `start`; counts answers that differ from the accuracy run.
inline double timed_call(Contestant& c, const LabelledImages& hidden, int64_t start, int64_t count) {
  const tt::Tensor x = hidden.batch(start, count);
  tt::Tensor scores;
  const double seconds = benchmarking::time_calls([&] { scores = c.network.forward(x); }, 1)[0];
  const auto answers = classes_of(scores);
  for (size_t i = 0; i < answers.size(); ++i)
    c.measurement.timed_mismatches += answers[i] != c.answers[static_cast<size_t>(start) + i];
  return seconds;
}

inline void plan_calls(Contestant& c, const LabelledImages& hidden, int64_t batch, const ContestOptions& o) {
  const tt::Tensor one = hidden.batch(0, 1), many = hidden.batch(0, batch);
  benchmarking::WarmUpOptions batch_warm_up = o.warm_up;
  batch_warm_up.window = 1;
  const auto single = benchmarking::warm_up([&] { c.network.forward(one); }, o.warm_up);
  const auto batched = benchmarking::warm_up([&] { c.network.forward(many); }, batch_warm_up);
  c.settled = single.settled && batched.settled;
  c.calls_single =
      benchmarking::calls_within(o.single_seconds, single.median, o.fewest_single, o.most_single);
  c.calls_batch = benchmarking::calls_within(o.batch_seconds, batched.median, o.fewest_batch, o.most_batch);
}

// One entry's turn in a block. The first call of each kind refills the caches that others emptied; it is not
// kept.
inline Block run_block(Contestant& c, const LabelledImages& hidden, int64_t batch, tt::Generator& random) {
  Block block;
  const auto singles = static_cast<uint64_t>(hidden.size());
  const auto batches = static_cast<uint64_t>(hidden.size() - batch + 1);
  for (int64_t i = -1; i < c.calls_single; ++i) {
    const double seconds = timed_call(c, hidden, static_cast<int64_t>(random.below(singles)), 1);
    if (i >= 0) block.single.push_back(seconds);
  }
  for (int64_t i = -1; i < c.calls_batch; ++i) {
    const double seconds = timed_call(c, hidden, static_cast<int64_t>(random.below(batches)), batch);
    if (i >= 0) block.batch.push_back(seconds);
  }
  return block;
}

}  // namespace detail

// Accuracy, memory and warm-up of one entry; what it throws concerns this entry alone. N >= batch.
inline Contestant admit(Network network, const LabelledImages& hidden, int64_t batch,
                        const ContestOptions& options) {
  const tt::NoGrad no_grad;
  Contestant c{std::move(network), {}, {}};
  Measurement& m = c.measurement;
  m.name = c.network.spec().name;
  m.parameters = c.network.spec().parameters;
  m.multiply_adds = c.network.spec().multiply_adds;
  detail::answer_hidden_set(c, hidden, batch);
  m.peak_bytes_single = detail::peak_bytes(c.network, hidden.batch(0, 1));
  m.peak_bytes_batch = detail::peak_bytes(c.network, hidden.batch(0, batch));
  detail::plan_calls(c, hidden, batch, options);
  return c;
}

// Fills the blocks of every contestant.
inline void run_contest(std::vector<Contestant>& contestants, const LabelledImages& hidden, int64_t batch,
                        const ContestOptions& options) {
  const tt::NoGrad no_grad;
  // Which samples are drawn comes from another stream than the order of entries.
  tt::Generator random(options.seed ^ 0x9E3779B97F4A7C15u);
  for (const auto& order : benchmarking::random_blocks(contestants.size(), options.blocks, options.seed))
    for (const size_t i : order)
      contestants[i].measurement.blocks.push_back(detail::run_block(contestants[i], hidden, batch, random));
}

}  // namespace tinymlperf
