// Gradient of a convolution's weight on tensor cores, without writing its columns.
//
//   dw[m, k] = sum over positions p of dy[p, m] x[pixel of p under tap, c],  k = (tap, c)
//
// The product of conv_implicit.cuh with positions as the summed dimension: both operands are channels last,
// so a slice of 64 positions is loaded in 16-byte pieces, and ldmatrix transposes on the way to registers.
// dw is small and the sum is long, so the positions are cut into stretches, a block each; their sums, fp32,
// are added in order. The number of stretches depends on shapes alone: results are deterministic.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/kernels/conv_implicit.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kGradDepth = 64;  // positions of a slice
// Bytes of a slice: kHeight * 64 channels of dy and 128 columns of x, for each position.
template <int kHeight>
inline constexpr int kGradStageBytes = (kHeight * 64 + kConvCols) * kGradDepth * 2;

// dy [positions, rows], x [N, H, W, depth], partial [stretches, rows, K].
template <class T>
struct ImplicitConvGrad {
  const T *dy = nullptr, *x = nullptr;
  float* partial = nullptr;
  int rows = 0, depth = 0, K = 0, H = 0, W = 0, outputs = 0, positions = 0;
  int stride = 1, padding = 0, dilation = 1;
  int row_tiles = 0, col_tiles = 0, slices = 0;  // slices of positions in a stretch
  FastDivide by_depth, by_kernel_w, by_outputs, by_width;
};

// Byte offset of piece `chunk` of the row of position `row`, rows of kBytes.
template <int kBytes>
__device__ __forceinline__ unsigned grad_piece(int row, int chunk) {
  return static_cast<unsigned>(row * kBytes + ((chunk ^ (row & 7)) << 4));
}

template <class T, int kHeight>
struct ConvGradLoader {
  static constexpr int kThreads = kConvThreads<kHeight>;
  static constexpr int kLeft = kHeight * 8, kRight = kConvCols / 8;  // pieces of a position
  static constexpr int kLeftLines = kThreads / kLeft, kRightLines = kThreads / kRight;
  const ImplicitConvGrad<T>& p;
  int m, c, shift_h, shift_w;  // m is negative and shift_h far outside where there is nothing to load

  __device__ __forceinline__ ConvGradLoader(const ImplicitConvGrad<T>& conv, int m0, int k0) : p(conv) {
    const int thread = static_cast<int>(threadIdx.x);
    m = m0 + thread % kLeft * 8;
    if (m >= p.rows) m = -1;
    const int k = k0 + thread % kRight * 8;
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
    for (int i = 0; i < kGradDepth / kLeftLines; ++i) {
      const int line = thread / kLeft + i * kLeftLines, at = first + line;
      const bool exists = m >= 0 && at < p.positions;
      const T* from = exists ? p.dy + static_cast<int64_t>(at) * p.rows + m : p.dy;
      copy_async(stage + grad_piece<kLeft * 16>(line, thread % kLeft), from, exists);
    }
    const unsigned right = stage + kHeight * 64 * kGradDepth * 2;
#pragma unroll
    for (int i = 0; i < kGradDepth / kRightLines; ++i) {
      const int line = thread / kRight + i * kRightLines, at = first + line;
      const int n = static_cast<int>(p.by_outputs.quotient(static_cast<uint32_t>(at)));
      const int o = at - n * p.outputs, oh = static_cast<int>(p.by_width.quotient(static_cast<uint32_t>(o)));
      const int ow = o - oh * static_cast<int>(p.by_width.divisor);
      const int h = oh * p.stride + shift_h, w = ow * p.stride + shift_w;
      const bool exists = at < p.positions && h >= 0 && h < p.H && w >= 0 && w < p.W;
      const int pixel = (n * p.H + h) * p.W + w;
      copy_async(right + grad_piece<kRight * 16>(line, thread % kRight),
                 exists ? p.x + static_cast<int64_t>(pixel) * p.depth + c : p.x, exists);
    }
  }
};

// One slice: 16 positions at a time, a warp's 64 x 32.
template <class T, int kHeight>
__device__ __forceinline__ void multiply_grad_stage(float (&sum)[4][4][4], unsigned stage) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const unsigned right = stage + kHeight * 64 * kGradDepth * 2;
  const int left_line = (lane & 7) + ((lane >> 4) << 3), left_chunk = warp / 4 * 8 + ((lane >> 3) & 1);
  const int right_line = (lane & 7) + (((lane >> 3) & 1) << 3), right_chunk = warp % 4 * 4 + (lane >> 4);
