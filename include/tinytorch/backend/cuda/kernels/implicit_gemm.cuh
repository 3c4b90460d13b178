// Convolution of 16-bit floats on tensor cores without columns in memory, forward and to the input.
//
//   out[m, q] = bias[m] + sum over (tap, c) of w[m, tap, c] x[sample of q, pixel of (q, tap), c]
//
// The product of im2col, whose columns are only ever formed in shared memory: with channels last, the 8
// channels of a pixel that a tap reads are 16 neighbouring bytes, or zeros outside the image. x is brought
// into that order first (channels padded to 8), w too. A block computes kTileM x 128 of out; slices 32 deep
// pass through a ring of four buffers. The gradient to the input is the same sum with other pixels: those
// whose output was read by the tap. Limit: tensor cores. Source: Chetlur et al., "cuDNN: efficient primitives
// for deep learning", 2014.
#pragma once

#include <tinytorch/backend/cuda/planes.cuh>
#include <tinytorch/backend/cuda/tensor_core.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Along either side, tap k of output o reads input (o * step + offset + k * spread) / divide, where that is
// whole and inside.
struct Taps {
  int step, offset, spread, divide;
  __device__ __forceinline__ int start(int o) const { return o * step + offset; }
  // The input, or -1.
  __device__ __forceinline__ int input(int start, int k, int inputs) const {
    int i = start + k * spread;
    if (i < 0) return -1;
    if (divide != 1) {
      if (i % divide != 0) return -1;
      i /= divide;
    }
    return i < inputs ? i : -1;
  }
};

struct ImplicitProduct {
  int M, N, H, W, OH, OW;  // out [N, M, OH, OW], x [N, H, W, channels]
  int channels, depth;     // a multiple of 8; taps * channels
  int kernel_w;
  Taps taps;
  FastDivide by_channels, by_kernel_w, by_outputs, by_width;
};

inline constexpr int kImplicitThreads = 256, kImplicitN = 128, kImplicitDepth = 32, kImplicitStages = 4;
inline constexpr int kImplicitChunks = kImplicitDepth / 8;                 // of 16 bytes in a row of a slice
inline constexpr int kImplicitLines = kImplicitThreads / kImplicitChunks;  // rows that one copy each covers

// Where chunk `chunk` of a slice's row lies: eight rows read together fall on different banks.
__device__ __forceinline__ int chunk_place(int row, int chunk) {
  return (row * kImplicitChunks + (chunk ^ (row >> 1 & 3))) * 8;
}

// The pixel of one row of the slice of x.
struct PixelRow {
  int sample_row = 0, h = 0, w = 0;  // sample * H; start of its taps
  bool inside = false;
  __device__ __forceinline__ PixelRow() {}
  __device__ __forceinline__ PixelRow(const ImplicitProduct& p, int q) : inside(q < p.N * p.OH * p.OW) {
    const int n = static_cast<int>(p.by_outputs.quotient(static_cast<uint32_t>(inside ? q : 0)));
    const int place = (inside ? q : 0) - n * p.OH * p.OW;
    const int oh = static_cast<int>(p.by_width.quotient(static_cast<uint32_t>(place)));
    sample_row = n * p.H;
    h = p.taps.start(oh);
    w = p.taps.start(place - oh * p.OW);
  }
};

