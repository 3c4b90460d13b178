// Reductions on the CPU: sum, product, extrema, any, all, sum of squares, arg-extrema, cumulative sum.
//
// The result is deterministic: the reduced elements are cut into blocks whose size depends on the shape
// alone; any thread may reduce a block, and partial results are combined in index order. Sums of float
// continue in double after every 1024 elements.
// Source: Higham, "Accuracy and Stability of Numerical Algorithms", 4.2 (blocked sums).
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out = fn over the dimensions d of x with reduced[d]; sums are divided by `divisor`. out has the remaining
// dimensions in order, and may have reduced ones with size 1. max and min of values with NaN are NaN.
TT_API void reduce(ReduceFn fn, const View& out, const View& x, const bool* reduced, double divisor = 1);
// out (i64) = position of the first maximum (or minimum) along dim, or of the first NaN, if there is one.
TT_API void arg_extreme(const View& out, const View& x, int dim, bool largest);
// out = inclusive prefix sum along dim.
TT_API void cumsum(const View& out, const View& x, int dim);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <tinytorch/backend/cpu/loops/arg_extreme.hpp>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/backend/cpu/loops/reduce_plan.hpp>
#include <tinytorch/backend/cpu/loops/transpose.hpp>
#include <tinytorch/backend/cpu/scan.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Neutral element of a reduction, and join(), which adds a value (scalar or vector) to a partial result.
template <ReduceFn fn, class T>
struct Fold {
  static constexpr T neutral() {
    using L = std::numeric_limits<T>;
    if constexpr (fn == ReduceFn::prod || fn == ReduceFn::all) return T(1);
    if constexpr (fn == ReduceFn::max) return L::has_infinity ? -L::infinity() : L::lowest();
    if constexpr (fn == ReduceFn::min) return L::has_infinity ? L::infinity() : L::max();
    return T(0);
  }
  template <class V>
  static V join(V a, V x) {
    if constexpr (std::is_integral_v<V> && fn <= ReduceFn::prod) {  // wraps: signed overflow is undefined
      using U = std::make_unsigned_t<V>;
      const U u = static_cast<U>(a), v = static_cast<U>(x);
      return static_cast<V>(fn == ReduceFn::prod ? u * v : u + (fn == ReduceFn::sum ? v : v * v));
    }
    if constexpr (fn == ReduceFn::sum) return a + x;
    if constexpr (fn == ReduceFn::sum_square) return a + x * x;
    if constexpr (fn == ReduceFn::prod) return a * x;
    if constexpr (fn == ReduceFn::max || fn == ReduceFn::min) {
      // NaN replaces the partial result, and no comparison removes it. Vectors use two comparisons that do
      // not depend on each other; in this form g++ does not vectorize the scalar loop.
      if constexpr (std::is_arithmetic_v<V>) {
        const V held = x != x ? x : a;
        return (fn == ReduceFn::max ? x > held : x < held) ? x : held;
      } else {
        return ((fn == ReduceFn::max ? x > a : x < a) | (x != x)) ? x : a;
      }
    }
    if constexpr (fn == ReduceFn::any) return x != V{} ? static_cast<V>(V{} + T(1)) : a;
    if constexpr (fn == ReduceFn::all) return x != V{} ? a : V{};
  }
  // Combines two partial results.
  template <class A>
  static A merge(A a, A b) {
    if constexpr (fn == ReduceFn::sum_square) return a + b;
    if constexpr (fn != ReduceFn::sum_square) return Fold<fn, A>::join(a, b);
  }
};

// Sum of the two halves of a float vector, in double.
inline Simd<double> widened(const float (&lanes)[kLanes<float>]) {
  typedef float Half __attribute__((vector_size(kSimdBytes / 2)));
  Half low, high;
  std::memcpy(&low, lanes, sizeof low);
  std::memcpy(&high, lanes + kLanes<double>, sizeof high);
  return __builtin_convertvector(low, Simd<double>) + __builtin_convertvector(high, Simd<double>);
}

