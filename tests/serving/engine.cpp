#include <tinytorch/serving/engine.hpp>

#include <cstring>
#include <support/errors.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/llama.hpp>

namespace tt = tinytorch;
using namespace tinytorch::serving;

namespace {

constexpr int64_t kVocabulary = 61, kContext = 96;

tt::Gpt2 small_gpt2() {
  tt::manual_seed(5);
  return tt::Gpt2({.vocabulary = kVocabulary,
                   .context = kContext,
                   .features = 24,
                   .layers = 2,
                   .heads = 3,
                   .deviation = 0.4,
                   .end_tokens = {7}});
}
tt::Llama small_llama() {
  tt::manual_seed(6);
  return tt::Llama({.vocabulary = kVocabulary,
                    .context = kContext,
                    .features = 32,
                    .layers = 2,
                    .heads = 4,
                    .groups = 2,
                    .hidden = 48,
                    .deviation = 0.4});
}

// Requests of all kinds: greedy and sampled, short and long, with and without stop tokens.
std::vector<tt::TextRequest> draw_requests(int64_t count, uint64_t seed) {
  tt::Generator g(seed);
  const auto whole = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(g.uniform() * static_cast<double>(high - low + 1));
  };
  std::vector<tt::TextRequest> requests;
  for (int64_t i = 0; i < count; ++i) {
    tt::TextRequest r;
    const int64_t length = i % 9 == 0 ? whole(40, 70) : whole(1, 20);
    for (int64_t t = 0; t < length; ++t) r.prompt.push_back(static_cast<int32_t>(whole(0, kVocabulary - 1)));
    r.options.max_tokens = whole(1, 40);
    r.options.seed = static_cast<uint64_t>(i);
    r.options.logprobs = 2;
    r.options.sampling.temperature = i % 2 == 0 ? 0 : 1.3;
    if (i % 5 == 1) r.options.sampling.top_p = 0.8;
    if (i % 5 == 2) r.options.sampling.repetition_penalty = 1.2;
    if (i % 7 == 3) r.options.logit_bias = {{3, 2.0}};
    requests.push_back(r);
  }
  return requests;
}

// The bits of all that a text's logits decide.
bool equal_bits(const tt::Generated& a, const tt::Generated& b) {
  if (a.tokens != b.tokens || a.reason != b.reason || a.logprobs.size() != b.logprobs.size()) return false;
  for (size_t i = 0; i < a.logprobs.size(); ++i) {
    if (std::memcmp(&a.logprobs[i].own, &b.logprobs[i].own, sizeof(double)) != 0) return false;
    if (a.logprobs[i].top != b.logprobs[i].top) return false;
  }
  return true;
}

std::vector<tt::Generated> one_by_one(tt::LanguageModel& model, const std::vector<tt::TextRequest>& requests,
                                      EngineOptions options) {
  std::vector<tt::Generated> texts;
  options.scheduler = {.budget = 1000, .sequences = 1, .pages = 100, .page = 1};
  for (const tt::TextRequest& r : requests) {
    Engine engine(model, options);
    engine.submit(r);
    while (!engine.idle())
      for (Ended& e : engine.step()) texts.push_back(std::move(e.text));
  }
  return texts;
}

// Submits the requests at random steps; result i is the text of request i.
std::vector<tt::Generated> together(Engine& engine, const std::vector<tt::TextRequest>& requests,
                                    uint64_t seed) {
  tt::Generator g(seed);
  std::map<int64_t, tt::Generated> texts;
  size_t sent = 0;
  while (sent < requests.size() || !engine.idle()) {
    while (sent < requests.size() && (engine.idle() || g.uniform() < 0.6)) {
      CHECK(engine.submit(requests[sent]) == static_cast<int64_t>(sent));
      ++sent;
    }
    for (Ended& e : engine.step()) {
      CHECK(!e.error);
      CHECK(texts.emplace(e.id, std::move(e.text)).second);
    }
    const EngineCounts c = engine.counts();
    CHECK(c.free_pages + c.held_pages + c.cached_pages == c.total_pages);
  }
  CHECK(engine.counts().held_pages == 0);
  std::vector<tt::Generated> out;
  for (auto& [id, text] : texts) out.push_back(std::move(text));
  return out;
}

