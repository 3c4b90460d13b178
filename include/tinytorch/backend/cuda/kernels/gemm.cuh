// GEMM for any strides and dtypes: out [..., M, N] (+)= a b + bias.
//
// A block computes a tile of 64 x 64, a thread 4 x 4 of it in registers. Slices of a and b, 16 deep, are
// double-buffered in shared memory: one is multiplied while the next is loaded. Tiles are read along the
// contiguous dimension, padded with zeros and converted to the compute type (float for 16-bit floats, int
// for integers), so one kernel serves every layout. 2 M N K FLOPs; limit: shared memory, 8 reads per 16
// multiply-adds. Each sum runs over k in order: results are deterministic. matmul.cuh uses cuBLASLt for most
// floating-point products; this kernel computes the others.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kGemmTile = 64, kGemmDepth = 16;
inline constexpr int kGemmSide = 16, kGemmThreads = kGemmSide * kGemmSide;
inline constexpr int kGemmEach = kGemmTile / kGemmSide;  // rows and columns per thread
// Elements that a thread loads per slice.
inline constexpr int kGemmFetch = kGemmTile * kGemmDepth / kGemmThreads;

struct GemmParameters {
  int64_t M, N, K, batches;
  int64_t row[3], col[3];  // strides of rows and columns of out, a, b
  int64_t bias;            // stride
  bool accumulate;
};

// Loads slices of one operand into shared memory; `line` counts rows of a or columns of b.
template <class T, class C>
struct GemmSlice {
  const T* data;
  int64_t line_stride, depth_stride, first, lines;
  C held[kGemmFetch];

  __device__ __forceinline__ void place(int i, int& line, int& depth) const {
    const int e = static_cast<int>(threadIdx.x) + i * kGemmThreads;
    const bool along_depth = depth_stride == 1;
    line = along_depth ? e / kGemmDepth : e % kGemmTile;
    depth = along_depth ? e % kGemmDepth : e / kGemmTile;
  }
  __device__ __forceinline__ void fetch(int64_t k0, int64_t K) {
#pragma unroll
    for (int i = 0; i < kGemmFetch; ++i) {
      int line, depth;
      place(i, line, depth);
      const int64_t l = first + line, k = k0 + depth;
      held[i] = l < lines && k < K ? to<C>(data[l * line_stride + k * depth_stride]) : C(0);
    }
  }
  __device__ __forceinline__ void put(C (&slice)[kGemmDepth][kGemmTile + 1]) const {
#pragma unroll
    for (int i = 0; i < kGemmFetch; ++i) {
      int line, depth;
      place(i, line, depth);
      slice[depth][line] = held[i];
    }
  }
};

// sum += product of two slices, for the rows ty + 16 i and columns tx + 16 j of the tile.
template <class C>
__device__ __forceinline__ void multiply_slices(C (&sum)[kGemmEach][kGemmEach],
                                                const C (&a)[kGemmDepth][kGemmTile + 1],
                                                const C (&b)[kGemmDepth][kGemmTile + 1], int ty, int tx) {
#pragma unroll 4
  for (int k = 0; k < kGemmDepth; ++k) {
    C a_values[kGemmEach], b_values[kGemmEach];
#pragma unroll
    for (int i = 0; i < kGemmEach; ++i) a_values[i] = a[k][ty + kGemmSide * i];
#pragma unroll
    for (int j = 0; j < kGemmEach; ++j) b_values[j] = b[k][tx + kGemmSide * j];
#pragma unroll
    for (int i = 0; i < kGemmEach; ++i) {
#pragma unroll
      for (int j = 0; j < kGemmEach; ++j) sum[i][j] += a_values[i] * b_values[j];
    }
  }
}

