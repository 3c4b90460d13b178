// GPTQ: rounds the columns of a weight one after the other, and lets the columns that are still real numbers
// make up for the error of those already rounded.
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.10. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/quantization/cholesky.hpp>
#include <tinytorch/quantization/granularity.hpp>
#include <tinytorch/quantization/input_statistics.hpp>

namespace tinytorch::inline TT_BUILD {

struct GptqOptions {
  ScaleOptions scales = {.bits = 4, .granularity = Granularity::group, .group = 64};
  double damping = 0.01;   // added to the diagonal of X^T X, as a multiple of its mean
  bool act_order = false;  // columns in the order of decreasing sum of X_j^2
};

struct GptqWeight {
  ScaledCodes weight;  // [N, K]; its column j is the column order[j] of the given weight
  Tensor order;        // i64 [K]; undefined without act_order
  // The input for `weight`: x [..., K] with its columns in this order.
  Tensor permuted(const Tensor& x) const { return order.defined() ? index_select(x, -1, order) : x; }
};

inline Tensor inverse_factor(const Tensor& gram, double damping, TT_LOC);  // task 7.10
inline void gptq_rows(const ScaledCodes& out, double* w, const double* U, const ScaleOptions& o,
                      int64_t begin, int64_t end, Loc loc);  // task 7.10
inline GptqWeight gptq(const Tensor& weight, const InputStatistics& inputs, const GptqOptions& o = {},
                       TT_LOC);  // task 7.10

// The values f32 [N, K] in the order of the given weight's columns.
inline Tensor dequantize(const GptqWeight& q, TT_LOC) {
  const Tensor values = dequantize(q.weight, loc);
  if (!q.order.defined()) return values;
  return index_select(values, 1, sort(q.order, 0).indices);  // the inverse permutation
}

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/quantization/gptq.hpp>
