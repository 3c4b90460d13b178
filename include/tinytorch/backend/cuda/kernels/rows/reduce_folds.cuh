// Folds of reductions, the layout of their operands, and the output of results (kernels/reduce.cuh).
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// --- folds: value -> accumulator, and two accumulators -> one ---

template <class C>
using SumType = std::conditional_t<std::is_integral_v<C>, int64_t, double>;

template <class C>
struct FoldSum {
  using A = SumType<C>;
  bool squares;
  static __device__ A neutral() { return 0; }
  __device__ __forceinline__ A of(C v) const { return squares ? A(v) * A(v) : A(v); }
  __device__ __forceinline__ A of(const C (&v)[8], int count) const {
    if constexpr (std::is_same_v<C, float>) {
      if (!squares) {  // 8 values in float, then one addition in double
        return static_cast<double>(((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])));
      }
    }
    A sum = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += k < count ? (squares ? A(v[k]) * A(v[k]) : A(v[k])) : A(0);
    return sum;
  }
  __device__ __forceinline__ A operator()(A a, A b) const { return a + b; }
};
template <class C>
struct FoldProduct {
  using A = SumType<C>;
  static __device__ A neutral() { return 1; }
  static __device__ __forceinline__ A of(C v) { return v; }
  __device__ __forceinline__ A of(const C (&v)[8], int count) const {
    A product = 1;
#pragma unroll
    for (int k = 0; k < 8; ++k) product *= k < count ? A(v[k]) : A(1);
    return product;
  }
  __device__ __forceinline__ A operator()(A a, A b) const { return a * b; }
};
template <class C>
struct FoldExtreme {
  using A = C;
  bool largest;
  C first;  // the neutral element: below, or above, all values
  __device__ C neutral() const { return first; }
  static __device__ __forceinline__ A of(C v) { return v; }
  __device__ __forceinline__ A of(const C (&v)[8], int count) const {
    A best = v[0];
#pragma unroll
    for (int k = 1; k < 8; ++k) {
      if (k < count) best = (*this)(best, v[k]);
    }
    return best;
  }
  __device__ __forceinline__ A operator()(A a, A b) const {
    return largest ? Maximum()(a, b) : Minimum()(a, b);
  }
};
template <class C>
struct FoldTruth {
  using A = int32_t;
  bool every;
  __device__ A neutral() const { return every; }
  static __device__ __forceinline__ A of(C v) { return v != C(0); }
  __device__ __forceinline__ A of(const C (&v)[8], int count) const {
    A truth = every;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      if (k < count) truth = (*this)(truth, v[k] != C(0));
    }
    return truth;
  }
  __device__ __forceinline__ A operator()(A a, A b) const { return every ? a & b : a | b; }
};

// --- operands and results ---

// x as [results][length]: `kept` gives the first element of a result, `reduced` the others relative to it.
struct ReduceLayout {
  Operands<1> kept, reduced;
  const void* data;
  DType dtype;
  bool vector;     // elements of a result are contiguous; for columns: also aligned
  int64_t chunk;   // elements that one group of threads folds
  int64_t chunks;  // chunks per result
};

// Output of chunk results: to `partial`, for finish_reduce, or directly to the result if there is only one
// chunk.
template <class A>
struct ReduceOutput {
  Operands<1> out;
  A* partial;
  double divisor;
  __device__ __forceinline__ void write(int64_t r, A sum) const {
    const auto store_as = [&]<class T>(T*) {
      T* const to_ = static_cast<T*>(out.operand[0].data) + out.offset(0, r);
      *to_ = divisor == 1 ? to<T>(sum) : to<T>(static_cast<double>(sum) / divisor);
    };
    for_any_stored(out.operand[0].dtype, store_as);
  }
  __device__ __forceinline__ void store(int64_t task, A sum) const {
    if (partial) {
      partial[task] = sum;
    } else {
      write(task, sum);
    }
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
