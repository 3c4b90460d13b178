// Implicit GEMM convolution of 16-bit images on tensor cores: the columns exist only in shared memory.
//
//   out[m, p] = bias[m] + sum over k = (tap, c) of weight[m, k] x[pixel of p under tap, c]
//
// x is converted to channels-last, so that 8 channels of a pixel are one 16-byte cp.async (zeros outside the
// image). Slices of 64 k are loaded while two earlier ones are multiplied by mma.sync in order of k, with
// fp32 sums. The 16-byte chunks of a slice's rows are swizzled, so that ldmatrix has no bank conflicts. The
// gradient of the input is the same product with the taps reversed. With stride 2, each remainder of row and
// column (mod 2) uses its own quarter of the taps and is a product of its own. 2 M P K FLOPs; limit: tensor
// cores. Other cases use columns (conv.cuh). Sources:
// Chetlur et al., "cuDNN: efficient primitives for deep learning", 2014; Dumoulin and Visin, "A guide to
// convolution arithmetic for deep learning", 2016.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/planes.cuh>
#include <tinytorch/backend/cuda/device/tensor_core.cuh>
#include <tinytorch/backend/cuda/kernels/conv/channels_last.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kConvCols = 128, kConvDepth = 64, kConvStages = 3;
inline constexpr int kConvChunks = kConvDepth / 8;    // 16-byte chunks per row of a slice
inline constexpr int kConvRowBytes = kConvDepth * 2;  // bytes per row of a slice
// A block has kHeight x 4 warps; each warp computes a tile of 64 x 32.
template <int kHeight>
inline constexpr int kConvThreads = kHeight * 4 * kWarp;
template <int kHeight>
inline constexpr int kConvStageBytes = (kHeight * 64 + kConvCols) * kConvRowBytes;

// One dimension (height or width) of a product. It computes the outputs first_out, first_out + out_step, ...
// with the taps first_tap, first_tap + tap_step, ... Output number o by tap number k of these reads the
// input at o * scale + shift + k * step.
struct ConvAxis {
  int outputs = 0, first_out = 0, out_step = 1;
  int taps = 0, first_tap = 0, tap_step = 1;
  int scale = 1, shift = 0, step = 1;
};

// weight [rows, taps, depth], x [N, H, W, depth], out [N, rows, plane].
template <class T>
struct ImplicitConv {
  const T *weight = nullptr, *x = nullptr, *bias = nullptr;
  T* out = nullptr;
  bool paired = false;  // results may be stored in pairs
  int rows = 0, depth = 0, H = 0, W = 0;
  int K = 0, line = 0;             // K: summed elements; line: elements per row of weight
  int kernel_w = 0;                // taps per row of the whole window
  int plane = 0, width = 0;        // pixels per output image and per row of it
  int outputs = 0, positions = 0;  // outputs of this product per image, and in total
  int row_tiles = 0;
  ConvAxis vertical, horizontal;
  FastDivide by_depth, by_taps_w, by_outputs, by_width;
};

// Products of one launch.
template <class T, int kCount>
struct ImplicitConvs {
  ImplicitConv<T> of[kCount];
};

// Byte offset of 16-byte chunk `chunk` in row `row` of a slice, swizzled.
__device__ __forceinline__ unsigned chunk_offset(int row, int chunk) {
  return static_cast<unsigned>(row * kConvRowBytes + ((chunk ^ (row & 7)) << 4));
}

// --- the kernel ---