#pragma unroll
  for (int k = 0; k < kGradDepth; k += 16) {
    unsigned a[4][4], b[2][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      load_transposed(a[i], stage + grad_piece<kHeight * 128>(k + left_line, left_chunk + i * 2));
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      load_transposed(b[j], right + grad_piece<kConvCols * 2>(k + right_line, right_chunk + j * 2));
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

// Block (tile of dw, stretch of positions).
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
    __syncthreads();  // the slice is there for all, and all are done with the one before it
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
      const int k = k0 + warp % 4 * 32 + j * 8 + lane % 4 * 2;  // K is a multiple of 8: pairs are whole
      if (k >= p.K) continue;
      const float values[2] = {sum[i / 2][j][i % 2 * 2], sum[i / 2][j][i % 2 * 2 + 1]};
      store(to + static_cast<int64_t>(m) * p.K + k, values);
    }
  }
#endif
}

// sum[i] = the partial sums of all stretches. A block takes 32 of them; warp w adds up stretches w, w + 8,
// ..., and the warps' sums are added in order.
inline constexpr int kAddWarps = 8;
static __global__ void __launch_bounds__(kWarp* kAddWarps)
    add_stretches_kernel(float* sum, const float* partial, int64_t count, int stretches) {
  __shared__ float sums[kAddWarps][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  float total = 0;
#pragma unroll 4
  for (int k = warp; i < count && k < stretches; k += kAddWarps) total += partial[k * count + i];
  sums[warp][lane] = total;
  __syncthreads();
  if (warp != 0 || i >= count) return;
  for (int w = 1; w < kAddWarps; ++w) total += sums[w][lane];
  sum[i] = total;
}

// --- on the host ---

// Queues the kernels; returns where dw [rows, K] will be: the partial sum, if there is one only, or `sum`.
template <class T>
const float* sum_stretches(const ImplicitConvGrad<T>& p, int height, int stretches, float* sum) {
  const dim3 grid(static_cast<unsigned>(p.row_tiles * p.col_tiles), static_cast<unsigned>(stretches));
  if (height == 2) {
    launch(implicit_conv_grad_kernel<T, 2>, {grid, dim3(kConvThreads<2>), kConvStages * kGradStageBytes<2>},
           p);
  } else {
    launch(implicit_conv_grad_kernel<T, 1>, {grid, dim3(kConvThreads<1>), kConvStages * kGradStageBytes<1>},
           p);
  }
  if (stretches == 1) return p.partial;
  const int64_t count = static_cast<int64_t>(p.rows) * p.K;
  launch(add_stretches_kernel, over(count * kAddWarps, kWarp * kAddWarps), sum, p.partial, count, stretches);
  return sum;
}

// Whether dw [M, C, KH, KW] of dy and x, contiguous NCHW, was queued.
template <class T>
bool implicit_conv2d_grad_weight(const View& dw, const T* dy, const T* x, const ConvShape& s) {
  if constexpr (!kIs16Bit<T>) {
    return false;
  } else {
    const int64_t positions = s.N * s.outputs, depth = in_eights(s.C), rows = in_eights(s.M);
    const int64_t K = s.window.kernel_h * s.window.kernel_w * depth;
    constexpr int64_t kMost = int64_t{1} << 30;
    if (!uses_implicit_conv() || s.groups != 1 || positions == 0 || positions > kMost || rows * K > kMost ||
        s.N * s.H * s.W > kMost || s.N > 65535 || !has_tensor_cores()) {
      return false;
    }
    const DeviceScratch<T> pixels(s.N * depth * s.H * s.W), grads(positions * rows);
    turn_channels_last(pixels.data(), x, s.N, s.C, depth, s.H * s.W);
    turn_channels_last(grads.data(), dy, s.N, s.M, rows, s.outputs);
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
    p.row_tiles = narrow((rows + height * 64 - 1) / (height * 64));
    p.col_tiles = narrow((K + kConvCols - 1) / kConvCols);
    p.by_depth = divide(depth);
    p.by_kernel_w = divide(s.window.kernel_w);
    p.by_outputs = divide(s.outputs);
    p.by_width = divide(s.OW);
    // Enough blocks for two waves of a large device, of at least 8 slices each.
    const int64_t slices = (positions + kGradDepth - 1) / kGradDepth,
                  tiles = int64_t{p.row_tiles} * p.col_tiles;
    const int64_t wanted = std::clamp<int64_t>(528 / tiles, 1, std::max<int64_t>(1, slices / 8));
    p.slices = narrow((slices + wanted - 1) / wanted);
    const int stretches = narrow((slices + p.slices - 1) / p.slices);
    const int64_t count = rows * K;
    const DeviceScratch<float> partial(stretches * count), sum(stretches > 1 ? count : 0);
    p.partial = partial.data();
    const float* const total = sum_stretches(p, height, stretches, sum.data());
    Shape shape = {s.M, s.C, s.window.kernel_h, s.window.kernel_w};
    copy(dw, {const_cast<float*>(total), DType::f32, shape, {K, 1, s.window.kernel_w * depth, depth}});
    return true;
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
