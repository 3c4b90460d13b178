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

namespace generation {
// What the host needs of a step's logits [rows, V].
struct HostStep {
  Tensor logits;                  // on the CPU if a text does not take the best token
  std::vector<int64_t> best{};    // of each row: the first of the largest logits; empty on the CPU
  std::vector<double> largest{};  // and its logit
};
inline HostStep to_host(const DecodeStep& step, bool all_take_best) {
  return {all_take_best ? step.logits : step.logits.to(cpu), step.best.to_vector<int64_t>(),
          step.largest.to_vector<double>()};
}
}  // namespace generation

// The model is in evaluation mode, and it and the cache outlive this object. Graph is cuda::Graph, or a class
// with the same functions: a check records steps on the CPU.
template <class Graph>
class BasicGraphDecode {
 public:
  BasicGraphDecode(LanguageModel& model, KvCache& cache, TT_LOC) : model_(model), cache_(cache) {
    cache.fix_addresses(loc);
    tokens_ = zeros({cache.sequences()}, DType::i64, model.device(), loc);
  }

  // Task 9.14.
  DecodeStep operator()(std::span<const int64_t> counts, std::span<const int64_t> tokens, TT_LOC);

  int64_t captures() const { return captures_; }

 private:
  static constexpr int64_t kShortest = 256;  // lengths up to this share a graph

  struct Captured {
    explicit Captured(int device) : graph(device) {}
    Graph graph;
    DecodeStep step;
  };

  static int64_t bucket(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

  DecodeStep compute(int64_t rows) {
    const Tensor x = model_.features(slice(tokens_, 0, 0, rows).unsqueeze(0), &cache_).select(0, 0);
    const Tensor logits = model_.head(x);  // [rows, V]
    const Tensor best = argmax(logits, -1);
    return {logits, best, max(logits, {-1})};
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
