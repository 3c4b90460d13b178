// Gradient of a convolution's weight by implicit GEMM on tensor cores: the columns exist only in shared
// memory.
//
//   dw[m, k] = sum over positions p of dy[p, m] x[pixel of p under tap, c],  k = (tap, c)
//
// This is the product of conv/implicit.cuh, summed over positions. Both operands are channels-last, so
// slices of 64 positions are loaded by 16-byte copies, and ldmatrix transposes them on the way to registers.
// dw is small and the sum is long, so the positions are split among blocks (split-K); the fp32 sums of the
// splits are added in order. The number of splits depends on shapes alone: results are deterministic.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/kernels/conv/implicit.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kGradDepth = 64;  // positions per slice
// Bytes of a slice: for each position, kHeight * 64 channels of dy and 128 columns of x.
template <int kHeight>
inline constexpr int kGradStageBytes = (kHeight * 64 + kConvCols) * kGradDepth * 2;

// dy [positions, rows], x [N, H, W, depth], partial [splits, rows, K].
template <class T>
struct ImplicitConvGrad {
  const T *dy = nullptr, *x = nullptr;
  float* partial = nullptr;
  int rows = 0, depth = 0, K = 0, H = 0, W = 0, outputs = 0, positions = 0;
  int stride = 1, padding = 0, dilation = 1;
  int row_tiles = 0, col_tiles = 0, slices = 0;  // slices: number of slices per split
  FastDivide by_depth, by_kernel_w, by_outputs, by_width;
};

// Byte offset of 16-byte chunk `chunk` in the row of position `row`, swizzled; rows have kBytes.
template <int kBytes>
__device__ __forceinline__ unsigned grad_chunk_offset(int row, int chunk) {
  return static_cast<unsigned>(row * kBytes + ((chunk ^ (row & 7)) << 4));
}

template <class T, int kHeight>
struct ConvGradLoader {
  static constexpr int kThreads = kConvThreads<kHeight>;
  static constexpr int kChunksA = kHeight * 8, kChunksB = kConvCols / 8;  // chunks per position
  static constexpr int kRowsA = kThreads / kChunksA, kRowsB = kThreads / kChunksB;
  const ImplicitConvGrad<T>& p;
  int m, c, shift_h, shift_w;  // nothing to load: m is negative, or shift_h far outside the image

  __device__ __forceinline__ ConvGradLoader(const ImplicitConvGrad<T>& conv, int m0, int k0) : p(conv) {
    const int thread = static_cast<int>(threadIdx.x);
    m = m0 + thread % kChunksA * 8;
    if (m >= p.rows) m = -1;
    const int k = k0 + thread % kChunksB * 8;
    const int tap = static_cast<int>(p.by_depth.quotient(static_cast<uint32_t>(k)));
    const int kh = static_cast<int>(p.by_kernel_w.quotient(static_cast<uint32_t>(tap)));
    const int kw = tap - kh * static_cast<int>(p.by_kernel_w.divisor);
    c = k - tap * p.depth;
    shift_h = k < p.K ? kh * p.dilation - p.padding : -(1 << 30);
    shift_w = kw * p.dilation - p.padding;
  }

  __device__ __forceinline__ void load(unsigned stage, int first) const {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kGradDepth / kRowsA; ++i) {
      const int line = thread / kChunksA + i * kRowsA, at = first + line;
      const bool exists = m >= 0 && at < p.positions;
      const T* from = exists ? p.dy + static_cast<int64_t>(at) * p.rows + m : p.dy;
      copy_async(stage + grad_chunk_offset<kChunksA * 16>(line, thread % kChunksA), from, exists);
    }
    const unsigned b_stage = stage + kHeight * 64 * kGradDepth * 2;
#pragma unroll
    for (int i = 0; i < kGradDepth / kRowsB; ++i) {
      const int line = thread / kChunksB + i * kRowsB, at = first + line;
      const int n = static_cast<int>(p.by_outputs.quotient(static_cast<uint32_t>(at)));
      const int o = at - n * p.outputs, oh = static_cast<int>(p.by_width.quotient(static_cast<uint32_t>(o)));
      const int ow = o - oh * static_cast<int>(p.by_width.divisor);
      const int h = oh * p.stride + shift_h, w = ow * p.stride + shift_w;
      const bool exists = at < p.positions && h >= 0 && h < p.H && w >= 0 && w < p.W;
      const int pixel = (n * p.H + h) * p.W + w;
      copy_async(b_stage + grad_chunk_offset<kChunksB * 16>(line, thread % kChunksB),
                 exists ? p.x + static_cast<int64_t>(pixel) * p.depth + c : p.x, exists);
    }
  }
};