// Operands: out, a and b, whose offsets are those of the batches.
template <class Out, class T, class C>
static __global__ void __launch_bounds__(kGemmThreads)
    gemm_kernel(const __grid_constant__ Operands<3> walk, const __grid_constant__ GemmParameters p,
                const Out* bias) {
  __shared__ C a_slice[2][kGemmDepth][kGemmTile + 1], b_slice[2][kGemmDepth][kGemmTile + 1];
  const int64_t tiles = ceil_div(p.N, kGemmTile);
  const int64_t m0 = blockIdx.x / tiles * kGemmTile, n0 = blockIdx.x % tiles * kGemmTile;
  const int ty = static_cast<int>(threadIdx.x) / kGemmSide, tx = static_cast<int>(threadIdx.x) % kGemmSide;
  for (int64_t batch = blockIdx.z; batch < p.batches; batch += gridDim.z) {
    GemmSlice<T, C> a{
        static_cast<const T*>(walk.operand[1].data) + walk.offset(1, batch), p.row[1], p.col[1], m0, p.M, {}};
    GemmSlice<T, C> b{
        static_cast<const T*>(walk.operand[2].data) + walk.offset(2, batch), p.col[2], p.row[2], n0, p.N, {}};
    C sum[kGemmEach][kGemmEach] = {};
    a.fetch(0, p.K);
    b.fetch(0, p.K);
    int buffer = 0;
    for (int64_t k0 = 0; k0 < p.K; k0 += kGemmDepth, buffer ^= 1) {
      a.put(a_slice[buffer]);
      b.put(b_slice[buffer]);
      __syncthreads();  // also ensures that no thread still reads the buffer that is filled next
      a.fetch(k0 + kGemmDepth, p.K);
      b.fetch(k0 + kGemmDepth, p.K);
      multiply_slices(sum, a_slice[buffer], b_slice[buffer], ty, tx);
    }
    __syncthreads();
    Out* out = static_cast<Out*>(walk.operand[0].data) + walk.offset(0, batch);
#pragma unroll
    for (int i = 0; i < kGemmEach; ++i) {
#pragma unroll
      for (int j = 0; j < kGemmEach; ++j) {
        const int64_t m = m0 + ty + kGemmSide * i, n = n0 + tx + kGemmSide * j;
        if (m >= p.M || n >= p.N) continue;
        Out* at = out + m * p.row[0] + n * p.col[0];
        C value = sum[i][j];
        if (bias) value += to<C>(bias[n * p.bias]);
        if (p.accumulate) value += to<C>(*at);
        *at = to<Out>(value);
      }
    }
  }
}

// Calls f with null pointers of the types of out, of a and b, and of the compute type.
template <class F>
void dispatch_product(DType out, DType in, F&& f) {
  const auto go = [&]<class Out, class T, class C>(Out* o, T* t, C* c) { f(o, t, c); };
  float* const float_type = nullptr;
  int32_t* const int_type = nullptr;
  if (in == DType::boolean && out == DType::i32) return go(int_type, static_cast<bool*>(nullptr), int_type);
  if (in == DType::bf16 && out == DType::f32)
    return go(float_type, static_cast<BFloat16*>(nullptr), float_type);
  if (in == DType::f16 && out == DType::f32) return go(float_type, static_cast<Half*>(nullptr), float_type);
  if (in != out || in == DType::boolean) fail("TT-DTYPE-02", "gemm: operands of different dtypes");
  dispatch(in, [&]<class T>(T* t) {
    if constexpr (!std::is_same_v<T, bool>) {
      dispatch_compute(in, [&]<class C>(C* c) {
        constexpr bool kMatches = std::is_same_v<C, Compute<T>> ||
                                  (std::is_integral_v<T> && sizeof(T) < 4 && std::is_same_v<C, int32_t>);
        if constexpr (kMatches) go(t, t, c);
      });
    }
  });
}

void gemm(const View& out, const View& a, const View& b, const View& bias, bool accumulate) {
  if (out.numel() == 0) return;
  const int r = out.rank();
  const Plan<3> plan({batches_of(out), batches_of(a), batches_of(b)}, 1);
  GemmParameters p{out.shape[r - 2], out.shape[r - 1], a.shape[r - 1], plan.operands.count, {}, {}, 0,
                   accumulate};
  const View* const views[3] = {&out, &a, &b};
  for (int k = 0; k < 3; ++k) {
    p.row[k] = views[k]->strides[r - 2];
    p.col[k] = views[k]->strides[r - 1];
  }
  if (bias.data) p.bias = bias.strides[0];
  const int64_t tiles = ceil_div(p.M, kGemmTile) * ceil_div(p.N, kGemmTile);
  const dim3 grid(static_cast<unsigned>(tiles), 1,
                  static_cast<unsigned>(std::min<int64_t>(p.batches, 65535)));
  dispatch_product(out.dtype, a.dtype, [&]<class Out, class T, class C>(Out*, T*, C*) {
    launch(gemm_kernel<Out, T, C>, {grid, dim3(kGemmThreads)}, plan.operands, p, bias.as<const Out>());
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
