// The umbrella header of kv_cache/ is enough to keep the tokens of an attention that is written with it.
#include <doctest/doctest.h>

#include <tinytorch/kv_cache/kv_cache.hpp>

namespace tt = tinytorch;

TEST_CASE("with kv_cache.hpp alone attention goes on where it was") {
  tt::manual_seed(1);
  const tt::Tensor x = tt::randn({1, 2, 7, 4}, tt::f32, tt::cpu);  // q, k and v at once
  tt::ContiguousCache cache({.layers = 1, .groups = 2, .head_size = 4}, {.capacity = 7, .device = tt::cpu});
  tt::Tensors parts;
  for (int64_t t = 0; t < 7; ++t) {
    const tt::Tensor token = tt::slice(x, 2, t, t + 1);
    parts.push_back(cache.attend(0, token, token, token, {.causal = true}));
  }
  const tt::Tensor all = tt::scaled_dot_product_attention(x, x, x, {.causal = true});
  CHECK(tt::max(tt::abs(tt::cat(parts, 2) - all)).item<double>() < 1e-6);
  CHECK(cache.position() == 7);
}
