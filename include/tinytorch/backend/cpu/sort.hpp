// Sorting of rows on the CPU: values and positions, stable, NaN last in ascending order.
//
// LSD radix sort, 8 bits a pass, 256 buckets: n elements of b bytes are moved b times, less the passes in
// which all elements have the same eight bits. For the first k of a row, a radix select from the highest bits
// on first drops elements that cannot be among them; a small k is found in one pass over the row.
// Source: Knuth, "The Art of Computer Programming", volume 3, 5.2.5.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// values, indices (i64) [rows, k] = the first k of each sorted row of x [rows, n]. The order is stable; NaN
// counts as the largest value.
TT_API void sort_rows(const View& values, const View& indices, const View& x, int64_t k, bool descending);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kBuckets = 256;  // 1 << kBucketBits
inline constexpr int kBucketBits = 8;     // the write positions of all buckets fit in the L1 cache
inline constexpr int64_t kComparisonSortElements = 64;   // largest row for a comparison sort
inline constexpr int64_t kParallelSortElements = 65536;  // elements that make another thread worthwhile
inline constexpr int64_t kMaxTopK = 128;                 // largest k for top_k

template <class T>
using SortKey = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// An unsigned key with the order of x; all ones for NaN, and one key for both zeros.
template <class T>
SortKey<T> sort_key(T x) {
  constexpr auto kSign = SortKey<T>(1) << (8 * sizeof(T) - 1);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<SortKey<T>>(x) ^ kSign;
  } else {
    const auto bits = std::bit_cast<SortKey<T>>(x + T(0));  // -0 + 0 is 0
    // All ones or all zeros. No branch: signs are unpredictable.
    const SortKey<T> negative = SortKey<T>(0) - (bits >> (8 * sizeof(T) - 1));
    return x == x ? bits ^ (negative | kSign) : ~SortKey<T>(0);
  }
}

// An element and its index in the row. At is as wide as T where that is enough, so that there is no padding.
template <class T, class At>
struct Indexed {
  T value;
  At index;
};

// Comparison sort by key, then by index. flip is 0, or all ones for descending order.
template <class T, class At>
void comparison_sort(Indexed<T, At>* row, int64_t n, SortKey<T> flip) {
  std::sort(row, row + n, [flip](const Indexed<T, At>& a, const Indexed<T, At>& b) {
    const SortKey<T> x = sort_key(a.value) ^ flip, y = sort_key(b.value) ^ flip;
    return x != y ? x < y : a.index < b.index;
  });
}

// One pass of the radix sort by the eight bits from `shift` on, `from` into `to`. The row is cut into
// `pieces`, each with its own bucket positions, which threads share. False: all elements have the same bits,
// and nothing was moved.
template <class T, class At>
bool radix_pass(Indexed<T, At>* to, const Indexed<T, At>* from, int64_t n, int shift, SortKey<T> flip,
                int64_t pieces) {
  const auto bucket_of = [&](const Indexed<T, At>& p) {
    return static_cast<size_t>(((sort_key(p.value) ^ flip) >> shift) & (kBuckets - 1));
  };
  using BucketPositions = std::array<int64_t, kBuckets>;
  std::vector<BucketPositions> next(
      static_cast<size_t>(pieces));  // next write position of each bucket, for each piece
  const auto each_piece = [&](auto&& f) {
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        f(next[static_cast<size_t>(p)], from + n * p / pieces, from + n * (p + 1) / pieces);
    });
  };
  each_piece([&](BucketPositions& count, const Indexed<T, At>* first, const Indexed<T, At>* last) {
    count.fill(0);
    for (; first != last; ++first) ++count[bucket_of(*first)];
  });
  int64_t place = 0;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    const int64_t begin = place;
    for (BucketPositions& piece : next) {
      const int64_t count = piece[bucket];
      piece[bucket] = place;
      place += count;
    }
    if (place - begin == n) return false;
  }
  each_piece([&](BucketPositions& at, const Indexed<T, At>* first, const Indexed<T, At>* last) {
    for (; first != last; ++first) to[at[bucket_of(*first)]++] = *first;
  });
  return true;
}

// Radix select: drops elements that cannot be among the first k and keeps the order of the others. Returns
// how many are left, which may be more than k. From the highest bits on, it counts buckets, each time only of
// elements in the bucket of the k-th element.
template <class T, class At>
int64_t radix_select(Indexed<T, At>* row, int64_t n, int64_t k, SortKey<T> flip) {
  constexpr int kBits = 8 * static_cast<int>(sizeof(T));
  SortKey<T> limit = 0;  // upper bits of the k-th key
  int64_t below = 0;     // elements with smaller upper bits
  for (int shift = kBits - kBucketBits; shift >= 0 && n > 2 * k; shift -= kBucketBits) {
    std::array<int64_t, kBuckets> count{};
    for (int64_t i = 0; i < n; ++i) {
      const SortKey<T> bits = (sort_key(row[i].value) ^ flip) >> shift;
      if (bits >> kBucketBits == limit) ++count[bits & (kBuckets - 1)];
    }
    SortKey<T> bucket = 0;
    while (below + count[bucket] < k) below += count[bucket++];
    limit = limit << kBucketBits | bucket;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Indexed<T, At> p = row[i];
      row[kept] = p;
      kept += (sort_key(p.value) ^ flip) >> shift <= limit ? 1 : 0;
    }
    n = kept;
  }
  return n;
}

