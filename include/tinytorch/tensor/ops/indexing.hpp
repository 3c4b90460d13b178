// x[{...}], x[mask], x[index], nonzero, masked_select and index_put: composed of views, index_select and
// where, which have the kernels and the derivatives.
#pragma once

#include <tinytorch/tensor/indexing.hpp>
#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <tinytorch/backend/cpu/true_positions.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tensor/ops/index.hpp>
#include <tinytorch/tensor/ops/inplace.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

TT_API Tensor Tensor::operator[](std::initializer_list<IndexItem> items) const {
  Tensor x = *this;
  int d = 0;
  for (const IndexItem& item : items) {
    if (item.is_position) {
      x = x.select(d, item.span.start, item.loc);
    } else {
      x = x.slice(d, item.span.start, item.span.stop, item.span.step, item.loc);
      ++d;
    }
  }
  return x;
}

// The positions at which a mask (bool) is true, in row-major order.
inline std::vector<int64_t> true_places(const Tensor& mask, Loc loc) {
  return backend::cpu::true_positions(contiguous(mask.detach().to(cpu, loc), loc).view_of());
}

TT_API Tensor nonzero(const Tensor& x, Loc loc) {
  require_defined("nonzero", loc, x);
  const std::vector<int64_t> places = true_places(x.to(DType::boolean, loc), loc);
  const auto count = static_cast<int64_t>(places.size());
  const int last = x.rank() - 1;
  Tensor out = empty({count, x.rank()}, DType::i64, cpu, loc);
  if (count == 0 || last < 0) return out.to(x.device(), loc);
  int64_t* const to = out.data<int64_t>();
  const int64_t row = x.shape()[last];
  parallel_for(count, 4096, [&](int64_t begin, int64_t end) {
    // Neighbours mostly lie in one row, whose coordinates are computed once.
    int64_t at[kMaxRank], first = -1;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t place = places[static_cast<size_t>(i)];
      if (first < 0 || place >= first + row) {
        int64_t rest = place / row;
        first = rest * row;
        for (int d = last - 1; d >= 0; rest /= x.shape()[d--]) at[d] = rest % x.shape()[d];
      }
      int64_t* const next = std::copy(at, at + last, to + i * (last + 1));
      *next = place - first;
    }
  });
  return out.to(x.device(), loc);
}

// An index as positions of rows: x is seen as [rows, ...rest], and the selected rows have the shape
// [...lead, ...rest].
struct RowIndex {
  std::vector<int64_t> rows;
  Shape lead, rest;
  int64_t size = 1;  // rows of x
};

inline RowIndex row_index(const Tensor& x, const Tensor& index, Loc loc) {
  require_defined("index", loc, x, index);
  RowIndex r;
  const bool mask = index.dtype() == DType::boolean;
  if (!mask) require_index("index", index, loc);
  const int taken = mask ? index.rank() : 1;
  bool fits = x.rank() >= taken;
  for (int d = 0; fits && mask && d < taken; ++d) fits = index.shape()[d] == x.shape()[d];
  if (!fits) {
    fail(
        "TT-SHAPE-13",
        "index: " + index.describe() + " does not index " + x.describe() +
            "\n  rule: a mask has the sizes of the leading dimensions; positions need at least one dimension",
        loc);
  }
  for (int d = 0; d < x.rank(); ++d) {
    if (d >= taken) r.rest.push_back(x.shape()[d]);
    if (d < taken) r.size *= x.shape()[d];
  }
  const Tensor near = index.detach().to(cpu, loc);
  if (mask) {
    r.rows = true_places(near, loc);
    r.lead = Shape{static_cast<int64_t>(r.rows.size())};
    return r;
  }
  r.rows = near.to_vector<int64_t>();
  r.lead = index.shape();
  for (size_t i = 0; i < r.rows.size(); ++i) {
    int64_t& row = r.rows[i];
    if (row < -r.size || row >= r.size) {
      fail("TT-RANGE-05",
           "index: index " + std::to_string(row) + " at position " + std::to_string(i) + " is outside [" +
               std::to_string(-r.size) + ", " + std::to_string(r.size) + ")",
           loc);
    }
    row += row < 0 ? r.size : 0;
  }
  return r;
}

inline Shape joined(const Shape& a, const Shape& b) {
  Shape s = a;
  for (int64_t v : b) s.push_back(v);
  return s;
}

inline Tensor select_rows(const Tensor& x, const RowIndex& r, Loc loc) {
  const Tensor rows = reshape(x, joined(Shape{r.size}, r.rest), loc);
  const Tensor at = from_data(r.rows, Shape{static_cast<int64_t>(r.rows.size())}, x.device(), loc);
  return reshape(index_select(rows, 0, at, loc), joined(r.lead, r.rest), loc);
}

