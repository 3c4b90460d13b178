// Softmax and normalization, alone and with fused neighbours.
#pragma once

#include <support/op_case.hpp>

namespace cases {

// clang-format off
inline std::vector<OpCase> norm_calls() {
  return {
      OP("torch.softmax(x, -1)", softmax(x)).bench("m").bench_grad("m"),
      OP("torch.softmax(x, 0)", softmax(x, 0)).bench("m", "softmax columns"),
      OP("torch.softmax(x, 1)", softmax(x, 1)),
      OP("torch.log_softmax(x, -1)", log_softmax(x)).bench("m").bench_grad("m"),
      OP("torch.log_softmax(x, 1)", log_softmax(x, 1)),
      OP("F.layer_norm(x, x.shape[-1:], y, z)", layer_norm(x, y, z)).bench("m row row").bench_grad("m row row"),
      OP("F.layer_norm(x, x.shape[-1:])", layer_norm(x)),
      OP("F.layer_norm(x, x.shape[-1:], y, z, 0.1)", layer_norm(x, y, z, 0.1)),
      OP("F.rms_norm(x, x.shape[-1:], y, 1e-6)", rms_norm(x, y)).bench("m row").bench_grad("m row"),
      OP("F.rms_norm(x, x.shape[-1:], None, 1e-6)", rms_norm(x)),
      OP("residual_norm(x + y, F.layer_norm, z, u)", residual_layer_norm(x, y, z, u)).bench("m k row row"),
      OP("F.layer_norm(x + y, x.shape[-1:], z, u)", residual_layer_norm(x, y, z, u).normalized),
      OP("x + y + 0 * (z + u)", residual_layer_norm(x, y, z, u).sum),
      OP("residual_norm(x + y, F.rms_norm, z, 1e-6)", residual_rms_norm(x, y, z)).bench("m k row"),
      OP("F.rms_norm(x + y, x.shape[-1:], z, 1e-6)", residual_rms_norm(x, y, z).normalized),
      OP("batch_norm_with_statistics(x, y, z)", batch_norm_train(x, y, z)),
      OP("F.batch_norm(x, None, None, y, z, training=True, eps=1e-5)", batch_norm_train(x, y, z)[0]).bench("image channel channel"),
      OP("F.batch_norm(x, y.detach(), z.detach(), u, v)", batch_norm_infer(x, y, z, u, v)).bench("image channel channel_positive channel channel"),
      OP("F.group_norm(x, 2, y, z)", group_norm(x, 2, y, z)),
      OP("F.group_norm(x, 3)", group_norm(x, 3)),
      OP("F.group_norm(x, x.shape[1], y, z)", group_norm(x, x.size(1), y, z)).bench("image channel channel"),
  };
}
// clang-format on

}  // namespace cases
