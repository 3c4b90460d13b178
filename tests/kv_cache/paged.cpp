#include <tinytorch/kv_cache/paged.hpp>

#include <kv_cache/model.hpp>
#include <map>
#include <support/few.hpp>
#include <tinytorch/kv_cache/contiguous.hpp>

using namespace test;

namespace {

constexpr std::pair<tt::DType, tt::KvFormat> kFormats[] = {{tt::f32, tt::KvFormat::of_dtype},
                                                           {tt::bf16, tt::KvFormat::of_dtype},
                                                           {tt::i8, tt::KvFormat::of_dtype},
                                                           {tt::f32, tt::KvFormat::fp8},
                                                           {tt::f32, tt::KvFormat::i4}};

// Fills the memory of a small cache with NaN by writing to every page, and gives the pages back.
void poison(tt::PagedCache& cache) {
  const tt::KvShape shape = cache.shape();
  const int64_t rows = cache.page() * cache.pool().total();
  const tt::Tensor bad = tt::full({1, shape.groups, rows, shape.head_size}, NAN);
  std::vector<int64_t> counts(static_cast<size_t>(cache.sequences()), 0);
  counts[0] = rows;
  cache.begin(counts);
  for (int64_t layer = 0; layer < shape.layers; ++layer)
    (void)cache.attend(layer, bad, bad, bad, {.causal = true});
  CHECK(cache.pool().free() == 0);
  cache.clear();
  CHECK(cache.pool().held() == 0);
}

}  // namespace

TEST_CASE(
    "bit by bit what a contiguous cache gives, for every size of pages and with free pages full of NaN" *
    test::long_on_emulator()) {
  tt::Llama llama = small_llama();
  tt::Gpt2 gpt2 = small_gpt2();
  for (tt::LanguageModel* model :
       {static_cast<tt::LanguageModel*>(&gpt2), static_cast<tt::LanguageModel*>(&llama)}) {
    for (const auto& [dtype, format] : kFormats) {
      const tt::Tensor tokens = some_tokens(2, 40);
      tt::ContiguousCache whole(model->kv_shape(),
                                {.sequences = 2, .capacity = 40, .dtype = dtype, .format = format});
      const std::vector<int64_t> steps{17, 1, 1, 8, 13};
      const tt::Tensor wanted = in_steps(*model, whole, tokens, steps);
      for (const int64_t page : {1, 7, 16, 64}) {
        tt::PagedCache cache(model->kv_shape(),
                             {.sequences = 2, .capacity = 400, .dtype = dtype, .format = format},
                             {.pages = 2 * ((40 + page - 1) / page) + 1, .page = page});
        poison(cache);
        CHECK(difference(in_steps(*model, cache, tokens, steps), wanted) == 0);
      }
    }
  }
}

TEST_CASE("sequences take pages as they grow, and give them back") {
  const tt::KvShape shape{.layers = 1, .groups = 1, .head_size = 4};
  tt::PagedCache cache(shape, {.sequences = 2, .capacity = 100}, {.pages = 6, .page = 16});
  const auto grow = [&](int64_t a, int64_t b) {
    const tt::Tensor x = tt::zeros({1, 1, a + b, 4});
    cache.begin(std::vector<int64_t>{a, b});
    (void)cache.attend(0, x, x, x, {.causal = true});
  };
  grow(16, 1);
  CHECK(cache.table(0).size() == 1);
  CHECK(cache.table(1).size() == 1);
  grow(1, 15);
  CHECK(cache.table(0).size() == 2);
  CHECK(cache.table(1).size() == 1);
  CHECK(cache.pool().held() == 3);
  // Four pages for sequence 1 would be one too many: nothing changes.
  expect_error("TT-KV-06", "all 6 pages", [&] { cache.begin(std::vector<int64_t>{0, 49}); });
  CHECK(cache.pool().held() == 3);
  CHECK(cache.length(1) == 16);
  grow(0, 48);
  CHECK(cache.pool().free() == 0);
  cache.truncate(1, 17);
  CHECK(cache.pool().free() == 2);
  cache.truncate(0, 0);
  CHECK(cache.pool().free() == 4);
  CHECK(cache.pool().free() + cache.pool().held() == cache.pool().total());
}

