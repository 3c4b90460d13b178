// Convolution of 16-bit images as one matrix product on tensor cores, without writing its columns.
//
//   out[m, p] = bias[m] + sum over k = (tap, c) of weight[m, k] x[pixel of p under tap, c]
//
// "Implicit": patches exist only in shared memory. x is turned to channels last, so that 8 channels of a
// pixel are one 16-byte copy (cp.async, zeros outside the image), and a slice of 64 k is brought in while
// two earlier ones are multiplied (mma.sync, fp32 sums, in order of k). Rows of a slice are 128 bytes, their
// eight pieces permuted by the row's number, so that ldmatrix meets no bank conflicts. The gradient of the
// input is the same product: the taps run backwards and the stride divides. 2 M P K FLOPs; limit: tensor
// cores (tensor_core.cuh); without them conv.cuh takes columns. Source: Chetlur et al., "cuDNN: efficient
// primitives for deep learning", 2014.
#pragma once

#include <tinytorch/backend/cuda/channels_last.cuh>
#include <tinytorch/backend/cuda/planes.cuh>
#include <tinytorch/backend/cuda/tensor_core.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kConvCols = 128, kConvDepth = 64, kConvStages = 3;
inline constexpr int kConvChunks = kConvDepth / 8;  // 16-byte pieces of a row of a slice
inline constexpr int kConvLine = kConvDepth * 2;    // bytes of such a row
// kHeight x 4 warps, each of which computes 64 x 32.
template <int kHeight>
inline constexpr int kConvThreads = kHeight * 4 * kWarp;
template <int kHeight>
inline constexpr int kConvStageBytes = (kHeight * 64 + kConvCols) * kConvLine;

// weight [rows, taps, depth], x [N, H, W, depth], out [N, rows, outputs].
template <class T>
struct ImplicitConv {
  const T *weight = nullptr, *x = nullptr, *bias = nullptr;
  T* out = nullptr;
  bool paired = false;  // results may be written two at a time
  int rows = 0, depth = 0, K = 0, H = 0, W = 0, outputs = 0, positions = 0;
  int scale = 1, shift = 0, step = 1,
      divide = 1;  // tap k of output o reads input (o * scale + shift + k * step) / divide
  int row_tiles = 0;
  FastDivide by_depth, by_kernel_w, by_outputs, by_width, by_divide;
};

// Byte offset of piece `chunk` of row `row` of a slice.
__device__ __forceinline__ unsigned piece(int row, int chunk) {
  return static_cast<unsigned>(row * kConvLine + ((chunk ^ (row & 7)) << 4));
}

// --- the kernel ---

// What a thread brings in: piece `chunk` of several rows of weight and of several positions' pixels.
template <class T, int kHeight>
struct ConvLoader {
  static constexpr int kLines = kConvThreads<kHeight> / kConvChunks;  // rows at a time
  static constexpr int kWeights = kHeight * 64 / kLines, kPixels = kConvCols / kLines;
  const ImplicitConv<T>& p;
  int m0, line, chunk;
  int image[kPixels];  // first pixel of the position's sample
  int h[kPixels], w[kPixels];

  __device__ __forceinline__ ConvLoader(const ImplicitConv<T>& conv, int row, int position)
      : p(conv),
        m0(row),
        line(static_cast<int>(threadIdx.x) / kConvChunks),
        chunk(static_cast<int>(threadIdx.x) % kConvChunks) {
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      const int at = position + line + i * kLines;
      const int n = static_cast<int>(p.by_outputs.quotient(static_cast<uint32_t>(at)));
      const int o = at - n * p.outputs, oh = static_cast<int>(p.by_width.quotient(static_cast<uint32_t>(o)));
      const int ow = o - oh * static_cast<int>(p.by_width.divisor);
      image[i] = n * p.H * p.W;
      h[i] = at < p.positions ? oh * p.scale + p.shift : -(1 << 24);  // far outside: zeros
      w[i] = ow * p.scale + p.shift;
    }
  }

  // Input row or column at `i`, or -1.
  __device__ __forceinline__ int source(int i, int size) const {
    if (p.divide != 1) {
      const int quotient = i < 0 ? -1 : static_cast<int>(p.by_divide.quotient(static_cast<uint32_t>(i)));
      i = quotient * p.divide == i ? quotient : -1;
    }
    return i < size ? i : -1;
  }

  __device__ __forceinline__ void load(unsigned stage, int k0) const {
    const int k = k0 + chunk * 8;
    const bool inside = k < p.K;
    const int tap = static_cast<int>(p.by_depth.quotient(static_cast<uint32_t>(k))), c = k - tap * p.depth;
    const int kh = static_cast<int>(p.by_kernel_w.quotient(static_cast<uint32_t>(tap)));
    const int kw = tap - kh * static_cast<int>(p.by_kernel_w.divisor);
#pragma unroll
    for (int i = 0; i < kWeights; ++i) {
      const int row = line + i * kLines, m = m0 + row;
      const bool exists = inside && m < p.rows;
      copy_async(stage + piece(row, chunk), exists ? p.weight + static_cast<int64_t>(m) * p.K + k : p.weight,
                 exists);
    }
    const unsigned pixels = stage + kHeight * 64 * kConvLine;
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      const int y = source(h[i] + kh * p.step, p.H), z = source(w[i] + kw * p.step, p.W);
      const bool exists = inside && y >= 0 && z >= 0;
      const T* from = exists ? p.x + static_cast<int64_t>(image[i] + y * p.W + z) * p.depth + c : p.x;
      copy_async(pixels + piece(line + i * kLines, chunk), from, exists);
    }
  }
};

