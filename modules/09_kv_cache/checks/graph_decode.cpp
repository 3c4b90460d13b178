#include <tinytorch/transformer/graph_decode.hpp>

#include <tinytorch/kv_cache/paged.hpp>

#include "recorder.hpp"

using namespace course;

namespace {

// A graph on the CPU. It behaves as a CUDA graph does: what is recorded does not run, and a replay repeats
// the recorded work with the same addresses, while numbers that the host passed are those of the recording.
class RecordedGraph : OpObserver {
 public:
  explicit RecordedGraph(int = 0) {}
  static bool works_on(Device) { return true; }
  static RecordedGraph*& recording() {
    static RecordedGraph* graph = nullptr;
    return graph;
  }
  bool is_captured() const { return captured_; }
  template <class Step>
  void capture(Step&& step, Loc = {}) {
    ++captures;
    work_.clear(), made_.clear();
    recording() = this;
    try {
      const Observing observing(*this);
      step();
    } catch (...) {
      recording() = nullptr;
      throw;
    }
    recording() = nullptr, captured_ = true;
    for (Tensor& t : made_) t.fill_(is_floating(t.dtype()) ? NAN : 0);  // nothing has run yet
  }
  void replay(Loc = {}) {
    ++replays;
    for (const auto& work : work_) work();
  }
  // Runs a kernel now, and again in each replay if a graph records.
  static void launch(const std::function<void()>& kernel) {
    OpObserver* const observer = std::exchange(op_observer(), nullptr);
    kernel();
    op_observer() = observer;
    if (recording()) recording()->work_.push_back(kernel);
  }

  static inline int64_t captures = 0, replays = 0;

 private:
  void after(const PrimitiveBase& op, const Tensors& inputs, const Tensors& outputs, Cost) override {
    if (op.is_view()) return;
    for (const Tensor& t : outputs) made_.push_back(t);
    work_.push_back([op = std::shared_ptr<const PrimitiveBase>(op.clone()), inputs, outputs] {
      Tensors results = outputs;
      op->run(inputs, results);
    });
  }

  bool captured_ = false;
  std::vector<std::function<void()>> work_;
  Tensors made_;
};
using Decode = BasicGraphDecode<RecordedGraph>;

// A paged cache whose attention is a kernel for sequences of up to `longest` tokens, which the host passes at
// its launch. Rows that belong to no sequence give NaN.
class LaunchedCache : public PagedCache {
 public:
  LaunchedCache(const LanguageModel& model, int64_t sequences, int64_t capacity, int64_t page)
      : PagedCache(model.kv_shape(),
                   {.sequences = sequences, .capacity = capacity, .device = cpu, .dtype = f64},
                   {.pages = sequences * ((capacity + page - 1) / page), .page = page}) {}
  Tensor attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v,
                const AttentionOptions&) override {
    KvMemory m = step_;
    m.keys = layers_[static_cast<size_t>(layer)].keys, m.values = layers_[static_cast<size_t>(layer)].values;
    const Tensor y = zeros(q.shape(), f64);
    RecordedGraph::launch([=] {
      const auto by_row = [](const Tensor& x) { return x.select(0, 0).transpose(0, 1); };  // [H, N, D]
      kv_append(m, by_row(k), by_row(v));
      Tensor out = y;
      out.fill_(NAN);
      const auto lengths = m.lengths.to_vector<int64_t>(), first = m.first_row.to_vector<int64_t>();
      const int64_t used = std::min(first.back(), q.size(2));
      const Tensor all = cached_attention(by_row(q), m);
      if (*std::max_element(lengths.begin(), lengths.end()) <= m.longest)
        slice(by_row(y), 0, 0, used).copy_(slice(all, 0, 0, used));
    });
    if (layer == shape().layers - 1) end_step();
    return y;
  }
  // The keys and values of a sequence in all layers.
  Numbers tokens_of(int64_t b) const {
    Numbers all;
    for (const KvMemory& m : layers_) {
      for (int64_t t = 0; t < length(b); ++t) {
        for (const Tensor& plane : {m.keys, m.values}) {
          const Numbers x = plane.select(0, table(b)[static_cast<size_t>(t / page())])
                                .select(1, t % page())
                                .to_vector<double>();
          all.insert(all.end(), x.begin(), x.end());
        }
      }
    }
    return all;
  }
};

// A model that makes something once, such as weights of another dtype, and makes it in a pass that is not
// recorded.
class Model : public Recorder {
 public:
  using Recorder::Recorder;
  Tensor features(const Tensor& tokens, AttentionCache* cache) override {
    if (std::exchange(fails, false)) fail("TT-NN-23", "this pass fails");
    if (RecordedGraph::recording())
      expect("a pass of " + shown(tokens.numel()) + " rows runs as it is before one is recorded",
             made_.contains(tokens.numel()));
    made_.insert(tokens.numel());
    return Recorder::features(tokens, cache);
  }
  bool fails = false;

 private:
  std::set<int64_t> made_;
};

