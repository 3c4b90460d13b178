// The pre-norm block (Xiong et al., 2020): x += attention(norm(x)), then x += mlp(norm(x)).
//
// The residual stream goes through all blocks and is changed by these additions only, so a gradient reaches
// the first block directly. A block returns its last sum as two terms that are not added yet, because the
// library adds them together with the next normalization, in one pass over memory.
//
// Task 4.10: made_sum, normalize, TransformerBlock::forward. The given parts of this header are in
// modules/04_transformer/frame/tinytorch/transformer/block.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD {

// The value of the stream: residual + dropout(branch). `p` is the probability of dropout; 0 means none.
// Without a branch (`if (!x.branch.defined())`) it is the residual itself.
inline Tensor made_sum(const ResidualStream& x, double p) {
  if (!x.branch.defined()) return x.residual;
  return x.residual + (p > 0 ? dropout(x.branch, p) : x.branch);
}

// The sum of the stream and its normalization: {norm(sum), sum}. Norm is LayerNorm or RMSNorm.
template <class Norm>
NormalizedSum normalize(Norm& norm, const ResidualStream& x, double p) {
  const Tensor sum = made_sum(x, p);
  return {norm(sum), sum};
}

// 1. Normalize the stream by attention_norm. 2. The new stream is the sum and, as its branch, the result of
// attention.forward(normalized, place). 3. Normalize this stream by mlp_norm. 4. Return the sum and, as its
// branch, the result of mlp. probability() is the probability of dropout, which is 0 in evaluation.
template <class Norm, class Feed>
ResidualStream TransformerBlock<Norm, Feed>::forward(const ResidualStream& x, const SequencePlace& place) {
  const Scope scope = forward_scope();
  const NormalizedSum a = normalize(attention_norm, x, probability());
  const ResidualStream middle{a.sum, attention.forward(a.normalized, place)};
  const NormalizedSum m = normalize(mlp_norm, middle, probability());
  return {m.sum, mlp(m.normalized)};
}

}  // namespace tinytorch::inline TT_BUILD
