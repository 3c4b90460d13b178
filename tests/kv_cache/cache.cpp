#include <tinytorch/kv_cache/cache.hpp>

#include <kv_cache/model.hpp>
#include <tinytorch/kv_cache/contiguous.hpp>
#include <tinytorch/kv_cache/ring.hpp>

using namespace test;

TEST_CASE("sequences of different lengths share a step, and each has the logits that it has alone") {
  tt::Gpt2 gpt2 = small_gpt2();
  tt::Llama llama = small_llama();
  const tt::NoGrad no_grad;
  for (tt::LanguageModel* model :
       {static_cast<tt::LanguageModel*>(&gpt2), static_cast<tt::LanguageModel*>(&llama)}) {
    // Rows of the table: how many tokens each of the three sequences gets in a step.
    const std::vector<std::vector<int64_t>> steps{{5, 0, 12}, {1, 9, 0}, {1, 1, 1}, {0, 0, 7}, {4, 1, 1}};
    tt::ContiguousCache together(model->kv_shape(), {.sequences = 3, .capacity = 40});
    std::vector<tt::Tensor> texts;
    std::vector<std::unique_ptr<tt::ContiguousCache>> alone;
    for (uint64_t b = 0; b < 3; ++b) {
      texts.push_back(some_tokens(1, 40, b + 1));
      alone.push_back(
          std::make_unique<tt::ContiguousCache>(model->kv_shape(), tt::KvCacheOptions{.capacity = 40}));
    }
    for (const std::vector<int64_t>& counts : steps) {
      tt::Tensors input;
      for (size_t b = 0; b < 3; ++b) {
        const int64_t at = together.length(static_cast<int64_t>(b));
        input.push_back(tt::slice(texts[b], 1, at, at + counts[b]));
      }
      together.begin(counts);
      const tt::Tensor logits = model->forward(tt::cat(input, 1), &together);
      int64_t row = 0;
      for (size_t b = 0; b < 3; ++b) {
        if (counts[b] == 0) continue;
        const tt::Tensor own = model->forward(input[b], alone[b].get());
        CHECK(difference(tt::slice(logits, 1, row, row + counts[b]), own) <= 2e-5);
        row += counts[b];
      }
    }
    for (int64_t b = 0; b < 3; ++b) CHECK(together.length(b) == alone[static_cast<size_t>(b)]->position());
  }
}

TEST_CASE("a failed pass leaves the cache as it was") {
  tt::Gpt2 model = small_gpt2();
  tt::ContiguousCache cache(model.kv_shape(), {.capacity = 20});
  const tt::Tensor tokens = some_tokens(1, 20);
  const tt::Tensor wanted = in_steps(model, cache, tokens, {10, 10});
  cache.clear();
  const tt::NoGrad no_grad;
  (void)model.forward(tt::slice(tokens, 1, 0, 10), &cache);
  expect_error("TT-KV-02", "more than the capacity of 20", [&] { cache.begin(std::vector<int64_t>{11}); });
  CHECK(cache.position() == 10);
  CHECK_THROWS_WITH_AS((void)model.forward(some_tokens(1, 11), &cache), doctest::Contains("TT-KV-02"),
                       tt::Error);
  CHECK(cache.position() == 10);
  if (tt::default_device().is_cpu()) {  // a GPU finds what is no token when the pass is over
    CHECK_THROWS_AS((void)model.forward(tt::full({1, 2}, 61, tt::i64), &cache), tt::Error);
    CHECK(cache.position() == 10);
  }
  // A pass that ends between two layers.
  const int64_t G = 3, D = 8;
  const tt::Tensor x = tt::zeros({1, G, 2, D});
  (void)cache.attend(0, x, x, x, {.causal = true});
  CHECK(cache.position() == 10);
  const tt::Tensor rest = model.forward(tt::slice(tokens, 1, 10, 20), &cache);
  CHECK(difference(rest, tt::slice(wanted, 1, 10)) == 0);
}

TEST_CASE("sequences of different lengths without begin() are refused, not given one position") {
  tt::Gpt2 model = small_gpt2();
  tt::ContiguousCache cache(model.kv_shape(), {.sequences = 2, .capacity = 20});
  const tt::NoGrad no_grad;
  cache.begin(std::vector<int64_t>{3, 1});
  (void)model.forward(some_tokens(1, 4), &cache);
  CHECK_THROWS_WITH_AS((void)model.forward(some_tokens(2, 1), &cache),
                       doctest::Contains("have different lengths"), tt::Error);
  CHECK_THROWS_WITH_AS((void)cache.position(), doctest::Contains("TT-KV-01"), tt::Error);
  cache.begin(std::vector<int64_t>{0, 2});
  (void)model.forward(some_tokens(1, 2), &cache);
  CHECK(cache.position() == 3);
}

TEST_CASE("truncate() forgets the last tokens, as speculation needs it") {
  tt::Llama model = small_llama();
  const tt::Tensor tokens = some_tokens(1, 30), others = some_tokens(1, 8, 9);
  tt::ContiguousCache cache(model.kv_shape(), {.capacity = 40});
  const tt::NoGrad no_grad;
  (void)model.forward(tt::slice(tokens, 1, 0, 20), &cache);
  (void)model.forward(others, &cache);
  cache.truncate(0, 20);
  CHECK(cache.position() == 20);
  const tt::Tensor y = model.forward(tt::slice(tokens, 1, 20), &cache);
  CHECK(difference(y, tt::slice(model(tokens), 1, 20)) <= 2e-5);
  // A step that was announced and never computed is forgotten, too.
  cache.begin(std::vector<int64_t>{5});
  cache.truncate(0, 20);
  CHECK(cache.position() == 20);
  CHECK(difference(model.forward(tt::slice(tokens, 1, 20), &cache), y) == 0);
  expect_error("TT-KV-03", "has 30 tokens, not 31", [&] { cache.truncate(0, 31); });
  expect_error("TT-KV-03", "", [&] { cache.truncate(0, -1); });
}