// Texts of which each step adds a token; their logits are computed without a cache.
class Texts {
 public:
  Texts(Model& model, LaunchedCache& cache)
      : model_(model), cache_(cache), texts_(static_cast<size_t>(cache.sequences())) {
    RecordedGraph::captures = RecordedGraph::replays = 0;
  }
  void prompt(int64_t b, int64_t count) {
    const NoGrad no_grad;
    const Tokens32 tokens = prompt_of(count);
    std::vector<int64_t> counts(texts_.size(), 0);
    counts[static_cast<size_t>(b)] = count;
    cache_.begin(counts);
    model_.features(from_data(std::vector<int64_t>(tokens.begin(), tokens.end()), {1, count}), &cache_);
    Tokens32& text = texts_[static_cast<size_t>(b)];
    text.insert(text.end(), tokens.begin(), tokens.end());
    model_.lengths.clear();
  }
  // One random token of each of these sequences.
  void step(Decode& decode, const std::vector<int64_t>& which, bool compare = true) {
    std::vector<int64_t> counts(texts_.size(), 0), tokens;
    for (const int64_t b : which) {
      counts[static_cast<size_t>(b)] = 1;
      texts_[static_cast<size_t>(b)].push_back(prompt_of(1)[0]);
      tokens.push_back(texts_[static_cast<size_t>(b)].back());
    }
    const DecodeStep step = decode(counts, tokens);
    const int64_t rows = std::ssize(which);
    expect_equal("shape of the logits of " + shown(rows) + " tokens", step.logits.shape(),
                 Shape{rows, kVocabulary});
    for (int64_t b = 0; b < cache_.sequences(); ++b)
      expect_equal("length of sequence " + shown(b) + " after a step of sequences " + shown(which),
                   cache_.length(b), length(b));
    if (!compare) return;
    const NoGrad no_grad;
    for (int64_t i = 0; i < rows; ++i) {
      const Tokens32& text = texts_[static_cast<size_t>(which[static_cast<size_t>(i)])];
      const Numbers want = model_.logits(text);
      expect_close("logits of row " + shown(i) + ", after " + shown(std::ssize(text)) +
                       " tokens, step of sequences " + shown(which),
                   step.logits.select(0, i).to_vector<double>(), want, {kVocabulary},
                   {.dtype = f64, .roundings = 1e5});
      const auto best = std::max_element(want.begin(), want.end());
      expect_equal("the best token of row " + shown(i),
                   step.best.to_vector<int64_t>()[static_cast<size_t>(i)],
                   static_cast<int64_t>(best - want.begin()));
      expect_close("its logit", {step.largest.to_vector<double>()[static_cast<size_t>(i)]}, {*best}, {1},
                   {.dtype = f64, .roundings = 1e5});
    }
  }
  int64_t length(int64_t b) const { return std::ssize(texts_[static_cast<size_t>(b)]); }

 private:
  Model& model_;
  LaunchedCache& cache_;
  std::vector<Tokens32> texts_;
};

// These are not templates, which saves compile time.
void expect_number(const std::string& what, int64_t got, int64_t want) { expect_equal(what, got, want); }
void expect_passes(const std::string& what, const Model& model, const std::vector<int64_t>& want) {
  expect_equal("rows of each pass of the model: " + what, model.lengths, want);
}

}  // namespace

TEST_CASE("9.14 the first step runs as it is, the second is recorded, and all later ones are replayed") {
  Model model(60);
  LaunchedCache cache(model, 1, 60, 4);
  Decode decode(model, cache);
  Texts texts(model, cache);
  texts.prompt(0, 5);
  for (int i = 0; i < 12; ++i) texts.step(decode, {0});
  expect_passes("the first step and the recorded one, of 12 steps", model, {1, 1});
  expect_number("recordings", RecordedGraph::captures, 1);
  expect_number("captures()", decode.captures(), 1);
  expect_number("replays: of each step but the first", RecordedGraph::replays, 11);
}

TEST_CASE("9.14 every sequence may have a token, or none") {
  Model model(60);
  LaunchedCache cache(model, 4, 60, 4);
  Decode decode(model, cache);
  Texts texts(model, cache);
  texts.prompt(1, 6), texts.prompt(3, 2);
  for (const std::vector<int64_t>& which : {std::vector<int64_t>{1, 3},
                                            {1, 3},
                                            {0, 1},
                                            {2, 3},
                                            {0, 3},
                                            {1, 2},
                                            {0, 1, 2, 3},
                                            {0, 1, 2, 3},
                                            {0, 1, 2, 3},
                                            {3},
                                            {0},
                                            {2},
                                            {1, 2}})
    texts.step(decode, which);
  expect_passes("1, 2 and 4 rows, each once as it is and once recorded", model, {2, 2, 4, 4, 1, 1});
}

