// GPTQ: rounds the columns of a weight one after the other, and lets the columns that are still real numbers
// make up for the error of those already rounded.
//
// Rounding w_j to q_j changes the output by (q_j - w_j) X_j. Correlated inputs can imitate X_j, so the later
// weights take over most of this error. With H = X^T X + damping and H^-1 = U^T U, U upper triangular:
//
//   for column j:  e = (w_j - q_j) / U_jj,   w_k -= e U_jk  for k > j
//
// Each row of the weight is rounded on its own with the same U. Act-order rounds the columns with the
// largest inputs first, while most others can still answer. It permutes K once, offline: codes and groups are
// stored in the new order, and the input is permuted to match, so that no kernel gathers single weights.
// Source: Frantar et al., "GPTQ: accurate post-training quantization for generative pre-trained
// transformers", 2022.
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

// U [K, K] f64, upper triangular, with (gram + damping)^-1 = U^T U. Reversing rows and columns turns an upper
// into a lower factor: so one Cholesky factor and one triangular inverse suffice.
inline Tensor inverse_factor(const Tensor& gram, double damping, TT_LOC) {
  const NoGrad no_grad;
  const int64_t K = gram.size(0);
  const Tensor H = gram.clone();
  double mean = 0;
  for (int64_t j = 0; j < K; ++j) mean += H.data<double>()[j * K + j] / static_cast<double>(K);
  const double added = mean > 0 ? damping * mean : 1;  // inputs that are all 0 round to nearest
  for (int64_t j = 0; j < K; ++j) H.data<double>()[j * K + j] += added;
  const Tensor reversed = flip(inverse_of_lower(cholesky(flip(H, {0, 1}), loc)), {0, 1});
  return reversed.contiguous();
}

// Rounds the rows [begin, end) of w f64 [N, K], which is overwritten by what was left of each column. The
// rows advance together, so that a row of U is read once for all of them.
inline void gptq_rows(const ScaledCodes& out, double* w, const double* U, const ScaleOptions& o,
                      int64_t begin, int64_t end, Loc loc) {
  const int64_t K = out.codes.size(1), G = out.scales.size(1);
  auto* const codes = static_cast<uint8_t*>(out.codes.raw());
  std::vector<AffineScale> scales(static_cast<size_t>(end - begin));
  std::vector<float> group;
  for (int64_t j = 0; j < K; ++j) {
    for (int64_t r = begin; r < end; ++r) {
      double* const row = w + r * K;
      AffineScale& s = scales[static_cast<size_t>(r - begin)];
      if (j % out.group == 0) {  // the scale of a group follows from its weights as they are now
        group.assign(row + j, row + std::min(j + out.group, K));
        s = fit_scale(group, o, loc);
        write_codes(out, r * G + j / out.group, s, 0, {});
      }
      const int32_t code = quantize_value(static_cast<float>(row[j]), s);
      codes[r * K + j] = static_cast<uint8_t>(code);
      const double error = (row[j] - static_cast<double>(dequantize_value(code, s))) / U[j * K + j];
      for (int64_t k = j + 1; k < K; ++k) row[k] = math::multiply_add(-error, U[j * K + k], row[k]);
    }
  }
}

// weight [N, K] -> codes and scales on the CPU, by row or by group (TT-CALIB-03 for Granularity::tensor: its
// scale would depend on columns that are not yet known). The result has the same bits for the same weight,
// rows of calibration and options. A column whose inputs were all 0 is rounded to nearest.
inline GptqWeight gptq(const Tensor& weight, const InputStatistics& inputs, const GptqOptions& o = {},
                       TT_LOC) {
  const NoGrad no_grad;
  require_statistics("gptq", weight, inputs, loc);
  require_scale_options("gptq", o.scales, loc);
  if (o.scales.granularity == Granularity::tensor || !(o.damping >= 0) || std::isinf(o.damping))
    fail("TT-CALIB-03", "gptq: scales are by row or by group, and the damping is at least 0", loc);
  Tensor values = calibration_values("gptq", weight, loc), gram = inputs.gram();
  (void)range_of("gptq", {values.data<float>(), static_cast<size_t>(values.numel())}, loc);
  GptqWeight out;
  if (o.act_order) {
    const int64_t K = gram.size(0);
    out.order = sort(alias(gram, {K}, {K + 1}, 0).contiguous(), 0, true).indices;
    values = index_select(values, 1, out.order);
    gram = index_select(index_select(gram, 0, out.order), 1, out.order);
  }
  out.weight = empty_codes(values.shape(), o.scales, loc);
  const Tensor U = inverse_factor(gram, o.damping, loc), w = values.to(DType::f64).contiguous().clone();
  parallel_for(values.size(0), 16, [&](int64_t begin, int64_t end) {
    gptq_rows(out.weight, w.data<double>(), U.data<double>(), o.scales, begin, end, loc);
  });
  return out;
}

// The values f32 [N, K] in the order of the given weight's columns.
inline Tensor dequantize(const GptqWeight& q, TT_LOC) {
  const Tensor values = dequantize(q.weight, loc);
  if (!q.order.defined()) return values;
  return index_select(values, 1, sort(q.order, 0).indices);  // the inverse permutation
}

}  // namespace tinytorch::inline TT_BUILD
