// unique, randperm and multinomial: distinct values, and random choices among positions.
//
//   tt::unique(x).values               // sorted
//   x[tt::randperm(100)]               // shuffles 100 rows
//   tt::multinomial(softmax(logits, -1), 1)
//
// Names and semantics are PyTorch's; random numbers are those of this library's generator, which are the same
// on all devices.
#pragma once

#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

// values: the distinct elements of x, ascending [K]; every NaN counts as distinct. inverse (i64): the
// position in values of each element, in x's shape. counts (i64) [K]: how often each value occurs. No
// derivatives.
struct UniqueValues {
  Tensor values, inverse, counts;
};
TT_API UniqueValues unique(const Tensor& x, TT_LOC);  // the distinct elements. Dtypes: all.
// The distinct slices of x along dim in lexicographic order: values has the shape of x with K along dim;
// inverse is i64 [size of dim]. The order is found on the CPU. Throws TT-SHAPE-10 for slices without
// elements.
TT_API UniqueValues unique(const Tensor& x, int dim, TT_LOC);
// Works like unique, but compares only neighbours in row-major order and sorts nothing. Dtypes: all.
TT_API UniqueValues unique_consecutive(const Tensor& x, TT_LOC);

// Returns 0, ..., n - 1 in random order. Throws TT-SHAPE-01 if n < 0, and TT-DTYPE-07 if the dtype cannot
// hold n - 1. Dtypes: all.
TT_API Tensor randperm(int64_t n, DType dtype = DType::i64, Device device = default_device(),
                       Generator& generator = default_generator(), TT_LOC);

