// Convolutions and pooling.
#pragma once

#include <support/op_case.hpp>

namespace cases {

// clang-format off
inline std::vector<OpCase> conv_calls() {
  return {
      OP("F.conv2d(x, y)", conv2d(x, y)),
      OP("F.conv2d(x, y, z)", conv2d(x, y, z)),
      OP("F.conv2d(x, y, z, padding=1)", conv2d(x, y, z, {1, 1})).bench("image filter filter_bias").bench_grad("image filter filter_bias"),
      OP("F.conv2d(x, y, z, stride=2, padding=1)", conv2d(x, y, z, {2, 1})),
      OP("F.conv2d(x, y, z, padding=2, dilation=2)", conv2d(x, y, z, {1, 2, 2})),
      OP("F.conv2d(x, y, z, stride=2, padding=1, groups=2)", conv2d(x, y, z, {2, 1, 1, 2})),
      OP("F.conv2d(x, y, z, groups=3)", conv2d(x, y, z, {1, 0, 1, 3})),
      OP("F.conv2d(x, y, z, stride=3, padding=2, dilation=2)", conv2d(x, y, z, {3, 2, 2})),
      OP("F.max_pool2d(x, 2)", max_pool2d(x)).bench("image").bench_grad("image"),
      OP("F.max_pool2d(x, 3, 2, 1)", max_pool2d(x, {3, 2, 1})),
      OP("F.max_pool2d(x, 2, 1)", max_pool2d(x, {2, 1})),
      OP("F.avg_pool2d(x, 2)", avg_pool2d(x)).bench("image"),
      OP("F.avg_pool2d(x, 3, 2, 1)", avg_pool2d(x, {3, 2, 1})),
      OP("F.adaptive_avg_pool2d(x, 4)", adaptive_avg_pool2d(x, 4, 4)).bench("image"),
      OP("F.adaptive_avg_pool2d(x, (3, 2))", adaptive_avg_pool2d(x, 3, 2)),
      OP("F.adaptive_avg_pool2d(x, 1)", adaptive_avg_pool2d(x, 1, 1)),
  };
}
// clang-format on

}  // namespace cases