// Reduces n contiguous values, at most kPackLength, in four independent vectors.
template <ReduceFn fn, class T>
Accumulator<T> fold_run(const T* x, int64_t n) {
  using F = Fold<fn, T>;
  constexpr int64_t kL = kLanes<T>;
  if constexpr (std::is_same_v<T, int32_t> && fn <= ReduceFn::prod) {  // 32-bit lanes would wrap
    int64_t wide = F::neutral();
    for (int64_t k = 0; k < n; ++k) wide = Fold<fn, int64_t>::join(wide, int64_t{x[k]});
    return wide;
  }
  const Simd<T> start = simd_broadcast(F::neutral());
  Simd<T> a = start, b = start, c = start, d = start;
  int64_t i = 0;
  for (; i + 4 * kL <= n; i += 4 * kL) {
    a = F::join(a, simd_load(x + i));
    b = F::join(b, simd_load(x + i + kL));
    c = F::join(c, simd_load(x + i + 2 * kL));
    d = F::join(d, simd_load(x + i + 3 * kL));
  }
  for (; i + kL <= n; i += kL) a = F::join(a, simd_load(x + i));
  T lanes[kL];
  const auto both = [](Simd<T> p, Simd<T> q) { return fn == ReduceFn::sum_square ? p + q : F::join(p, q); };
  const Simd<T> all = both(both(a, b), both(c, d));
  using A = Accumulator<T>;
  if constexpr (fn >= ReduceFn::max) {  // exact in any order: pairwise, then the remainder
    T best = simd_fold<T>(all, F::template join<Simd<T>>);
    for (; i < n; ++i) best = F::join(best, x[i]);
    return static_cast<A>(best);
  }
  simd_store(lanes, all);
  A result = static_cast<A>(F::neutral());
  if constexpr (std::is_same_v<T, float> &&
                fn != ReduceFn::prod) {  // pairwise: a sum lane by lane is a dependent chain
    result = simd_fold<double>(widened(lanes), [](Simd<double> p, Simd<double> q) { return p + q; });
  } else {
    for (int64_t k = 0; k < kL; ++k) result = F::merge(result, static_cast<A>(lanes[k]));
  }
  T tail = F::neutral();
  for (; i < n; ++i) tail = F::join(tail, x[i]);
  return F::merge(result, static_cast<A>(tail));
}

inline constexpr int64_t kRowsAtOnce = 8;

// Combines kRows rows of n values, `step` apart, with n column results. Values that cannot overflow are first
// combined in T, because results in wider types cost several times as much to read and write.
template <ReduceFn fn, class T, int64_t kRows>
void fold_some_rows(Accumulator<T>* sums, const T* x, int64_t step, int64_t n) {
  using A = Accumulator<T>;
  using V = std::conditional_t<fn == ReduceFn::prod || std::is_integral_v<T>, A, T>;
  TT_SIMD
  for (int64_t j = 0; j < n; ++j) {
    V value = Fold<fn, V>::join(Fold<fn, V>::neutral(), static_cast<V>(x[j]));
    TT_UNROLL
    for (int64_t r = 1; r < kRows; ++r) value = Fold<fn, V>::join(value, static_cast<V>(x[r * step + j]));
    sums[j] = Fold<fn, A>::merge(sums[j], static_cast<A>(value));
  }
}
template <ReduceFn fn, class T>
void fold_rows_into(Accumulator<T>* sums, const T* x, int64_t step, int64_t rows, int64_t n) {
  for (; rows >= kRowsAtOnce; rows -= kRowsAtOnce, x += kRowsAtOnce * step)
    fold_some_rows<fn, T, kRowsAtOnce>(sums, x, step, n);
  for (; rows > 0; --rows, x += step) fold_some_rows<fn, T, 1>(sums, x, step, n);
}