void check_company(tt::LanguageModel& model, std::optional<tt::DType> dtype, int64_t count,
                   tt::KvFormat format = tt::KvFormat::of_dtype) {
  const std::vector<tt::TextRequest> requests = draw_requests(count, 42);
  EngineOptions options{.cache_dtype = dtype, .cache_format = format};
  const std::vector<tt::Generated> alone = one_by_one(model, requests, options);
  // Plenty of memory; little memory, so that requests are preempted; prompts in small pieces.
  for (const SchedulerOptions& s :
       {SchedulerOptions{.budget = 512, .sequences = 64, .pages = 800, .page = 16},
        SchedulerOptions{.budget = 64, .sequences = 16, .pages = count > 16 ? 90 : 36, .page = 4},
        SchedulerOptions{.budget = 11, .sequences = 7, .pages = 40, .page = 7}}) {
    options.scheduler = s;
    Engine engine(model, options);
    const std::vector<tt::Generated> company = together(engine, requests, 1);
    REQUIRE(company.size() == alone.size());
    int64_t different = 0;
    for (size_t i = 0; i < alone.size(); ++i) different += !equal_bits(alone[i], company[i]);
    if (tt::default_device().is_cpu()) CHECK(different == 0);  // not promised on a GPU
    if (s.page == 4) CHECK(engine.counts().preemptions > 0);
  }
}

}  // namespace

TEST_CASE("64 requests at random times get the bits that each gets alone") {
  tt::Gpt2 gpt2 = small_gpt2();
  check_company(gpt2, std::nullopt, 64);
  tt::Llama llama = small_llama();
  check_company(llama, std::nullopt, 64);
}
TEST_CASE("so they do with every dtype of the cache and of the model") {
  tt::Llama llama = small_llama();
  for (const tt::DType dtype : {tt::bf16, tt::f16, tt::i8}) check_company(llama, dtype, 16);
  for (const tt::KvFormat format : {tt::KvFormat::fp8, tt::KvFormat::i4})
    check_company(llama, std::nullopt, 16, format);
  tt::Gpt2 gpt2 = small_gpt2();
  gpt2.to(tt::bf16);
  check_company(gpt2, std::nullopt, 16);
  gpt2.to(tt::f64);
  check_company(gpt2, std::nullopt, 16);
}

TEST_CASE("so they do at widths of broken vectors, and of odd numbers of heads and columns") {
  for (const int64_t features : {12, 18, 36, 60, 99}) {
    CAPTURE(features);
    tt::manual_seed(7);
    tt::Gpt2 gpt2({.vocabulary = kVocabulary,
                   .context = kContext,
                   .features = features,
                   .layers = 2,
                   .heads = 3,
                   .deviation = 0.4});
    check_company(gpt2, std::nullopt, 9);
  }
  for (const auto& sizes : {std::pair{16, 50}, {24, 20}, {40, 33}, {72, 100}}) {
    const auto features = sizes.first, hidden = sizes.second;
    CAPTURE(features);
    tt::manual_seed(8);
    tt::Llama llama({.vocabulary = kVocabulary,
                     .context = kContext,
                     .features = features,
                     .layers = 2,
                     .heads = 4,
                     .groups = 2,
                     .hidden = hidden,
                     .deviation = 0.4});
    check_company(llama, std::nullopt, 9);
  }
}

TEST_CASE("the texts are those of generate()") {
  tt::Gpt2 gpt2 = small_gpt2();
  gpt2.to(tt::f64);  // so that rounding decides nothing
  std::vector<tt::TextRequest> requests = draw_requests(24, 7);
  Engine engine(gpt2, {.scheduler = {.budget = 40, .sequences = 6, .pages = 60, .page = 8}});
  const std::vector<tt::Generated> texts = together(engine, requests, 3);
  for (size_t i = 0; i < requests.size(); ++i) {
    tt::GenerateOptions options = requests[i].options;
    options.at_context_end = tt::GenerateOptions::ContextEnd::stop;
    const tt::Generated wanted = tt::generate(gpt2, requests[i].prompt, options);
    CHECK(texts[i].tokens == wanted.tokens);
    CHECK(texts[i].reason == wanted.reason);
    for (size_t t = 0; t < wanted.logprobs.size(); ++t)
      CHECK(texts[i].logprobs[t].own == doctest::Approx(wanted.logprobs[t].own).epsilon(1e-9));
  }
}

TEST_CASE("a cache takes its dtype and its format from the options") {
  tt::Llama llama = small_llama();
  tt::TextRequest r{.prompt = {3, 14, 15, 9, 26, 5, 35, 8}};
  r.options = {.max_tokens = 1, .sampling = {.temperature = 0}, .logprobs = 0};
  const auto first_logprob = [&](EngineOptions options) {
    options.scheduler = {.budget = 3, .sequences = 2, .pages = 20, .page = 4};
    Engine engine(llama, options);
    engine.submit(r);
    for (;;)
      for (const Ended& e : engine.step()) return e.text.logprobs[0].own;
  };
  const double usual = first_logprob({});
  CHECK(first_logprob({.cache_dtype = tt::f32}) == usual);  // that of the model
  for (const EngineOptions& options :
       {EngineOptions{.cache_dtype = tt::i8}, EngineOptions{.cache_format = tt::KvFormat::fp8},
        EngineOptions{.cache_format = tt::KvFormat::i4}}) {
    const double difference = std::abs(first_logprob(options) - usual);
    CHECK(difference > 0);
    CHECK(difference < 1);
  }
}

