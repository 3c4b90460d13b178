#include <tinytorch/kv_cache/contiguous.hpp>

#include <kv_cache/model.hpp>

using namespace test;

namespace {

template <class Model>
void check_equals_uncached(Model& model, const tt::KvCacheOptions& options, double tolerance) {
  const tt::Tensor tokens = some_tokens(options.sequences, 40);
  const tt::Tensor wanted = [&] {
    const tt::NoGrad no_grad;
    return model(tokens);
  }();
  for (const std::vector<int64_t>& steps : {std::vector<int64_t>{40}, {17, 1, 1, 8, 13}, {1, 39}}) {
    tt::ContiguousCache cache(model.kv_shape(), options);
    CHECK(difference(in_steps(model, cache, tokens, steps), wanted) <= tolerance);
    CHECK(cache.position() == 40);
  }
}

}  // namespace

TEST_CASE("logits equal those without a cache, however the text is divided into steps") {
  tt::Gpt2 gpt2 = small_gpt2();
  tt::Llama llama = small_llama();
  for (const int64_t B : {1, 3}) {
    check_equals_uncached(gpt2, {.sequences = B, .capacity = 40}, 2e-5);
    check_equals_uncached(llama, {.sequences = B, .capacity = 51}, 2e-5);
  }
  tt::Llama exact = small_llama(tt::f64);
  check_equals_uncached(exact, {.capacity = 40, .dtype = tt::f64}, 1e-12);
}

TEST_CASE("fewer bits change the logits a little") {
  tt::Llama llama = small_llama();
  check_equals_uncached(llama, {.capacity = 40, .dtype = tt::bf16}, 0.1);
  check_equals_uncached(llama, {.capacity = 40, .dtype = tt::f16}, 0.02);
  check_equals_uncached(llama, {.capacity = 40, .dtype = tt::i8}, 0.2);
}

TEST_CASE("attention that is written with append() sees views of the memory, not copies") {
  tt::ContiguousCache cache({.layers = 1, .groups = 2, .head_size = 4}, {.capacity = 9});
  tt::manual_seed(1);
  const tt::Tensor k = tt::randn({1, 2, 3, 4}), v = tt::randn({1, 2, 3, 4});
  const tt::KeysAndValues all = cache.append(0, k, v);
  CHECK(difference(all.keys, k) == 0);
  CHECK(difference(all.values, v) == 0);
  const tt::KeysAndValues more = cache.append(0, k, v);
  CHECK(more.keys.storage() == all.keys.storage());
  CHECK(difference(more.keys, tt::cat({k, k}, 2)) == 0);
  CHECK(cache.position() == 6);
  // Integers would have to be converted in every step.
  tt::ContiguousCache small({.layers = 1, .groups = 2, .head_size = 4}, {.capacity = 9, .dtype = tt::i8});
  CHECK_THROWS_WITH_AS((void)small.append(0, k, v), doctest::Contains("TT-KV-05"), tt::Error);
  CHECK(small.position() == 0);
}

TEST_CASE("a step costs the same memory at every length: only new tokens are written") {
  tt::Gpt2 model = small_gpt2();
  tt::ContiguousCache cache(model.kv_shape(), {.capacity = 96});
  const tt::NoGrad no_grad;
  (void)model.forward(some_tokens(1, 20), &cache);
  std::vector<int64_t> peaks;
  for (int i = 0; i < 60; ++i) {
    tt::reset_peak();
    const auto before = static_cast<int64_t>(tt::allocator_stats().current);
    (void)model.forward(some_tokens(1, 1), &cache);
    peaks.push_back(static_cast<int64_t>(tt::allocator_stats().peak) - before);
  }
  CHECK(*std::max_element(peaks.begin(), peaks.end()) <= peaks.front() + 4096);
}
