// Products with weights of one byte a number, whose scales are beside the codes (contract:
// backend/cpu/code_linear.hpp).
//
// Integers with activations of 8 bits are linear_int8; zero points add the sums of the activations, which one
// kernel counts, and are applied by another to whole sums in 32 bits. Float activations and few rows read the
// codes directly: a warp computes a row of the weights, and a lane takes four codes at a time, so that
// adjacent lanes read adjacent bytes. More rows of x decode the weights into a scratch matrix and call the
// ordinary product, or linear_fp8, which rounds x to e4m3 by rows, if activations may have 8 bits.
#pragma once

#include <cstring>
#include <tinytorch/backend/block_format.hpp>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/float8.cuh>
#include <tinytorch/backend/cuda/device/linear_result.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kCodeThreads = 128;
inline constexpr int64_t kFewCodeRows = 16;  // rows of x up to which float activations read the codes

struct CodeWeights {
  const uint8_t* code = nullptr;  // [N, row]
  int64_t row = 0, N = 0, K = 0;
  const float* scale = nullptr;
  const int32_t* zero = nullptr;  // null: all 0
  int64_t step = 0;               // 0 if all rows have one scale

  __device__ __forceinline__ float scale_of(int64_t n) const { return scale[n * step]; }
  __device__ __forceinline__ int zero_of(int64_t n) const { return zero ? zero[n * step] : 0; }
};

// The numbers of kCount codes, 1 or 4, with the scale 1.
template <class Code, int kCount>
__device__ __forceinline__ void load_codes(float (&to_)[kCount], const uint8_t* p) {
  uint8_t codes[4] = {};
  if constexpr (kCount == 4) {
    const uint32_t word = *reinterpret_cast<const uint32_t*>(p);
    memcpy(codes, &word, sizeof(word));
  } else {
    codes[0] = *p;
  }
  if constexpr (std::is_same_v<Code, int8_t>) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to_[i] = static_cast<float>(static_cast<int8_t>(codes[i]));
  } else {
    float pairs[4];
    decode_pair<Code>(pairs[0], pairs[1], codes[0] | static_cast<unsigned>(codes[1]) << 8);
    decode_pair<Code>(pairs[2], pairs[3], codes[2] | static_cast<unsigned>(codes[3]) << 8);
#pragma unroll
    for (int i = 0; i < kCount; ++i) to_[i] = pairs[i];
  }
}

// A warp computes row n of the weights times row blockIdx.y of x. K is a multiple of kCount.
template <class Code, class T, int kCount>
static __global__ void __launch_bounds__(kCodeThreads)
    code_gemv_kernel(const __grid_constant__ CodeWeights w, const T* x_, int64_t x_row, int64_t x_step,
                     const __grid_constant__ LinearResult result) {
  const int64_t n = (static_cast<int64_t>(blockIdx.x) * kCodeThreads + threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (n >= w.N) return;
  const int64_t m = blockIdx.y;
  const T* const x = x_ + m * x_row;
  const uint8_t* const row = w.code + n * w.row;
  const float zero = static_cast<float>(w.zero_of(n));
  float sum = 0;
  for (int64_t k = lane * kCount; k < w.K; k += kWarp * kCount) {
    float codes[kCount];
    load_codes<Code>(codes, row + k);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum += (codes[i] - zero) * to<float>(x[(k + i) * x_step]);
  }
  sum = warp_reduce(sum, [](float a, float b) { return a + b; });
  if (lane == 0) result.store(m, n, sum * w.scale_of(n));
}

// out [N, K] = the weights as T; a thread decodes one number.
template <class Code, class T>
static __global__ void __launch_bounds__(256)
    decode_codes_kernel(const __grid_constant__ CodeWeights w, T* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= w.N * w.K) return;
  const int64_t n = i / w.K;
  float code[1];
  load_codes<Code>(code, w.code + n * w.row + i % w.K);
  out[i] = to<T>((code[0] - static_cast<float>(w.zero_of(n))) * w.scale_of(n));
}

// sum[m] = the sum of row m of codes; a warp has a row.
static __global__ void __launch_bounds__(kCodeThreads)
    sum_codes_kernel(int* sum, const int8_t* codes, int64_t M, int64_t K) {
  const int64_t m = (static_cast<int64_t>(blockIdx.x) * kCodeThreads + threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (m >= M) return;
  int total = 0;
  for (int64_t k = lane; k < K; k += kWarp) total += codes[m * K + k];
  total = warp_reduce(total, [](int a, int b) { return a + b; });
  if (lane == 0) sum[m] = total;
}
// Applies zero points and scales to sums [M, N]; a thread has one result.
static __global__ void __launch_bounds__(256)
    codes_epilogue_kernel(const __grid_constant__ CodeWeights w, const int* sums, const int* of_x,
                          const float* x_scale, int64_t M, const __grid_constant__ LinearResult result) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= M * w.N) return;
  const int64_t m = i / w.N, n = i % w.N;
  const int64_t sum = sums[i] - static_cast<int64_t>(w.zero_of(n)) * of_x[m];
  result.store(m, n, static_cast<float>(sum) * x_scale[m] * w.scale_of(n));
}