TT_API Selected Tensor::operator[](TensorArg at) const {
  return {select_rows(*this, row_index(*this, at.tensor, at.loc), at.loc), *this, at.tensor, at.loc};
}

TT_API Tensor masked_select(const Tensor& x, const Tensor& mask, Loc loc) {
  require_defined("masked_select", loc, x, mask);
  if (mask.dtype() != DType::boolean) mask.require_dtype(DType::boolean, loc);
  const Shape shape = broadcast_or_fail("masked_select", x, mask, loc);
  const Tensor wide = expand(x, shape, loc), set = expand(mask, shape, loc);
  return select_rows(wide, row_index(wide, set, loc), loc);
}

TT_API Tensor index_put(const Tensor& x, const Tensor& index, const Tensor& values, Loc loc) {
  const RowIndex r = row_index(x, index, loc);
  require_defined("index_put", loc, x, index, values);
  const Shape selected = joined(r.lead, r.rest);
  const auto common = broadcast_shapes(values.shape(), selected);
  if (!common || !(*common == selected)) {
    fail("TT-SHAPE-02",
         "index_put: " + values.describe() + " does not broadcast to the selected elements " + selected.str(),
         loc);
  }
  if (r.rows.empty() || selected.numel() == 0) return clone(x, loc);
  // owner[row]: the value that the row takes, if it is written.
  std::vector<int64_t> owner(static_cast<size_t>(r.size), 0);
  const auto written = std::make_unique<bool[]>(owner.size());
  for (size_t i = 0; i < r.rows.size(); ++i) {
    owner[static_cast<size_t>(r.rows[i])] = static_cast<int64_t>(i);
    written[static_cast<size_t>(r.rows[i])] = true;
  }
  Shape column{r.size};
  for (int d = 0; d < r.rest.size(); ++d) column.push_back(1);
  Tensor mask = empty(column, DType::boolean, cpu, loc);
  std::copy_n(written.get(), owner.size(), mask.data<bool>());
  const int64_t count = static_cast<int64_t>(r.rows.size());
  const Tensor fitting = values.to(x.device(), loc).to(x.dtype(), loc);
  const Tensor rows = reshape(expand(fitting, selected, loc), joined(Shape{count}, r.rest), loc);
  const Tensor at = from_data(owner, Shape{r.size}, x.device(), loc);
  const Tensor old = reshape(x, joined(Shape{r.size}, r.rest), loc);
  return reshape(where(mask.to(x.device(), loc), index_select(rows, 0, at, loc), old, loc), x.shape(), loc);
}

TT_API Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Loc loc) {
  require_defined("scatter", loc, x, index, source);
  if (source.shape() != index.shape()) {
    fail("TT-SHAPE-02",
         "scatter: index and source must have the same shape: " + describe_operands({index, source}), loc);
  }
  const int d = normalize_dim(dim, x.rank(), "scatter", loc);
  gather(x.detach(), d, index, loc);  // checks the shape and the values of index
  // The position of each element among all elements of x.
  Tensor at = zeros(index.shape(), DType::i64, index.device(), loc);
  int64_t stride = 1;
  for (int i = x.rank() - 1; i >= 0; stride *= x.shape()[i--]) {
    Shape along;
    for (int k = 0; k < x.rank(); ++k) along.push_back(k == i ? index.shape()[i] : 1);
    const Tensor place =
        i == d ? index : reshape(arange(0, index.shape()[i], 1, DType::i64, index.device(), loc), along, loc);
    at = add(at, mul(place, Scalar(stride), loc), loc);
  }
  const Tensor flat = index_put(reshape(x, {x.numel()}, loc), reshape(at, {at.numel()}, loc),
                                reshape(source, {source.numel()}, loc), loc);
  return reshape(flat, x.shape(), loc);
}
TT_API Tensor scatter(const Tensor& x, int dim, const Tensor& index, Scalar value, Loc loc) {
  require_defined("scatter", loc, x, index);
  return scatter(x, dim, index, expand(scalar_like(value, x, loc), index.shape(), loc), loc);
}

TT_API void Selected::operator=(TensorArg values) && {
  write_elements("index_put", target_, tinytorch::index_put(target_, index_, values.tensor, loc_), loc_);
}
TT_API void Selected::operator=(ScalarArg number) && {
  std::move(*this) = TensorArg(scalar_like(number.value, target_, loc_), loc_);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
