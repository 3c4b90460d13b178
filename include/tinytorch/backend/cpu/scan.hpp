// Prefix sums (inclusive scan) along a dimension.
//
// In a plain loop each addition waits for the previous one, 4 cycles per element. Here each vector first
// computes the prefix sums of its own lanes, which does not depend on other vectors; then one addition per
// vector carries the sum on. The order depends on the position alone. Integers wrap.
#pragma once

#include <cstring>
#include <tinytorch/backend/cpu/loops/reduce_plan.hpp>
#include <tinytorch/core/simd.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Prefix sums of the lanes of v: lane i = v[0] + ... + v[i].
template <class A, int64_t kShift = 1>
Simd<A> prefix_sums(Simd<A> v) {
  if constexpr (kShift < kLanes<A>) {
    const auto up = [](int64_t i) { return i < kShift ? i : kLanes<A> + i - kShift; };  // zeros below
    return prefix_sums<A, 2 * kShift>(v + simd_shuffle<A>(Simd<A>{}, v, up));
  } else {
    return v;
  }
}

// sums[i] = start + x[0] + ... + x[i]. Returns the last sum. A: double or int64_t.
template <class A, class T>
A running_sum(A* sums, const T* x, int64_t n, A start) {
  using Lane = std::conditional_t<std::is_integral_v<A>, uint64_t, A>;  // unsigned: overflow is defined
  constexpr int64_t kL = kLanes<Lane>;
  Lane sum = static_cast<Lane>(start);
  int64_t i = 0;
  for (; i + kL <= n; i += kL) {
    SameLanes<T, Lane> values;
    std::memcpy(&values, x + i, sizeof values);
    const Simd<Lane> total = prefix_sums<Lane>(__builtin_convertvector(values, Simd<Lane>)) + sum;
    std::memcpy(sums + i, &total, sizeof total);
    sum = total[kL - 1];
  }
  for (; i < n; ++i) {
    sum += static_cast<Lane>(x[i]);
    sums[i] = static_cast<A>(sum);
  }
  return static_cast<A>(sum);
}

// Scan where adjacent elements belong to different rows: a strip of columns is scanned row by row, and no
// addition waits for another.
template <class T>
void cumsum_columns(const ReducePlan& to, const ReducePlan& from) {
  using A = Accumulator<T>;
  constexpr int64_t kColumns = 256;
  const int64_t row = from.kept.shape.back(), strips = ceil_div(row, kColumns);
  const int64_t grain = grain_of(from.length * std::min(row, kColumns));
  parallel_for(from.results / row * strips, grain, [&](int64_t begin, int64_t end) {
    alignas(64) T buffer[kColumns];
    alignas(64) A sums[kColumns];
    int64_t index[kMaxRank];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t skipped = task % strips * kColumns, n = std::min(kColumns, row - skipped);
      const View in = from.values_of(task / strips * row + skipped, index);
      const View out = to.values_of(task / strips * row + skipped, index);
      std::fill(sums, sums + n, A(0));
      for (int64_t i = 0; i < from.length; ++i) {
        const View line = row_at(in, i * in.strides.back(), n);
        const bool direct = line.dtype == dtype_of<T>;
        if (!direct) pack(buffer, line, 0, n);
        const T* x = direct ? line.as<const T>() : buffer;
        TT_SIMD
        for (int64_t j = 0; j < n; ++j) sums[j] = binary_value<BinaryFn::add>(sums[j], A(x[j]), A(0));
        unpack(row_at(out, i * out.strides.back(), n), 0, sums, n);
      }
    }
  });
}

// A long row is cut into blocks: the first pass sums each block, the second scans each block from the sum of
// those before it.
template <class T>
void cumsum_along(const ReducePlan& to, const ReducePlan& from) {
  if (from.by_columns && to.by_columns && from.kept.shape == to.kept.shape)
    return cumsum_columns<T>(to, from);
  using A = Accumulator<T>;
  const int64_t length = from.length, blocks = ceil_div(length, kReduceBlock);
  const int64_t grain = std::max<int64_t>(1, kReduceBlock / length);
  const auto each_block = [&](auto&& f) {  // f(task, row, first element, last element)
    parallel_for(from.results * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % blocks * kReduceBlock;
        f(task, task / blocks, first, std::min(first + kReduceBlock, length));
      }
    });
  };
  // Scans the elements [first, last) of row r, starting from `sum`: calls f(position, sums, n) on its pieces
  // and returns the last sum.
  const auto sum_block = [&](int64_t r, int64_t first, int64_t last, A sum, auto&& f) {
    alignas(64) A sums[kPackLength<T>];
    int64_t index[kMaxRank];
    for_each_piece<T>(from.values_of(r, index), first, last, [&](int64_t i, const T* x, int64_t n) {
      sum = running_sum(sums, x, n, sum);
      f(i, sums, n);
    });
    return sum;
  };
  std::vector<A> start(static_cast<size_t>(from.results * blocks));
  if (blocks > 1) {
    each_block([&](int64_t task, int64_t r, int64_t first, int64_t last) {
      start[static_cast<size_t>(task)] = sum_block(r, first, last, 0, [](int64_t, const A*, int64_t) {});
    });
    A before = 0;
    for (int64_t task = 0; task < from.results * blocks; ++task) {
      if (task % blocks == 0) before = 0;
      before =
          binary_value<BinaryFn::add>(before, std::exchange(start[static_cast<size_t>(task)], before), A(0));
    }
  }
  each_block([&](int64_t task, int64_t r, int64_t first, int64_t last) {
    int64_t index[kMaxRank];
    const View row = to.values_of(r, index);
    sum_block(r, first, last, start[static_cast<size_t>(task)],
              [&](int64_t i, const A* sums, int64_t n) { unpack(row, i, sums, n); });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
