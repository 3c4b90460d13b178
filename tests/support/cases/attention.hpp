// Attention.
#pragma once

#include <support/op_case.hpp>

namespace cases {

// clang-format off
inline std::vector<OpCase> attention_calls() {
  return {
      OP("F.scaled_dot_product_attention(x, y, z)", scaled_dot_product_attention(x, y, z))
          .bench("queries keys values", "attention").bench_grad("queries keys values", "attention"),
      OP("F.scaled_dot_product_attention(x, y, z, is_causal=True)", scaled_dot_product_attention(x, y, z, {.causal = true}))
          .bench("queries keys values", "attention causal").bench_grad("queries keys values", "attention causal"),
      OP("grouped_attention(x, y, z, attn_mask=visible(x, y), scale=0.3)", scaled_dot_product_attention(x, y, z, {.causal = true, .scale = 0.3})),
      OP("grouped_attention(x, y, z, attn_mask=visible(x, y, window=2))", scaled_dot_product_attention(x, y, z, {.causal = true, .window = 2})),
      OP("joined_attention(x, 3, 3)", joined_attention(x, 3, 3)),
      OP("joined_attention(x, 4, 2, is_causal=True)", joined_attention(x, 4, 2, {.causal = true})),
  };
}
// clang-format on

}  // namespace cases
