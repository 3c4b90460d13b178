// Reductions over one contiguous run of float or double: sum, dot product, maximum.
//
// Sums are kept in four independent vectors. The compiler may not do this to a plain loop, because it may not
// reorder additions. Rows are short, so vectors and lanes are combined pairwise at the end (two vectors
// combined lane by lane: softmax of 1024 numbers took 1.17 times as long). The order depends on the length
// alone. Sums longer than kRunLength are cut into pieces of that length, whose sums are added in double.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/shape.hpp>
#include <tinytorch/core/simd_multiply_add.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kRunLength = 1024;
inline constexpr int64_t kColumnRun = 64;  // rows of a column sum in T, which has one accumulator
inline constexpr int64_t kSharedRun = 16 * kRunLength;  // block of a long row that one thread reduces

// Sum over i < n of terms: add<V>(sum, i) returns sum plus the term i, where V is T, or plus kLanes<T> terms,
// where V is a vector.
template <class T, class F>
T fold_sum(int64_t n, F&& add) {
  constexpr int64_t kL = kLanes<T>;
  Simd<T> a{}, b{}, c{}, d{};
  int64_t i = 0;
  for (; i + 4 * kL <= n; i += 4 * kL) {
    a = add.template operator()<Simd<T>>(a, i);
    b = add.template operator()<Simd<T>>(b, i + kL);
    c = add.template operator()<Simd<T>>(c, i + 2 * kL);
    d = add.template operator()<Simd<T>>(d, i + 3 * kL);
  }
  for (; i + kL <= n; i += kL) a = add.template operator()<Simd<T>>(a, i);
  T sum = simd_fold<T>((a + b) + (c + d), [](Simd<T> u, Simd<T> v) { return u + v; });
  for (; i < n; ++i) sum = add.template operator()<T>(sum, i);
  return sum;
}

// One value, or one vector of lanes.
template <class V, class T>
V load_as(const T* p) {
  if constexpr (sizeof(V) == sizeof(T)) {
    return *p;
  } else {
    return simd_load(p);
  }
}

template <class T>
T sum_run(const T* x, int64_t n) {
  return fold_sum<T>(n, [x]<class V>(V sum, int64_t i) { return sum + load_as<V>(x + i); });
}
template <class T>
T dot_run(const T* x, const T* y, int64_t n) {
  return fold_sum<T>(n, [x, y]<class V>(V sum, int64_t i) {
    return multiply_add_lanes<T, V>(load_as<V>(x + i), load_as<V>(y + i), sum);
  });
}
// Sum of (x - center)^2.
template <class T>
T square_run(const T* x, T center, int64_t n) {
  return fold_sum<T>(n, [x, center]<class V>(V sum, int64_t i) {
    const V d = load_as<V>(x + i) - center;
    return multiply_add_lanes<T, V>(d, d, sum);
  });
}
// Sum of y (x - center).
template <class T>
T centered_dot_run(const T* x, T center, const T* y, int64_t n) {
  return fold_sum<T>(n, [x, center, y]<class V>(V sum, int64_t i) {
    return multiply_add_lanes<T, V>(load_as<V>(y + i), load_as<V>(x + i) - center, sum);
  });
}

// Number of blocks of kSharedRun values in a row of n.
inline int64_t shared_runs(int64_t n) { return ceil_div(n, kSharedRun); }
// Calls f(block, begin, end) on each block; threads share the blocks.
template <class F>
void for_each_shared_run(int64_t n, F&& f) {
  parallel_for(shared_runs(n), grain_of(kSharedRun), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) f(b, b * kSharedRun, std::min(n, (b + 1) * kSharedRun));
  });
}

