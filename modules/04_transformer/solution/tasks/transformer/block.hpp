// The pre-norm block (Xiong et al., 2020): x += attention(norm(x)), then x += mlp(norm(x)).
//
// What runs through all blocks unchanged but for these sums is the residual stream: a gradient reaches the
// first block through additions alone. A block hands on the last sum not yet made (the library makes it
// together with the normalization that comes next, in one visit to memory).
//
// Task 4.10: made_sum, normalize, TransformerBlock::forward. The given parts of this header are in
// modules/04_transformer/frame/tinytorch/transformer/block.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD {

// residual + dropout(branch): what the stream stands for. `p`: the probability of dropout; 0: none. Without a
// branch (`if (!x.branch.defined())`) it is the residual itself.
inline Tensor made_sum(const ResidualStream& x, double p) {
  if (!x.branch.defined()) return x.residual;
  return x.residual + (p > 0 ? dropout(x.branch, p) : x.branch);
}

// The sum, and its normalization: {norm(sum), sum}. Norm: LayerNorm or RMSNorm.
template <class Norm>
NormalizedSum normalize(Norm& norm, const ResidualStream& x, double p) {
  const Tensor sum = made_sum(x, p);
  return {norm(sum), sum};
}

// normalize the stream by attention_norm; attention.forward(normalized, place) is the branch that goes
// with its sum; normalize these two by mlp_norm; hand on the sum, and mlp's result as the branch. Dropout
// in training alone: probability().
template <class Norm, class Feed>
ResidualStream TransformerBlock<Norm, Feed>::forward(const ResidualStream& x, const SequencePlace& place) {
  const Scope scope = forward_scope();
  const NormalizedSum a = normalize(attention_norm, x, probability());
  const ResidualStream middle{a.sum, attention.forward(a.normalized, place)};
  const NormalizedSum m = normalize(mlp_norm, middle, probability());
  return {m.sum, mlp(m.normalized)};
}

}  // namespace tinytorch::inline TT_BUILD