// Brings slice number `slice` into its buffers. A thread copies the same chunk of a few rows.
template <int kTileM, class T>
__device__ __forceinline__ void copy_slice(T* w_slice, T* x_slice, const T* w, const T* x,
                                           const ImplicitProduct& p,
                                           const PixelRow (&pixels)[kImplicitN / kImplicitLines], int slice) {
  const int chunk = static_cast<int>(threadIdx.x) % kImplicitChunks;
  const int line = static_cast<int>(threadIdx.x) / kImplicitChunks;
  const int k = slice * kImplicitDepth + chunk * 8;
  const int m0 = static_cast<int>(blockIdx.y) * kTileM;
#pragma unroll
  for (int i = 0; i < kTileM / kImplicitLines; ++i) {
    const int row = line + i * kImplicitLines, m = m0 + row;
    const bool inside = m < p.M && k < p.depth;
    copy_async(w_slice + chunk_place(row, chunk), inside ? w + static_cast<int64_t>(m) * p.depth + k : w,
               inside);
  }
  const int tap = static_cast<int>(p.by_channels.quotient(static_cast<uint32_t>(k)));
  const int c = k - tap * p.channels;
  const int kh = static_cast<int>(p.by_kernel_w.quotient(static_cast<uint32_t>(tap)));
  const int kw = tap - kh * p.kernel_w;
#pragma unroll
  for (int i = 0; i < kImplicitN / kImplicitLines; ++i) {
    const PixelRow& pixel = pixels[i];
    const int h = p.taps.input(pixel.h, kh, p.H), at = p.taps.input(pixel.w, kw, p.W);
    const bool inside = pixel.inside && k < p.depth && h >= 0 && at >= 0;
    const int64_t offset = (static_cast<int64_t>(pixel.sample_row + h) * p.W + at) * p.channels + c;
    copy_async(x_slice + chunk_place(line + i * kImplicitLines, chunk), inside ? x + offset : x, inside);
  }
}

// A warp's part of the block's tile: kTileM / 2 rows by 32 columns.
template <int kTileM, class T>
__device__ __forceinline__ void multiply_slice(float (&sum)[kTileM / 32][4][4], const T* w_slice,
                                               const T* x_slice) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int m0 = warp / 4 * (kTileM / 2), n0 = warp % 4 * 32;