TEST_CASE("a text ends at its context, at an end token, and when nothing is asked for") {
  tt::Gpt2 gpt2 = small_gpt2();
  Engine engine(gpt2, {.scheduler = {.budget = 512, .sequences = 4, .pages = 40, .page = 8}});
  tt::TextRequest r{.prompt = std::vector<int32_t>(kContext - 3, 5)};
  r.options.end_tokens = std::vector<int64_t>{};
  const int64_t full = engine.submit(r);
  r.options.max_tokens = 0;
  const int64_t none = engine.submit(r);
  CHECK(!engine.idle());
  std::map<int64_t, tt::Generated> texts;
  while (!engine.idle())
    for (Ended& e : engine.step()) texts.emplace(e.id, std::move(e.text));
  CHECK(texts.at(full).tokens.size() == 4);
  CHECK(texts.at(full).reason == tt::FinishReason::context_end);
  CHECK(texts.at(none).tokens.empty());
}

TEST_CASE("cancel frees the pages at once, within a callback with the end of the step") {
  tt::Gpt2 gpt2 = small_gpt2();
  Engine engine(gpt2, {.scheduler = {.budget = 64, .sequences = 4, .pages = 40, .page = 4}});
  tt::TextRequest r{.prompt = {1, 2, 3}};
  r.options.max_tokens = 50;
  r.options.end_tokens = std::vector<int64_t>{};
  const int64_t a = engine.submit(r), b = engine.submit(r);
  int64_t c = -1;
  r.options.on_token = [&](int32_t, std::string_view) {
    CHECK(engine.cancel(b));
    CHECK(engine.cancel(c));
    return true;
  };
  c = engine.submit(r);
  CHECK(engine.step().empty());
  CHECK(engine.counts().running == 1);
  CHECK(engine.counts().held_pages == 1);
  CHECK(!engine.cancel(b));
  CHECK(engine.cancel(a));
  CHECK(!engine.cancel(a));
  CHECK(engine.counts().held_pages == 0);
  CHECK(engine.idle());
  engine.submit({.prompt = {1}});  // waits, and goes
  CHECK(engine.cancel(3));
  CHECK(engine.idle());
}

TEST_CASE("a callback that throws ends its own request alone") {
  tt::Gpt2 gpt2 = small_gpt2();
  Engine engine(gpt2, {.scheduler = {.budget = 64, .sequences = 4, .pages = 40, .page = 4}});
  tt::TextRequest good{.prompt = {1, 2, 3}};
  good.options.max_tokens = 5;
  good.options.end_tokens = std::vector<int64_t>{};
  tt::TextRequest bad = good;
  bad.options.on_token = [](int32_t, std::string_view) -> bool { throw std::runtime_error("gone"); };
  engine.submit(good), engine.submit(bad);
  std::vector<Ended> all;
  while (!engine.idle())
    for (Ended& e : engine.step()) all.push_back(std::move(e));
  REQUIRE(all.size() == 2);
  CHECK(all[0].id == 1);
  CHECK_THROWS_WITH_AS(std::rethrow_exception(all[0].error), "gone", std::runtime_error);
  CHECK(all[1].text.tokens.size() == 5);
  CHECK(!all[1].error);
}

namespace {
// A model whose pass fails when it is told to.
class Failing : public tt::Gpt2 {
 public:
  using Gpt2::Gpt2;
  tt::Tensor head(const tt::Tensor& x) override {
    if (fails) throw std::runtime_error("out of luck");
    return Gpt2::head(x);
  }
  bool fails = false;
};
}  // namespace
TEST_CASE("a pass that fails before its last layer's end can be tried again") {
  tt::manual_seed(5);
  Failing model(tt::Gpt2Config{
      .vocabulary = kVocabulary, .context = kContext, .features = 24, .layers = 2, .heads = 3});
  Engine engine(model, {.scheduler = {.budget = 64, .sequences = 4, .pages = 40, .page = 4}});
  tt::TextRequest r{.prompt = {1, 2, 3, 4, 5}};
  r.options.max_tokens = 9;
  const std::vector<tt::Generated> wanted = one_by_one(model, {r}, {});
  engine.submit(r);
  CHECK(engine.step()
            .empty());  // the prompt; the next pass runs on every device, and later ones are replays on a GPU
  model.fails = true;
  CHECK_THROWS_WITH_AS(engine.step(), "out of luck", std::runtime_error);
  model.fails = false;
  std::vector<Ended> ended;
  while (ended.empty()) ended = engine.step();
  CHECK(equal_bits(ended[0].text, wanted[0]));
}