// One slice: 16 k at a time, a warp's 64 x 32.
template <class T, int kHeight>
__device__ __forceinline__ void multiply_stage(float (&sum)[4][4][4], unsigned stage) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int row = warp / 4 * 64 + (lane & 15), col = warp % 4 * 32 + (lane & 7) + ((lane >> 4) << 3);
  const unsigned pixels = stage + kHeight * 64 * kConvLine;
#pragma unroll
  for (int k = 0; k < kConvChunks; k += 2) {
    unsigned a[4][4], b[2][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) load_matrices(a[i], stage + piece(row + i * 16, k + (lane >> 4)));
#pragma unroll
    for (int j = 0; j < 2; ++j) load_matrices(b[j], pixels + piece(col + j * 16, k + ((lane >> 3) & 1)));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        multiply_add<T>(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }
}

// A thread's results: pairs of neighbouring positions.
template <class T>
__device__ __forceinline__ void write_tile(const ImplicitConv<T>& p, const float (&sum)[4][4][4], int m0,
                                           int p0) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int at = p0 + warp % 4 * 32 + j * 8 + lane % 4 * 2;
    if (at >= p.positions) continue;
    const int n = static_cast<int>(p.by_outputs.quotient(static_cast<uint32_t>(at)));
    const int next = static_cast<int>(p.by_outputs.quotient(static_cast<uint32_t>(at) + 1));
    T* const first = p.out + static_cast<int64_t>(n) * p.rows * p.outputs + (at - n * p.outputs);
    T* const second = p.out + static_cast<int64_t>(next) * p.rows * p.outputs + (at + 1 - next * p.outputs);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int m = m0 + warp / 4 * 64 + i * 8 + lane / 4;
      if (m >= p.rows) continue;
      const float b = p.bias ? to<float>(p.bias[m]) : 0.0f;
      const float values[2] = {sum[i / 2][j][i % 2 * 2] + b, sum[i / 2][j][i % 2 * 2 + 1] + b};
      const int64_t line = static_cast<int64_t>(m) * p.outputs;
      if (p.paired) {
        store(first + line, values);
      } else {
        first[line] = to<T>(values[0]);
        if (at + 1 < p.positions) second[line] = to<T>(values[1]);
      }
    }
  }
}

template <class T, int kHeight>
static __global__ void __launch_bounds__(kConvThreads<kHeight>, kHeight == 2 ? 2 : 3)
    implicit_conv_kernel(const __grid_constant__ ImplicitConv<T> p) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  const unsigned shared = shared_address(dynamic_shared<unsigned char>());
  const int m0 = static_cast<int>(blockIdx.x) % p.row_tiles * (kHeight * 64);
  const int p0 = static_cast<int>(blockIdx.x) / p.row_tiles * kConvCols;
  const ConvLoader<T, kHeight> loader(p, m0, p0);
  const int slices = (p.K + kConvDepth - 1) / kConvDepth;
  float sum[4][4][4] = {};
  for (int s = 0; s < kConvStages - 1; ++s) {
    if (s < slices) loader.load(shared + static_cast<unsigned>(s * kConvStageBytes<kHeight>), s * kConvDepth);
    commit_copies();
  }
  int reading = 0, writing = kConvStages - 1;
  for (int s = 0; s < slices; ++s) {
    wait_for_copies<kConvStages - 2>();
    __syncthreads();  // the slice is there for all, and all are done with the one before it
    const int next = s + kConvStages - 1;
    if (next < slices) {
      loader.load(shared + static_cast<unsigned>(writing * kConvStageBytes<kHeight>), next * kConvDepth);
    }
    commit_copies();
    multiply_stage<T, kHeight>(sum, shared + static_cast<unsigned>(reading * kConvStageBytes<kHeight>));
    reading = reading + 1 == kConvStages ? 0 : reading + 1;
    writing = writing + 1 == kConvStages ? 0 : writing + 1;
  }
  write_tile(p, sum, m0, p0);
