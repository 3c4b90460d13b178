// Operations that create tensors, of given or of random values.
#pragma once

#include <support/op_case.hpp>

namespace cases {

// clang-format off
inline std::vector<OpCase> creation_calls() {
  return {
      OP("torch.full((2, 3), 1.5)", full({2, 3}, 1.5)),
      OP("torch.full((3,), 7)", full({3}, 7, i64)),
      OP("torch.full(x.shape, 1.5)", full(x.shape(), 1.5)).bench("x"),
      OP("torch.zeros(2, 2)", zeros({2, 2})),
      OP("torch.ones(1, 3, dtype=f64)", ones({1, 3}, f64)),
      OP("torch.zeros_like(x)", zeros_like(x)),
      OP("torch.ones_like(x)", ones_like(x)),
      OP("torch.arange(2, 11, 3)", arange(2, 11, 3)),
      OP("torch.arange(5, -4, -2)", arange(5, -4, -2)),
      OP("torch.arange(0, 1, 0.3)", arange(0, 1, 0.3, f32)),
      OP("torch.arange(0, x.numel())", arange(0, x.numel())).bench("x"),
      OP("torch.linspace(-1, 2, 7)", linspace(-1, 2, 7)),
      OP("torch.linspace(3, 3.5, 1, dtype=f64)", linspace(3, 3.5, 1, f64)),
      OP("torch.linspace(0, 1, x.numel())", linspace(0, 1, x.numel())).bench("x"),
      OP("torch.eye(3)", eye(3)),
      OP("torch.eye(x.shape[0])", eye(x.size(0))).bench("square"),
      OP("torch.rand(x.shape)", rand(x.shape())).bench("x").only_timed(),
      OP("torch.randn(x.shape)", randn(x.shape())).bench("x").only_timed(),
      OP("torch.randint(0, 100, x.shape)", randint(0, 100, x.shape())).bench("x").only_timed(),
      OP("torch.empty(x.shape).bernoulli_(0.3)", bernoulli(0.3, x.shape())).bench("x").only_timed(),
      OP("F.dropout(x, 0.0)", dropout(x, 0)),
      OP("F.dropout(x, 0.1)", dropout(x, 0.1)).bench("x").only_timed(),
  };
}
// clang-format on

}  // namespace cases
