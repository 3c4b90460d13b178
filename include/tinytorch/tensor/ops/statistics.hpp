// Statistics of a tensor's values: median, quantile, cov, corrcoef, cdist, histc and histogram.
//
//   tt::median(x, -1).values          // the middle of every row
//   tt::quantile(x, {0.25, 0.75}, 0)  // [2, columns]
//   tt::corrcoef(x)                   // x [variables, observations]
//
// They are composed of operations that run on every device and have derivatives. Names and semantics are
// PyTorch's.
#pragma once

#include <optional>
#include <tinytorch/tensor/operators.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// The middle of all values as a scalar; of an even number of values the lower one of the two in the middle. A
// NaN makes the result NaN. Throws TT-SHAPE-10 if x has no elements. Dtypes: all.
TT_API Tensor median(const Tensor& x, TT_LOC);
// The medians along dim, and their positions in x (that of the first NaN, if there is one).
TT_API ValuesAndIndices median(const Tensor& x, int dim, bool keepdim = false, TT_LOC);
// The k-th smallest value along dim, k from 1, and its position. Throws TT-RANGE-02 for another k.
TT_API ValuesAndIndices kthvalue(const Tensor& x, int64_t k, int dim = -1, bool keepdim = false, TT_LOC);
// The value below which a share q of the values lies, 0 <= q <= 1, linearly interpolated between the two
// nearest ranks; along dim, or of all values. x is floating point. A NaN makes its result NaN. Throws
// TT-RANGE-02 for a q outside of [0, 1], and TT-SHAPE-10 if x has no elements.
TT_API Tensor quantile(const Tensor& x, double q, std::optional<int> dim = {}, bool keepdim = false, TT_LOC);
// Several shares: the result has a first dimension of size q.size().
TT_API Tensor quantile(const Tensor& x, const std::vector<double>& q, std::optional<int> dim = {},
                       bool keepdim = false, TT_LOC);