// The loops of a reduction as function pointers: drivers are instantiated once per compute type.
template <class T>
struct FoldLoops {
  T neutral;
  Accumulator<T> (*run)(const T* x, int64_t n);
  void (*rows_into)(Accumulator<T>* sums, const T* x, int64_t step, int64_t rows, int64_t n);
  Accumulator<T> (*merge)(Accumulator<T> a, Accumulator<T> b);
  void (*merge_rows)(Accumulator<T>* into, const Accumulator<T>* from, int64_t n);
};
template <ReduceFn fn, class T>
void merge_rows(Accumulator<T>* into, const Accumulator<T>* from, int64_t n) {
  TT_SIMD
  for (int64_t i = 0; i < n; ++i) into[i] = Fold<fn, T>::template merge<Accumulator<T>>(into[i], from[i]);
}
template <ReduceFn fn, class T>
constexpr FoldLoops<T> fold_loops() {
  return {Fold<fn, T>::neutral(), fold_run<fn, T>, fold_rows_into<fn, T>,
          Fold<fn, T>::template merge<Accumulator<T>>, merge_rows<fn, T>};
}
template <class T>
FoldLoops<T> find_fold(ReduceFn fn) {
  static constexpr FoldLoops<T> kTable[] = {
      fold_loops<ReduceFn::sum, T>(), fold_loops<ReduceFn::sum_square, T>(), fold_loops<ReduceFn::prod, T>(),
      fold_loops<ReduceFn::max, T>(), fold_loops<ReduceFn::min, T>(),        fold_loops<ReduceFn::any, T>(),
      fold_loops<ReduceFn::all, T>()};
  return kTable[static_cast<int>(fn)];
}

// partial[block * results + result]: reduces one row of values at a time.
template <class T>
void fold_rows(const FoldLoops<T>& fold, const ReducePlan& plan, int64_t blocks, Accumulator<T>* partial) {
  const int64_t grain = std::max<int64_t>(1, kReduceBlock / std::max<int64_t>(1, plan.length));
  // Short rows that are read in place: creating a view of each row would take longer than reducing it.
  if (plan.has_contiguous_rows() && plan.reduced.dtype == dtype_of<T> && plan.length <= kPackLength<T>) {
    const T* const values = plan.kept.template as<const T>();
    const int64_t step = plan.kept.strides[0];
    return parallel_for(plan.results, grain, [&](int64_t begin, int64_t end) {
      const auto neutral = static_cast<Accumulator<T>>(fold.neutral);
      for (int64_t r = begin; r < end; ++r)
        partial[r] = fold.merge(neutral, fold.run(values + r * step, plan.length));
    });
  }
  parallel_for(plan.results * blocks, grain, [&](int64_t begin, int64_t end) {
    int64_t index[kMaxRank];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % blocks * kReduceBlock;
      const int64_t last = std::min(plan.length, first + kReduceBlock);
      auto result = static_cast<Accumulator<T>>(fold.neutral);
      for_each_piece<T>(plan.values_of(task / blocks, index), first, last,
                        [&](int64_t, const T* x, int64_t n) { result = fold.merge(result, fold.run(x, n)); });
      partial[task % blocks * plan.results + task / blocks] = result;
    }
  });
}

// Reduces short rows: a loop per row would cost more in overhead than in arithmetic, so 128 rows are
// transposed and reduced as columns.
inline constexpr int64_t kShortestRow = 32;  // length from which on a row is reduced alone
inline bool rows_are_short(const ReducePlan& plan) {
  return plan.has_contiguous_rows() && plan.length < kShortestRow && plan.results > 1;
}
template <class T>
void fold_short_rows(const FoldLoops<T>& fold, const ReducePlan& plan, Accumulator<T>* partial) {
  constexpr int64_t kRows = 128;
  const int64_t length = plan.length, step = plan.kept.strides[0], groups = ceil_div(plan.results, kRows);
  parallel_for(groups, std::max<int64_t>(1, kReduceBlock / (kRows * length)),
               [&](int64_t begin, int64_t end) {
                 alignas(64) T rows[kRows * kShortestRow], columns[kShortestRow * kRows];
                 int64_t index[kMaxRank];
                 for (int64_t group = begin; group < end; ++group) {
                   const int64_t first = group * kRows, n = std::min(kRows, plan.results - first);
                   View values = plan.values_of(first, index);
                   const bool direct = values.dtype == dtype_of<T>;
                   if (!direct)
                     pack(rows, {values.data, values.dtype, {n, length}, {step, 1}}, 0, n * length);
                   copy_transposed(columns, kRows, direct ? values.as<const T>() : rows,
                                   direct ? step : length, length, n);
                   std::fill(partial + first, partial + first + n, static_cast<Accumulator<T>>(fold.neutral));
                   fold.rows_into(partial + first, columns, kRows, length, n);
                 }
               });
}

