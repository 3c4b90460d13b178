#include <tinytorch/kv_cache/eviction.hpp>

#include <kv_cache/model.hpp>
#include <set>
#include <tinytorch/kv_cache/compare_caches.hpp>
#include <tinytorch/kv_cache/contiguous.hpp>

using namespace test;
using Policy = tt::EvictionOptions::Policy;

namespace {

// The rule for one sequence, in double: which tokens each head of keys keeps, and the result of each step.
class ByDefinition {
 public:
  ByDefinition(tt::EvictionOptions options, int64_t heads, int64_t groups, int64_t D)
      : options_(options), H_(heads), G_(groups), D_(D), heads_(static_cast<size_t>(groups)) {}

  // q [H, T, D], k and v [G, T, D] -> [H, T, D]
  std::vector<double> step(const std::vector<double>& q, const std::vector<double>& k,
                           const std::vector<double>& v, int64_t T) {
    std::vector<double> out(q.size());
    for (int64_t g = 0; g < G_; ++g) {
      Head& head = heads_[static_cast<size_t>(g)];
      const auto old = static_cast<int64_t>(head.tokens.size());
      for (int64_t t = 0; t < T; ++t) head.tokens.push_back({row(k, g * T + t), row(v, g * T + t), 0});
      for (int64_t h = g * H_ / G_; h < (g + 1) * H_ / G_; ++h) {
        for (int64_t t = 0; t < T; ++t)
          attend(head, row(q, h * T + t), old + t + 1, t, T, out.data() + (h * T + t) * D_);
      }
      const bool evicts = options_.policy == Policy::heavy_hitters || first_;
      while (evicts && std::ssize(head.tokens) > options_.budget) drop_least(head);
    }
    first_ = false;
    return out;
  }

 private:
  struct Token {
    std::vector<double> key, value;
    double weight;
  };
  struct Head {
    std::vector<Token> tokens;
  };
  std::vector<double> row(const std::vector<double>& x, int64_t r) const {
    return {x.begin() + r * D_, x.begin() + (r + 1) * D_};
  }
  void attend(Head& head, const std::vector<double>& q, int64_t seen, int64_t t, int64_t T,
              double* out) const {
    std::vector<double> p;
    double sum = 0;
    for (int64_t s = 0; s < seen; ++s) {
      double dot = 0;
      for (size_t d = 0; d < q.size(); ++d) dot += q[d] * head.tokens[static_cast<size_t>(s)].key[d];
      p.push_back(std::exp(dot / std::sqrt(static_cast<double>(D_))));
      sum += p.back();
    }
    const bool counts = options_.policy == Policy::heavy_hitters || (first_ && t >= T - options_.recent);
    for (size_t s = 0; s < p.size(); ++s) {
      for (size_t d = 0; d < q.size(); ++d) out[d] += p[s] / sum * head.tokens[s].value[d];
      if (counts) head.tokens[s].weight += p[s] / sum;
    }
  }
  void drop_least(Head& head) const {
    const auto end = head.tokens.end() - options_.recent;
    head.tokens.erase(std::min_element(head.tokens.begin(), end,
                                       [](const Token& a, const Token& b) { return a.weight < b.weight; }));
  }

  tt::EvictionOptions options_;
  int64_t H_, G_, D_;
  std::vector<Head> heads_;
  bool first_ = true;
};

}  // namespace

TEST_CASE("steps of any length give what the rule gives, for both policies and grouped queries") {
  for (const Policy policy : {Policy::heavy_hitters, Policy::prompt}) {
    for (const auto& [H, G] : {std::pair<int64_t, int64_t>{4, 2}, {2, 2}, {3, 1}}) {
      const int64_t D = 8;
      const tt::EvictionOptions options{.budget = 12, .recent = 4, .policy = policy};
      tt::EvictingCache cache({.layers = 1, .groups = G, .head_size = D}, options);
      ByDefinition rule(options, H, G, D);
      tt::manual_seed(static_cast<uint64_t>(H));
      int64_t position = 0;
      for (const int64_t T : {90, 1, 1, 5, 1, 3, 1}) {
        const tt::Tensor q = tt::randn({1, H, T, D}) * 2, k = tt::randn({1, G, T, D}),
                         v = tt::randn({1, G, T, D});
        const std::vector<double> y = cache.attend(0, q, k, v, {.causal = true}).to_vector<double>();
        const std::vector<double> wanted =
            rule.step(q.to_vector<double>(), k.to_vector<double>(), v.to_vector<double>(), T);
        double worst = 0;
        for (size_t i = 0; i < y.size(); ++i) worst = std::max(worst, std::abs(y[i] - wanted[i]));
        CHECK(worst < 1e-5);
        position += T;
        CHECK(cache.position() == position);
        CHECK(cache.held(0) == (policy == Policy::prompt ? 12 + position - 90 : 12));
      }
    }
  }
}

TEST_CASE(
    "a budget that is not reached changes nothing; a smaller one changes the distributions by some KL") {
  tt::Llama model = small_llama();
  const tt::Tensor tokens = some_tokens(2, 60);
  const auto compared = [&](int64_t budget, Policy policy) {
    tt::ContiguousCache full(model.kv_shape(), {.sequences = 2, .capacity = 60});
    tt::EvictingCache cache(model.kv_shape(), {.budget = budget, .recent = 8, .policy = policy});
    return tt::compare_caches(model, full, cache, tokens, 40);
  };
  for (const Policy policy : {Policy::heavy_hitters, Policy::prompt}) {
    const tt::CacheDifference same = compared(60, policy), less = compared(30, policy),
                              least = compared(8, policy);
    CHECK(same.positions == 2 * 21);
    CHECK(std::abs(same.worst_kl) < 1e-9);
    CHECK(same.top_agreement == 1);
    CHECK(less.mean_kl > 1e-6);
    CHECK(less.mean_kl < least.mean_kl);
    CHECK(least.worst_kl >= least.mean_kl);
  }
}

TEST_CASE("a pass that fails leaves the cache as it was; what the cache cannot do is refused") {
  tt::EvictingCache cache({.layers = 2, .groups = 1, .head_size = 4}, {.budget = 4, .recent = 2});
  const tt::Tensor x = tt::ones({1, 1, 3, 4});
  (void)cache.attend(0, x, x, x, {.causal = true});
  CHECK(cache.held(0) == 0);
  (void)cache.attend(0, x, x, x, {.causal = true});  // the pass begins again
  (void)cache.attend(1, x, x, x, {.causal = true});
  CHECK(cache.held(0) == 3);
  CHECK(cache.position() == 3);
  CHECK_THROWS_WITH_AS((void)cache.attend(0, x, x, x, {}), doctest::Contains("TT-KV-04"), tt::Error);
  CHECK_THROWS_WITH_AS((void)cache.append(0, x, x), doctest::Contains("TT-KV-05"), tt::Error);
  expect_error("TT-KV-01", "budget >= recent", [] {
    tt::EvictingCache({.layers = 1, .groups = 1, .head_size = 4}, {.budget = 3, .recent = 4});
  });
  cache.clear();
  CHECK(cache.position() == 0);
}
