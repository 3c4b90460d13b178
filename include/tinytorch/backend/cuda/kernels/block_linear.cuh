// Products with packed weights (contract: backend/cpu/block_linear.hpp).
//
// Few rows of x (decoding) read the packed weights directly: a warp computes kWeightRows rows of the weights,
// and a lane takes every 32nd group of 32 numbers, so that adjacent lanes read adjacent bytes. x is quantized
// to 8 bits once, by a kernel of its own. Limit: bytes of the packed weights over copy bandwidth. More rows
// of 16 bits are multiplied by tensor cores (blocks/warpgroups.cuh, blocks/few_rows.cuh, blocks/tiles.cuh) if
// the format decodes pairs for them. More rows of f32, of other formats, or on older devices, decode the
// weights into a scratch matrix and call the ordinary product.
//
// A format is a struct with the interface of device/blocks.cuh and a row of kDeviceFormats.
#pragma once

#include <cstring>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/fp4_blocks.cuh>
#include <tinytorch/backend/cuda/device/super_blocks.cuh>
#include <tinytorch/backend/cuda/kernels/blocks/warpgroups.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kBlockThreads = 128, kWeightRows = 2;
inline constexpr int64_t kFewActivations = 16;  // rows of x up to which a warp reads the packed weights
inline constexpr int64_t kFewHalves = 1;        // rows of x of 16 bits, where tensor cores take more

