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
#include <tinytorch/transformer/language_model.hpp>

namespace tinytorch::inline TT_BUILD {

struct DecodeStep {
  Tensor logits;   // [rows, V] on the model's device; row i belongs to the i-th sequence with a token
  Tensor best;     // i64 [rows] on the model's device: the first of the largest logits
  Tensor largest;  // [rows]: its logit
};

// A step of logits [rows, V].
inline DecodeStep decode_step(const Tensor& logits) {
  const ValuesAndIndices best = topk(logits, 1);
  return {logits, best.indices.select(1, 0), best.values.select(1, 0)};
}

// The model is in evaluation mode, and it and the cache outlive this object. Throws TT-KV-04 if the model's
// steps do not fit graphs (LanguageModel::steps_fit_graphs). Graph is cuda::Graph, or a class
// with the same functions: a check records steps on the CPU.
template <class Graph>
class BasicGraphDecode {
 public:
  // most_tokens: those of a pass(). Without passes, 0 is enough.
  BasicGraphDecode(LanguageModel& model, KvCache& cache, int64_t most_tokens = 0, TT_LOC)
      : model_(model), cache_(cache) {
    if (!model.steps_fit_graphs()) {
      fail(
          "TT-KV-04",
          "GraphDecode: steps of this model depend on the lengths of the texts, which a graph does not know\n"
          "  hint: generate() and serving::Engine decode such a model step by step",
          loc);
    }
    const int64_t most = std::max(cache.sequences(), most_tokens > 0 ? rows_of_pass(most_tokens) : 0);
    cache.fix_addresses(most, loc);
    tokens_ = zeros({most}, DType::i64, model.device(), loc);
    last_ = zeros({cache.sequences()}, DType::i64, model.device(), loc);
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

  // A step with any number of tokens of each sequence, such as prompts beside texts that go on. Its results
  // are those of the last token of each sequence that has one.
  DecodeStep pass(std::span<const int64_t> counts, std::span<const int64_t> tokens, TT_LOC) {
    std::vector<int64_t> last;
    int64_t count = 0;
    for (const int64_t n : counts) {
      count += n;
      if (n > 0) last.push_back(count - 1);
    }
    if (count == 0 || count != std::ssize(tokens) || rows_of_pass(count) > tokens_.size(0)) {
      fail("TT-KV-01",
           "a pass has the tokens of some sequences, at most " + std::to_string(tokens_.size(0)) + ", got " +
               std::to_string(tokens.size()) + " for " + std::to_string(count) +
               "\n  hint: most_tokens of the constructor",
           loc);
    }
    const NoGrad no_grad;
    cache_.begin(counts, loc);
    write(tokens_, tokens, loc);
    write(last_, last, loc);
    const int64_t rows = rows_of_pass(count), bound = size_of_step(counts, count).bound;
    cache_.pad_step(rows, bound, loc);
    return first_rows(run(rows, bound, loc), std::ssize(last));
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
  // A pass has more rows than there are sequences, which tells its graphs from those of single tokens. As its
  // products take as long as their rows, padding adds at most a quarter.
  int64_t rows_of_pass(int64_t count) const {
    const int64_t rows = std::max(count, cache_.sequences() + 1);
    return round_up(rows, std::max<int64_t>(1, bucket(rows) / 8));
  }
  // Writes values, and zeros behind them, to a tensor whose address graphs know.
  static void write(Tensor& fixed, std::span<const int64_t> values, Loc loc) {
    std::vector<int64_t> all(values.begin(), values.end());
    all.resize(static_cast<size_t>(fixed.numel()));
    fixed.copy_(from_data(all, fixed.shape(), cpu, loc));
  }

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
    Tensor x = model_.features(slice(tokens_, 0, 0, rows).unsqueeze(0), &cache_).select(0, 0);
    if (rows > cache_.sequences()) x = index_select(x, 0, last_);
    return decode_step(model_.head(x));
  }

  DecodeStep run(int64_t rows, int64_t bound, Loc loc);  // task 9.14

  LanguageModel& model_;
  KvCache& cache_;
  Tensor tokens_;                                           // i64 [most rows of a step]
  Tensor last_;                                             // i64 [sequences]: rows with results, of a pass
  std::map<std::pair<int64_t, int64_t>, Captured> graphs_;  // by rows and longest sequence
  int64_t captures_ = 0;
};
using GraphDecode = BasicGraphDecode<backend::cuda::Graph>;

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/transformer/graph_decode.hpp>
