#include <tinytorch/kv_cache/compare_caches.hpp>

#include <kv_cache/model.hpp>
#include <tinytorch/kv_cache/contiguous.hpp>
#include <tinytorch/kv_cache/ring.hpp>

using namespace test;

TEST_CASE("the divergence of distributions that are known") {
  const auto logits = [](std::vector<double> p) {
    for (double& x : p) x = std::log(x) + 3;
    return tt::from_data(p, {2, 2});
  };
  const tt::CacheDifference d =
      tt::compare_logits(logits({0.5, 0.5, 0.9, 0.1}), logits({0.25, 0.75, 0.9, 0.1}));
  const double first = 0.5 * std::log(2) + 0.5 * std::log(2.0 / 3);
  CHECK(d.positions == 2);
  CHECK(d.worst_kl == doctest::Approx(first).epsilon(1e-12));
  CHECK(d.mean_kl == doctest::Approx(first / 2).epsilon(1e-12));
  const tt::CacheDifference turned =
      tt::compare_logits(logits({0.6, 0.4, 0.9, 0.1}), logits({0.4, 0.6, 0.8, 0.2}));
  CHECK(turned.top_agreement == 0.5);
  CHECK_THROWS_WITH_AS(tt::compare_logits(tt::ones({2, 3}), tt::ones({3, 2})),
                       doctest::Contains("TT-SHAPE-02"), tt::Error);
}

TEST_CASE(
    "a ring that forgets tokens differs from the full cache; caches of fewer bits differ less with more "
    "bits") {
  tt::Gpt2 model = small_gpt2();
  const tt::Tensor tokens = some_tokens(1, 60);
  const auto compared = [&](tt::AttentionCache&& other) {
    tt::ContiguousCache full(model.kv_shape(), {.capacity = 60});
    return tt::compare_caches(model, full, other, tokens, 30);
  };
  const auto of_format = [&](tt::KvFormat format) {
    return compared(tt::ContiguousCache(model.kv_shape(), {.capacity = 60, .format = format})).mean_kl;
  };
  CHECK(std::abs(compared(tt::ContiguousCache(model.kv_shape(), {.capacity = 60})).worst_kl) < 1e-12);
  const double ring = compared(tt::RingCache(model.kv_shape(), {.capacity = 20})).mean_kl;
  const double fp8 = of_format(tt::KvFormat::fp8), i4 = of_format(tt::KvFormat::i4);
  CHECK(fp8 > 0);
  CHECK(fp8 < i4);
  CHECK(i4 < ring);
  tt::ContiguousCache full(model.kv_shape(), {.capacity = 60}), used(model.kv_shape(), {.capacity = 60});
  expect_error("TT-KV-01", "a prompt of 1 to T",
               [&] { (void)tt::compare_caches(model, full, used, tokens, 61); });
}