TEST_CASE("9.14 a power of two of rows: those beyond the step's tokens belong to no sequence") {
  Model model(60);
  LaunchedCache cache(model, 5, 60, 4);
  Decode decode(model, cache);
  Texts texts(model, cache);
  for (int64_t b = 0; b < 5; ++b) texts.prompt(b, b + 1);
  for (const std::vector<int64_t>& which :
       {std::vector<int64_t>{0, 1, 2}, {1, 3, 4}, {0, 1, 2, 3}, {2, 3, 4}, {0, 1, 4}, {0, 1, 2, 3, 4}})
    texts.step(decode, which);
  expect_passes("3 and 4 tokens share a graph of 4 rows; 5 sequences have at most 5 rows", model, {4, 4, 5});
  for (int i = 0; i < 6; ++i) {
    const Numbers one = cache.tokens_of(1), three = cache.tokens_of(3);
    texts.step(decode, {0, 2, 4});
    expect("the fourth row of a step of sequences 0, 2 and 4 is written nowhere",
           cache.tokens_of(1) == one && cache.tokens_of(3) == three);
  }
  texts.step(decode, {1, 3}), texts.step(decode, {0, 1, 2, 3, 4});
}

TEST_CASE("9.14 a graph is for sequences up to a length, and longer ones have another") {
  Model model(270);
  LaunchedCache cache(model, 2, 270, 16);
  Decode decode(model, cache);
  Texts texts(model, cache);
  texts.prompt(0, 250), texts.prompt(1, 3);
  for (int i = 0; i < 14; ++i) texts.step(decode, {0, 1}, i % 3 == 0 || i > 4);
  expect_passes("up to 256 tokens, and more than 256", model, {2, 2, 2, 2});
  texts.step(decode, {1}), texts.step(decode, {1}), texts.step(decode, {1}), texts.step(decode, {0, 1});
  expect_passes("a step without the long sequence is for the long one's length, too: it is in the cache",
                model, {2, 2, 2, 2, 1, 1});
}

TEST_CASE("9.14 200 tokens: two passes of the model") {
  Model model(230);
  LaunchedCache cache(model, 1, 230, 16);
  Decode decode(model, cache);
  Texts texts(model, cache);
  texts.prompt(0, 3);
  for (int i = 0; i < 200; ++i) texts.step(decode, {0}, i % 25 == 24);
  expect_passes("200 steps", model, {1, 1});
  expect_number("replays", RecordedGraph::replays, 199);
}

TEST_CASE("9.14 prompts and truncations between the steps") {
  Model model(60);
  LaunchedCache cache(model, 2, 60, 4);
  Decode decode(model, cache);
  Texts texts(model, cache);
  texts.prompt(0, 5);
  for (int i = 0; i < 4; ++i) texts.step(decode, {0});
  texts.prompt(1, 9);
  for (int i = 0; i < 4; ++i) texts.step(decode, {0, 1}), texts.step(decode, {1});
  texts.prompt(0, 6);
  for (int i = 0; i < 3; ++i) texts.step(decode, {0}), texts.step(decode, {0, 1});
}

TEST_CASE("9.14 a pass that fails is not the first one") {
  Model model(60);
  LaunchedCache cache(model, 1, 60, 4);
  Decode decode(model, cache);
  Texts texts(model, cache);
  const std::vector<int64_t> one = {1}, token = {7};
  model.fails = true;
  expect_throws("TT-NN-23", "a step whose pass fails", [&] { decode(one, token); });
  expect_number("length after the failure", cache.length(0), 0);
  for (int i = 0; i < 4; ++i) texts.step(decode, {0});
  expect_passes("the first step that succeeds, and a recorded one", model, {1, 1});
}

TEST_CASE("9.14 a step that a profiler watches runs as it is, because a replay has no operations") {
  struct Counter : OpObserver {
    void after(const PrimitiveBase&, const Tensors&, const Tensors&, Cost) override { ++ops; }
    int64_t ops = 0;
  } counter;
  Model model(60);
  LaunchedCache cache(model, 1, 60, 4);
  Decode decode(model, cache);
  Texts texts(model, cache);
  for (int i = 0; i < 3; ++i) texts.step(decode, {0});
  {
    const Observing observing(counter);
    texts.step(decode, {0}, false);
  }
  expect("operations of a step that is observed: more than 5, got " + shown(counter.ops), counter.ops > 5);
  texts.step(decode, {0});
  expect_passes("first, recorded, observed", model, {1, 1, 1});
}

TEST_CASE("9.14 a step has one token for each of some sequences") {
  Model model(60);
  LaunchedCache cache(model, 2, 60, 4);
  Decode decode(model, cache);
  using Numbers64 = std::vector<int64_t>;
  const std::pair<Numbers64, Numbers64> bad[] = {
      {{2, 0}, {1, 1}}, {{1, 0}, {}}, {{1, 0}, {1, 2}}, {{0, 0}, {}}, {{1}, {1}}};
  for (const auto& [counts, tokens] : bad) {
    expect_throws("TT-KV-01", "a step of " + shown(counts) + " tokens, with " + shown(tokens),
                  [&] { decode(counts, tokens); });
    expect_number("length after the refusal", cache.length(0), 0);
  }
}
