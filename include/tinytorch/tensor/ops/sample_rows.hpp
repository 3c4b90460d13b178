// Sampling of the next token from logits on their device, for many rows at once. A choice of its own tells
// for each row how its token is sampled (backend/sample_weights.hpp).
#pragma once

#include <tinytorch/backend/sample_weights.hpp>
#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

// Tokens i64 [rows] from logits [rows, V] of a floating dtype. best: topk(logits, 1) as tensors [rows].
// choices: f64 [rows, backend::kSampleColumns] on the same device. A row whose largest logit is not finite
// gets its best token. The host neither reads the logits nor waits, and there is no derivative. Throws
// TT-SHAPE-02, TT-DTYPE-02 or TT-DEVICE-01 if the operands do not fit, or if V is 0 or above
// backend::kMostSampleTokens.
TT_API Tensor sample_rows(const Tensor& logits, const ValuesAndIndices& best, const Tensor& choices, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/sample_rows.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

TT_API Tensor sample_rows(const Tensor& logits, const ValuesAndIndices& best, const Tensor& choices,
                          Loc loc) {
  require_defined("sample_rows", loc, logits, best.values, best.indices, choices);
  (void)common_device("sample_rows", {logits, best.values, best.indices, choices}, loc);
  require_floating("sample_rows", logits, loc);
  const auto fits = [&] {
    if (logits.rank() != 2 || logits.size(1) < 1 || logits.size(1) > backend::kMostSampleTokens) return false;
    const Shape rows{logits.size(0)};
    return best.values.shape() == rows && best.values.dtype() == logits.dtype() &&
           best.indices.shape() == rows && best.indices.dtype() == DType::i64 &&
           choices.shape() == Shape{rows[0], backend::kSampleColumns} && choices.dtype() == DType::f64;
  };
  if (!fits()) {
    fail("TT-SHAPE-02",
         "sample_rows: got logits " + logits.describe() + ", best tokens " + best.indices.describe() +
             ", their logits " + best.values.describe() + " and choices " + choices.describe() +
             "\n  rule: [rows, V] with V from 1 to " + std::to_string(backend::kMostSampleTokens) +
             ", i64 [rows], [rows] of the dtype of the logits, f64 [rows, " +
             std::to_string(static_cast<int>(backend::kSampleColumns)) + "]",
         loc);
  }
  Tensor x = logits.detach();
  if (x.size(1) > 1 && x.stride(1) != 1) x = x.contiguous();
  const Tensor dense = choices.detach().contiguous();
  Tensor tokens = empty({x.size(0)}, DType::i64, x.device(), loc);
  ObservedWork work("sample_rows", x.device());
  if (work.observed()) work.cost = {0, 2 * static_cast<double>(x.bytes())};
  const backend::cuda::DeviceGuard on_device(x.device(), loc);
  TT_KERNEL(x, sample_rows(tokens.view_of(), x.view_of(), best.indices.detach().view_of(),
                           best.values.detach().view_of(), dense.view_of()));
  return tokens;
}

}  // namespace tinytorch::inline TT_BUILD
#endif
