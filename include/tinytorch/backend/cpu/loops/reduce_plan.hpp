// ReducePlan: a reduction along any dimensions as a matrix problem, results by values.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/core/parallel.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Type of sums and products of T.
template <class T>
using Accumulator = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

// `kept` dimensions index the results, `reduced` dimensions the values of one result.
struct ReducePlan {
  View kept, reduced;  // two views of one memory, each with collapsed dimensions
  int64_t results = 1, length = 1;
  bool by_columns = false;  // adjacent elements in memory belong to different results

  ReducePlan(const View& x, const bool* is_reduced) {
    kept.data = reduced.data = x.data;
    kept.dtype = reduced.dtype = x.dtype;
    for (int d = 0; d < x.rank(); ++d) {
      View& v = is_reduced[d] ? reduced : kept;
      v.shape.push_back(x.shape[d]);
      v.strides.push_back(x.strides[d]);
    }
    Strides kept_strides[] = {kept.strides}, reduced_strides[] = {reduced.strides};
    collapse(kept.shape, kept_strides, 1);
    collapse(reduced.shape, reduced_strides, 1);
    kept.strides = kept_strides[0];
    reduced.strides = reduced_strides[0];
    results = kept.shape.numel();
    length = reduced.shape.numel();
    by_columns = kept.strides.back() == 1 && kept.shape.back() > 1 && reduced.strides.back() != 1;
  }
  // True if the values of each result are contiguous, and consecutive results are one stride apart.
  bool has_contiguous_rows() const { return length > 0 && reduced.contiguous() && kept.shape.size() == 1; }
  // The values of result r. `index` is scratch memory for kMaxRank numbers.
  View values_of(int64_t r, int64_t* index) const {
    View v = reduced;
    const int64_t offset = locate(kept.shape, kept.strides, r, index);
    v.data = v.as<char>() + offset * static_cast<int64_t>(size_of(v.dtype));
    return v;
  }
};

// A view of n contiguous elements from element `offset` of v on.
inline View row_at(const View& v, int64_t offset, int64_t n) {
  return {v.as<char>() + offset * static_cast<int64_t>(size_of(v.dtype)), v.dtype, {n}, {1}};
}

inline constexpr int64_t kReduceBlock = 32768;  // values folded into one partial result

// Calls f(position, values, n) on pieces of elements [begin, end) of v in row-major order, as contiguous T.
template <class T, class F>
void for_each_piece(const View& v, int64_t begin, int64_t end, F&& f) {
  const bool direct = v.dtype == dtype_of<T> && v.contiguous();
  alignas(64) T buffer[kPackLength<T>];
  for (int64_t i = begin; i < end; i += kPackLength<T>) {
    const int64_t n = std::min(kPackLength<T>, end - i);
    if (!direct) pack(buffer, v, i, n);
    f(i, direct ? v.as<const T>() + i : buffer, n);
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