TEST_CASE("requests and options that cannot work are refused") {
  tt::Gpt2 gpt2 = small_gpt2();
  Engine engine(gpt2, {.scheduler = {.budget = 64, .sequences = 4, .pages = 4, .page = 4}});
  test::expect_error("TT-SERVE-02", "vocabulary", [&] { (void)engine.submit({.prompt = {1, 61}}); });
  test::expect_error("TT-SERVE-02", "vocabulary", [&] { (void)engine.submit({.prompt = {-1}}); });
  test::expect_error("TT-NN-27", "empty", [&] { (void)engine.submit({}); });
  test::expect_error("TT-NN-27", "context",
                     [&] { (void)engine.submit({.prompt = std::vector<int32_t>(kContext + 1, 5)}); });
  test::expect_error("TT-SERVE-02", "cannot run",
                     [&] { (void)engine.submit({.prompt = {1}, .options = {.max_tokens = 16}}); });
  CHECK(engine.idle());
  CHECK(engine.submit({.prompt = {1}, .options = {.max_tokens = 15}}) == 0);
  test::expect_error("TT-SERVE-01", "at least 1", [&] { (void)Engine(gpt2, {.scheduler = {.budget = 0}}); });
}

TEST_CASE(
    "with a prefix cache texts have the bits that they have without, and beginnings are computed once") {
  tt::Gpt2 gpt2 = small_gpt2();
  tt::Llama llama = small_llama();
  for (tt::LanguageModel* model :
       {static_cast<tt::LanguageModel*>(&gpt2), static_cast<tt::LanguageModel*>(&llama)}) {
    for (const auto dtype : {std::optional<tt::DType>(), std::optional(tt::i8)}) {
      std::vector<tt::TextRequest> requests = draw_requests(30, 8);
      for (size_t i = 0; i < requests.size(); ++i) {  // two of three begin like others
        std::vector<int32_t>& prompt = requests[i].prompt;
        if (i % 3 > 0) prompt.insert(prompt.begin(), 21, static_cast<int32_t>(i % 3));
        if (prompt.size() > 60) prompt.resize(60);
      }
      EngineOptions options{.cache_dtype = dtype};
      const std::vector<tt::Generated> alone = one_by_one(*model, requests, options);
      options.prefix_cache = true;
      // Plenty of memory, and so little that requests are preempted and cached pages evicted.
      for (const SchedulerOptions& s :
           {SchedulerOptions{.budget = 512, .sequences = 64, .pages = 800, .page = 8},
            SchedulerOptions{.budget = 40, .sequences = 16, .pages = 30, .page = 4}}) {
        options.scheduler = s;
        Engine engine(*model, options);
        const std::vector<tt::Generated> company = together(engine, requests, 1);
        REQUIRE(company.size() == alone.size());
        int64_t different = 0;
        for (size_t i = 0; i < alone.size(); ++i) different += !equal_bits(alone[i], company[i]);
        if (tt::default_device().is_cpu()) CHECK(different == 0);  // not promised on a GPU
        const EngineCounts c = engine.counts();
        CHECK(c.prefix.hits > 5);
        CHECK(c.prefix.reused > 100);
        CHECK((c.preemptions > 0) == (s.page == 4));
        CHECK((c.prefix.evicted > 0) == (s.page == 4));
      }
    }
  }
}

TEST_CASE("requests share pages only with those of the same salt") {
  tt::Llama llama = small_llama();
  Engine engine(llama,
                {.scheduler = {.budget = 100, .sequences = 4, .pages = 60, .page = 4}, .prefix_cache = true});
  const tt::TextRequest request{.prompt = std::vector<int32_t>(22, 5), .options = {.max_tokens = 3}};
  std::vector<int64_t> computed;
  for (const char* user : {"alice", "bob", "alice", "bob", ""}) {
    const int64_t before = engine.counts().tokens;
    engine.submit(request, user);
    while (!engine.idle()) engine.step();
    computed.push_back(engine.counts().tokens - before);
  }
  CHECK(computed == std::vector<int64_t>{24, 24, 4, 4, 24});  // 20 tokens are in full pages
  CHECK(engine.counts().prefix.reused == 40);
  // A request that is cancelled while it waits or runs leaves no page held.
  const int64_t first = engine.submit(request, "alice");
  engine.step();
  CHECK(engine.counts().held_pages == 6);
  CHECK(engine.cancel(first));
  CHECK(engine.counts().held_pages == 0);
}