#endif
}

// --- on the host ---

// Channels are handled eight at a time: others are zeros.
inline int64_t in_eights(int64_t channels) { return (channels + 7) / 8 * 8; }

// Backward, taps that the stride skips are multiplied all the same, and rows come in 64: where most of that
// is for nothing, columns cost less.
inline bool wasteful(const ConvShape& s, bool backward) {
  return backward && (s.window.stride > 2 || s.C < 16);
}

// Whether the convolution was queued: out = conv(x, weight) + bias, or with `backward` x is dy and out is dx.
// All contiguous, NCHW; bias may be null.
template <class T>
bool implicit_conv2d(T* out, const T* x, const T* weight, const T* bias, const ConvShape& s, bool backward) {
  if constexpr (!kIs16Bit<T>) {
    return false;
  } else {
    const int64_t channels = backward ? s.M : s.C, rows = backward ? s.C : s.M, depth = in_eights(channels);
    const int64_t h = backward ? s.OH : s.H, w = backward ? s.OW : s.W;
    const int64_t outputs = backward ? s.H * s.W : s.outputs, taps = s.window.kernel_h * s.window.kernel_w;
    constexpr int64_t kMost = int64_t{1} << 30;
    if (!uses_implicit_conv() || s.groups != 1 || taps * depth < 64 || wasteful(s, backward) ||
        s.N * outputs > kMost || taps * depth > kMost || s.N * h * w > kMost || s.N > 65535 ||
        !has_tensor_cores()) {
      return false;
    }
    constexpr DType kType = dtype_of<T>;
    const DeviceScratch<T> pixels(s.N * h * w * depth), lines(rows * taps * depth);
    turn_channels_last(pixels.data(), x, s.N, channels, depth, h * w);
    const Strides by_row = backward ? Strides{taps, 1, rows * taps} : Strides{channels * taps, 1, taps};
    if (depth != channels) fill(dense_view(lines.data(), kType, {rows * taps * depth}), 0.0);
    copy({lines.data(), kType, {rows, taps, channels}, {taps * depth, depth, 1}},
         {const_cast<T*>(weight), kType, {rows, taps, channels}, by_row});
    const auto narrow = [](int64_t v) { return static_cast<int>(v); };
    const auto divide = [](int64_t v) { return FastDivide(static_cast<uint32_t>(v)); };
    const Window2d& win = s.window;
    const int height = rows > 64 ? 2 : 1;
    ImplicitConv<T> p;
    p.weight = lines.data();
    p.x = pixels.data();
    p.bias = bias;
    p.out = out;
    p.paired = outputs % 2 == 0 && reinterpret_cast<uintptr_t>(out) % (2 * sizeof(T)) == 0;
    p.rows = narrow(rows);
    p.depth = narrow(depth);
    p.K = narrow(taps * depth);
    p.H = narrow(h);
    p.W = narrow(w);
    p.outputs = narrow(outputs);
    p.positions = narrow(s.N * outputs);
    p.scale = narrow(backward ? 1 : win.stride);
    p.shift = narrow(backward ? win.padding : -win.padding);
    p.step = narrow(backward ? -win.dilation : win.dilation);
    p.divide = narrow(backward ? win.stride : 1);
    p.row_tiles = narrow((rows + height * 64 - 1) / (height * 64));
    p.by_depth = divide(depth);
    p.by_kernel_w = divide(win.kernel_w);
    p.by_outputs = divide(outputs);
    p.by_width = divide(backward ? s.W : s.OW);
    p.by_divide = divide(p.divide);
    const int64_t blocks = p.row_tiles * ((s.N * outputs + kConvCols - 1) / kConvCols);
    const dim3 grid(static_cast<unsigned>(blocks));
    if (height == 2) {
      launch(implicit_conv_kernel<T, 2>, {grid, dim3(kConvThreads<2>), kConvStages * kConvStageBytes<2>}, p);
    } else {
      launch(implicit_conv_kernel<T, 1>, {grid, dim3(kConvThreads<1>), kConvStages * kConvStageBytes<1>}, p);
    }
    return true;
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
