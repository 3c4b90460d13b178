// GraphDecode: decoding steps of one token per sequence as CUDA graphs. A step of GPT-2 launches some 150
// kernels, whose launches take longer than their work; a graph launches all of them at once.
//
// The frame of a course header: it has the given parts, and includes the functions of task 9.14. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <bit>
#include <map>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/backend/cuda/runtime/graph.hpp>
#include <tinytorch/kv_cache/cache.hpp>
#include <tinytorch/tensor/observer.hpp>
#include <tinytorch/tensor/ops/host_copy.hpp>
#include <tinytorch/transformer/language_model.hpp>

namespace tinytorch::inline TT_BUILD {

struct DecodeStep {
  Tensor logits;   // [rows, V] on the model's device; row i belongs to the i-th sequence with a token
  Tensor best;     // i64 [rows] on the model's device: the first of the largest logits
  Tensor largest;  // [rows]: its logit
};

namespace generation {
// The part of a step's logits [rows, V] that the host needs.
struct HostStep {
  Tensor logits;                  // on the CPU if a text does not take the best token
  std::vector<int64_t> best{};    // of each row: the first of the largest logits; empty on the CPU
  std::vector<double> largest{};  // and its logit
};
// The choice of a step on its way to the host, which may queue more work meanwhile.
class ChoiceOnTheWay {
 public:
  explicit ChoiceOnTheWay(const DecodeStep& step) : best_(step.best), largest_(step.largest) {}
  HostStep with(const Tensor& logits) {
    return {logits, best_.get().to_vector<int64_t>(), largest_.get().to_vector<double>()};
  }

 private:
  HostCopy best_, largest_;
};
inline HostStep to_host(const DecodeStep& step, bool all_take_best) {
  return ChoiceOnTheWay(step).with(all_take_best ? step.logits : step.logits.to(cpu));
}
}  // namespace generation

// The model is in evaluation mode, and it and the cache outlive this object. Throws TT-KV-04 if the model's
// steps do not fit graphs (LanguageModel::steps_fit_graphs). Graph is cuda::Graph, or a class
// with the same functions: a check records steps on the CPU.
template <class Graph>
class BasicGraphDecode {
 public:
  BasicGraphDecode(LanguageModel& model, KvCache& cache, TT_LOC) : model_(model), cache_(cache) {
    if (!model.steps_fit_graphs()) {
      fail(
          "TT-KV-04",
          "GraphDecode: steps of this model depend on the lengths of the texts, which a graph does not know\n"
          "  hint: generate() and serving::Engine decode such a model step by step",
          loc);
    }
    cache.fix_addresses(loc);
    tokens_ = zeros({cache.sequences()}, DType::i64, model.device(), loc);
  }

  // Task 9.14.
  DecodeStep operator()(std::span<const int64_t> counts, std::span<const int64_t> tokens, TT_LOC);

  // A step whose tokens, i64 [tokens of the step], are on the model's device, such as the best ones of the
  // last step. The host queues it without waiting for these, so that the device is never idle between two
  // steps.
  DecodeStep operator()(std::span<const int64_t> counts, const Tensor& tokens, TT_LOC) {
    const int64_t count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    const bool single = std::ranges::all_of(counts, [](int64_t n) { return n == 0 || n == 1; });
    if (!single || count == 0 || tokens.shape() != Shape{count} || tokens.dtype() != DType::i64) {
      fail("TT-KV-01",
           "a graph's step has one token i64 for each of some sequences, got " + tokens.describe() + " for " +
               std::to_string(count),
           loc);
    }
    const NoGrad no_grad;
    cache_.begin(counts, loc);
    slice(tokens_, 0, 0, count).copy_(tokens);
    const auto [rows, bound] = size_of_step(counts, count);
    cache_.pad_step(rows, bound, loc);
    return first_rows(run(rows, bound, loc), count);
  }

  int64_t captures() const { return captures_; }

 private:
  static constexpr int64_t kShortest = 256;  // lengths up to this share a graph

  struct Captured {
    explicit Captured(int device) : graph(device) {}
    Graph graph;
    DecodeStep step;
  };

  static int64_t bucket(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

  // The rows of the graph, and the length of the sequences that its kernels are launched for.
  struct StepSize {
    int64_t rows, bound;
  };
  StepSize size_of_step(std::span<const int64_t> counts, int64_t count) const {
    int64_t longest = 1;
    for (size_t b = 0; b < counts.size(); ++b)
      longest = std::max(longest, cache_.length(static_cast<int64_t>(b)) + counts[b]);
    return {std::min(bucket(count), cache_.sequences()),
            std::max(bucket(std::max(longest, kShortest)), longest)};
  }
  static DecodeStep first_rows(const DecodeStep& all, int64_t count) {
    return {slice(all.logits, 0, 0, count), slice(all.best, 0, 0, count), slice(all.largest, 0, 0, count)};
  }

  DecodeStep compute(int64_t rows) {
    const Tensor x = model_.features(slice(tokens_, 0, 0, rows).unsqueeze(0), &cache_).select(0, 0);
    const Tensor logits = model_.head(x);  // [rows, V]
    const ValuesAndIndices best = topk(logits, 1);
    return {logits, best.indices.select(1, 0), best.values.select(1, 0)};
  }

  DecodeStep run(int64_t rows, int64_t bound, Loc loc);  // task 9.14

  LanguageModel& model_;
  KvCache& cache_;
  Tensor tokens_;                                           // i64 [sequences]
  std::map<std::pair<int64_t, int64_t>, Captured> graphs_;  // by rows and longest sequence
  int64_t captures_ = 0;
};
using GraphDecode = BasicGraphDecode<backend::cuda::Graph>;

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/transformer/graph_decode.hpp>