// Draws `count` positions from every row of weights [N] or [rows, N], as i64 [count] or [rows, count]. A
// position is drawn with a probability in proportion to its weight, from all positions (replacement) or from
// those that were not drawn before. Weights are floating point, finite, at least 0, and need no sum of 1.
// They are copied to the CPU, where the draws are made. Throws TT-RANGE-02 for a weight that is negative or
// not finite, and for too few weights above 0, and TT-RANGE-03 for count < 1.
TT_API Tensor multinomial(const Tensor& weights, int64_t count, bool replacement = false,
                          Generator& generator = default_generator(), TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <cmath>
#include <string>
#include <tinytorch/tensor/ops/composed_shape.hpp>
#include <tinytorch/tensor/ops/index.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// Runs of equal neighbours in values [n], n > 0; order [n]: the position in x of each value.
inline UniqueValues runs_of_equals(const Tensor& values, const Tensor& order, const Shape& shape, Loc loc) {
  const int64_t n = values.numel();
  const Tensor one = ones({1}, DType::i64, values.device(), loc);
  const Tensor changes = ne(slice(values, 0, 1, kEnd, 1, loc), slice(values, 0, 0, n - 1, 1, loc), loc);
  const Tensor first = cat({one, cast(changes, DType::i64, loc)}, 0, loc);  // 1 at the first of equal values
  const Tensor starts = reshape(nonzero(first, loc), {-1}, loc);
  const Tensor ends = cat({slice(starts, 0, 1, kEnd, 1, loc), one * n}, 0, loc);
  const Tensor group = cumsum(first, 0, loc) - one;
  const Tensor inverse = scatter_add(zeros({n}, DType::i64, values.device(), loc), 0, order, group, loc);
  return {index_select(values, 0, starts, loc), reshape(inverse, shape, loc), ends - starts};
}
inline UniqueValues no_unique_values(const Tensor& x, Loc loc) {
  const Tensor none = zeros({0}, DType::i64, x.device(), loc);
  return {reshape(x.detach(), {0}, loc).clone(), reshape(none, x.shape(), loc), none};
}

TT_API UniqueValues unique(const Tensor& x, Loc loc) {
  require_defined("unique", loc, x);
  if (x.numel() == 0) return no_unique_values(x, loc);
  const ValuesAndIndices sorted = sort(reshape(x.detach(), {x.numel()}, loc), 0, false, loc);
  return runs_of_equals(sorted.values, sorted.indices, x.shape(), loc);
}
TT_API UniqueValues unique_consecutive(const Tensor& x, Loc loc) {
  require_defined("unique_consecutive", loc, x);
  const int64_t n = x.numel();
  if (n == 0) return no_unique_values(x, loc);
  const Tensor order = arange(Scalar(0), Scalar(n), Scalar(1), DType::i64, x.device(), loc);
  return runs_of_equals(reshape(x.detach(), {n}, loc), order, x.shape(), loc);
}

TT_API UniqueValues unique(const Tensor& x, int dim, Loc loc) {
  require_defined("unique", loc, x);
  const int d = indexed_dim("unique", x, dim, loc);
  const int64_t n = x.shape()[d];
  if (x.numel() == 0 && n > 0) {
    fail("TT-SHAPE-10",
         "unique: the slices of " + x.describe() + " along dimension " + std::to_string(d) +
             " have no elements",
         loc);
  }
  // The position of each element among the distinct ones has the order of the values for every dtype.
  const Tensor ranks =
      reshape(movedim(unique(x, loc).inverse, d, 0, loc), {n, n > 0 ? x.numel() / n : 0}, loc);
  const std::vector<int64_t> all = ranks.to(cpu, loc).to_vector<int64_t>();
  const auto width = static_cast<std::ptrdiff_t>(ranks.shape()[1]);
  const auto row = [&](int64_t i) { return all.begin() + i * width; };
  const auto compare = [&](int64_t a, int64_t b) {
    return std::lexicographical_compare(row(a), row(a) + width, row(b), row(b) + width);
  };
  std::vector<int64_t> order(static_cast<size_t>(n)), inverse(order.size()), first, counts;
  for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = i;
  std::stable_sort(order.begin(), order.end(), compare);
  for (const int64_t i : order) {
    if (first.empty() || compare(first.back(), i)) first.push_back(i), counts.push_back(0);
    ++counts.back();
    inverse[static_cast<size_t>(i)] = static_cast<int64_t>(first.size()) - 1;
  }
  const auto on_device = [&](const std::vector<int64_t>& v) { return from_data(v).to(x.device(), loc); };
  return {index_select(x.detach(), d, on_device(first), loc), on_device(inverse), on_device(counts)};
}

TT_API Tensor randperm(int64_t n, DType dtype, Device device, Generator& generator, Loc loc) {
  if (n < 0) fail("TT-SHAPE-01", "randperm: needs a count of at least 0, got " + std::to_string(n), loc);
  if (n > 0) require_holds([&] { return std::string(name_of(dtype)) + " in randperm"; }, dtype, n - 1, loc);
  return cast(sort(rand({n}, DType::f64, device, generator, loc), 0, false, loc).indices, dtype, loc);
}

// Draws with replacement: the position whose share of the cumulative sum contains a uniform number.
inline void draw_with_replacement(const double* w, int64_t n, int64_t count, int64_t* out,
                                  Generator& generator) {
  std::vector<double> sums(static_cast<size_t>(n));
  double total = 0;
  int64_t last = 0;  // position of the last weight above 0
  for (int64_t i = 0; i < n; ++i) {
    sums[static_cast<size_t>(i)] = total += w[i];
    if (w[i] > 0) last = i;
  }
  for (int64_t k = 0; k < count; ++k) {
    const auto found = std::upper_bound(sums.begin(), sums.end(), generator.uniform() * total);
    out[k] = std::min<int64_t>(found - sums.begin(), last);
  }
}

// Draws without replacement: the positions whose exponential clocks with rate w ring first. Source:
// Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.
inline void draw_without_replacement(const double* w, int64_t n, int64_t count, int64_t* out,
                                     Generator& generator) {
  std::vector<std::pair<double, int64_t>> clocks;
  for (int64_t i = 0; i < n; ++i) {
    const double u = generator.uniform();  // also for weights of 0, so that others keep their numbers
    if (w[i] > 0) clocks.emplace_back(-std::log1p(-u) / w[i], i);
  }
  std::partial_sort(clocks.begin(), clocks.begin() + count, clocks.end());
  for (int64_t k = 0; k < count; ++k) out[k] = clocks[static_cast<size_t>(k)].second;
}

TT_API Tensor multinomial(const Tensor& weights, int64_t count, bool replacement, Generator& generator,
                          Loc loc) {
  require_defined("multinomial", loc, weights);
  require_floating("multinomial", weights, loc);
  if (weights.rank() != 1 && weights.rank() != 2)
    fail("TT-SHAPE-04", "multinomial: needs weights [N] or [rows, N], got " + weights.describe(), loc);
  if (count < 1)
    fail("TT-RANGE-03", "multinomial: needs a count of at least 1, got " + std::to_string(count), loc);
  const std::vector<double> all = weights.detach().to(cpu, loc).to_vector<double>();
  const int64_t n = weights.shape()[weights.rank() - 1], rows = weights.rank() == 2 ? weights.shape()[0] : 1;
  std::vector<int64_t> drawn(static_cast<size_t>(rows * count));
  for (int64_t r = 0; r < rows; ++r) {
    const double* w = all.data() + r * n;
    const bool good = std::all_of(w, w + n, [](double v) { return v >= 0 && std::isfinite(v); });
    const int64_t positive = std::count_if(w, w + n, [](double v) { return v > 0; });
    if (!good || positive < (replacement ? 1 : count)) {
      fail("TT-RANGE-02",
           "multinomial: row " + std::to_string(r) + " of " + weights.describe() +
               (good ? " has " + std::to_string(positive) + " weights above 0, too few for " +
                           std::to_string(count) + " draws"
                     : " has a weight that is negative or not finite") +
               "\n  hint: pass probabilities, softmax(logits, -1), or draw with replacement",
           loc);
    }
    (replacement ? draw_with_replacement : draw_without_replacement)(w, n, count, drawn.data() + r * count,
                                                                     generator);
  }
  const Tensor out = from_data(drawn).to(weights.device(), loc);
  return weights.rank() == 1 ? out : reshape(out, {rows, count}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
