// Moving elements by index: take rows, gather, scatter, triangles (contract: backend/cpu/index.hpp).
//
// Moves depend only on the element size, not on the type. Additions run in the order of the source's
// positions, in the compute type: positions are grouped by the row that their index names
// (rows/grouped.cuh), and each element of a row is summed by one thread. There are no atomics and results
// are deterministic. An index out of range reads zeros and is not added.
#pragma once

#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/kernels/rows/grouped.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kIndexThreads = 256;

// Calls f with a null pointer to the unsigned type with that many bytes (16: uint4).
template <class F>
void dispatch_width(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(static_cast<uint8_t*>(nullptr));
    case 2:
      return f(static_cast<uint16_t*>(nullptr));
    case 4:
      return f(static_cast<uint32_t*>(nullptr));
    case 8:
      return f(static_cast<uint64_t*>(nullptr));
    default:
      return f(static_cast<uint4*>(nullptr));
  }
}

// out [outer, n, inner] = x [outer, size, inner] at rows index [n]; inner counts words.
template <class Word>
static __global__ void __launch_bounds__(kIndexThreads)
    take_rows_kernel(Word* out, const Word* x, const int64_t* index, int64_t count, int64_t n, int64_t size,
                     int64_t inner) {
  start_next_kernel();
  wait_for_previous_kernel();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kIndexThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / inner, from = index[row % n];
  out[i] = from >= 0 && from < size ? x[(row / n * size + from) * inner + i % inner] : Word{};
}

void take_rows(const View& out, const View& x, const View& index, int64_t outer, int64_t n, int64_t size,
               int64_t inner) {
  if (outer * n * inner == 0) return;
  const auto bytes = static_cast<int64_t>(size_of(x.dtype));
  const bool vectorized = inner * bytes % 16 == 0 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0 &&
                          reinterpret_cast<uintptr_t>(out.data) % 16 == 0;
  const int64_t words = vectorized ? inner * bytes / 16 : inner;
  dispatch_width(vectorized ? 16 : bytes, [&]<class Word>(Word*) {
    const int64_t count = outer * n * words;
    launch(take_rows_kernel<Word>, early(over(count, kIndexThreads)), out.as<Word>(), x.as<const Word>(),
           index.as<const int64_t>(), count, n, size, words);
  });
}

// out [outer, rows, inner] (+)= sums of the rows of source [outer, n, inner] in each group.
template <class T, bool kAdd>
static __global__ void __launch_bounds__(kIndexThreads)
    sum_groups_kernel(T* out, const T* source, const int64_t* starts, const int64_t* positions, int64_t count,
                      int64_t n, int64_t rows, int64_t inner) {
  using A = Compute<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kIndexThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t column = i % inner, row = i / inner % rows, outer = i / inner / rows;
  const int64_t first = starts[row], last = starts[row + 1];
  if (kAdd && first == last) return;
  A sum = kAdd ? to<A>(out[i]) : A(0);
  const T* from = source + outer * n * inner + column;
#pragma unroll 4
  for (int64_t k = first; k < last; ++k) sum = static_cast<A>(sum + to<A>(from[positions[k] * inner]));
  out[i] = to<T>(sum);
}

// Calls f with a null pointer to the stored type; does nothing for bool, which has no sum.
template <class F>
void dispatch_number(DType t, F&& f) {
  dispatch(t, [&]<class T>(T* p) {
    if constexpr (!std::is_same_v<T, bool>) f(p);
  });
}

template <bool kAdd>
void sum_groups(const View& out, const View& source, const int64_t* index, int64_t outer, int64_t n,
                int64_t rows, int64_t inner) {
  const int64_t count = outer * rows * inner;
  if (count == 0 || (kAdd && n == 0)) return;
  const Groups groups(index, n, rows);
  dispatch_number(out.dtype, [&]<class T>(T*) {
    launch(sum_groups_kernel<T, kAdd>, over(count, kIndexThreads), out.as<T>(), source.as<const T>(),
           groups.starts(), groups.positions(), count, n, rows, inner);
  });
}

void add_rows(const View& out, const View& source, const View& index, int64_t outer, int64_t n, int64_t size,
              int64_t inner) {
  sum_groups<true>(out, source, index.as<const int64_t>(), outer, n, size, inner);
}