// Reduces columns, where adjacent elements belong to different results: many columns together, row by row.
template <class T>
void fold_columns(const FoldLoops<T>& fold, const ReducePlan& plan, int64_t blocks, int64_t block_length,
                  Accumulator<T>* partial) {
  using A = Accumulator<T>;
  constexpr int64_t kColumns = 1024;
  const int64_t row = plan.kept.shape.back();
  const int64_t strips = ceil_div(row, kColumns);
  const int64_t outer = plan.results / row;
  const int64_t grain = grain_of(std::min(plan.length, block_length) * std::min(row, kColumns));
  parallel_for(outer * strips * blocks, grain, [&](int64_t begin, int64_t end) {
    T buffer[kColumns];
    int64_t index[kMaxRank];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t block = task % blocks, strip = task / blocks % strips;
      const int64_t first_result = task / blocks / strips * row + strip * kColumns;
      const int64_t n = std::min(kColumns, row - strip * kColumns);
      const View column = plan.values_of(first_result, index);
      A* const sums = partial + block * plan.results + first_result;
      for (int64_t j = 0; j < n; ++j) sums[j] = static_cast<A>(fold.neutral);
      const int64_t first = block * block_length, last = std::min(plan.length, first + block_length);
      const bool direct = column.dtype == dtype_of<T>;
      for_each_run(column.shape, column.strides, first, last - first, [&](int64_t offset, int64_t length) {
        const int64_t step = column.strides.back();
        if (direct) return fold.rows_into(sums, column.as<const T>() + offset, step, length, n);
        for (int64_t k = 0; k < length; ++k, offset += step) {
          pack(buffer, row_at(column, offset, n), 0, n);
          fold.rows_into(sums, buffer, 0, 1, n);
        }
      });
    }
  });
}

template <class T>
void reduce_as(const FoldLoops<T>& fold, const View& out, const ReducePlan& plan, double divisor) {
  using A = Accumulator<T>;
  int64_t block = kReduceBlock;
  if (plan.by_columns) block = std::max<int64_t>(64, kReduceBlock / plan.kept.shape.back());
  const int64_t blocks = std::max<int64_t>(1, ceil_div(plan.length, block));
  Scratch<A> partial(plan.results * blocks);
  if (plan.by_columns) {
    fold_columns<T>(fold, plan, blocks, block, partial.data());
  } else if (rows_are_short(plan)) {
    fold_short_rows<T>(fold, plan, partial.data());
  } else {
    fold_rows<T>(fold, plan, blocks, partial.data());
  }
  for (int64_t b = 1; b < blocks; ++b)
    fold.merge_rows(partial.data(), partial.data() + b * plan.results, plan.results);
  View rows = out;
  if (out.rank() == 0) rows.shape = Shape{1}, rows.strides = Strides{1};
  parallel_for(plan.results, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    A* const results = partial.data();
    for (int64_t r = begin; r < end && divisor != 1; ++r)
      results[r] = static_cast<A>(static_cast<double>(results[r]) / divisor);
    unpack(rows, begin, results + begin, end - begin);
  });
}

TT_API void reduce(ReduceFn fn, const View& out, const View& x, const bool* reduced, double divisor) {
  if (out.numel() == 0) return;
  View values = x;
  const bool is_boolean = x.dtype == DType::boolean && (fn == ReduceFn::any || fn == ReduceFn::all);
  if (is_boolean) values.dtype = DType::u8;  // bytes 0 and 1, 64 to a vector
  const ReducePlan plan(values, reduced);
  if (is_boolean) {
    return reduce_as<uint8_t>(
        fn == ReduceFn::any ? fold_loops<ReduceFn::any, uint8_t>() : fold_loops<ReduceFn::all, uint8_t>(),
        out, plan, 1);
  }
  dispatch_compute(x.dtype, [&]<class T>(T*) {
    const bool sums = fn == ReduceFn::sum || fn == ReduceFn::sum_square;
    reduce_as<T>(find_fold<T>(fn), out, plan, sums ? divisor : 1);
  });
}

