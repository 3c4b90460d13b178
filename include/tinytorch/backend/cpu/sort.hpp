// Sorting rows on the CPU: values and positions, stable, NaN largest.
//
// Elements are dealt into 256 heaps by their lowest eight bits, then by the eight above those, and so on;
// dealing keeps the order of equals, so after the highest the row is sorted. Nothing is compared: n elements
// of b bytes are moved b times, or fewer where all have the same eight bits. Source: Knuth, "The Art of
// Computer Programming", volume 3, 5.2.5.
//
// Of the first k of a row, elements are dropped before by their highest bits; a few are found by one look at
// each element.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// values, indices [rows, k] = the first k of each sorted row of x [rows, n]; stable; NaN counts as largest.
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

inline constexpr int64_t kHeaps = 256;            // a power of two: one for every value of kHeapBits bits
inline constexpr int kHeapBits = 8;               // as many heaps grow at once as the L1 cache has room for
inline constexpr int64_t kFewElements = 64;       // that are compared faster than dealt
inline constexpr int64_t kDealtTogether = 65536;  // elements that repay waking a thread
inline constexpr int64_t kMostKept = 128;         // first elements that are kept in order as a row is read

template <class T>
using SortKey = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// An unsigned number that orders as x does; all ones for NaN, and one for both zeros.
template <class T>
SortKey<T> sort_key(T x) {
  constexpr auto kSign = SortKey<T>(1) << (8 * sizeof(T) - 1);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<SortKey<T>>(x) ^ kSign;
  } else {
    const auto bits = std::bit_cast<SortKey<T>>(x + T(0));  // -0 + 0 is 0
    // All ones or all zeros, without a branch: signs are random.
    const SortKey<T> negative = SortKey<T>(0) - (bits >> (8 * sizeof(T) - 1));
    return x == x ? bits ^ (negative | kSign) : ~SortKey<T>(0);
  }
}

// An element and where it was. At: as wide as T where that is enough, so that nothing is padded.
template <class T, class At>
struct Placed {
  T value;
  At at;
};

// Orders keys; flip is 0, or all ones for the largest first.
template <class T, class At>
void sort_few(Placed<T, At>* row, int64_t n, SortKey<T> flip) {
  std::sort(row, row + n, [flip](const Placed<T, At>& a, const Placed<T, At>& b) {
    const SortKey<T> x = sort_key(a.value) ^ flip, y = sort_key(b.value) ^ flip;
    return x != y ? x < y : a.at < b.at;
  });
}

// One deal of a row by the bits from `shift` on, its pieces dealt side by side: `from` into `to`. False: all
// have the same bits, and nothing was moved.
template <class T, class At>
bool deal(Placed<T, At>* to, const Placed<T, At>* from, int64_t n, int shift, SortKey<T> flip,
          int64_t pieces) {
  const auto heap_of = [&](const Placed<T, At>& p) {
    return static_cast<size_t>(((sort_key(p.value) ^ flip) >> shift) & (kHeaps - 1));
  };
  using Heaps = std::array<int64_t, kHeaps>;
  std::vector<Heaps> next(static_cast<size_t>(pieces));  // where a piece's next element of a heap goes
  const auto each_piece = [&](auto&& f) {
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        f(next[static_cast<size_t>(p)], from + n * p / pieces, from + n * (p + 1) / pieces);
    });
  };
  each_piece([&](Heaps& count, const Placed<T, At>* first, const Placed<T, At>* last) {
    count.fill(0);
    for (; first != last; ++first) ++count[heap_of(*first)];
  });
  int64_t place = 0;
  for (size_t heap = 0; heap < kHeaps; ++heap) {
    const int64_t begin = place;
    for (Heaps& piece : next) {
      const int64_t count = piece[heap];
      piece[heap] = place;
      place += count;
    }
    if (place - begin == n) return false;
  }
  each_piece([&](Heaps& at, const Placed<T, At>* first, const Placed<T, At>* last) {
    for (; first != last; ++first) to[at[heap_of(*first)]++] = *first;
  });
  return true;
}

// Drops what cannot be among the first k and keeps the order of the rest; gives back how many are left. Heaps
// are counted from the highest bits on, each time only those of the heap in which the k-th lies.
template <class T, class At>
int64_t keep_first(Placed<T, At>* row, int64_t n, int64_t k, SortKey<T> flip) {
  constexpr int kBits = 8 * static_cast<int>(sizeof(T));
  SortKey<T> limit = 0;  // upper bits of the k-th
  int64_t below = 0;     // elements with less than those
  for (int shift = kBits - kHeapBits; shift >= 0 && n > 2 * k; shift -= kHeapBits) {
    std::array<int64_t, kHeaps> count{};
    for (int64_t i = 0; i < n; ++i) {
      const SortKey<T> bits = (sort_key(row[i].value) ^ flip) >> shift;
      if (bits >> kHeapBits == limit) ++count[bits & (kHeaps - 1)];
    }
    SortKey<T> heap = 0;
    while (below + count[heap] < k) below += count[heap++];
    limit = limit << kHeapBits | heap;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Placed<T, At> p = row[i];
      row[kept] = p;
      kept += (sort_key(p.value) ^ flip) >> shift <= limit ? 1 : 0;
    }
    n = kept;
  }
  return n;
}

