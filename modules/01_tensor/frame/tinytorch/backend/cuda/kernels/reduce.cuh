// Reductions: sum, product, extrema, any, all, sums of squares (arg-extrema and cumulative sums: scan.cuh).
//
// The frame of a course header: it has the given parts, and includes the functions of task 1.10.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kFoldThreads = 256;  // threads of a block at most; a power of two, 32 at least

// A reduction as a kernel sees it.
struct Reduction {
  Operands<1> out, kept, reduced;  // the results; x by the kept dimensions; x by the reduced ones
  ReduceFn fn;
  double divisor;
};

inline Reduction reduction_of(ReduceFn fn, const View& out, const View& x, const bool* reduced,
                              double divisor) {
  Shape shape;
  Strides strides;
  Reduction p{Plan<1>({out}, 1).operands, part_of(x, reduced, false, shape, strides),
              part_of(x, reduced, true, shape, strides), fn, 1};
  p.kept.operand[0].data = x.data;
  p.kept.operand[0].dtype = x.dtype;
  if (fn == ReduceFn::sum || fn == ReduceFn::sum_square) p.divisor = divisor;
  return p;
}

// --- what is folded ---

// The neutral element of fn: joined with any value, it leaves the value as it is.
template <class A>
__device__ __forceinline__ A neutral(ReduceFn fn) {
  using Limits = std::numeric_limits<A>;
  if (fn == ReduceFn::max) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  if (fn == ReduceFn::min) return Limits::has_infinity ? Limits::infinity() : Limits::max();
  return fn == ReduceFn::prod || fn == ReduceFn::all ? A(1) : A(0);
}

// Two partial results into one.
template <class A>
__device__ __forceinline__ A join(ReduceFn fn, A a, A b) {
  switch (fn) {
    case ReduceFn::prod:
      return a * b;
    case ReduceFn::max:
      return Maximum()(a, b);  // NaN wins
    case ReduceFn::min:
      return Minimum()(a, b);
    case ReduceFn::any:
      return a != A(0) || b != A(0) ? A(1) : A(0);
    case ReduceFn::all:
      return a != A(0) && b != A(0) ? A(1) : A(0);
    default:
      return a + b;
  }
}

// Value number i of result number r: x itself, its square for sum_square, and for any and all whether it is
// not 0.
template <class A>
__device__ __forceinline__ A value_of(const Reduction& p, int64_t r, int64_t i) {
  const int64_t at = p.kept.offset(0, r) + p.reduced.offset(0, i);
  A value{};
  for_any_stored(p.kept.operand[0].dtype,
                 [&]<class T>(T*) { value = to<A>(static_cast<const T*>(p.kept.operand[0].data)[at]); });
  if (p.fn == ReduceFn::sum_square) return value * value;
  if (p.fn == ReduceFn::any || p.fn == ReduceFn::all) return value != A(0) ? A(1) : A(0);
  return value;
}

// Result number r is `value`, divided and converted.
template <class A>
__device__ __forceinline__ void put_result(const Reduction& p, int64_t r, A value) {
  if (p.divisor != 1) value = static_cast<A>(static_cast<double>(value) / p.divisor);
  const int64_t at = p.out.offset(0, r);
  for_any_stored(p.out.operand[0].dtype,
                 [&]<class T>(T*) { static_cast<T*>(p.out.operand[0].data)[at] = to<T>(value); });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/reduce.cuh>