// Reduces each row to its extreme, then searches the row for it.
template <class T>
void arg_extreme_rows(const View& out, const ReducePlan& plan, bool largest) {
  const FoldLoops<T> fold = find_fold<T>(largest ? ReduceFn::max : ReduceFn::min);
  const int64_t grain = std::max<int64_t>(1, kReduceBlock / std::max<int64_t>(1, plan.length));
  parallel_for(plan.results, grain, [&](int64_t begin, int64_t end) {
    int64_t index[kMaxRank];
    const bool direct = plan.reduced.dtype == dtype_of<T> && plan.reduced.contiguous();
    Scratch<T> row(direct ? 0 : plan.length);
    if (direct && rows_are_short(plan)) {
      const auto position = largest ? arg_extreme_of_short_row<true, T> : arg_extreme_of_short_row<false, T>;
      const T* const x = plan.kept.template as<const T>();
      for (int64_t r = begin; r < end; ++r)
        out.as<int64_t>()[r] = position(x + r * plan.kept.strides[0], plan.length);
      return;
    }
    for (int64_t r = begin; r < end; ++r) {
      const View values = plan.values_of(r, index);
      const T* x = direct ? values.as<const T>() : row.data();
      if (!direct) pack(row.data(), values, 0, plan.length);
      Accumulator<T> best = static_cast<Accumulator<T>>(x[0]);
      for (int64_t i = 0; i < plan.length; i += kPackLength<T>) {
        const int64_t n = std::min(kPackLength<T>, plan.length - i);
        best = fold.merge(best, fold.run(x + i, n));
      }
      out.as<int64_t>()[r] = find_first(x, 1, plan.length, static_cast<T>(best));
    }
  });
}

// arg_extreme of columns, where adjacent elements belong to different results: a strip at a time.
template <class T>
void arg_extreme_columns(const View& out, const ReducePlan& plan, bool largest) {
  using Position = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;  // an integer of the width of T
  constexpr int64_t kColumns = 512;
  const auto keep = largest ? update_extremes<true, T, Position> : update_extremes<false, T, Position>;
  const int64_t row = plan.kept.shape.back(), strips = ceil_div(row, kColumns);
  const bool direct = plan.reduced.dtype == dtype_of<T>;
  const int64_t grain = grain_of(plan.length * std::min(row, kColumns));
  parallel_for(plan.results / row * strips, grain, [&](int64_t begin, int64_t end) {
    T buffer[kColumns], best[kColumns];
    Position position[kColumns];
    int64_t index[kMaxRank];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task / strips * row + task % strips * kColumns;
      const int64_t n = std::min(kColumns, row - task % strips * kColumns);
      const View column = plan.values_of(first, index);
      pack(best, row_at(column, 0, n), 0, n);
      std::fill(position, position + n, Position(0));
      for (int64_t i = 1; i < plan.length; ++i) {
        const int64_t offset = i * column.strides.back();
        if (!direct) pack(buffer, row_at(column, offset, n), 0, n);
        const T* x = direct ? column.as<const T>() + offset : buffer;
        keep(best, position, x, static_cast<Position>(i), n);
      }
      for (int64_t j = 0; j < n; ++j) out.as<int64_t>()[first + j] = position[j];
    }
  });
}

TT_API void arg_extreme(const View& out, const View& x, int dim, bool largest) {
  bool reduced[kMaxRank] = {};
  reduced[dim] = true;
  if (out.numel() == 0) return;
  const ReducePlan plan(x, reduced);
  const bool by_columns = plan.by_columns && plan.length <= std::numeric_limits<int32_t>::max();
  dispatch_compute(x.dtype, [&]<class T>(T*) {
    if (by_columns) return arg_extreme_columns<T>(out, plan, largest);
    arg_extreme_rows<T>(out, plan, largest);
  });
}

TT_API void cumsum(const View& out, const View& x, int dim) {
  if (out.numel() == 0) return;
  bool reduced[kMaxRank] = {};
  reduced[dim] = true;
  const ReducePlan from(x, reduced), to(out, reduced);
  dispatch_compute(x.dtype, [&]<class T>(T*) { cumsum_along<T>(to, from); });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
