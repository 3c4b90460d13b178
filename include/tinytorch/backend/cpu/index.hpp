// Index operations on the CPU: rows, gather, scatter, triangles.
//
// Moves do not depend on values, so they are written for element sizes, not for types. Additions are in a
// fixed order (by position of the source), so results do not depend on the number of threads.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [outer, n, inner] = x [outer, size, inner] at rows index [n] (i64); all contiguous. Indices are in [0,
// size).
TT_API void take_rows(const View& out, const View& x, const View& index, int64_t outer, int64_t n,
                      int64_t size, int64_t inner);
// out [outer, size, inner] += source [outer, n, inner] at rows index [n] (i64); all contiguous, of one
// floating or integer dtype.
TT_API void add_rows(const View& out, const View& source, const View& index, int64_t outer, int64_t n,
                     int64_t size, int64_t inner);
// out[..., j, ...] = x[..., index[..., j, ...], ...] along dim. out and index have one shape and are
// contiguous.
TT_API void gather(const View& out, const View& x, const View& index, int dim);
// out[..., index[..., j, ...], ...] += source[..., j, ...] along dim; source has the shape of index.
TT_API void scatter_add(const View& out, const View& index, const View& source, int dim);
// Zeroes the elements above (keep_lower) or below the given diagonal of each matrix of out [..., M, N],
// contiguous.
TT_API void zero_triangle(const View& out, int64_t diagonal, bool keep_lower);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <cstring>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// copy(r, row) for each row r of out and the row of x that it takes.
template <class F>
void for_taken_rows(const int64_t* row_of, int64_t outer, int64_t n, int64_t size, int64_t grain, F&& copy) {
  parallel_for(outer * n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end;) {
      const int64_t first = r / n * n, last = std::min(end, first + n);
      for (const int64_t base = r / n * size; r < last; ++r) copy(r, base + row_of[r - first]);
    }
  });
}
// Rows of one element, which is a word; other rows may begin between words.
template <class Word>
void take_words(const View& out, const View& x, const int64_t* row_of, int64_t outer, int64_t n,
                int64_t size) {
  const auto* const from = x.as<const Word>();
  auto* const to = out.as<Word>();
  for_taken_rows(row_of, outer, n, size, 16384, [=](int64_t r, int64_t row) { to[r] = from[row]; });
}

TT_API void take_rows(const View& out, const View& x, const View& index, int64_t outer, int64_t n,
                      int64_t size, int64_t inner) {
  const auto bytes = inner * static_cast<int64_t>(size_of(x.dtype));
  const int64_t* row_of = index.as<const int64_t>();
  if (inner == 1) {
    if (bytes == 1) return take_words<uint8_t>(out, x, row_of, outer, n, size);
    if (bytes == 2) return take_words<uint16_t>(out, x, row_of, outer, n, size);
    if (bytes == 4) return take_words<uint32_t>(out, x, row_of, outer, n, size);
    return take_words<uint64_t>(out, x, row_of, outer, n, size);
  }
  const char* from = x.as<const char>();
  char* to = out.as<char>();
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(bytes, 1));
  for_taken_rows(row_of, outer, n, size, grain, [=](int64_t r, int64_t row) {
    std::memcpy(to + r * bytes, from + row * bytes, static_cast<size_t>(bytes));
  });
}

TT_API void add_rows(const View& out, const View& source, const View& index, int64_t outer, int64_t n,
                     int64_t size, int64_t inner) {
  // Threads divide the columns, so every row of out receives its terms in index order.
  const int64_t columns = outer * inner;
  const int64_t* row_of = index.as<const int64_t>();
  const int64_t grain = std::max<int64_t>(64, kElementwiseGrain / std::max<int64_t>(n, 1));
  dispatch(out.dtype, [&]<class T>(T*) {
    using A = std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>, float, T>;
    if constexpr (!std::is_same_v<T, bool>) {
      T* to = out.as<T>();
      const T* from = source.as<const T>();
      parallel_for(columns, grain, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin / inner; o * inner < end; ++o) {
          const int64_t first = std::max<int64_t>(begin - o * inner, 0),
                        last = std::min(end - o * inner, inner);
          for (int64_t i = 0; i < n; ++i) {
            T* row = to + (o * size + row_of[i]) * inner;
            const T* add = from + (o * n + i) * inner;
            TT_SIMD
            for (int64_t c = first; c < last; ++c) {
              row[c] = convert<T>(static_cast<A>(static_cast<A>(row[c]) + static_cast<A>(add[c])));
            }
          }
        }
      });
    }
  });
}