TEST_CASE("a fork shares all pages, and only the page that is written is copied") {
  tt::Llama model = small_llama();
  const tt::NoGrad no_grad;
  const tt::Tensor start = some_tokens(1, 37), left = some_tokens(1, 9, 5), right = some_tokens(1, 20, 6);
  for (int i = 0; i < 10; ++i) {
    const auto dtype = kFormats[i / 2].first;
    const auto format = kFormats[i / 2].second;
    const bool first_goes_on = i % 2 == 0;
    const auto alone = [&](const tt::Tensor& rest) {
      tt::ContiguousCache cache(model.kv_shape(), {.capacity = 60, .dtype = dtype, .format = format});
      cache.begin(std::vector<int64_t>{37});  // its own tokens are read from the cache, too
      (void)model.forward(start, &cache);
      return model.forward(rest, &cache);
    };
    tt::PagedCache cache(model.kv_shape(), {.sequences = 3, .capacity = 60, .dtype = dtype, .format = format},
                         {.pages = 20, .page = 8});
    const auto feed = [&](const std::vector<int64_t>& counts, const tt::Tensor& tokens) {
      cache.begin(counts);
      return model.forward(tokens, &cache);
    };
    (void)feed({37, 0, 0}, start);
    cache.fork(0, 2);
    CHECK(cache.length(2) == 37);
    CHECK(cache.pool().held() == 5);
    const tt::Tensor a =
        feed(first_goes_on ? std::vector<int64_t>{9, 0, 0} : std::vector<int64_t>{0, 0, 9}, left);
    CHECK(cache.pool().held() == 7);  // a copy of the fifth page, and a sixth
    const tt::Tensor b =
        feed(first_goes_on ? std::vector<int64_t>{0, 0, 20} : std::vector<int64_t>{20, 0, 0}, right);
    CHECK(difference(a, alone(left)) <= 2e-5);
    CHECK(difference(b, alone(right)) <= 2e-5);
    for (size_t p = 0; p < 4; ++p) CHECK(cache.table(0)[p] == cache.table(2)[p]);
    CHECK(cache.table(0)[4] != cache.table(2)[4]);
    expect_error("TT-KV-03", "already has tokens", [&] { cache.fork(0, 2); });
    cache.clear();
    CHECK(cache.pool().held() == 0);
  }
}

TEST_CASE(
    "through random steps, forks and ends, the pool's count is that of the tables, and texts stay right") {
  const tt::KvShape shape{.layers = 2, .groups = 1, .head_size = 4};
  tt::PagedCache cache(shape, {.sequences = 5, .capacity = 80}, {.pages = 24, .page = 4});
  tt::Generator generator(3);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(generator.uniform(0, static_cast<double>(n)));
  };
  std::vector<std::vector<float>> texts(5);  // the value of each token
  int64_t refused = 0;
  for (int step = 0; step < 400; ++step) {
    const auto b = static_cast<size_t>(below(5));
    if (below(8) == 0) {
      const int64_t kept = below(std::ssize(texts[b]) + 1);
      cache.truncate(static_cast<int64_t>(b), kept);
      texts[b].resize(static_cast<size_t>(kept));
    } else if (const auto other = static_cast<size_t>(below(5));
               texts[other].empty() && other != b && below(2) == 0) {
      cache.fork(static_cast<int64_t>(b), static_cast<int64_t>(other));
      texts[other] = texts[b];
    } else {
      const int64_t count = 1 + below(9);
      std::vector<int64_t> counts(5, 0);
      counts[b] = count;
      std::vector<float> added;
      for (int64_t i = 0; i < count * 4; ++i)
        added.push_back(i % 4 == 0 ? static_cast<float>(below(1000)) : added.back());
      const tt::Tensor v = tt::from_data(added, {1, 1, count, 4}), q = tt::zeros({1, 1, count, 4});
      try {
        cache.begin(counts);
      } catch (const tt::Error&) {
        ++refused;
        continue;
      }
      (void)cache.attend(0, q, q, v, {.causal = true});
      const tt::Tensor y = cache.attend(1, q, q, v, {.causal = true});
      for (int64_t i = 0; i < count; ++i) texts[b].push_back(added[static_cast<size_t>(i * 4)]);
      double mean = 0;  // equal scores: the last row is the mean of all values
      for (const float x : texts[b]) mean += static_cast<double>(x) / static_cast<double>(texts[b].size());
      CHECK(y.to_vector<double>().back() == doctest::Approx(mean).epsilon(1e-4));
    }
    std::map<int32_t, int64_t> holders;
    for (int64_t s = 0; s < 5; ++s) {
      for (const int32_t page : cache.table(s)) ++holders[page];
      CHECK(std::ssize(cache.table(s)) >= (cache.length(s) + 3) / 4);
    }
    for (const auto& [page, n] : holders) CHECK(cache.pool().holders(page) == n);
    CHECK(cache.pool().held() == std::ssize(holders));
    CHECK(cache.pool().free() + cache.pool().held() == 24);
  }
  CHECK(refused > 5);
}