// Multiplies one slice, 16 positions at a time; a warp computes 64 x 32 results.
template <class T, int kHeight>
__device__ __forceinline__ void multiply_grad_stage(float (&sum)[4][4][4], unsigned stage) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const unsigned b_stage = stage + kHeight * 64 * kGradDepth * 2;
  const int a_row = (lane & 7) + ((lane >> 4) << 3), a_chunk = warp / 4 * 8 + ((lane >> 3) & 1);
  const int b_row = (lane & 7) + (((lane >> 3) & 1) << 3), b_chunk = warp % 4 * 4 + (lane >> 4);
#pragma unroll
  for (int k = 0; k < kGradDepth; k += 16) {
    unsigned a[4][4], b[2][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      load_transposed(a[i], stage + grad_chunk_offset<kHeight * 128>(k + a_row, a_chunk + i * 2));
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      load_transposed(b[j], b_stage + grad_chunk_offset<kConvCols * 2>(k + b_row, b_chunk + j * 2));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        multiply_add<T>(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
  }
}

// A block computes one tile of dw over one split of the positions.
template <class T, int kHeight>
static __global__ void __launch_bounds__(kConvThreads<kHeight>, kHeight == 2 ? 2 : 3)
    implicit_conv_grad_kernel(const __grid_constant__ ImplicitConvGrad<T> p) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  const unsigned shared = shared_address(dynamic_shared<unsigned char>());
  const int m0 = static_cast<int>(blockIdx.x) % p.row_tiles * (kHeight * 64);
  const int k0 = static_cast<int>(blockIdx.x) / p.row_tiles * kConvCols;
  const int first = static_cast<int>(blockIdx.y) * p.slices * kGradDepth;
  const ConvGradLoader<T, kHeight> loader(p, m0, k0);
  float sum[4][4][4] = {};
  for (int s = 0; s < kConvStages - 1; ++s) {
    if (s < p.slices) {
      loader.load(shared + static_cast<unsigned>(s * kGradStageBytes<kHeight>), first + s * kGradDepth);
    }
    commit_copies();
  }
  int reading = 0, writing = kConvStages - 1;
  for (int s = 0; s < p.slices; ++s) {
    wait_for_copies<kConvStages - 2>();
    // The slice is complete for all threads, and all have finished reading the slice before it.
    __syncthreads();
    const int next = s + kConvStages - 1;
    if (next < p.slices) {
      loader.load(shared + static_cast<unsigned>(writing * kGradStageBytes<kHeight>),
                  first + next * kGradDepth);
    }
    commit_copies();
    multiply_grad_stage<T, kHeight>(sum, shared + static_cast<unsigned>(reading * kGradStageBytes<kHeight>));
    reading = reading + 1 == kConvStages ? 0 : reading + 1;
    writing = writing + 1 == kConvStages ? 0 : writing + 1;
  }
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  float* const to = p.partial + static_cast<int64_t>(blockIdx.y) * p.rows * p.K;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int m = m0 + warp / 4 * 64 + i * 8 + lane / 4;
    if (m >= p.rows) continue;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      // K is a multiple of 8, so pairs are complete
      const int k = k0 + warp % 4 * 32 + j * 8 + lane % 4 * 2;
      if (k >= p.K) continue;
      const float values[2] = {sum[i / 2][j][i % 2 * 2], sum[i / 2][j][i % 2 * 2 + 1]};
      store(to + static_cast<int64_t>(m) * p.K + k, values);
    }
  }
#endif
}

