#include <tinytorch/transformer/graph_decode.hpp>

#include <cmath>
#include <support/errors.hpp>
#include <support/few.hpp>
#include <tinytorch/kv_cache/contiguous.hpp>
#include <tinytorch/kv_cache/paged.hpp>
#include <tinytorch/tensor/ops/host_copy.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/llama.hpp>
#include <tinytorch/transformer/token_choice.hpp>

namespace tt = tinytorch;

namespace {

constexpr int64_t kVocabulary = 61, kContext = 560, kSequences = 5;

tt::Gpt2 small_gpt2() {
  tt::manual_seed(5);
  tt::Gpt2 model({.vocabulary = kVocabulary,
                  .context = kContext,
                  .features = 24,
                  .layers = 2,
                  .heads = 3,
                  .deviation = 0.4});
  model.eval();
  model.to(tt::default_device());
  return model;
}
tt::Llama small_llama() {
  tt::manual_seed(6);
  tt::Llama model({.vocabulary = kVocabulary,
                   .context = kContext,
                   .features = 32,
                   .layers = 2,
                   .heads = 4,
                   .groups = 2,
                   .hidden = 48,
                   .deviation = 0.4});
  model.eval();
  model.to(tt::default_device());
  return model;
}
tt::ContiguousCache plain_cache(const tt::LanguageModel& model) {
  return tt::ContiguousCache(model.kv_shape(), {.sequences = kSequences, .capacity = kContext});
}

// Random steps: each sequence has a token with probability `share`. A second cache, without graphs, says what
// the logits are.
void check_steps(tt::LanguageModel& model, tt::KvCache& cache, int64_t steps, double share) {
  const tt::NoGrad no_grad;
  tt::GraphDecode decode(model, cache);
  tt::ContiguousCache plain = plain_cache(model);
  tt::Generator g(9);
  double worst = 0;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<int64_t> counts, tokens;
    for (int64_t b = 0; b < kSequences; ++b) {
      const bool has = cache.length(b) < kContext && (g.uniform() < share || (b == 0 && step % 2 == 0));
      counts.push_back(has);
      if (has) tokens.push_back(static_cast<int64_t>(g.uniform(0, kVocabulary)));
    }
    if (tokens.empty()) continue;
    const tt::DecodeStep got = decode(counts, tokens);
    plain.begin(counts);
    const tt::Tensor wanted =
        model.head(model.features(tt::from_data(tokens, {1, std::ssize(tokens)}), &plain).select(0, 0));
    const auto x = got.logits.to_vector<double>(), y = wanted.to_vector<double>();
    REQUIRE(x.size() == y.size());
    for (size_t i = 0; i < x.size(); ++i)
      worst = std::isnan(x[i] - y[i]) ? INFINITY : std::max(worst, std::abs(x[i] - y[i]));
    const auto best = got.best.to_vector<int64_t>();
    const auto largest = got.largest.to_vector<double>();
    for (size_t r = 0; r < best.size(); ++r) {
      const auto row = x.begin() + static_cast<std::ptrdiff_t>(r * kVocabulary);
      CHECK(best[r] == std::max_element(row, row + kVocabulary) - row);
      CHECK(largest[r] == row[best[r]]);
    }
    for (int64_t b = 0; b < kSequences; ++b) CHECK(cache.length(b) == plain.length(b));
  }
  CHECK(worst < 2e-4);
  // 1, 2, 4 and 5 rows; up to 256 tokens and more
  if (!model.device().is_cpu()) CHECK(decode.captures() > 0);
  CHECK(decode.captures() <= 8);
}

}  // namespace

TEST_CASE("a graph's steps give the logits of plain steps, whichever sequences have a token" *
          test::long_on_emulator()) {
  tt::Gpt2 gpt2 = small_gpt2();
  tt::ContiguousCache contiguous = plain_cache(gpt2);
  check_steps(gpt2, contiguous, 60, 0.5);
  tt::PagedCache paged(gpt2.kv_shape(), {.sequences = kSequences, .capacity = kContext},
                       {.pages = 300, .page = 7});
  check_steps(gpt2, paged, 60, 0.3);
  tt::Llama llama = small_llama();
  tt::PagedCache pages(llama.kv_shape(), {.sequences = kSequences, .capacity = kContext},
                       {.pages = 200, .page = 16});
  check_steps(llama, pages, 60, 0.7);
}

TEST_CASE("a few graphs serve hundreds of tokens" * test::long_on_emulator()) {
  tt::Llama llama = small_llama();
  tt::PagedCache pages(llama.kv_shape(), {.sequences = kSequences, .capacity = kContext},
                       {.pages = 200, .page = 16});
  check_steps(llama, pages, 300, 0.9);
}

