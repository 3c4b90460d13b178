// Moving elements by index on the CPU: rows, gathers, scatters, triangles, sorting.
//
// Moves do not look at values, so they are written for element sizes, not types. Additions run in a fixed
// order (by position of the source), so results do not depend on the number of threads.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [outer, n, inner] = x [outer, size, inner] at rows index [n]; all contiguous. Indices lie in [0, size).
TT_API void take_rows(const View& out, const View& x, const int64_t* index, int64_t outer, int64_t n,
                      int64_t size, int64_t inner);
// out [outer, size, inner] += source [outer, n, inner] at rows index [n]. Floating dtypes and integers.
TT_API void add_rows(const View& out, const View& source, const int64_t* index, int64_t outer, int64_t n,
                     int64_t size, int64_t inner);
// out[..., j, ...] = x[..., index[..., j, ...], ...] along dim; out and index have one shape and are
// contiguous.
TT_API void gather(const View& out, const View& x, const View& index, int dim);
// out[..., index[..., j, ...], ...] += source[..., j, ...]; source has index's shape.
TT_API void scatter_add(const View& out, const View& index, const View& source, int dim);
// Zeroes what is above (lower) or below (upper) the diagonal of each matrix of out [..., M, N], contiguous.
TT_API void zero_triangle(const View& out, int64_t diagonal, bool keep_lower);
// values, indices [rows, k] = the first k of each sorted row of x [rows, n]; stable; NaN counts as largest.
TT_API void sort_rows(const View& values, const View& indices, const View& x, int64_t k, bool descending);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BACKEND_BODIES
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

TT_API void take_rows(const View& out, const View& x, const int64_t* index, int64_t outer, int64_t n,
                      int64_t size, int64_t inner) {
  const auto bytes = inner * static_cast<int64_t>(size_of(x.dtype));
  const char* from = x.as<const char>();
  char* to = out.as<char>();
  parallel_for(outer * n, std::max<int64_t>(1, 65536 / std::max<int64_t>(bytes, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) {
                   const char* row = from + (r / n * size + index[r % n]) * bytes;
                   std::memcpy(to + r * bytes, row, static_cast<size_t>(bytes));
                 }
               });
}

TT_API void add_rows(const View& out, const View& source, const int64_t* index, int64_t outer, int64_t n,
                     int64_t size, int64_t inner) {
  // Threads own columns, so every row of out receives its terms in index order.
  const int64_t columns = outer * inner;
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
            T* row = to + (o * size + index[i]) * inner;
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

// Calls f with a null pointer of an unsigned type as wide as the element.
template <class F>
void dispatch_size(DType t, F&& f) {
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

// Walks index (any strides) in row-major order: f(number, value, offset into x's other dimensions).
template <class F>
void walk_index(const View& index, const Strides& x_strides, int dim, F&& f) {
  Strides others = x_strides;
  others[dim] = 0;
  int64_t position[kMaxRank] = {};
  int64_t at = 0, rest = 0;
  const int64_t n = index.numel();
  for (int64_t i = 0; i < n; ++i) {
    f(i, index.as<const int64_t>()[at], rest);
    for (int d = index.rank() - 1; d >= 0; --d) {
      at += index.strides[d];
      rest += others[d];
      if (++position[d] < index.shape[d]) break;
      at -= index.strides[d] * index.shape[d];
      rest -= others[d] * index.shape[d];
      position[d] = 0;
    }
  }
}

TT_API void gather(const View& out, const View& x, const View& index, int dim) {
  const int64_t step = x.strides[dim];
  dispatch_size(x.dtype, [&]<class U>(U*) {
    walk_index(index, x.strides, dim, [&](int64_t i, int64_t value, int64_t rest) {
      out.as<U>()[i] = x.as<const U>()[rest + value * step];
    });
  });
}

TT_API void scatter_add(const View& out, const View& index, const View& source, int dim) {
  const int64_t step = out.strides[dim];
  dispatch(out.dtype, [&]<class T>(T*) {
    using A = std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>, float, T>;
    if constexpr (!std::is_same_v<T, bool>) {
      std::vector<T> values;
      for_each_run(source.shape, source.strides, 0, source.numel(), [&](int64_t offset, int64_t length) {
        for (int64_t k = 0; k < length; ++k)
          values.push_back(source.as<const T>()[offset + k * source.strides.back()]);
      });
      walk_index(index, out.strides, dim, [&](int64_t i, int64_t value, int64_t rest) {
        T& to = out.as<T>()[rest + value * step];
        to = convert<T>(static_cast<A>(static_cast<A>(to) + static_cast<A>(values[static_cast<size_t>(i)])));
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

template <class T>
void sort_one_row(const T* row, int64_t n, int64_t k, bool descending, std::vector<int64_t>& order) {
  const auto is_nan = [](T v) { return v != v; };
  const auto less = [&](T a, T b) { return is_nan(b) ? !is_nan(a) : a < b; };
  const auto before = [&](int64_t i, int64_t j) {
    const bool first = descending ? less(row[j], row[i]) : less(row[i], row[j]);
    const bool second = descending ? less(row[i], row[j]) : less(row[j], row[i]);
    return first != second ? first : i < j;  // ties keep their order
  };
  order.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = i;
  if (k < n) std::nth_element(order.begin(), order.begin() + k, order.end(), before);
  std::sort(order.begin(), order.begin() + k, before);
}

TT_API void sort_rows(const View& values, const View& indices, const View& x, int64_t k, bool descending) {
  const int64_t rows = x.shape[0], n = x.shape[1];
  if (k == 0) return;
  dispatch_compute(x.dtype, [&]<class T>(T*) {
    parallel_for(rows, std::max<int64_t>(1, 4096 / std::max<int64_t>(n, 1)), [&](int64_t begin, int64_t end) {
      std::vector<T> row(static_cast<size_t>(n)), sorted(static_cast<size_t>(k));
      std::vector<int64_t> order;
      for (int64_t r = begin; r < end; ++r) {
        pack(row.data(), x, r * n, n);
        sort_one_row(row.data(), n, k, descending, order);
        for (int64_t i = 0; i < k; ++i)
          sorted[static_cast<size_t>(i)] = row[static_cast<size_t>(order[static_cast<size_t>(i)])];
        unpack(values, r * k, sorted.data(), k);
        unpack(indices, r * k, order.data(), k);
      }
    });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