// Loads slices into shared memory. Each thread copies one chunk of several rows of weight and of several
// positions' pixels.
template <class T, int kHeight>
struct ConvLoader {
  static constexpr int kLines = kConvThreads<kHeight> / kConvChunks;  // rows that the block copies at once
  static constexpr int kWeights = kHeight * 64 / kLines, kPixels = kConvCols / kLines;
  const ImplicitConv<T>& p;
  int m0, line, chunk;
  int image[kPixels];  // first pixel of the sample that a position belongs to
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
      // A position that does not exist lies far outside of the image, so that zeros are loaded.
      h[i] = at < p.positions ? oh * p.vertical.scale + p.vertical.shift : -(1 << 24);
      w[i] = ow * p.horizontal.scale + p.horizontal.shift;
    }
  }

  __device__ __forceinline__ void load(unsigned stage, int k0) const {
    const int k = k0 + chunk * 8;
    const bool inside = k < p.K;
    const int tap = static_cast<int>(p.by_depth.quotient(static_cast<uint32_t>(k))), c = k - tap * p.depth;
    const int kh = static_cast<int>(p.by_taps_w.quotient(static_cast<uint32_t>(tap)));
    const int kw = tap - kh * static_cast<int>(p.by_taps_w.divisor);
    const int whole_tap = (p.vertical.first_tap + kh * p.vertical.tap_step) * p.kernel_w +
                          p.horizontal.first_tap + kw * p.horizontal.tap_step;
    const T* const weight = p.weight + whole_tap * p.depth + c;
#pragma unroll
    for (int i = 0; i < kWeights; ++i) {
      const int row = line + i * kLines, m = m0 + row;
      const bool exists = inside && m < p.rows;
      copy_async(stage + chunk_offset(row, chunk),
                 exists ? weight + static_cast<int64_t>(m) * p.line : p.weight, exists);
    }
    const unsigned pixels = stage + kHeight * 64 * kConvRowBytes;
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      const int y = h[i] + kh * p.vertical.step, z = w[i] + kw * p.horizontal.step;
      const bool exists = inside && y >= 0 && y < p.H && z >= 0 && z < p.W;
      const T* from = exists ? p.x + static_cast<int64_t>(image[i] + y * p.W + z) * p.depth + c : p.x;
      copy_async(pixels + chunk_offset(line + i * kLines, chunk), from, exists);
    }
  }
};

// Multiplies one slice, 16 values of k at a time; a warp computes 64 x 32 results.
template <class T, int kHeight>
__device__ __forceinline__ void multiply_stage(float (&sum)[4][4][4], unsigned stage) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int row = warp / 4 * 64 + (lane & 15), col = warp % 4 * 32 + (lane & 7) + ((lane >> 4) << 3);
  const unsigned pixels = stage + kHeight * 64 * kConvRowBytes;
#pragma unroll
  for (int k = 0; k < kConvChunks; k += 2) {
    unsigned a[4][4], b[2][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) load_matrices(a[i], stage + chunk_offset(row + i * 16, k + (lane >> 4)));
#pragma unroll
    for (int j = 0; j < 2; ++j)
      load_matrices(b[j], pixels + chunk_offset(col + j * 16, k + ((lane >> 3) & 1)));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        multiply_add<T>(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }
}

// Offset of a position's result in row 0.
template <class T>
__device__ __forceinline__ int64_t output_offset(const ImplicitConv<T>& p, int position) {
  const int n = static_cast<int>(p.by_outputs.quotient(static_cast<uint32_t>(position)));
  const int o = position - n * p.outputs,
            oh = static_cast<int>(p.by_width.quotient(static_cast<uint32_t>(o)));
  const int ow = o - oh * static_cast<int>(p.by_width.divisor);
  return static_cast<int64_t>(n) * p.rows * p.plane +
         (p.vertical.first_out + oh * p.vertical.out_step) * p.width + p.horizontal.first_out +
         ow * p.horizontal.out_step;
}

// Writes a thread's results, which are pairs of adjacent positions.
template <class T>
__device__ __forceinline__ void write_tile(const ImplicitConv<T>& p, const float (&sum)[4][4][4], int m0,
                                           int p0) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int at = p0 + warp % 4 * 32 + j * 8 + lane % 4 * 2;
    if (at >= p.positions) continue;
    T *const first = p.out + output_offset(p, at), *const second = p.out + output_offset(p, at + 1);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int m = m0 + warp / 4 * 64 + i * 8 + lane / 4;
      if (m >= p.rows) continue;
      const float b = p.bias ? to<float>(p.bias[m]) : 0.0f;
      const float values[2] = {sum[i / 2][j][i % 2 * 2] + b, sum[i / 2][j][i % 2 * 2 + 1] + b};
      const int64_t line = static_cast<int64_t>(m) * p.plane;
      if (p.paired) {
        store(first + line, values);
      } else {
        first[line] = to<T>(values[0]);
        if (at + 1 < p.positions) second[line] = to<T>(values[1]);
      }
    }
  }
}