// sum[i] = sum over all splits of partial[split][i]. A block computes 32 sums: warp w adds splits w, w + 8,
// ..., then the warps' sums are added in order.
inline constexpr int kAddWarps = 8;
static __global__ void __launch_bounds__(kWarp* kAddWarps)
    add_splits_kernel(float* sum, const float* partial, int64_t count, int splits) {
  __shared__ float sums[kAddWarps][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  float total = 0;
#pragma unroll 4
  for (int k = warp; i < count && k < splits; k += kAddWarps) total += partial[k * count + i];
  sums[warp][lane] = total;
  __syncthreads();
  if (warp != 0 || i >= count) return;
  for (int w = 1; w < kAddWarps; ++w) total += sums[w][lane];
  sum[i] = total;
}

// --- on the host ---

// Queues the kernels and returns the address of dw [rows, K]: p.partial if there is only one split, else
// `sum`.
template <class T>
const float* launch_splits(const ImplicitConvGrad<T>& p, int height, int splits, float* sum) {
  const dim3 grid(static_cast<unsigned>(p.row_tiles * p.col_tiles), static_cast<unsigned>(splits));
  if (height == 2) {
    launch(implicit_conv_grad_kernel<T, 2>, {grid, dim3(kConvThreads<2>), kConvStages * kGradStageBytes<2>},
           p);
  } else {
    launch(implicit_conv_grad_kernel<T, 1>, {grid, dim3(kConvThreads<1>), kConvStages * kGradStageBytes<1>},
           p);
  }
  if (splits == 1) return p.partial;
  const int64_t count = static_cast<int64_t>(p.rows) * p.K;
  launch(add_splits_kernel, over(count * kAddWarps, kWarp * kAddWarps), sum, p.partial, count, splits);
  return sum;
}

// Queues dw [M, C, KH, KW] from dy and x, contiguous NCHW. Returns false if nothing was queued, because the
// convolution must use columns.
template <class T>
bool implicit_conv2d_grad_weight(const View& dw, const T* dy, const T* x, const ConvShape& s) {
  if constexpr (!kIs16Bit<T>) {
    return false;
  } else {
    const int64_t positions = s.N * s.outputs, depth = round_up(s.C, kChannelsAtOnce),
                  rows = round_up(s.M, kChannelsAtOnce);
    const int64_t K = s.window.kernel_h * s.window.kernel_w * depth;
    constexpr int64_t kMost = int64_t{1} << 30;
    if (!uses_implicit_conv() || s.groups != 1 || positions == 0 || positions > kMost || rows * K > kMost ||
        s.N * s.H * s.W > kMost || s.N > 65535 || !has_tensor_cores()) {
      return false;
    }
    const DeviceScratch<T> pixels(s.N * depth * s.H * s.W), grads(positions * rows);
    to_channels_last(pixels.data(), x, s.N, s.C, depth, s.H * s.W);
    to_channels_last(grads.data(), dy, s.N, s.M, rows, s.outputs);
    const auto narrow = [](int64_t v) { return static_cast<int>(v); };
    const auto divide = [](int64_t v) { return FastDivide(static_cast<uint32_t>(v)); };
    const int height = rows > 64 ? 2 : 1;
    ImplicitConvGrad<T> p;
    p.dy = grads.data();
    p.x = pixels.data();
    p.rows = narrow(rows);
    p.depth = narrow(depth);
    p.K = narrow(K);
    p.H = narrow(s.H);
    p.W = narrow(s.W);
    p.outputs = narrow(s.outputs);
    p.positions = narrow(positions);
    p.stride = narrow(s.window.stride);
    p.padding = narrow(s.window.padding);
    p.dilation = narrow(s.window.dilation);
    p.row_tiles = narrow(ceil_div(rows, height * 64));
    p.col_tiles = narrow(ceil_div(K, kConvCols));
    p.by_depth = divide(depth);
    p.by_kernel_w = divide(s.window.kernel_w);
    p.by_outputs = divide(s.outputs);
    p.by_width = divide(s.OW);
    // Enough blocks for two waves on a large GPU, but at least 8 slices per split.
    const int64_t slices = ceil_div(positions, kGradDepth), tiles = int64_t{p.row_tiles} * p.col_tiles;
    const int64_t wanted = std::clamp<int64_t>(528 / tiles, 1, std::max<int64_t>(1, slices / 8));
    p.slices = narrow(ceil_div(slices, wanted));
    const int splits = narrow(ceil_div(slices, p.slices));
    const int64_t count = rows * K;
    const DeviceScratch<float> partial(splits * count), sum(splits > 1 ? count : 0);
    p.partial = partial.data();
    const float* const total = launch_splits(p, height, splits, sum.data());
    Shape shape = {s.M, s.C, s.window.kernel_h, s.window.kernel_w};
    copy(dw, {const_cast<float*>(total), DType::f32, shape, {K, 1, s.window.kernel_w * depth, depth}});
    return true;
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