// Sorts the first k of a row into one of the two places, and says into which.
template <class T, class At>
Placed<T, At>* sort_placed(Placed<T, At>* row, Placed<T, At>* spare, int64_t n, int64_t k, bool descending,
                           int64_t pieces) {
  const auto flip = descending ? ~SortKey<T>(0) : SortKey<T>(0);
  n = keep_first(row, n, k, flip);
  if (n <= kFewElements) {
    sort_few(row, n, flip);
    return row;
  }
  for (int shift = 0; shift < 8 * static_cast<int>(sizeof(T)); shift += kHeapBits)
    if (deal(spare, row, n, shift, flip, pieces)) std::swap(row, spare);
  return row;
}

// The first k of a much longer row: keeps the best k seen so far, in order. Most values lose against the k-th
// best, and whole blocks of them are dismissed by one comparison of vectors. False: the row holds a NaN.
template <class T>
bool keep_best(const T* row, int64_t n, int64_t k, bool descending, std::vector<int64_t>& order) {
  constexpr int64_t kBlock = 64;
  const auto better = [&](T a, T b) { return descending ? a > b : a < b; };
  order.clear();
  for (int64_t i = 0; i < n;) {
    const int64_t end = std::min(n, i + kBlock);
    const bool full = static_cast<int64_t>(order.size()) == k;
    if (full) {
      const T worst = row[order.back()];
      int candidates = 0;  // a count, because a loop that stops early would not vectorize
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

// Sorts row r of x [rows, n] and writes its first k. `pieces` above 1: by as many threads.
template <class T, class At>
void sort_row(const View& values, const View& indices, const View& x, int64_t r, int64_t k, bool descending,
              int64_t pieces, Placed<T, At>* row, Placed<T, At>* spare) {
  constexpr int64_t kBlock = kPackLength<T>;
  const int64_t n = x.shape[1];
  const auto each_block = [&](int64_t count, auto&& f) {
    parallel_for(count, pieces > 1 ? kDealtTogether : count, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kBlock) f(i, std::min(kBlock, end - i));
    });
  };
  each_block(n, [&](int64_t first, int64_t count) {
    T block[kBlock];
    pack(block, x, r * n + first, count);
    for (int64_t i = 0; i < count; ++i) row[first + i] = {block[i], static_cast<At>(first + i)};
  });
  const Placed<T, At>* const sorted = sort_placed(row, spare, n, k, descending, pieces);
  each_block(k, [&](int64_t first, int64_t count) {
    T block[kBlock];
    int64_t at[kBlock];
    for (int64_t i = 0; i < count; ++i) {
      block[i] = sorted[first + i].value;
      at[i] = static_cast<int64_t>(sorted[first + i].at);
    }
    unpack(values, r * k + first, block, count);
    unpack(indices, r * k + first, at, count);
  });
}

// The first k of row r, k much smaller than the row. False: the row holds a NaN, and nothing was written.
template <class T>
bool first_few(const View& values, const View& indices, const View& x, int64_t r, int64_t k, bool descending,
               T* row, std::vector<int64_t>& order) {
  const int64_t n = x.shape[1];
  pack(row, x, r * n, n);
  if (!keep_best(row, n, k, descending, order)) return false;
  T best[kMostKept];
  for (int64_t i = 0; i < k; ++i) best[i] = row[order[static_cast<size_t>(i)]];
  unpack(values, r * k, best, k);
  unpack(indices, r * k, order.data(), k);
  return true;
}

template <class T, class At>
void sort_rows_of(const View& values, const View& indices, const View& x, int64_t k, bool descending) {
  const int64_t rows = x.shape[0], n = x.shape[1];
  const bool few = k <= kMostKept && k * 8 <= n;
  const int64_t pieces =
      rows < thread_count() ? std::clamp<int64_t>(n / kDealtTogether, 1, thread_count()) : 1;
  const auto sort_range = [&](int64_t begin, int64_t end) {
    std::vector<int64_t> order;
    Scratch<T> elements(few ? n : 0);
    std::optional<Scratch<Placed<T, At>>> room;
    for (int64_t r = begin; r < end; ++r) {
      if (few && first_few(values, indices, x, r, k, descending, elements.data(), order)) continue;
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