#pragma unroll
  for (int k = 0; k < kImplicitDepth / 16; ++k) {
    unsigned a[kTileM / 32][4], b[2][4];
#pragma unroll
    for (int i = 0; i < kTileM / 32; ++i) {
      load_fragments(a[i], w_slice + chunk_place(m0 + i * 16 + lane % 16, 2 * k + lane / 16));
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      load_fragments(b[j],
                     x_slice + chunk_place(n0 + j * 16 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
    }
#pragma unroll
    for (int i = 0; i < kTileM / 32; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const unsigned column[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
        multiply_fragments<T>(sum[i][j], a[i], column);
      }
    }
  }
}

inline constexpr int kImplicitPitch = kImplicitN + 8;  // of the finished tile in shared memory

// The tile, complete in shared memory, to out in whole lines.
template <int kTileM, class T>
__device__ __forceinline__ void write_tile(T* out, const T* tile, const ImplicitProduct& p) {
  const int outputs = p.OH * p.OW, count = p.N * outputs;
  const int m0 = static_cast<int>(blockIdx.y) * kTileM, q0 = static_cast<int>(blockIdx.x) * kImplicitN;
  const bool wide = outputs % 8 == 0 && reinterpret_cast<uintptr_t>(out) % 16 == 0;
  const int each = wide ? 8 : 1, per_row = kImplicitN / each;
  for (int e = static_cast<int>(threadIdx.x); e < kTileM * per_row; e += kImplicitThreads) {
    const int row = e / per_row, column = e % per_row * each, m = m0 + row, q = q0 + column;
    if (m >= p.M || q >= count) continue;
    const int n = static_cast<int>(p.by_outputs.quotient(static_cast<uint32_t>(q)));
    T* const at = out + (static_cast<int64_t>(n) * p.M + m) * outputs + (q - n * outputs);
    const T* const from = tile + row * kImplicitPitch + column;
    if (wide) {
      *reinterpret_cast<uint4*>(at) = *reinterpret_cast<const uint4*>(from);
    } else {
      *at = *from;
    }
  }
}

template <class T, int kTileM>
static __global__ void __launch_bounds__(kImplicitThreads, 2)
    implicit_gemm_kernel(T* out, const T* w, const T* x, const T* bias,
                         const __grid_constant__ ImplicitProduct p) {
#if !TT_NO_TENSOR_CORES
  constexpr int kSliceM = kTileM * kImplicitDepth, kStage = kSliceM + kImplicitN * kImplicitDepth;
  T* const ring = dynamic_shared<T>();
  PixelRow pixels[kImplicitN / kImplicitLines];
#pragma unroll
  for (int i = 0; i < kImplicitN / kImplicitLines; ++i) {
    const int line = static_cast<int>(threadIdx.x) / kImplicitChunks + i * kImplicitLines;
    pixels[i] = PixelRow(p, static_cast<int>(blockIdx.x) * kImplicitN + line);
  }
  const int slices = (p.depth + kImplicitDepth - 1) / kImplicitDepth;
#pragma unroll
  for (int s = 0; s < kImplicitStages - 1; ++s) {
    if (s < slices) copy_slice<kTileM>(ring + s * kStage, ring + s * kStage + kSliceM, w, x, p, pixels, s);
    commit_copies();
  }
  float sum[kTileM / 32][4][4] = {};
  for (int s = 0; s < slices; ++s) {
    wait_for_copies<kImplicitStages - 2>();
    __syncthreads();  // slice s is there, and nobody still reads the buffer that is filled next
    const int next = s + kImplicitStages - 1;
    T* const fill = ring + next % kImplicitStages * kStage;
    if (next < slices) copy_slice<kTileM>(fill, fill + kSliceM, w, x, p, pixels, next);
    commit_copies();
    const T* const ready = ring + s % kImplicitStages * kStage;
    multiply_slice<kTileM>(sum, ready, ready + kSliceM);
  }
  wait_for_copies<0>();
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
  for (int i = 0; i < kTileM / 32; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp / 4 * (kTileM / 2) + i * 16 + half * 8 + lane / 4;
      const int m = static_cast<int>(blockIdx.y) * kTileM + row;
      const float add = bias && m < p.M ? to<float>(bias[m]) : 0.0f;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float pair[2] = {sum[i][j][2 * half] + add, sum[i][j][2 * half + 1] + add};
        store(ring + row * kImplicitPitch + warp % 4 * 32 + j * 8 + lane % 4 * 2, pair);
      }
    }
  }
  __syncthreads();
  write_tile<kTileM>(out, ring, p);
#endif
}

// out [N, pixels, padded] = x [N, channels, pixels] with channels last, zeros behind them.
inline constexpr int kLastChannels = 64, kLastPixels = 32, kLastLines = 8;
template <class T>
static __global__ void __launch_bounds__(kLastPixels* kLastLines)
    channels_last_kernel(T* out, const T* x, int channels, int padded, int pixels) {
  __shared__ T tile[kLastChannels][kLastPixels + 1];
  const int lane = static_cast<int>(threadIdx.x), line = static_cast<int>(threadIdx.y);
  const int p0 = static_cast<int>(blockIdx.x) * kLastPixels,
            c0 = static_cast<int>(blockIdx.y) * kLastChannels;
  const T* const in = x + static_cast<int64_t>(blockIdx.z) * channels * pixels;
  T* const to_sample = out + static_cast<int64_t>(blockIdx.z) * padded * pixels;
#pragma unroll
  for (int c = line; c < kLastChannels; c += kLastLines) {
    const bool inside = c0 + c < channels && p0 + lane < pixels;
    tile[c][lane] = inside ? in[static_cast<int64_t>(c0 + c) * pixels + p0 + lane] : T{};
  }
  __syncthreads();
  const int c = 2 * lane;  // padded is even: a pair is inside or not
#pragma unroll
  for (int i = line; i < kLastPixels; i += kLastLines) {
    if (p0 + i >= pixels || c0 + c >= padded) continue;
    const T pair[2] = {tile[c][i], tile[c + 1][i]};
    unsigned word;
    memcpy(&word, pair, sizeof(word));
    *reinterpret_cast<unsigned*>(to_sample + static_cast<int64_t>(p0 + i) * padded + c0 + c) = word;
  }
}

