// Interpolation of planes, one thread for an element of the result (contract: backend/cpu/interpolate.hpp).
//
// The gradient is a sum for each element of x over the outputs that read it, which are neighbours: no atomic
// additions, so a result has the same bits in every run.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/resampling.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kInterpolateThreads = 256;

template <class A>
__device__ __forceinline__ A blend(A a, A b, double t) {
  return a + (b - a) * static_cast<A>(t);
}

template <class T>
static __global__ void __launch_bounds__(kInterpolateThreads)
    interpolate_kernel(T* out, const T* x, int64_t n, PlaneResampling axes) {
  using A = Compute<T>;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kInterpolateThreads + threadIdx.x;
  if (at >= n) return;
  const int64_t line = at / axes.columns.outputs, plane = line / axes.rows.outputs;
  const ResampledElement row = axes.rows.at(line % axes.rows.outputs),
                         column = axes.columns.at(at % axes.columns.outputs);
  const T* const from = x + plane * axes.rows.inputs * axes.columns.inputs;
  const auto in_column = [&](int64_t j) {
    const A a = to<A>(from[row.low * axes.columns.inputs + j]);
    if (axes.rows.nearest) return a;
    return blend(a, to<A>(from[row.high * axes.columns.inputs + j]), row.fraction);
  };
  const A first = in_column(column.low);
  out[at] = to<T>(axes.columns.nearest ? first : blend(first, in_column(column.high), column.fraction));
}

// The first output whose lower source is at least `source`; sources never decrease.
__device__ __forceinline__ int64_t first_from(const Resampling& axis, int64_t source) {
  int64_t low = 0, high = axis.outputs;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (axis.at(middle).low >= source) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}
// The weight of element `source` in an output.
template <class A>
__device__ __forceinline__ A weight_in(const ResampledElement& e, int64_t source, bool nearest) {
  if (nearest) return A(e.low == source);
  const A t = static_cast<A>(e.fraction);
  return (e.low == source ? A(1) - t : A(0)) + (e.high == source ? t : A(0));
}

template <class T>
static __global__ void __launch_bounds__(kInterpolateThreads)
    interpolate_grad_kernel(T* dx, const T* dout, int64_t n, PlaneResampling axes) {
  using A = Compute<T>;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kInterpolateThreads + threadIdx.x;
  if (at >= n) return;
  const int64_t w = at % axes.columns.inputs, line = at / axes.columns.inputs, h = line % axes.rows.inputs;
  const T* const from = dout + line / axes.rows.inputs * axes.rows.outputs * axes.columns.outputs;
  const int64_t i_end = first_from(axes.rows, h + 1), j_begin = first_from(axes.columns, w - 1),
                j_end = first_from(axes.columns, w + 1);
  A sum = 0;
  for (int64_t i = first_from(axes.rows, h - 1); i < i_end; ++i) {
    const A row = weight_in<A>(axes.rows.at(i), h, axes.rows.nearest);
    for (int64_t j = j_begin; j < j_end; ++j) {
      const A weight = row * weight_in<A>(axes.columns.at(j), w, axes.columns.nearest);
      sum += weight * to<A>(from[i * axes.columns.outputs + j]);
    }
  }
  dx[at] = to<T>(sum);
}

void interpolate(const View& out, const View& x, const PlaneResampling& axes) {
  const int64_t n = out.numel();
  if (n == 0) return;
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x);
    ContiguousOutput<T> to(out);
    launch(interpolate_kernel<T>, over(n, kInterpolateThreads), to.data(), in.data(), n, axes);
    to.write_back();
  });
}

void interpolate_grad(const View& dx, const View& dout, const PlaneResampling& axes) {
  const int64_t n = dx.numel();
  if (n == 0) return;
  dispatch_stored(dx.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> g(dout);
    ContiguousOutput<T> to(dx);
    launch(interpolate_grad_kernel<T>, over(n, kInterpolateThreads), to.data(), g.data(), n, axes);
    to.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
