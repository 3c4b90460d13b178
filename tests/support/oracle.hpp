// Array: row-major doubles for the reference implementations ("oracles"), which use one loop per operation
// and no kernel of the library.
//
// `magnitude`, if set, bounds the size of the terms of each value (for example, the sum of |x| for a sum). An
// error of a few epsilon of it is rounding; a larger one is a bug.
#pragma once

#include <functional>
#include <tinytorch/core/shape.hpp>
#include <vector>

namespace oracle {

using tinytorch::Dims;
using tinytorch::Shape;

struct Array {
  Shape shape;
  std::vector<double> values;
  std::vector<double> magnitude;  // if empty, |value| is used

  Array() = default;
  explicit Array(const Shape& s, double fill = 0) : shape(s), values(static_cast<size_t>(s.numel()), fill) {}

  // Row-major position of an index; leading extra dimensions and sizes of 1 broadcast.
  size_t position(const Dims& index) const {
    const int shift = index.size() - shape.size();
    int64_t at = 0;
    for (int d = 0; d < shape.size(); ++d) at = at * shape[d] + (shape[d] == 1 ? 0 : index[d + shift]);
    return static_cast<size_t>(at);
  }
  double operator()(const Dims& index) const { return values[position(index)]; }
  double& operator()(const Dims& index) { return values[position(index)]; }
};

// Calls f(index) for every index of a shape in row-major order.
inline void for_each_index(const Shape& shape, const std::function<void(const Dims&)>& f) {
  const int64_t n = shape.numel();
  for (int64_t i = 0; i < n; ++i) {
    Dims index = shape;
    int64_t rest = i;
    for (int d = shape.size() - 1; d >= 0; --d) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    f(index);
  }
}

// An array whose element at `index` is f(index).
inline Array tabulate(const Shape& shape, const std::function<double(const Dims&)>& f) {
  Array a(shape);
  size_t i = 0;
  for_each_index(shape, [&](const Dims& index) { a.values[i++] = f(index); });
  return a;
}

inline Shape broadcast(const Shape& a, const Shape& b) {
  const int rank = a.size() > b.size() ? a.size() : b.size();
  Shape out = Shape::filled(rank, 1);
  for (int d = 0; d < rank; ++d) {
    const int ia = d - rank + a.size(), ib = d - rank + b.size();
    if (ia >= 0 && a[ia] != 1) out[d] = a[ia];
    if (ib >= 0 && b[ib] != 1) out[d] = b[ib];
  }
  return out;
}

inline Array map(const Array& x, const std::function<double(double)>& f) {
  return tabulate(x.shape, [&](const Dims& i) { return f(x(i)); });
}
inline Array map2(const Array& a, const Array& b, const std::function<double(double, double)>& f) {
  return tabulate(broadcast(a.shape, b.shape), [&](const Dims& i) { return f(a(i), b(i)); });
}

// Reduces the dimensions in `dims` (all if empty): result(values of one group, sum of their |x|).
inline Array fold(const Array& x, Dims dims, bool keepdim,
                  const std::function<double(const std::vector<double>&)>& result) {
  std::vector<bool> reduced(static_cast<size_t>(x.shape.size()), dims.empty());
  for (int64_t d : dims) reduced[static_cast<size_t>(d < 0 ? d + x.shape.size() : d)] = true;
  Shape wide, narrow;
  for (int d = 0; d < x.shape.size(); ++d) {
    const bool gone = reduced[static_cast<size_t>(d)];
    wide.push_back(gone ? 1 : x.shape[d]);
    if (!gone) narrow.push_back(x.shape[d]);
  }
  Array at(wide);  // used to find the group of an element
  std::vector<std::vector<double>> groups(at.values.size());
  size_t i = 0;
  for_each_index(x.shape, [&](const Dims& index) { groups[at.position(index)].push_back(x.values[i++]); });
  Array out(keepdim ? wide : narrow);
  for (size_t k = 0; k < groups.size(); ++k) {
    out.values[k] = result(groups[k]);
    double sum = 0;
    for (double v : groups[k]) sum += v < 0 ? -v : v;
    out.magnitude.push_back(sum);
  }
  return out;
}

}  // namespace oracle