// --- launchers ---

class CodeLinear {
 public:
  CodeLinear(const View& out, const View& x, const View& codes, const View& scales, const View& zero_points,
             const View& bias)
      : out_(out), x_(x), codes_(codes), scales_(scales), bias_(bias), scale_(scales), zero_(zero_points) {
    w_.code = codes.as<const uint8_t>(), w_.row = codes.strides[0];
    w_.N = codes.shape[0], w_.K = codes.shape[1];
    w_.scale = scale_.as<const float>();
    w_.zero = zero_points.data ? zero_.as<const int32_t>() : nullptr;
    w_.step = scales.numel() == 1 ? 0 : 1;
  }

  // x rounded to i8 by rows.
  void multiply_integers() const {
    const int64_t M = x_.shape[0], K = w_.K, N = w_.N;
    const DeviceScratch<int8_t> codes(M * K);
    const DeviceScratch<float> scale(M);
    const View rows{codes.data(), DType::i8, {M, K}, {K, 1}}, scales{scale.data(), DType::f32, {M}, {1}};
    quantize_rows(rows, scales, x_);
    View weight = codes_;
    weight.dtype = DType::i8;
    if (!w_.zero) return linear_int8(out_, rows, weight, scales, scales_, bias_, Activation::none);
    const DeviceScratch<int> sums(M * N), of_x(M);
    linear_int8({sums.data(), DType::i32, {M, N}, {N, 1}}, rows, weight, {}, {}, {}, Activation::none);
    launch(sum_codes_kernel, over(M * kWarp, kCodeThreads), of_x.data(),
           static_cast<const int8_t*>(codes.data()), M, K);
    launch(codes_epilogue_kernel, over(M * N, 256), w_, static_cast<const int*>(sums.data()),
           static_cast<const int*>(of_x.data()), static_cast<const float*>(scale.data()), M,
           LinearResult(out_, bias_));
  }
  // x rounded to e4m3 by rows.
  void multiply_fp8() const {
    const int64_t M = x_.shape[0], K = w_.K;
    const DeviceScratch<uint8_t> codes(M * K);
    const DeviceScratch<float> scale(M);
    const View rows{codes.data(), DType::u8, {M, K}, {K, 1}}, scales{scale.data(), DType::f32, {M}, {1}};
    quantize_rows(rows, scales, x_);
    linear_fp8(out_, rows, codes_, scales, scales_, bias_, Activation::none);
  }
  template <class Code>
  void multiply_floats() const {
    dispatch_stored(x_.dtype, [&]<class T>(T*) {
      if constexpr (std::is_same_v<Compute<T>, float>) {
        if (x_.shape[0] > kFewCodeRows) return multiply_decoded<Code, T>();
        const bool words = w_.K % 4 == 0 && w_.row % 4 == 0 && reinterpret_cast<uintptr_t>(w_.code) % 4 == 0;
        LaunchConfig config = over(w_.N * kWarp, kCodeThreads);
        config.grid.y = static_cast<unsigned>(x_.shape[0]);
        launch(words ? code_gemv_kernel<Code, T, 4> : code_gemv_kernel<Code, T, 1>, config, w_,
               x_.as<const T>(), x_.strides[0], x_.strides[1], LinearResult(out_, bias_));
      }
    });
  }

 private:
  template <class Code, class T>
  void multiply_decoded() const {
    const int64_t N = w_.N, K = w_.K;
    const DeviceScratch<T> weight(N * K);
    if (N * K > 0) launch(decode_codes_kernel<Code, T>, over(N * K, 256), w_, weight.data());
    const DeviceScratch<T> own_bias(bias_.data && bias_.dtype != x_.dtype ? N : 0);
    const View converted{own_bias.data(), x_.dtype, {N}, {1}};
    if (own_bias.data()) copy(converted, bias_);
    linear(out_, x_, {weight.data(), x_.dtype, {N, K}, {K, 1}}, own_bias.data() ? converted : bias_);
  }

  View out_, x_, codes_, scales_, bias_;
  Contiguous scale_, zero_;
  CodeWeights w_;
};

void code_linear(const View& out, const View& x, const View& codes, const View& scales,
                 const View& zero_points, const View& bias, const BlockFormat& format,
                 Activations activations) {
  if (out.numel() == 0) return;
  const CodeLinear product(out, x, codes, scales, zero_points, bias);
  const bool int8 = activations == Activations::int8;
  if (format.codes == CodeType::fp8_e4m3) {
    if (int8 && x.shape[0] > kFewCodeRows) return product.multiply_fp8();
    return product.multiply_floats<Float8>();
  }
  if (format.codes == CodeType::fp8_e5m2) return product.multiply_floats<Float8E5M2>();
  if (int8 && x.shape[1] <= kExactInt8Terms) return product.multiply_integers();
  product.multiply_floats<int8_t>();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
