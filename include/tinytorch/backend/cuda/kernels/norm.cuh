// Normalization of rows, forward: layer_norm and rms_norm (contracts: backend/cpu/norm.hpp).
//
// Rows are read once if the device can hold them: narrow rows in tiles (tiles.cuh), most rows by a warp or a
// block (rows/norm.cuh), long rows in strips of several blocks (rows/norm_strips.cuh). Each longer row is
// processed by a block, which reads it again in each pass. Limit: memory bandwidth.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/tiles.cuh>
#include <tinytorch/backend/cuda/kernels/rows/norm_strips.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Work for narrow rows, many per tile (tiles.cuh).
template <class T>
struct NormTiles {
  struct Arrays {
    NormArrays<T> norm;
    const T* x;
  };
  using Element = T;
  using A = Compute<T>;
  struct RowStats {
    A mean, rstd;
  };
  static constexpr int kInputs = 1;
  static constexpr int kBytes = 16384;
  static constexpr bool kByRow = true;
  static constexpr bool kWrites = true;
  NormArrays<T> a;
  A n, weight = 1, bias = 0;
  __device__ __forceinline__ NormTiles(const Arrays& arrays, int column, int C)
      : a(arrays.norm), n(static_cast<A>(C)) {
    if (a.weight) weight = to<A>(a.weight[column]);
    if (a.bias) bias = to<A>(a.bias[column]);
  }
  static __device__ __forceinline__ const T* input(const Arrays& arrays, int) { return arrays.x; }
  static __device__ __forceinline__ T* output(const Arrays& arrays) { return arrays.norm.out; }
  __device__ __forceinline__ RowStats measure(const TileRow<T, 1>& row, int64_t r, bool leads) const {
    A mean = 0, squares = 0;
    if (a.mean) {
      row.each([&](int, const A(&x)[1]) { mean += x[0]; });
      mean = row.reduce(mean, Sum()) / n;
    }
    row.each([&](int, const A(&x)[1]) { squares += (x[0] - mean) * (x[0] - mean); });
    const A rstd = A(1) / std::sqrt(row.reduce(squares, Sum()) / n + a.eps);
    if (leads && a.mean) a.mean[r] = mean;
    if (leads) a.rstd[r] = rstd;
    return {mean, rstd};
  }
  __device__ __forceinline__ A finish(const A (&x)[1], const RowStats& row) const {
    return (x[0] - row.mean) * row.rstd * weight + bias;
  }
  __device__ __forceinline__ A finish(const A (&x)[1], const RowStats& row, int column) const {
    A y = (x[0] - row.mean) * row.rstd;
    if (a.weight) y *= to<A>(a.weight[column]);
    if (a.bias) y += to<A>(a.bias[column]);
    return y;
  }
  static __device__ __forceinline__ void end(const TileColumns<A>&) {}
};

// A block per row of any length.
template <class T>
static __global__ void __launch_bounds__(kNormThreads)
    norm_long_rows(NormArrays<T> a, const T* rows, int64_t C) {
  using A = Compute<T>;
  const int64_t row = blockIdx.x;
  const T* x = rows + row * C;
  const A n = static_cast<A>(C);
  A mean = 0, squares = 0;
  if (a.mean) {
    for (int64_t c = threadIdx.x; c < C; c += kNormThreads) mean += to<A>(x[c]);
    mean = block_reduce<kNormThreads>(mean, Sum()) / n;
  }
  for (int64_t c = threadIdx.x; c < C; c += kNormThreads) {
    const A d = to<A>(x[c]) - mean;
    squares += d * d;
  }
  const A rstd = A(1) / std::sqrt(block_reduce<kNormThreads>(squares, Sum()) / n + a.eps);
  if (threadIdx.x == 0) {
    if (a.mean) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
  for (int64_t c = threadIdx.x; c < C; c += kNormThreads) {
    A y = (to<A>(x[c]) - mean) * rstd;
    if (a.weight) y *= to<A>(a.weight[c]);
    if (a.bias) y += to<A>(a.bias[c]);
    a.out[row * C + c] = to<T>(y);
  }
}

// --- launchers ---

inline void run_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                     const View& bias, double eps) {
  const int64_t C = x.shape.back(), rows = x.numel() / C;
  if (rows == 0) return;
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    using A = Compute<T>;
    const ContiguousInput<T> in(x), w(weight), b(bias);
    ContiguousOutput<T> y(out);
    const NormArrays<T> a{y.data(), mean.as<A>(), rstd.as<A>(), w.data(), b.data(), static_cast<A>(eps)};
    const bool aligned = rows_are_aligned<T>(C, {in.data(), y.data(), w.data(), b.data()});
    const auto held = [&] { return norm_rows_on_chip(a, StoredRows<T>{in.data()}, rows, C, aligned); };
    const auto in_strips = [&] {
      return try_strips<NormStrips, T>(NormStripArrays<T>{a, in.data()}, rows, C, aligned);
    };
    if (is_narrow<T>(C, aligned)) {
      launch_tiles<NormTiles<T>>(plan_tiles<NormTiles<T>>(rows, C), {a, in.data()}, rows, C);
    } else if (!(rows_are_few<T>(rows, C) && in_strips()) && !held() && !in_strips()) {
      launch(norm_long_rows<T>, {dim3(static_cast<unsigned>(rows)), dim3(kNormThreads)}, a, in.data(), C);
    }
    y.write_back();
  });
}

void layer_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                const View& bias, double eps) {
  run_norm(out, mean, rstd, x, weight, bias, eps);
}
void rms_norm(const View& out, const View& rstd, const View& x, const View& weight, double eps) {
  run_norm(out, {}, rstd, x, weight, {}, eps);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