TEST_CASE("what cannot be a cache or a step of it is refused") {
  const tt::KvShape shape{.layers = 2, .groups = 2, .head_size = 4};
  expect_error("TT-KV-01", "model.kv_shape()", [] { tt::ContiguousCache({}, {.capacity = 4}); });
  expect_error("TT-KV-01", "capacity", [&] { tt::ContiguousCache(shape, {.capacity = 0}); });
  expect_error("TT-KV-01", "sequences", [&] { tt::ContiguousCache(shape, {.sequences = 0, .capacity = 4}); });
  expect_error("TT-DTYPE-02", "elements of i64",
               [&] { tt::ContiguousCache(shape, {.capacity = 4, .dtype = tt::i64}); });
  tt::ContiguousCache cache(shape, {.sequences = 2, .capacity = 4});
  expect_error("TT-KV-01", "a number of tokens for each", [&] { cache.begin(std::vector<int64_t>{1}); });
  expect_error("TT-KV-01", "negative", [&] { cache.begin(std::vector<int64_t>{1, -1}); });
  const tt::Tensor x = tt::zeros({1, 2, 1, 4}), two = tt::zeros({2, 2, 1, 4});
  const auto attend = [&](const tt::Tensor& t, const tt::AttentionOptions& rules) {
    (void)cache.attend(0, t, t, t, rules);
  };
  CHECK_THROWS_WITH_AS(attend(x, {.causal = true}), doctest::Contains("got a batch of 1"), tt::Error);
  CHECK_THROWS_WITH_AS(attend(two, {}), doctest::Contains("TT-KV-04"), tt::Error);
  CHECK_THROWS_WITH_AS(attend(two, {.causal = true, .dropout = 0.1}), doctest::Contains("TT-KV-04"),
                       tt::Error);
  cache.begin(std::vector<int64_t>{2, 0});
  CHECK_THROWS_WITH_AS(attend(two.reshape({1, 2, 2, 4}), {.causal = true, .dropout = 0.1}),
                       doctest::Contains("TT-KV-04"), tt::Error);
  CHECK_THROWS_WITH_AS(attend(x, {.causal = true}), doctest::Contains("step of this cache has 2 tokens"),
                       tt::Error);
}

TEST_CASE("bytes of a token: keys and values of every layer and head, with the scales of integers") {
  const tt::KvShape shape{.layers = 12, .groups = 12, .head_size = 64};  // GPT-2 124M
  CHECK(tt::ContiguousCache(shape, {.capacity = 1, .dtype = tt::bf16}).bytes_per_token() == 36'864);
  CHECK(tt::ContiguousCache(shape, {.capacity = 1}).bytes_per_token() == 73'728);
  CHECK(tt::ContiguousCache(shape, {.capacity = 1, .dtype = tt::i8}).bytes_per_token() == 2 * 12 * 12 * 68);
  const auto bytes = [&](tt::KvFormat format) {
    return tt::ContiguousCache(shape, {.capacity = 1, .format = format}).bytes_per_token();
  };
  CHECK(bytes(tt::KvFormat::fp8) == 2 * 12 * 12 * 68);
  CHECK(bytes(tt::KvFormat::i4) == 2 * 12 * 12 * 36);  // 14 percent of f32
}

TEST_CASE(
    "caches of fp8 and i4: logits near those of f32, of any steps; truncate() leaves the older tokens") {
  tt::Gpt2 gpt2 = small_gpt2();
  tt::Llama llama = small_llama();
  const tt::NoGrad no_grad;
  for (tt::LanguageModel* model :
       {static_cast<tt::LanguageModel*>(&gpt2), static_cast<tt::LanguageModel*>(&llama)}) {
    const tt::Tensor tokens = some_tokens(1, 40), others = some_tokens(1, 9, 5);
    const tt::Tensor wanted = model->forward(tokens);
    const double deviation = std::sqrt(tt::mean(tt::square(wanted)).item<double>());
    for (const tt::KvFormat format : {tt::KvFormat::fp8, tt::KvFormat::i4}) {
      const double bound = format == tt::KvFormat::fp8 ? 0.05 : 0.2;
      const tt::KvCacheOptions options{.capacity = 64, .format = format};
      tt::ContiguousCache cache(model->kv_shape(), options);
      const tt::Tensor y = in_steps(*model, cache, tokens, {1, 9, 1, 9, 20});
      const double error = std::sqrt(tt::mean(tt::square(y - wanted)).item<double>());
      CAPTURE(name_of(format));
      CHECK(error < bound * deviation);
      CHECK(error > 0);
      cache.truncate(0, 20);
      (void)model->forward(others, &cache);
      cache.truncate(0, 20);
      tt::ContiguousCache fresh(model->kv_shape(), options);
      (void)in_steps(*model, fresh, tt::slice(tokens, 1, 0, 20), {1, 9, 1, 9});
      CHECK(difference(in_steps(*model, cache, tt::slice(tokens, 1, 20), {20}),
                       in_steps(*model, fresh, tt::slice(tokens, 1, 20), {20})) == 0);
      const tt::KvShape shape = model->kv_shape();
      const tt::Tensor k = tt::zeros({1, shape.groups, 1, shape.head_size});
      CHECK_THROWS_WITH_AS((void)fresh.append(0, k, k), doctest::Contains("in one piece"), tt::Error);
    }
  }
}