// A warp quantizes a group: the largest magnitude becomes 127. A number that is not finite gives the scale
// NaN.
template <class T>
static __global__ void __launch_bounds__(kBlockThreads)
    quantize_groups_kernel(const T* x, int64_t row, int64_t step, int64_t K, int8_t* code, float* scale,
                           int64_t groups) {
  const int64_t group = (static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (group >= groups) return;
  const int64_t m = group * kWarp / K, k = group * kWarp % K + lane;
  const float v = to<float>(x[m * row + k * step]);
  const float largest = warp_reduce(fabsf(v), [](float a, float b) { return a > b ? a : b; });
  const float bad = warp_reduce(v - v, [](float a, float b) { return a + b; });
  const float inverse = largest > 0 ? 127 / largest : 0;
  const float scaled = bad == 0 ? v * inverse : 0.0f;
  code[m * K + k] = static_cast<int8_t>(static_cast<int>(scaled + (scaled < 0 ? -0.5f : 0.5f)));
  if (lane == 0) scale[group] = largest / 127 + bad;
}

// The sum of a warp's lanes in every lane, in one order.
__device__ __forceinline__ float lanes_sum(float x) {
  return warp_reduce(x, [](float a, float b) { return a + b; });
}

template <class F>
static __global__ void __launch_bounds__(kBlockThreads)
    block_gemv_int8_kernel(const __grid_constant__ BlockLinearArguments a) {
  const int64_t warp = (static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t n = warp * kWeightRows, m = blockIdx.y;
  if (n >= a.N) return;
  const uint8_t* const first = a.weight + n * a.row_bytes;
  const int64_t next = n + 1 < a.N ? a.row_bytes : 0;
  float sum[kWeightRows] = {};
  for (int64_t g = lane; g < a.blocks; g += kWarp) {
    Int8Group x;
    const auto* const codes = reinterpret_cast<const int4*>(a.code + (m * a.blocks + g) * 32);
    const int4 low = codes[0], high = codes[1];
    x.code[0] = low.x, x.code[1] = low.y, x.code[2] = low.z, x.code[3] = low.w;
    x.code[4] = high.x, x.code[5] = high.y, x.code[6] = high.z, x.code[7] = high.w;
    x.scale = a.scale[m * a.blocks + g];
#pragma unroll
    for (int r = 0; r < kWeightRows; ++r) sum[r] += F::dot(F::group(first + r * next, g), x);
  }
#pragma unroll
  for (int r = 0; r < kWeightRows; ++r) {
    const float total = lanes_sum(sum[r]);
    if (lane == 0 && n + r < a.N) a.to.store(m, n + r, total);
  }
}

// Activations as they are: a lane decodes one number of each group.
template <class F>
static __global__ void __launch_bounds__(kBlockThreads)
    block_gemv_kernel(const __grid_constant__ BlockLinearArguments a) {
  const int64_t n = (static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t m = blockIdx.y;
  if (n >= a.N) return;
  float sum = 0;
  for_stored<float>(a.x_dtype, [&]<class T>(T*) {
    const T* const x = static_cast<const T*>(a.x) + m * a.x_row;
#pragma unroll 4
    for (int64_t g = 0; g < a.blocks; ++g) {
      const float w = F::value(F::group(a.weight + n * a.row_bytes, g), lane);
      sum += w * to<float>(x[(g * kWarp + lane) * a.x_step]);
    }
  });
  sum = lanes_sum(sum);
  if (lane == 0) a.to.store(m, n, sum);
}

// Decodes the weights: a thread writes 8 numbers of a row, of which a block of threads has one part of
// `parts`. A row has `groups` groups of 32 numbers.
inline constexpr int kDecoded = 8;
template <class F, class T>
static __global__ void __launch_bounds__(kBlockThreads)
    decode_blocks_kernel(const uint8_t* weight, int64_t row_bytes, int64_t groups, unsigned parts, T* out) {
  const int64_t n = blockIdx.x / parts;
  const int64_t k = (static_cast<int64_t>(blockIdx.x % parts) * kBlockThreads + threadIdx.x) * kDecoded;
  if (k >= groups * kWarp) return;
  const auto group = F::group(weight + n * row_bytes, k / kWarp);
  float value[kDecoded];
#pragma unroll
  for (int i = 0; i < kDecoded; ++i) value[i] = F::value(group, static_cast<int>(k % kWarp) + i);
  store(out + n * groups * kWarp + k, value);
}

// --- launchers ---

template <class F>
void launch_block_linear(const BlockLinearArguments& a, bool coded) {
  const int64_t rows = coded ? ceil_div(a.N, kWeightRows) : a.N;
  LaunchConfig config = over(rows * kWarp, kBlockThreads);
  config.grid.y = static_cast<unsigned>(a.M);
  launch(coded ? block_gemv_int8_kernel<F> : block_gemv_kernel<F>, config, a);
}

inline bool is_multiple_of_16(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

template <class F, class T>
bool block_linear_by_tiles(BlockLinearArguments a, const View& x) {
  const int64_t K = x.shape[1];
  const bool usable =
      x.strides[1] == 1 && x.strides[0] % 8 == 0 && x.strides[0] >= K && is_multiple_of_16(x.data);
  const DeviceScratch<T> own(usable ? 0 : a.M * K);
  if (!usable) copy({own.data(), x.dtype, x.shape, {K, 1}}, x);
  a.x = usable ? x.data : own.data();
  a.x_row = usable ? x.strides[0] : K;
  a.aligned = is_multiple_of_16(a.weight) && a.row_bytes % 16 == 0;
  return launch_block_product<F, T>(a);
}

template <class F>
void block_linear_as(const View& out, const View& x, const View& blocks, const View& bias, bool int8) {
  const int64_t M = x.shape[0], K = x.shape[1], N = out.shape[1], count = K / kWarp;
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    if constexpr (std::is_same_v<Compute<T>, float>) {
      BlockLinearArguments a;
      a.weight = blocks.as<const uint8_t>(), a.row_bytes = blocks.strides[0];
      a.N = N, a.M = M, a.blocks = count;
      a.to = LinearResult(out, bias);
      if constexpr (sizeof(T) == 2 && DecodesPairs<F>) {
        if (M > kFewHalves && K > 0 && has_tensor_cores() && block_linear_by_tiles<F, T>(a, x)) return;
      }
      if (M > kFewActivations) {
        const DeviceScratch<T> weight(N * K);
        const int64_t parts = ceil_div(K, kBlockThreads * kDecoded);
        LaunchConfig config;
        config.grid.x = static_cast<unsigned>(N * parts);
        config.block.x = kBlockThreads;
        if (K > 0) {
          launch(decode_blocks_kernel<F, T>, config, blocks.as<const uint8_t>(), blocks.strides[0], count,
                 static_cast<unsigned>(parts), weight.data());
        }
        const DeviceScratch<T> own_bias(bias.data && bias.dtype != x.dtype ? N : 0);
        const View converted{own_bias.data(), x.dtype, {N}, {1}};
        if (own_bias.data()) copy(converted, bias);
        return linear(out, x, {weight.data(), x.dtype, {N, K}, {K, 1}}, own_bias.data() ? converted : bias);
      }
      const DeviceScratch<int8_t> code(int8 ? M * K : 0);
      const DeviceScratch<float> scale(int8 ? M * count : 0);
      if (int8 && K > 0) {
        launch(quantize_groups_kernel<T>, over(M * K, kBlockThreads), x.as<const T>(), x.strides[0],
               x.strides[1], K, code.data(), scale.data(), M * count);
      }
      a.code = code.data(), a.scale = scale.data();
      a.x = x.data, a.x_row = x.strides[0], a.x_step = x.strides[1], a.x_dtype = x.dtype;
      launch_block_linear<F>(a, int8);
    }
  });
}

struct DeviceFormat {
  const char* name;
  void (*product)(const View& out, const View& x, const View& blocks, const View& bias, bool int8);
};
template <class F>
constexpr DeviceFormat device_format(const char* name) {
  return {name, block_linear_as<F>};
}
inline constexpr DeviceFormat kDeviceFormats[] = {
    device_format<DeviceQ8_0>("Q8_0"),   device_format<DeviceQ8_1>("Q8_1"),
    device_format<DeviceQ4_0>("Q4_0"),   device_format<DeviceQ4_1>("Q4_1"),
    device_format<DeviceQ4_K>("Q4_K"),   device_format<DeviceQ6_K>("Q6_K"),
    device_format<DeviceMXFP4>("MXFP4"), device_format<DeviceNVFP4>("NVFP4")};

void block_linear(const View& out, const View& x, const View& blocks, const View& bias,
                  const BlockFormat& format, Activations activations) {
  if (out.numel() == 0) return;
  std::string names;
  for (const DeviceFormat& f : kDeviceFormats) {
    if (std::strcmp(format.name, f.name) == 0)
      return f.product(out, x, blocks, bias, activations == Activations::int8);
    names += (names.empty() ? "" : ", ") + std::string(f.name);
  }
  fail("TT-QUANT-05", std::string("there is no CUDA kernel for weights in ") + format.name +
                          "\n  hint: move the weight and x to the CPU, or use one of " + names);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