template <class T, int kHeight, int kCount>
static __global__ void __launch_bounds__(kConvThreads<kHeight>, kHeight == 2 ? 2 : 3)
    implicit_conv_kernel(const __grid_constant__ ImplicitConvs<T, kCount> products) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  // Adjacent blocks belong to different products, which read the same parts of x and write adjacent results.
  const ImplicitConv<T>& p = products.of[blockIdx.x % kCount];
  const int block = static_cast<int>(blockIdx.x / kCount);
  const unsigned shared = shared_address(dynamic_shared<unsigned char>());
  const int m0 = block % p.row_tiles * (kHeight * 64), p0 = block / p.row_tiles * kConvCols;
  if (p0 >= p.positions) return;
  const ConvLoader<T, kHeight> loader(p, m0, p0);
  const int slices = ceil_div(p.K, kConvDepth);
  float sum[4][4][4] = {};
  for (int s = 0; s < kConvStages - 1; ++s) {
    if (s < slices) loader.load(shared + static_cast<unsigned>(s * kConvStageBytes<kHeight>), s * kConvDepth);
    commit_copies();
  }
  int reading = 0, writing = kConvStages - 1;
  for (int s = 0; s < slices; ++s) {
    wait_for_copies<kConvStages - 2>();
    // The slice is complete for all threads, and all have finished reading the slice before it.
    __syncthreads();
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

// Channels are copied eight at a time, so their number is rounded up; the padding is zeros.
inline constexpr int64_t kChannelsAtOnce = 8;

// True if columns cost less: rows (channels of x) are padded to 64, and a stride above 2 needs more than four
// products, which are small.
inline bool columns_are_cheaper(const ConvShape& s, bool backward) {
  const bool strides = s.window.stride > 2 || (s.window.stride == 2 && s.window.dilation > 1);
  return backward && (strides || s.C < 16);
}

// Along one dimension of x with `size` pixels: the pixels whose index is `remainder` modulo the stride.
inline ConvAxis pixels_with_remainder(int size, int remainder, int kernel, const Window2d& window) {
  const int stride = static_cast<int>(window.stride), reach = remainder + static_cast<int>(window.padding);
  ConvAxis side;
  side.first_out = remainder;
  side.out_step = side.tap_step = stride;
  side.outputs = std::max(0, ceil_div(size - remainder, stride));
  side.first_tap = reach % stride;
  side.taps = std::max(0, ceil_div(kernel - side.first_tap, stride));
  side.shift = reach / stride;
  side.step = stride == 1 ? -static_cast<int>(window.dilation) : -1;
  return side;
}
inline ConvAxis all_outputs(int outputs, int kernel, const Window2d& window) {
  ConvAxis side;
  side.outputs = outputs;
  side.taps = kernel;
  side.scale = static_cast<int>(window.stride);
  side.shift = -static_cast<int>(window.padding);
  side.step = static_cast<int>(window.dilation);
  return side;
}

// Sets the fields that depend on both dimensions.
template <class T>
void set_axes(ImplicitConv<T>& p, const ConvAxis& vertical, const ConvAxis& horizontal, int64_t N) {
  const auto divide = [](int v) { return FastDivide(static_cast<uint32_t>(std::max(v, 1))); };
  p.vertical = vertical;
  p.horizontal = horizontal;
  p.outputs = vertical.outputs * horizontal.outputs;
  p.positions = static_cast<int>(N) * p.outputs;
  p.K = vertical.taps * horizontal.taps * p.depth;
  p.by_taps_w = divide(horizontal.taps);
  p.by_outputs = divide(p.outputs);
  p.by_width = divide(horizontal.outputs);
  p.paired = horizontal.out_step == 1 && p.outputs % 2 == 0 &&
             reinterpret_cast<uintptr_t>(p.out) % (2 * sizeof(T)) == 0;
}

template <class T, int kCount>
void launch_products(const ImplicitConvs<T, kCount>& products) {
  int64_t tiles = 0;
  for (const ImplicitConv<T>& p : products.of)
    tiles = std::max<int64_t>(tiles, ceil_div(p.positions, kConvCols));
  const dim3 grid(static_cast<unsigned>(products.of[0].row_tiles * tiles * kCount));
  if (products.of[0].rows > 64) {
    launch(implicit_conv_kernel<T, 2, kCount>,
           {grid, dim3(kConvThreads<2>), kConvStages * kConvStageBytes<2>}, products);
  } else {
    launch(implicit_conv_kernel<T, 1, kCount>,
           {grid, dim3(kConvThreads<1>), kConvStages * kConvStageBytes<1>}, products);
  }
}

// Queues out = conv(x, weight) + bias or, if `backward`, the gradient of the input: then x is dy and out is
// dx. All operands are contiguous NCHW; bias may be null. Returns false if nothing was queued, because the
// convolution must use columns.
template <class T>
bool implicit_conv2d(T* out, const T* x, const T* weight, const T* bias, const ConvShape& s, bool backward) {
  if constexpr (!kIs16Bit<T>) {
    return false;
  } else {
    const Window2d& window = s.window;
    const int64_t channels = backward ? s.M : s.C, rows = backward ? s.C : s.M,
                  depth = round_up(channels, kChannelsAtOnce);
    const int64_t h = backward ? s.OH : s.H, w = backward ? s.OW : s.W;
    const int64_t plane = backward ? s.H * s.W : s.outputs, taps = window.kernel_h * window.kernel_w;
    constexpr int64_t kMost = int64_t{1} << 30;
    if (!uses_implicit_conv() || s.groups != 1 || taps * depth < 64 || columns_are_cheaper(s, backward) ||
        s.N * plane > kMost || rows * taps * depth > kMost || s.N * h * w > kMost || s.N > 65535 ||
        !has_tensor_cores()) {
      return false;
    }
    constexpr DType kType = dtype_of<T>;
    const DeviceScratch<T> pixels(s.N * h * w * depth), lines(rows * taps * depth);
    to_channels_last(pixels.data(), x, s.N, channels, depth, h * w);
    const Strides by_row = backward ? Strides{taps, 1, rows * taps} : Strides{channels * taps, 1, taps};
    if (depth != channels) fill(contiguous_view(lines.data(), kType, {rows * taps * depth}), 0.0);
    copy({lines.data(), kType, {rows, taps, channels}, {taps * depth, depth, 1}},
         {const_cast<T*>(weight), kType, {rows, taps, channels}, by_row});
    const auto narrow = [](int64_t v) { return static_cast<int>(v); };
    ImplicitConv<T> p;
    p.weight = lines.data();
    p.x = pixels.data();
    p.bias = bias;
    p.out = out;
    p.rows = narrow(rows);
    p.row_tiles = narrow(ceil_div(rows, rows > 64 ? 128 : 64));
    p.depth = narrow(depth);
    p.by_depth = FastDivide(static_cast<uint32_t>(depth));
    p.H = narrow(h);
    p.W = narrow(w);
    p.line = narrow(taps * depth);
    p.kernel_w = narrow(window.kernel_w);
    p.plane = narrow(plane);
    p.width = narrow(backward ? s.W : s.OW);
    const int KH = narrow(window.kernel_h), KW = p.kernel_w;
    if (!backward) {
      set_axes(p, all_outputs(narrow(s.OH), KH, window), all_outputs(narrow(s.OW), KW, window), s.N);
      launch_products(ImplicitConvs<T, 1>{{p}});
    } else if (window.stride == 1) {
      set_axes(p, pixels_with_remainder(narrow(s.H), 0, KH, window),
               pixels_with_remainder(narrow(s.W), 0, KW, window), s.N);
      launch_products(ImplicitConvs<T, 1>{{p}});
    } else {
      ImplicitConvs<T, 4> products;
      for (int remainder = 0; remainder < 4; ++remainder) {
        set_axes(p, pixels_with_remainder(narrow(s.H), remainder / 2, KH, window),
                 pixels_with_remainder(narrow(s.W), remainder % 2, KW, window), s.N);
        products.of[remainder] = p;
      }
      launch_products(products);
    }
    return true;
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