// Operands: out, x without the indexed dimension, index.
template <class Word>
static __global__ void __launch_bounds__(kIndexThreads)
    gather_kernel(const __grid_constant__ Operands<3> o, int64_t size, int64_t step) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kIndexThreads + threadIdx.x;
  if (i >= o.count) return;
  const int64_t at = static_cast<const int64_t*>(o.operand[2].data)[o.offset(2, i)];
  const Word* x = static_cast<const Word*>(o.operand[1].data) + o.offset(1, i);
  static_cast<Word*>(o.operand[0].data)[o.offset(0, i)] = at >= 0 && at < size ? x[at * step] : Word{};
}

// View of x in the shape of `like`, with stride 0 along dim.
inline View without_dim(const View& x, const Shape& like, int dim) {
  View v = x;
  v.shape = like;
  v.strides[dim] = 0;
  return v;
}

// Merges dimensions as Plan does, for operands that already have the same shape.
inline Operands<3> operands_of_same_shape(const View& a, const View& b, const View& c) {
  Shape shape = a.shape;
  Strides strides[3] = {a.strides, b.strides, c.strides};
  collapse(shape, strides, 3);
  Operands<3> o;
  set_shape(o, shape);
  const View* views[] = {&a, &b, &c};
  for (int k = 0; k < 3; ++k) {
    o.operand[k].data = views[k]->data;
    o.operand[k].dtype = views[k]->dtype;
    for (int d = 0; d < o.rank; ++d) o.operand[k].stride[d] = strides[k][d];
  }
  return o;
}

void gather(const View& out, const View& x, const View& index, int dim) {
  if (out.numel() == 0) return;
  const Operands<3> o = operands_of_same_shape(out, without_dim(x, out.shape, dim), index);
  dispatch_width(static_cast<int64_t>(size_of(x.dtype)), [&]<class Word>(Word*) {
    launch(gather_kernel<Word>, over(o.count, kIndexThreads), o, x.shape[dim], x.strides[dim]);
  });
}

// A thread adds the elements of one line of source along dim, in order. Operands: source, out and index at
// the start of the line.
template <class T>
static __global__ void __launch_bounds__(kIndexThreads)
    scatter_lines_kernel(const __grid_constant__ Operands<3> o, int64_t length, int64_t size,
                         int64_t source_step, int64_t out_step, int64_t index_step) {
  using A = Compute<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kIndexThreads + threadIdx.x;
  if (i >= o.count) return;
  const T* source = static_cast<const T*>(o.operand[0].data) + o.offset(0, i);
  T* out = static_cast<T*>(o.operand[1].data) + o.offset(1, i);
  const int64_t* index = static_cast<const int64_t*>(o.operand[2].data) + o.offset(2, i);
  for (int64_t j = 0; j < length; ++j) {
    const int64_t at = index[j * index_step];
    if (at < 0 || at >= size) continue;
    T& target = out[at * out_step];
    target = to<T>(static_cast<A>(to<A>(target) + to<A>(source[j * source_step])));
  }
}

// View of v at position 0 along dim, with size 1 there.
inline View first_along(const View& v, const Shape& like, int dim) {
  View w = v;
  w.shape = like;
  w.shape[dim] = 1;
  return w;
}

void scatter_add(const View& out, const View& index, const View& source, int dim) {
  if (index.numel() == 0) return;
  // One line: positions are grouped and rows are summed in parallel.
  if (index.rank() == 1 && index.numel() > 64 && out.contiguous()) {
    const Contiguous at(index), from(source);
    return sum_groups<true>(out, from.view(), at.as<const int64_t>(), 1, index.numel(), out.numel(), 1);
  }
  const Operands<3> o =
      operands_of_same_shape(first_along(source, index.shape, dim), first_along(out, index.shape, dim),
                             first_along(index, index.shape, dim));
  dispatch_number(out.dtype, [&]<class T>(T*) {
    launch(scatter_lines_kernel<T>, over(o.count, kIndexThreads), o, index.shape[dim], out.shape[dim],
           source.strides[dim], out.strides[dim], index.strides[dim]);
  });
}

template <class Word>
static __global__ void __launch_bounds__(kIndexThreads)
    triangle_kernel(Word* out, int64_t count, int64_t rows, int64_t columns, int64_t diagonal,
                    bool keep_lower) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kIndexThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t distance = i % columns - i / columns % rows;
  if (keep_lower ? distance > diagonal : distance < diagonal) out[i] = Word{};
}

void zero_triangle(const View& out, int64_t diagonal, bool keep_lower) {
  if (out.numel() == 0) return;
  dispatch_width(static_cast<int64_t>(size_of(out.dtype)), [&]<class Word>(Word*) {
    launch(triangle_kernel<Word>, over(out.numel(), kIndexThreads), out.as<Word>(), out.numel(),
           out.shape[out.rank() - 2], out.shape.back(), diagonal, keep_lower);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
