// Functions that are composed of other operations, which have the kernels and the derivatives: isnan, isinf,
// isfinite, outer, one_hot, repeat, roll.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <limits>
#include <tinytorch/tensor/ops/index.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>
#include <tinytorch/tensor/ops/shape.hpp>

namespace tinytorch::inline TT_BUILD {

TT_API Tensor isnan(const Tensor& x, Loc loc) {
  require_defined("isnan", loc, x);
  return ne(x, x, loc);
}
TT_API Tensor isinf(const Tensor& x, Loc loc) {
  require_defined("isinf", loc, x);
  if (!is_floating(x.dtype())) return zeros(x.shape(), DType::boolean, x.device(), loc);
  const Tensor infinite = scalar_like(std::numeric_limits<double>::infinity(), x, loc);
  return eq(abs(x.detach(), loc), infinite, loc);
}
TT_API Tensor isfinite(const Tensor& x, Loc loc) {
  require_defined("isfinite", loc, x);
  if (!is_floating(x.dtype())) return ones(x.shape(), DType::boolean, x.device(), loc);
  const Tensor infinite = scalar_like(std::numeric_limits<double>::infinity(), x, loc);
  return lt(abs(x.detach(), loc), infinite, loc);
}

TT_API Tensor outer(const Tensor& a, const Tensor& b, Loc loc) {
  require_defined("outer", loc, a, b);
  for (const Tensor* t : {&a, &b}) require_rank("outer", *t, 1, "a vector [N]", loc);
  return mul(unsqueeze(a, 1, loc), b, loc);
}

TT_API Tensor one_hot(const Tensor& index, int64_t classes, Loc loc) {
  require_defined("one_hot", loc, index);
  require_index("one_hot", index, loc);
  if (classes < 0 && index.numel() > 0) classes = max(index, {}, false, loc).item<int64_t>() + 1;
  if (classes < 1) {
    fail("TT-RANGE-03", "one_hot: needs at least one class, or an index to find their number", loc);
  }
  require_in_range("one_hot", index, classes, loc);
  const Tensor all = arange(0, classes, 1, DType::i64, index.device(), loc);
  return cast(eq(unsqueeze(index, -1, loc), all, loc), DType::i64, loc);
}

TT_API Tensor repeat(const Tensor& x, const Dims& counts, Loc loc) {
  require_defined("repeat", loc, x);
  Shape shape = x.shape();
  while (shape.size() < counts.size()) shape.insert(0, 1);
  const bool fits =
      counts.size() >= x.rank() && std::all_of(counts.begin(), counts.end(), [](auto n) { return n >= 0; });
  if (!fits) {
    fail("TT-SHAPE-12",
         "repeat: needs a count >= 0 for each dimension of " + x.describe() + ", got " + counts.str(), loc);
  }
  Tensor y = reshape(x, shape, loc);
  for (int d = 0; d < counts.size(); ++d) {
    if (counts[d] == 0) y = slice(y, d, 0, 0, 1, loc);
    if (counts[d] > 1) y = cat(Tensors(static_cast<size_t>(counts[d]), y), d, loc);
  }
  return y.storage() == x.storage() ? clone(y, loc) : y;
}

TT_API Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims, Loc loc) {
  require_defined("roll", loc, x);
  if (dims.empty() && shifts.size() == 1)
    return reshape(roll(reshape(x, {-1}, loc), shifts, 0, loc), x.shape(), loc);
  if (dims.size() != shifts.size()) {
    fail("TT-SHAPE-12",
         "roll: needs one shift per dimension, got shifts " + shifts.str() + " and dimensions " + dims.str(),
         loc);
  }
  Tensor y = x;
  for (int i = 0; i < dims.size(); ++i) {
    const int d = indexed_dim("roll", x, static_cast<int>(dims[i]), loc);
    const int64_t n = x.shape()[d];
    const int64_t by = n > 0 ? (shifts[i] % n + n) % n : 0;
    if (by > 0) y = cat({slice(y, d, n - by, kEnd, 1, loc), slice(y, d, 0, n - by, 1, loc)}, d, loc);
  }
  return y.storage() == x.storage() ? clone(y, loc) : y;
}

}  // namespace tinytorch::inline TT_BUILD
#endif