// Calls f(first, length) on pieces of a row and adds the results, in double unless Sum is another type.
// Threads share a row longer than kSharedRun, unless the caller is already in a parallel loop.
template <class Sum = double, class F>
Sum sum_pieces(int64_t n, F&& f) {
  const auto sum_of = [&](int64_t begin, int64_t end) {
    Sum sum{};
    for (int64_t i = begin; i < end; i += kRunLength)
      sum += static_cast<Sum>(f(i, std::min(kRunLength, end - i)));
    return sum;
  };
  if (n <= kSharedRun) return sum_of(0, n);
  Scratch<Sum> sums(shared_runs(n));
  for_each_shared_run(n, [&](int64_t b, int64_t begin, int64_t end) { sums.data()[b] = sum_of(begin, end); });
  Sum sum{};
  for (int64_t b = 0; b < shared_runs(n); ++b) sum += sums.data()[b];
  return sum;
}
// Calls f(begin, end) on ranges of a row; threads share a long row.
template <class F>
void parallel_over_row(int64_t n, F&& f) {
  parallel_for(n, kElementwiseGrain, f);
}
// Calls f(r) for each of `rows` rows of n values. Threads share the rows. If rows are long and too few for
// all threads, the calls are sequential, and f may divide each row among threads.
template <class F>
void for_each_row(int64_t rows, int64_t n, F&& f) {
  if (rows < 2 * thread_count() && n / kElementwiseGrain > rows) {
    for (int64_t r = 0; r < rows; ++r) f(r);
    return;
  }
  parallel_for(rows, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n)), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) f(r);
  });
}
// sums [width] = column sums: f(i, part) adds row i to part [width], for i < n.
template <int64_t kMostWidth, class T, class F>
void sum_columns(T* sums, int64_t n, int64_t width, F&& f) {
  double total[kMostWidth] = {};
  for (int64_t i0 = 0; i0 < n; i0 += kColumnRun) {
    T part[kMostWidth] = {};
    for (int64_t i = i0; i < std::min(n, i0 + kColumnRun); ++i) f(i, part);
    for (int64_t j = 0; j < width; ++j) total[j] += static_cast<double>(part[j]);
  }
  for (int64_t j = 0; j < width; ++j) sums[j] = static_cast<T>(total[j]);
}

// True if |x| <= limit for all of x and no x is NaN. The bits of floats of one sign compare like the floats,
// and a maximum of integers is vectorized, but a maximum of floats is not.
template <class T>
bool all_within(T limit, const T* x, int64_t n) {
  using Bits = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();
  Bits most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::bit_cast<Bits>(x[i]) & kMagnitude);
  return most <= std::bit_cast<Bits>(limit);
}
// True if no value is infinite or NaN.
template <class T>
bool all_finite(const T* x, int64_t n) {
  return all_within(std::numeric_limits<T>::max(), x, n);
}

// Maximum of n >= 1 values; NaN if one is NaN.
template <class T>
T max_run(const T* x, int64_t n) {
  constexpr int64_t kL = kLanes<T>;
  T best = x[0];
  int64_t i = 0;
  if (n >= kL) {
    const auto join = [](Simd<T> most, Simd<T> v) { return ((v > most) | (v != v)) ? v : most; };
    Simd<T> a = simd_load(x), b = a, c = a, d = a;
    for (; i + 4 * kL <= n; i += 4 * kL) {
      a = join(a, simd_load(x + i));
      b = join(b, simd_load(x + i + kL));
      c = join(c, simd_load(x + i + 2 * kL));
      d = join(d, simd_load(x + i + 3 * kL));
    }
    for (; i + kL <= n; i += kL) a = join(a, simd_load(x + i));
    best = simd_fold<T>(join(join(a, b), join(c, d)), join);
  }
  for (; i < n; ++i) best = x[i] > best || x[i] != x[i] ? x[i] : best;
  return best;
}
// Maximum of a row of n >= 1 values; NaN if one is NaN. Threads share a long row.
template <class T>
T max_of_row(const T* x, int64_t n) {
  if (n <= kSharedRun) return max_run(x, n);
  Scratch<T> best(shared_runs(n));
  for_each_shared_run(
      n, [&](int64_t b, int64_t begin, int64_t end) { best.data()[b] = max_run(x + begin, end - begin); });
  return max_run(best.data(), shared_runs(n));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