TEST_CASE("prompts, forks and truncations between the steps") {
  const tt::NoGrad no_grad;
  tt::Gpt2 gpt2 = small_gpt2();
  tt::PagedCache cache(gpt2.kv_shape(), {.sequences = kSequences, .capacity = kContext},
                       {.pages = 200, .page = 4});
  tt::GraphDecode decode(gpt2, cache);
  tt::ContiguousCache plain = plain_cache(gpt2);
  const auto prompt = tt::from_data(std::vector<int64_t>{3, 1, 4, 1, 5, 9, 2}, {1, 7});
  const std::vector<int64_t> one = {7, 0, 0, 0, 0}, both = {1, 0, 0, 1, 0};
  for (tt::KvCache* c : {static_cast<tt::KvCache*>(&cache), static_cast<tt::KvCache*>(&plain)}) {
    c->begin(one);
    (void)gpt2.features(prompt, c);
  }
  const std::vector<int64_t> other = {0, 0, 0, 7, 0};
  plain.begin(other);
  (void)gpt2.features(prompt, &plain);
  cache.fork(0, 3);
  for (int64_t step = 0; step < 12; ++step) {
    const std::vector<int64_t> tokens = {step, 2 * step};
    const tt::Tensor x = decode(both, tokens).logits.clone();
    plain.begin(both);
    const tt::Tensor y = gpt2.head(gpt2.features(tt::from_data(tokens, {1, 2}), &plain).select(0, 0));
    CHECK(tt::max(tt::abs(x - y)).item() < 1e-4);
    if (step == 6) {
      cache.truncate(3, 9);
      plain.truncate(3, 9);
    }
  }
}

TEST_CASE("tokens may be those of the device: each step takes the best ones of the last step") {
  const tt::NoGrad no_grad;
  tt::Gpt2 gpt2 = small_gpt2();
  tt::PagedCache queued(gpt2.kv_shape(), {.sequences = kSequences, .capacity = kContext},
                        {.pages = 200, .page = 4});
  tt::ContiguousCache read = plain_cache(gpt2);
  tt::GraphDecode ahead(gpt2, queued), decode(gpt2, read);
  const std::vector<int64_t> counts = {1, 0, 1, 1, 0};
  std::vector<int64_t> tokens = {3, 1, 4};
  tt::DecodeStep step = ahead(counts, tokens);
  for (int i = 0; i < 40; ++i) {
    tt::HostCopy best(step.best), largest(step.largest);
    step = ahead(counts, step.best);
    const tt::DecodeStep wanted = decode(counts, tokens);
    tokens = wanted.best.to_vector<int64_t>();
    CHECK(best.get().to_vector<int64_t>() == tokens);
    const auto a = largest.get().to_vector<double>(), b = wanted.largest.to_vector<double>();
    for (size_t r = 0; r < a.size(); ++r) CHECK(std::abs(a[r] - b[r]) < 1e-4);
    for (int64_t s = 0; s < kSequences; ++s)
      CHECK(queued.length(s) == read.length(s) + counts[static_cast<size_t>(s)]);
  }
  const auto refused = [&](const std::vector<int64_t>& which, const tt::Tensor& given) {
    test::expect_error("TT-KV-01", "one token i64 for each", [&] { (void)ahead(which, given); });
  };
  refused(counts, tt::slice(step.best, 0, 0, 2));
  refused(counts, step.largest);
  refused({2, 0, 1, 0, 0}, step.best);
  refused({0, 0, 0, 0, 0}, tt::slice(step.best, 0, 0, 0));
}

