// Embedding and losses.
#pragma once

#include <support/op_case.hpp>

namespace cases {

// clang-format off
inline std::vector<OpCase> loss_calls() {
  return {
      OP("F.embedding(y, x)", embedding(x, y)).bench("m row_index").bench_grad("m row_index"),
      OP("F.cross_entropy(x, y)", cross_entropy(x, y)).bench("m class_of").bench_grad("m class_of"),
      OP("F.cross_entropy(x, y, label_smoothing=0.1)", cross_entropy(x, y, {.label_smoothing = 0.1})),
      OP("F.cross_entropy(x, y, ignore_index=4, reduction='sum')", cross_entropy(x, y, {.ignore_index = 4, .reduction = Reduction::sum})),
      OP("F.cross_entropy(x, y, label_smoothing=0.2, reduction='none')", cross_entropy(x, y, {.label_smoothing = 0.2, .reduction = Reduction::none})),
      OP("head_loss(x, y, z)", linear_cross_entropy(x, y, z)),
      OP("head_loss(x, y, z, label_smoothing=0.1, reduction='sum')", linear_cross_entropy(x, y, z, {.label_smoothing = 0.1, .reduction = Reduction::sum})),
      OP("F.mse_loss(x, y)", mse_loss(x, y)).bench("x y"),
      OP("F.mse_loss(x, y, reduction='sum')", mse_loss(x, y, Reduction::sum)),
      OP("F.mse_loss(x, y, reduction='none')", mse_loss(x, y, Reduction::none)),
      OP("F.binary_cross_entropy_with_logits(x, y)", bce_with_logits(x, y)).bench("x positive"),
      OP("F.binary_cross_entropy_with_logits(x, y, reduction='sum')", bce_with_logits(x, y, Reduction::sum)),
      OP("F.binary_cross_entropy_with_logits(x, y, reduction='none')", bce_with_logits(x, y, Reduction::none)),
  };
}
// clang-format on

}  // namespace cases
