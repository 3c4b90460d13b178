// Bias and activation in one kernel, forward and backward (contract: backend/cpu/bias_activation.hpp).
//
// Each element is read once and written once. For the gradient of the bias, a block sums a chunk of rows of
// a strip of columns while it writes dx; a second kernel adds the chunks in order. Limit: memory bandwidth.
#pragma once

#include <algorithm>
#include <numbers>
#include <tinytorch/backend/cuda/device/activation.cuh>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/functors.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

template <class C, int kCount>
static __global__ void __launch_bounds__(kElementwiseBlock)
    bias_activation_kernel(const __grid_constant__ Operands<3> o, Activation fn) {
  const Share<C, kCount> share;
  if (share.first >= o.count) return;
  C v[kCount], b[kCount];
  read(v, o, 1, share);
  read(b, o, 2, share);
  select_activation(fn, [&]<Activation kFn>() {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      v[k] = unary_value<activation_fn(kFn), C>(v[k] + b[k], C(0), C(0));
    }
  });
  write(v, o, share);
}

// Derivative of gelu_tanh for 16-bit results: the derivative of x sigma(2u) is sigma + x sigma (1 - sigma)
// 2u', with u = sqrt(2/pi) (x + 0.044715 x^3). It uses the GPU's approximate 2^x and 1/x; with tanhf the
// kernel would be compute-bound.
__device__ __forceinline__ float gelu_tanh_slope_16_bit(float x) {
  constexpr float kTwice = 2 * static_cast<float>(kSqrtTwoOverPi), kCubic = static_cast<float>(kGeluCubic);
  const float square = x * x;
  const float sigma = reciprocal_approx(
      1.0f + exp2_approx(-kTwice * std::numbers::log2e_v<float> * x * fmaf(kCubic, square, 1.0f)));
  const float slope = fmaf(x * sigma * (1.0f - sigma), kTwice * fmaf(3 * kCubic, square, 1.0f), sigma);
  // For large |x|, the formula gives 0 * infinity.
  return fabsf(x) < 20.0f ? slope : (x == x ? (x > 0 ? 1.0f : 0.0f) : x);
}

// dx, which may be the same memory as dy, and the column sums of the chunk. bias null: no bias. Each lane of
// a warp has kVectorSize adjacent columns; 8 warps share the rows.
inline constexpr int kBiasThreads = 256, kBiasLines = kBiasThreads / kWarp;
template <class T, int kVectorSize>
static __global__ void __launch_bounds__(kBiasThreads)
    bias_activation_grad_kernel(Activation fn, T* dx, Compute<T>* partial, const T* dy, const T* x,
                                const T* bias, int64_t rows, int64_t C, int64_t chunk) {
  using A = Compute<T>;
  __shared__ A sums[kBiasLines][kWarp * kVectorSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, line = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kWarp + lane) * kVectorSize;
  const int64_t last = std::min((static_cast<int64_t>(blockIdx.y) + 1) * chunk, rows);
  A sum[kVectorSize] = {}, b[kVectorSize];
  if (column < C) {
#pragma unroll
    for (A& value : b) value = 0;
    if (bias) load(b, bias + column);
    select_activation(fn, [&]<Activation kFn>() {
#pragma unroll 2
      for (int64_t r = blockIdx.y * chunk + line; r < last; r += kBiasLines) {
        A g[kVectorSize], v[kVectorSize];
        load(g, dy + r * C + column);
        if constexpr (kFn != Activation::none) {
          load(v, x + r * C + column);
#pragma unroll
          for (int k = 0; k < kVectorSize; ++k) {
            if constexpr (kFn == Activation::gelu_tanh && kIs16Bit<T>) {
              g[k] *= static_cast<A>(gelu_tanh_slope_16_bit(static_cast<float>(v[k] + b[k])));  // A is float
            } else {
              g[k] = binary_value<activation_grad_fn(kFn), A>(g[k], v[k] + b[k], A(0));
            }
          }
        }
#pragma unroll
        for (int k = 0; k < kVectorSize; ++k) sum[k] += g[k];
        if (dx) store(dx + r * C + column, g);
      }
    });
  }
#pragma unroll
  for (int k = 0; k < kVectorSize; ++k) sums[line][k * kWarp + lane] = sum[k];
  __syncthreads();
  if (!partial) return;
  for (int i = static_cast<int>(threadIdx.x); i < kWarp * kVectorSize; i += kBiasThreads) {
    const int64_t at = (static_cast<int64_t>(blockIdx.x) * kWarp + i % kWarp) * kVectorSize + i / kWarp;
    A total = 0;
    for (int k = 0; k < kBiasLines; ++k) total += sums[k][i];
    if (at < C) partial[blockIdx.y * C + at] = total;
  }
}

void bias_activation(Activation fn, const View& out, const View& x, const View& bias) {
  if (out.numel() == 0) return;
  const auto run = [&]<class C>(C*) {
    launch_elementwise<C>(
        {out, x, bias}, [&]<int kCount>() { return bias_activation_kernel<C, kCount>; }, fn);
  };
  if (x.dtype == DType::f64) return run(static_cast<double*>(nullptr));
  run(static_cast<float*>(nullptr));
}

inline bool aligned_to_16(std::initializer_list<const void*> pointers) {
  for (const void* p : pointers) {
    if (reinterpret_cast<uintptr_t>(p) % 16 != 0) return false;
  }
  return true;
}

void bias_activation_grad(Activation fn, const View& dx, const View& dbias, const View& dy, const View& x,
                          const View& bias) {
  const int64_t C = dy.shape.back(), rows = C == 0 ? 0 : dy.numel() / C;
  if (rows == 0) {
    if (dbias.data && C > 0) fill(dbias, 0.0);
    return;
  }
  const Contiguous g(dy), v(x), b(bias);
  dispatch_stored(dy.dtype, [&]<class T>(T*) {
    using A = Compute<T>;
    constexpr int kVectorSize = 16 / static_cast<int>(sizeof(T));
    ContiguousOutput<T> slopes(dx);
    const bool vectorized =
        C % kVectorSize == 0 && aligned_to_16({slopes.data(), g.view().data, v.view().data, b.view().data});
    const int64_t strips = ceil_div(C, kWarp * (vectorized ? kVectorSize : 1));
    const int64_t wanted = std::clamp<int64_t>(132 * 8 / strips, 1, ceil_div(rows, 64));
    const int64_t chunk = ceil_div(rows, wanted), chunks = ceil_div(rows, chunk);
    const DeviceScratch<A> partial(dbias.data ? chunks * C : 0);
    A* const sums = dbias.data ? partial.data() : nullptr;
    launch(vectorized ? bias_activation_grad_kernel<T, kVectorSize> : bias_activation_grad_kernel<T, 1>,
           {dim3(static_cast<unsigned>(strips), static_cast<unsigned>(chunks)), dim3(kBiasThreads)}, fn,
           slopes.data(), sums, g.as<const T>(), v.as<const T>(), b.as<const T>(), rows, C, chunk);
    slopes.write_back();
    if (!sums) return;
    const bool first[] = {true, false};
    reduce(ReduceFn::sum, dbias, {sums, dtype_of<A>, {chunks, C}, {C, 1}}, first);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