// Covariances: x [variables, observations] -> [variables, variables], the sums of products of deviations
// divided by observations - correction. A vector is one variable, and gives its variance as a scalar. x is
// floating point. Throws TT-SHAPE-04 for a rank above 2.
TT_API Tensor cov(const Tensor& x, int64_t correction = 1, TT_LOC);
// Pearson's correlations, in [-1, 1]: cov[i, j] / sqrt(cov[i, i] cov[j, j]). A constant variable gives NaN.
TT_API Tensor corrcoef(const Tensor& x, TT_LOC);
// Distances of all pairs of rows: a [..., P, M], b [..., R, M] -> [..., P, R]. p is 1 (sum of absolute
// differences), 2 (Euclidean) or infinity (largest difference). Differences are computed one by one, so they
// are accurate for close points and take the memory of P R M elements. Euclidean distances of more than 25
// rows of f32, bf16 or f16 come from a matrix product in f64 instead; the error is below 1e-7 of the larger
// row's norm, which is less than what rounding the rows to f32 changes. Throws TT-RANGE-08 for another p.
TT_API Tensor cdist(const Tensor& a, const Tensor& b, double p = 2, TT_LOC);
// Counts of x's values in `bins` bins of equal width from low to high, in x's dtype; high belongs to the last
// bin. Values outside and NaN are not counted. If low == high, the range is that of x. x is floating point.
// The counts have no derivative. Throws TT-RANGE-03 for bins < 1, and TT-RANGE-01 for low > high or a range
// that is not finite.
TT_API Tensor histc(const Tensor& x, int64_t bins = 100, double low = 0, double high = 0, TT_LOC);
// The counts of histc, and the edges of the bins, [bins + 1], both in x's dtype. If x has only the value v,
// the range is v - 1/2 to v + 1/2, as in NumPy; that of histc is v - 1 to v + 1.
struct Histogram {
  Tensor counts, edges;
};
TT_API Histogram histogram(const Tensor& x, int64_t bins = 100, double low = 0, double high = 0, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tinytorch/backend/cpu/histogram.hpp>
#include <tinytorch/tensor/ops/index.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

inline void require_elements(const char* op, const Tensor& x, int64_t elements, Loc loc) {
  if (elements > 0) return;
  fail("TT-SHAPE-10", std::string(op) + ": needs at least one element, got " + x.describe(), loc);
}

TT_API ValuesAndIndices median(const Tensor& x, int dim, bool keepdim, Loc loc) {
  require_defined("median", loc, x);
  if (x.rank() == 0) {
    normalize_dim(dim, 1, "median", loc);
    const ValuesAndIndices one = median(reshape(x, {1}, loc), 0, false, loc);
    return {one.values, one.indices};
  }
  const int d = normalize_dim(dim, x.rank(), "median", loc);
  const int64_t n = x.shape()[d];
  require_elements("median", x, n, loc);
  const ValuesAndIndices sorted = sort(x, d, false, loc);  // NaN is last
  const Tensor nans = sum(cast(isnan(x.detach(), loc), DType::i64, loc), d, true, loc);
  const Tensor middle = full(nans.shape(), (n - 1) / 2, DType::i64, x.device(), loc);
  const Tensor first_nan = sub(scalar_like(n, nans, loc), nans, loc);
  const Tensor at = where(gt(nans, scalar_like(0, nans, loc), loc), first_nan, middle, loc);
  const Tensor values = gather(sorted.values, d, at, loc), indices = gather(sorted.indices, d, at, loc);
  if (keepdim) return {values, indices};
  return {squeeze(values, d, loc), squeeze(indices, d, loc)};
}

TT_API Tensor median(const Tensor& x, Loc loc) {
  require_defined("median", loc, x);
  require_elements("median", x, x.numel(), loc);
  return median(reshape(x, {-1}, loc), 0, false, loc).values;
}

TT_API ValuesAndIndices kthvalue(const Tensor& x, int64_t k, int dim, bool keepdim, Loc loc) {
  require_defined("kthvalue", loc, x);
  const Tensor row = x.rank() == 0 ? reshape(x, {1}, loc) : x;
  const int d = normalize_dim(dim, row.rank(), "kthvalue", loc);
  if (k < 1 || k > row.shape()[d]) {
    fail("TT-RANGE-02",
         "kthvalue: k must be from 1 to " + std::to_string(row.shape()[d]) + ", got " + std::to_string(k),
         loc);
  }
  const ValuesAndIndices sorted = sort(row, d, false, loc);
  const bool keep = keepdim && x.rank() > 0;
  const auto at = [&](const Tensor& t) {
    return keep ? slice(t, d, k - 1, k, 1, loc) : select(t, d, k - 1, loc);
  };
  return {at(sorted.values), at(sorted.indices)};
}

TT_API Tensor quantile(const Tensor& x, const std::vector<double>& q, std::optional<int> dim, bool keepdim,
                       Loc loc) {
  require_defined("quantile", loc, x);
  require_floating("quantile", x, loc);
  const bool all = !dim || x.rank() == 0;
  const Tensor values = all ? reshape(x, {x.numel()}, loc) : x;
  const int d = normalize_dim(dim.value_or(0), values.rank(), "quantile", loc);
  const int64_t n = values.shape()[d];
  require_elements("quantile", x, n, loc);
  std::vector<int64_t> low, high;
  std::vector<double> fraction;
  for (const double share : q) {
    if (!(share >= 0 && share <= 1)) {
      fail("TT-RANGE-02", "quantile: q must be from 0 to 1, got " + std::to_string(share), loc);
    }
    const double rank = share * static_cast<double>(n - 1);
    low.push_back(static_cast<int64_t>(rank));
    high.push_back(std::min(low.back() + 1, n - 1));
    fraction.push_back(rank - static_cast<double>(low.back()));
  }
  const Tensor sorted = sort(values, d, false, loc).values;
  const Tensor a = index_select(sorted, d, from_data(low).to(x.device()), loc);
  const Tensor b = index_select(sorted, d, from_data(high).to(x.device()), loc);
  Shape along{static_cast<int64_t>(q.size())};
  for (int i = d + 1; i < values.rank(); ++i) along.push_back(1);
  const Tensor t = from_data(fraction).to(x.dtype()).to(x.device()).reshape(along);
  const Tensor last = slice(sorted, d, n - 1, n, 1, loc);  // NaN if there is one
  Tensor y = where(isnan(last.detach(), loc), last, add(a, mul(sub(b, a, loc), t, loc), loc), loc);
  Dims order{d};  // the shares become the first dimension
  for (int i = 0; i < values.rank(); ++i)
    if (i != d) order.push_back(i);
  y = permute(y, order, loc);
  if (!keepdim) return y;
  Shape shape{static_cast<int64_t>(q.size())};
  for (int i = 0; i < x.rank(); ++i) shape.push_back(all || i == d ? 1 : x.shape()[i]);
  return reshape(y, shape, loc);
}

TT_API Tensor quantile(const Tensor& x, double q, std::optional<int> dim, bool keepdim, Loc loc) {
  return squeeze(quantile(x, std::vector<double>{q}, dim, keepdim, loc), 0, loc);
}

TT_API Tensor cov(const Tensor& x, int64_t correction, Loc loc) {
  require_defined("cov", loc, x);
  require_floating("cov", x, loc);
  if (x.rank() > 2) {
    fail("TT-SHAPE-04", "cov: needs [variables, observations] or one variable, got " + x.describe(), loc);
  }
  if (x.rank() < 2) return reshape(cov(reshape(x, {1, x.numel()}, loc), correction, loc), {}, loc);
  const Tensor deviations = sub(x, mean(x, 1, true, loc), loc);
  const auto freedom = static_cast<double>(std::max<int64_t>(x.shape()[1] - correction, 0));
  const Tensor sums = matmul(deviations, transpose(deviations, 0, 1, loc), loc);
  return div(sums, scalar_like(freedom, sums, loc), loc);
}

TT_API Tensor corrcoef(const Tensor& x, Loc loc) {
  const Tensor c = cov(x, 1, loc);
  if (c.rank() == 0) return div(c, c, loc);
  const int64_t n = c.shape()[0];
  const Tensor deviation = sqrt(slice(reshape(c, {n * n}, loc), 0, 0, kEnd, n + 1, loc), loc);
  const Tensor rows = div(c, unsqueeze(deviation, 1, loc), loc);
  return clamp(div(rows, deviation, loc), -1, 1, loc);
}

// Euclidean distances by products: |a - b|^2 = [-2 a, |a|^2, 1] . [b, 1, |b|^2]. The gradient of a distance
// of 0 is 0, because clamp has none below its limit.
inline Tensor euclidean_by_products(const Tensor& a, const Tensor& b, Loc loc) {
  const Tensor x = cast(a, DType::f64, loc), y = cast(b, DType::f64, loc);
  const Tensor x2 = sum(square(x, loc), -1, true, loc), y2 = sum(square(y, loc), -1, true, loc);
  const Tensor left = cat({mul(x, Scalar(-2), loc), x2, ones_like(x2, loc)}, -1, loc);
  const Tensor right = cat({y, ones_like(y2, loc), y2}, -1, loc);
  const Tensor squares = matmul(left, transpose(right, -2, -1, loc), loc);
  constexpr double kLeast = 1e-100;  // its root is 0 in every dtype of a
  return cast(sqrt(clamp(squares, kLeast, std::numeric_limits<double>::infinity(), loc), loc), a.dtype(),
              loc);
}

TT_API Tensor cdist(const Tensor& a, const Tensor& b, double p, Loc loc) {
  require_defined("cdist", loc, a, b);
  for (const Tensor* t : {&a, &b}) {
    require_floating("cdist", *t, loc);
    if (t->rank() < 2) fail("TT-SHAPE-04", "cdist: needs rows [..., P, M], got " + t->describe(), loc);
  }
  if (a.shape()[a.rank() - 1] != b.shape()[b.rank() - 1]) {
    fail("TT-SHAPE-02",
         "cdist: rows must have one length, got " + a.describe() + " and " + b.describe() +
             "\n  rule: a [..., P, M], b [..., R, M] -> [..., P, R]",
         loc);
  }
  const bool many = std::max(a.shape()[a.rank() - 2], b.shape()[b.rank() - 2]) > 25;
  if (p == 2 && many && a.dtype() == b.dtype() && a.dtype() != DType::f64) {
    return euclidean_by_products(a, b, loc);
  }
  const Tensor difference = sub(unsqueeze(a, -2, loc), unsqueeze(b, -3, loc), loc);
  if (p == 2) return norm(difference, Dims{-1}, false, loc);
  const bool largest = p == std::numeric_limits<double>::infinity();
  if (p != 1 && !largest) {
    fail("TT-RANGE-08", "cdist: p must be 1, 2 or infinity, got " + std::to_string(p), loc);
  }
  const Tensor size = abs(difference, loc);
  const bool maximum = largest && a.shape()[a.rank() - 1] > 0;
  return maximum ? max(size, Dims{-1}, false, loc) : sum(size, Dims{-1}, false, loc);
}

// The counts of histc. Without a range, `low` and `high` become that of x, or v - margin and v + margin if x
// has only the value v.
TT_API Tensor counts_of_bins(const char* op, const Tensor& x, int64_t bins, double& low, double& high,
                             double margin, Loc loc) {
  require_defined(op, loc, x);
  require_floating(op, x, loc);
  if (bins < 1) {
    fail("TT-RANGE-03", std::string(op) + ": needs at least one bin, got " + std::to_string(bins), loc);
  }
  const Tensor given = reshape(x.detach(), {x.numel()}, loc);
  if (low == high && x.numel() > 0) {
    low = min(given, {}, false, loc).to(f64, loc).item<double>();
    high = max(given, {}, false, loc).to(f64, loc).item<double>();
  }
  if (low == high) low -= margin, high += margin;
  if (!(low < high && std::isfinite(high - low))) {
    fail("TT-RANGE-01",
         std::string(op) + ": needs a finite range low < high, got " + std::to_string(low) + " and " +
             std::to_string(high) + "\n  hint: without a range, x must be free of NaN and infinities",
         loc);
  }
  if (x.device().is_cpu()) {
    const Tensor found = empty({bins}, DType::i64, cpu, loc);
    backend::cpu::count_bins(found.view_of(), given.view_of(), low, high);
    return cast(found, x.dtype(), loc);
  }
  const Tensor values = cast(given, DType::f64, loc);
  const auto number = [&](double v) { return scalar_like(v, values, loc); };
  const Tensor inside = logical_and(ge(values, number(low), loc), le(values, number(high), loc), loc);
  const Tensor safe = where(inside, values, number(low), loc);
  const Tensor scaled = mul(sub(safe, number(low), loc), number(static_cast<double>(bins)), loc);
  const Tensor at = floor(div(scaled, number(high - low), loc), loc);
  const Tensor bin = cast(minimum(at, number(static_cast<double>(bins - 1)), loc), DType::i64, loc);
  const Tensor counts = zeros({bins}, DType::i64, x.device(), loc);
  return cast(scatter_add(counts, 0, bin, cast(inside, DType::i64, loc), loc), x.dtype(), loc);
}

TT_API Tensor histc(const Tensor& x, int64_t bins, double low, double high, Loc loc) {
  return counts_of_bins("histc", x, bins, low, high, 1, loc);
}

TT_API Histogram histogram(const Tensor& x, int64_t bins, double low, double high, Loc loc) {
  const Tensor counts = counts_of_bins("histogram", x, bins, low, high, 0.5, loc);
  return {counts, linspace(low, high, bins + 1, x.dtype(), x.device(), loc)};
}

}  // namespace tinytorch::inline TT_BUILD
#endif
