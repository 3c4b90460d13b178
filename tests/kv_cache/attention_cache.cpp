#include <tinytorch/kv_cache/attention_cache.hpp>

#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("positions are equal in all sequences, or one for each token") {
  const tt::Positions equal = 7;
  CHECK_FALSE(equal.differ());
  CHECK(int64_t{equal} == 7);
  const tt::Positions each(tt::from_data(std::vector<int64_t>{4, 5, 0}, {3}), 6);
  CHECK(each.differ());
  CHECK_THROWS_WITH_AS((void)int64_t{each}, doctest::Contains("pass SequencePlace::start as it is"),
                       tt::Error);
}

TEST_CASE("without a cache, a step begins at position 0; with one, after its tokens") {
  struct Held : tt::AttentionCache {
    int64_t position() const override { return 12; }
    tt::KeysAndValues append(int64_t layer, const tt::Tensor& k, const tt::Tensor& v) override {
      layers.push_back(layer);
      return {tt::cat({k, k}, 2), tt::cat({v, v}, 2)};
    }
    std::vector<int64_t> layers;
  } held;
  CHECK(int64_t{tt::SequencePlace::after(nullptr).start} == 0);
  CHECK(tt::SequencePlace::after(nullptr).cache == nullptr);
  CHECK(int64_t{tt::SequencePlace::after(&held).start} == 12);

  // A cache that has append() alone attends to what that returns.
  tt::manual_seed(1);
  const tt::Tensor q = tt::randn({1, 2, 3, 4}), k = tt::randn({1, 1, 3, 4}), v = tt::randn({1, 1, 3, 4});
  const tt::Tensor y = held.attend(5, q, k, v, {.causal = true});
  const tt::Tensor wanted =
      tt::scaled_dot_product_attention(q, tt::cat({k, k}, 2), tt::cat({v, v}, 2), {.causal = true});
  CHECK(y.to_vector<float>() == wanted.to_vector<float>());
  CHECK(held.layers == std::vector<int64_t>{5});
}