TEST_CASE("passes with prompts and parts of them give the logits of plain passes" *
          test::long_on_emulator()) {
  const tt::NoGrad no_grad;
  tt::Llama llama = small_llama();
  tt::PagedCache cache(llama.kv_shape(), {.sequences = kSequences, .capacity = kContext},
                       {.pages = 400, .page = 8});
  tt::ContiguousCache plain = plain_cache(llama);
  constexpr int64_t kMost = 40;
  tt::GraphDecode decode(llama, cache, kMost);
  tt::Generator g(12);
  double worst = 0;
  for (int64_t step = 0; step < 60; ++step) {
    std::vector<int64_t> counts, tokens, last;
    for (int64_t b = 0; b < kSequences; ++b) {
      if (cache.length(b) > 400) cache.truncate(b, 3), plain.truncate(b, 3);
      const auto left = kMost - std::ssize(tokens);
      const int64_t most = step % 3 == 0 ? 1 : 20,
                    n = std::min(left, static_cast<int64_t>(g.below(2)) * most);
      counts.push_back(most == 1 ? n : std::max<int64_t>(0, n - static_cast<int64_t>(g.below(8))));
      for (int64_t i = 0; i < counts.back(); ++i)
        tokens.push_back(static_cast<int64_t>(g.below(kVocabulary)));
      if (counts.back() > 0) last.push_back(std::ssize(tokens) - 1);
    }
    if (tokens.empty()) continue;
    const bool single = std::ssize(tokens) == std::ssize(last) && step % 2 == 0;
    const tt::DecodeStep got = single ? decode(counts, tokens) : decode.pass(counts, tokens);
    plain.begin(counts);
    const tt::Tensor x = llama.features(tt::from_data(tokens, {1, std::ssize(tokens)}), &plain).select(0, 0);
    const tt::Tensor wanted = llama.head(tt::index_select(x, 0, tt::from_data(last)));
    REQUIRE(got.logits.shape() == wanted.shape());
    worst = std::max(worst, static_cast<double>(tt::max(tt::abs(got.logits - wanted)).item()));
    CHECK(got.best.to_vector<int64_t>() ==
          tt::topk(got.logits, 1).indices.reshape({-1}).to_vector<int64_t>());
    for (int64_t b = 0; b < kSequences; ++b) CHECK(cache.length(b) == plain.length(b));
  }
  CHECK(worst < 2e-4);
  // Single tokens of 1, 2, 4 and 5 rows, passes of 8 to 64; up to 256 tokens and more.
  CHECK(decode.captures() <= 16);
  if (!llama.device().is_cpu()) CHECK(decode.captures() > 2);
  const auto refused = [&](std::vector<int64_t> counts, size_t tokens) {
    const int64_t before = cache.length(0);
    test::expect_error("TT-KV-01", "a pass has the tokens",
                       [&] { (void)decode.pass(counts, std::vector<int64_t>(tokens, 1)); });
    CHECK(cache.length(0) == before);
  };
  refused({2, 0, 0, 0, 0}, 3);
  refused({0, 0, 0, 0, 0}, 0);
  refused({65, 0, 0, 0, 0}, 65);
  tt::GraphDecode without(llama, cache);
  test::expect_error("TT-KV-01", "a pass has the tokens", [&] {
    (void)without.pass(std::vector<int64_t>{2, 0, 0, 0, 0}, std::vector<int64_t>{1, 1});
  });
}

TEST_CASE("a replay asks for no memory of the device, and sampling takes no more from its driver" *
          test::long_on_emulator()) {
  const tt::NoGrad no_grad;
  tt::Gpt2 gpt2 = small_gpt2();
  if (gpt2.device().is_cpu()) return;  // there are no replays
  tt::PagedCache cache(gpt2.kv_shape(), {.sequences = kSequences, .capacity = kContext},
                       {.pages = 200, .page = 16});
  tt::GraphDecode decode(gpt2, cache);
  const std::vector<int64_t> counts = {1, 0, 1, 1, 0}, tokens = {3, 1, 4};
  const auto stats = [] { return tt::backend::cuda::memory_stats(0); };
  for (int i = 0; i < 3; ++i) (void)decode(counts, tokens);
  const auto before = stats();
  for (int i = 0; i < 20; ++i) (void)decode(counts, tokens);
  CHECK(stats().allocations == before.allocations);
  const tt::TokenChoices sampled{std::vector<tt::TokenChoice>(3, {{.top_p = 0.9}, 0.4})};
  (void)tt::choose_tokens(decode(counts, tokens), sampled);
  const auto with_sampling = stats();
  for (int i = 0; i < 20; ++i) (void)tt::choose_tokens(decode(counts, tokens), sampled);
  CHECK(stats().allocations > with_sampling.allocations);  // they are counted
  if (tt::backend::cuda::is_caching()) CHECK(stats().device_calls == with_sampling.device_calls);
}

TEST_CASE("steps that are no steps of single tokens are refused") {
  tt::Gpt2 gpt2 = small_gpt2();
  tt::ContiguousCache cache = plain_cache(gpt2);
  tt::GraphDecode decode(gpt2, cache);
  const auto step = [&](std::vector<int64_t> counts, std::vector<int64_t> tokens) {
    return [&, counts, tokens] { (void)decode(counts, tokens); };
  };
  test::expect_error("TT-KV-01", "one token for each", step({2, 0, 0, 0, 0}, {1, 1}));
  test::expect_error("TT-KV-01", "one token for each", step({1, 0, 0, 0, 0}, {}));
  test::expect_error("TT-KV-01", "one token for each", step({0, 0, 0, 0, 0}, {}));
  test::expect_error("TT-KV-01", "5 sequences", step({1}, {1}));
  CHECK(cache.length(0) == 0);
}