// Calls f with a null pointer of the unsigned type of the size of an element.
template <class F>
void dispatch_word(DType t, F&& f) {
  switch (size_of(t)) {
    case 1:
      return f(static_cast<uint8_t*>(nullptr));
    case 2:
      return f(static_cast<uint16_t*>(nullptr));
    case 4:
      return f(static_cast<uint32_t*>(nullptr));
    default:
      return f(static_cast<uint64_t*>(nullptr));
  }
}

// Strides for the coordinates other than dim, whose stride becomes 0.
inline Strides strides_without(const Strides& strides, int dim) {
  Strides others = strides;
  others[dim] = 0;
  return others;
}

TT_API void gather(const View& out, const View& x, const View& index, int dim) {
  const Strides others = strides_without(x.strides, dim);
  const int64_t step = x.strides[dim], next = others.back(), index_step = index.strides.back();
  dispatch_word(x.dtype, [&]<class U>(U*) {
    parallel_for(index.numel(), kElementwiseGrain / 4, [&](int64_t begin, int64_t end) {
      U* to = out.as<U>() + begin;
      for_each_run_of_both(index.shape, index.strides, others, begin, end - begin,
                           [&](int64_t at, int64_t rest, int64_t n) {
                             const int64_t* position = index.as<const int64_t>() + at;
                             const U* from = x.as<const U>() + rest;
                             for (int64_t j = 0; j < n; ++j)
                               to[j] = from[j * next + position[j * index_step] * step];
                             to += n;
                           });
    });
  });
}

// scatter_add of elements [begin, begin + n) of the source, in order.
template <class T>
void scatter_add_range(const View& out, const View& index, const View& source, int dim, int64_t begin,
                       int64_t n) {
  using A = std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>, float, T>;
  const Strides others = strides_without(out.strides, dim);
  const int64_t step = out.strides[dim], next = others.back();
  const int64_t index_step = index.strides.back(), source_step = source.strides.back();
  int64_t coordinates[kMaxRank];
  for_each_run_of_both(
      index.shape, index.strides, others, begin, n, [&](int64_t at, int64_t rest, int64_t length) {
        const int64_t* position = index.as<const int64_t>() + at;
        const T* from = source.as<const T>() + locate(source.shape, source.strides, begin, coordinates);
        T* to = out.as<T>() + rest;
        for (int64_t j = 0; j < length; ++j) {
          T& sum = to[j * next + position[j * index_step] * step];
          sum = convert<T>(static_cast<A>(static_cast<A>(sum) + static_cast<A>(from[j * source_step])));
        }
        begin += length;
      });
}

TT_API void scatter_add(const View& out, const View& index, const View& source, int dim) {
  const int last = index.rank() - 1;
  // Elements with different coordinates before dim add to different places. So do different columns if dim
  // is not the last dimension.
  int64_t outer = 1;
  for (int d = 0; d < dim; ++d) outer *= index.shape[d];
  const int64_t inner = index.numel() / outer, columns = index.shape[last];
  dispatch(out.dtype, [&]<class T>(T*) {
    if constexpr (!std::is_same_v<T, bool>) {
      if (dim > 0 || last == 0) {
        return parallel_for(outer, kElementwiseGrain / 4 / inner + 1, [&](int64_t begin, int64_t end) {
          scatter_add_range<T>(out, index, source, dim, begin * inner, (end - begin) * inner);
        });
      }
      parallel_for(columns, std::max<int64_t>(64, kElementwiseGrain / (inner / columns + 1)),
                   [&](int64_t begin, int64_t end) {
                     const auto from_column = [&](View v, int64_t size) {
                       v.data =
                           v.as<char>() + begin * v.strides[last] * static_cast<int64_t>(size_of(v.dtype));
                       v.shape[last] = size;
                       return v;
                     };
                     const int64_t width = end - begin;
                     scatter_add_range<T>(from_column(out, width), from_column(index, width),
                                          from_column(source, width), dim, 0, inner / columns * width);
                   });
    }
  });
}

TT_API void zero_triangle(const View& out, int64_t diagonal, bool keep_lower) {
  const int64_t rows = out.shape[out.rank() - 2], cols = out.shape.back();
  const auto width = static_cast<int64_t>(size_of(out.dtype));
  if (out.numel() == 0) return;
  parallel_for(
      out.numel() / cols, std::max<int64_t>(1, kElementwiseGrain / cols), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const int64_t limit = std::clamp<int64_t>(r % rows + diagonal + (keep_lower ? 1 : 0), 0, cols);
          char* row = out.as<char>() + r * cols * width;
          if (keep_lower) {
            std::memset(row + limit * width, 0, static_cast<size_t>((cols - limit) * width));
          } else {
            std::memset(row, 0, static_cast<size_t>(limit * width));
          }
        }
      });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