// out [rows, taps, padded] = weight with element (row, channel, tap) at row * row_stride + channel *
// channel_stride + tap.
template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    weight_last_kernel(T* out, const T* weight, int64_t count, int taps, int channels, int padded,
                       int64_t row_stride, int64_t channel_stride) {
  const int64_t i = thread_number();
  if (i >= count) return;
  const int64_t c = i % padded, tap = i / padded % taps, row = i / padded / taps;
  out[i] = c < channels ? weight[row * row_stride + c * channel_stride + tap] : T{};
}

// --- launchers ---

// Whether this kernel serves a product of x [N, C, H, W] with out [N, M, OH, OW].
inline bool fits_implicit_gemm(const ConvShape& s) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t taps = s.window.kernel_h * s.window.kernel_w;
  const int64_t reach = (std::max(s.H, s.W) + s.window.padding) * s.window.stride +
                        s.window.dilation * (s.window.kernel_h + s.window.kernel_w);
  return s.groups == 1 && has_tensor_cores() && s.N <= 65535 && s.N * (s.C + 8) * s.H * s.W < kMost &&
         s.N * (s.M + 8) * s.outputs < kMost && (s.C + 8) * (s.M + 8) * taps < kMost && reach < kMost &&
         s.M <= 4'000'000 && s.C <= 4'000'000;
}

// out [N, rows, h, w] from x [N, channels, H, W] by Taps; weight as weight_last_kernel reads it.
template <class T>
void implicit_gemm(T* out, const T* x, const T* weight, const T* bias, const Taps& taps,
                   const Window2d& window, const int64_t (&out_sizes)[4], const int64_t (&x_sizes)[4],
                   int64_t row_stride, int64_t channel_stride) {
  const auto number = [](int64_t v) { return static_cast<int>(v); };
  const auto divider = [](int64_t d) { return FastDivide(static_cast<uint32_t>(d)); };
  const auto blocks = [](int64_t n, int64_t each) { return static_cast<unsigned>((n + each - 1) / each); };
  const int64_t N = x_sizes[0], channels = x_sizes[1], pixels = x_sizes[2] * x_sizes[3], M = out_sizes[1];
  const int64_t padded = (channels + 7) / 8 * 8, count = window.kernel_h * window.kernel_w;
  const int64_t outputs = out_sizes[2] * out_sizes[3];
  const DeviceScratch<T> last(N * pixels * padded), w(M * count * padded);
  launch(channels_last_kernel<T>,
         {dim3(blocks(pixels, kLastPixels), blocks(padded, kLastChannels), static_cast<unsigned>(N)),
          dim3(kLastPixels, kLastLines)},
         last.data(), x, number(channels), number(padded), number(pixels));
  launch(weight_last_kernel<T>, over(M * count * padded, kPlaneBlock), w.data(), weight, M * count * padded,
         number(count), number(channels), number(padded), row_stride, channel_stride);
  const ImplicitProduct p{number(M),
                          number(N),
                          number(x_sizes[2]),
                          number(x_sizes[3]),
                          number(out_sizes[2]),
                          number(out_sizes[3]),
                          number(padded),
                          number(count * padded),
                          number(window.kernel_w),
                          taps,
                          divider(padded),
                          divider(window.kernel_w),
                          divider(outputs),
                          divider(out_sizes[3])};
  const bool tall = M > 64;
  const int tile = tall ? 128 : 64;
  const size_t ring = sizeof(T) * static_cast<size_t>(kImplicitStages * kImplicitDepth * (tile + kImplicitN));
  launch(tall ? implicit_gemm_kernel<T, 128> : implicit_gemm_kernel<T, 64>,
         {dim3(blocks(N * outputs, kImplicitN), blocks(M, tile)), dim3(kImplicitThreads), ring}, out,
         w.data(), last.data(), bias, p);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