// Sorts the first k of a row into `row` or `spare`, and returns which one.
template <class T, class At>
Indexed<T, At>* sort_indexed(Indexed<T, At>* row, Indexed<T, At>* spare, int64_t n, int64_t k,
                             bool descending, int64_t pieces) {
  const auto flip = descending ? ~SortKey<T>(0) : SortKey<T>(0);
  n = radix_select(row, n, k, flip);
  if (n <= kComparisonSortElements) {
    comparison_sort(row, n, flip);
    return row;
  }
  for (int shift = 0; shift < 8 * static_cast<int>(sizeof(T)); shift += kBucketBits)
    if (radix_pass(spare, row, n, shift, flip, pieces)) std::swap(row, spare);
  return row;
}

// Finds the first k of a much longer row: keeps the best k so far, in order. Most values are worse than the
// k-th best, and one vectorized comparison rejects whole blocks of them. False: the row contains NaN.
template <class T>
bool top_k(const T* row, int64_t n, int64_t k, bool descending, std::vector<int64_t>& order) {
  constexpr int64_t kBlock = 64;
  const auto better = [&](T a, T b) { return descending ? a > b : a < b; };
  order.clear();
  for (int64_t i = 0; i < n;) {
    const int64_t end = std::min(n, i + kBlock);
    const bool full = static_cast<int64_t>(order.size()) == k;
    if (full) {
      const T worst = row[order.back()];
      int candidates = 0;  // a count: a loop with an early exit does not vectorize
      for (int64_t j = i; j < end; ++j) candidates += (better(row[j], worst) || row[j] != row[j]) ? 1 : 0;
      if (candidates == 0) {
        i = end;
        continue;
      }
    }
    for (; i < end; ++i) {
      if (row[i] != row[i]) return false;
      const bool room = static_cast<int64_t>(order.size()) < k;
      if (!room && !better(row[i], row[order.back()])) continue;
      if (!room) order.pop_back();
      const auto later = [&](T value, int64_t other) { return better(value, row[other]); };
      order.insert(std::upper_bound(order.begin(), order.end(), row[i], later), i);
    }
  }
  return true;
}

// Sorts row r of x [rows, n] and writes its first k, on as many threads as `pieces`.
template <class T, class At>
void sort_row(const View& values, const View& indices, const View& x, int64_t r, int64_t k, bool descending,
              int64_t pieces, Indexed<T, At>* row, Indexed<T, At>* spare) {
  constexpr int64_t kBlock = kPackLength<T>;
  const int64_t n = x.shape[1];
  const auto each_block = [&](int64_t count, auto&& f) {
    parallel_for(count, pieces > 1 ? kParallelSortElements : count, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kBlock) f(i, std::min(kBlock, end - i));
    });
  };
  each_block(n, [&](int64_t first, int64_t count) {
    T block[kBlock];
    pack(block, x, r * n + first, count);
    for (int64_t i = 0; i < count; ++i) row[first + i] = {block[i], static_cast<At>(first + i)};
  });
  const Indexed<T, At>* const sorted = sort_indexed(row, spare, n, k, descending, pieces);
  each_block(k, [&](int64_t first, int64_t count) {
    T block[kBlock];
    int64_t at[kBlock];
    for (int64_t i = 0; i < count; ++i) {
      block[i] = sorted[first + i].value;
      at[i] = static_cast<int64_t>(sorted[first + i].index);
    }
    unpack(values, r * k + first, block, count);
    unpack(indices, r * k + first, at, count);
  });
}

// Writes the first k of row r, k much smaller than n. False: the row contains NaN, and nothing was written.
template <class T>
bool top_k_of_row(const View& values, const View& indices, const View& x, int64_t r, int64_t k,
                  bool descending, T* row, std::vector<int64_t>& order) {
  const int64_t n = x.shape[1];
  pack(row, x, r * n, n);
  if (!top_k(row, n, k, descending, order)) return false;
  T best[kMaxTopK];
  for (int64_t i = 0; i < k; ++i) best[i] = row[order[static_cast<size_t>(i)]];
  unpack(values, r * k, best, k);
  unpack(indices, r * k, order.data(), k);
  return true;
}

template <class T, class At>
void sort_rows_of(const View& values, const View& indices, const View& x, int64_t k, bool descending) {
  const int64_t rows = x.shape[0], n = x.shape[1];
  const bool few = k <= kMaxTopK && k * 8 <= n;
  const int64_t pieces =
      rows < thread_count() ? std::clamp<int64_t>(n / kParallelSortElements, 1, thread_count()) : 1;
  const auto sort_range = [&](int64_t begin, int64_t end) {
    std::vector<int64_t> order;
    Scratch<T> elements(few ? n : 0);
    std::optional<Scratch<Indexed<T, At>>> room;
    for (int64_t r = begin; r < end; ++r) {
      if (few && top_k_of_row(values, indices, x, r, k, descending, elements.data(), order)) continue;
      if (!room) room.emplace(2 * n);
      sort_row(values, indices, x, r, k, descending, pieces, room->data(), room->data() + n);
    }
  };
  if (pieces > 1) return sort_range(0, rows);
  parallel_for(rows, std::max<int64_t>(1, 4096 / std::max<int64_t>(n, 1)), sort_range);
}

TT_API void sort_rows(const View& values, const View& indices, const View& x, int64_t k, bool descending) {
  if (k == 0) return;
  dispatch_compute(x.dtype, [&]<class T>(T*) {
    if (sizeof(T) == 8 || x.shape[1] > std::numeric_limits<uint32_t>::max())
      return sort_rows_of<T, int64_t>(values, indices, x, k, descending);
    if constexpr (sizeof(T) < 8) sort_rows_of<T, uint32_t>(values, indices, x, k, descending);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
