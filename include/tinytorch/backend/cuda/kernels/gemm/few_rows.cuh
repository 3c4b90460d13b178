// x W^T + b for few rows of x, in 16 bits: the products of a decoding step (contract:
// backend/cpu/matmul.hpp). Limit: bytes of W, each read once; for small W, the time between two kernels.
//
//   out[m, n] = fn(sum_k x[m, k] W[n, k] + bias[n] + residual[m, n])       at most 16 rows m
//
// A block computes kTiles tiles of 8 rows of W. Its warps divide the depth: chunk c of 32 numbers belongs to
// warp c % kWarps, so that a small product keeps every multiprocessor busy. A lane copies 16 bytes of a row
// of both operands through shared memory of its own into the registers of two mma instructions: these sum
// over k in any order, as long as it is that of both operands. Then the sums of the warps are added in order.
//
// The order of additions depends on K alone, so a row has the same bits whoever shares its step.
// The kernel is launched early (dependent_launch.cuh): it brings W into L2 while the kernel before it ends.
// Measured on H200 against cuBLASLt, in graphs of such products: 2.0 times as fast for 768 x 768, 1.3 for
// 2304 x 768, 1.9 for 768 x 3072 and 1.2 for 4096 x 4096 with one row of x; larger W and more rows of x are
// left to cuBLASLt, whose tensor memory copies read W faster.
#pragma once

#include <tinytorch/backend/cuda/device/activation.cuh>
#include <tinytorch/backend/cuda/device/tensor_core.cuh>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/functors.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The rows of x [M, K] and weight [N, K] have unit strides and begin at multiples of 16 bytes. The bias is
// contiguous; bias and residual may be null.
template <class T>
struct FewRows {
  const T *x, *weight, *bias, *residual;
  T* out;
  int64_t x_row, weight_row, out_row, out_step, residual_row, residual_step;
  int64_t N;
  int M, K;
  Activation fn;
};

// kStages: chunks of a warp that are on the way together.
template <int kTiles_, int kStages_>
struct FewRowsPlan {
  static constexpr int kWarps = 8, kRows = 16, kTiles = kTiles_, kStages = kStages_;
  static constexpr int kThreads = kWarps * kWarp, kChunk = 32, kStep = kWarps * kChunk, kColumns = kTiles * 8;
  static constexpr int kPiece = kWarp * 16, kStageBytes = (kTiles + kRows / 8) * kPiece;
  static constexpr int kCopies = kWarps * kStages * kStageBytes,
                       kSums = kWarps * kRows * kColumns * static_cast<int>(sizeof(float));
  static constexpr unsigned kBytes = static_cast<unsigned>(kCopies > kSums ? kCopies : kSums);
};

// The sums of one warp over its chunks.
template <class T, class Plan>
struct FewRowsWarp {
  const FewRows<T>& p;
  int64_t n0;
  int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  int line = lane / 4, first = warp * Plan::kChunk + lane % 4 * 8;
  // The stages of this lane, which copies and reads the same 16 bytes, so that warps need no barrier.
  unsigned char* stages =
      dynamic_shared<unsigned char>() + warp * Plan::kStages * Plan::kStageBytes + lane * 16;
  float sum[Plan::kTiles][4] = {};

  __device__ __forceinline__ FewRowsWarp(const FewRows<T>& given, int64_t first_row)
      : p(given), n0(first_row) {}
  __device__ __forceinline__ int chunks() const { return ceil_div(p.K - warp * Plan::kChunk, Plan::kStep); }
  // Numbers `k` on of row 8 t + line of the block's rows of W. Rows beyond the operand are its last row
  // again, whose results are not stored.
  __device__ __forceinline__ const T* weights(int t, int k) const {
    const int64_t n = n0 + t * 8 + line;
    return p.weight + (n < p.N ? n : p.N - 1) * p.weight_row + k;
  }
  __device__ __forceinline__ void fetch_early() const {
#pragma unroll
    for (int i = 0; i < Plan::kStages; ++i) {
      const int k = first + i * Plan::kStep;
      if (k >= p.K) break;
#pragma unroll
      for (int t = 0; t < Plan::kTiles; ++t) fetch_to_l2(weights(t, k));
    }
  }
  // Starts the copies of a chunk. What is outside becomes zeros.
  __device__ __forceinline__ void fetch(int chunk) const {
    const int k = first + chunk * Plan::kStep;
    const unsigned stage = shared_address(stages + chunk % Plan::kStages * Plan::kStageBytes);
#pragma unroll
    for (int t = 0; t < Plan::kTiles; ++t)
      copy_async(stage + static_cast<unsigned>(t * Plan::kPiece), weights(t, k), k < p.K);
#pragma unroll
    for (int r = 0; r < Plan::kRows / 8; ++r) {
      const int m = r * 8 + line;
      copy_async(stage + static_cast<unsigned>((Plan::kTiles + r) * Plan::kPiece), p.x + m * p.x_row + k,
                 k < p.K && m < p.M);
    }
  }
  __device__ __forceinline__ static uint4 piece(const unsigned char* stage, int i) {
    return *reinterpret_cast<const uint4*>(stage + i * Plan::kPiece);
  }
  __device__ __forceinline__ void multiply(int chunk) {
    const unsigned char* const stage = stages + chunk % Plan::kStages * Plan::kStageBytes;
    uint4 w[Plan::kTiles];
#pragma unroll
    for (int t = 0; t < Plan::kTiles; ++t) w[t] = piece(stage, t);
    const uint4 upper = piece(stage, Plan::kTiles), lower = piece(stage, Plan::kTiles + 1);
    const unsigned even[4] = {upper.x, lower.x, upper.y, lower.y},
                   odd[4] = {upper.z, lower.z, upper.w, lower.w};
#pragma unroll
    for (int t = 0; t < Plan::kTiles; ++t) {
      multiply_add<T>(sum[t], even, w[t].x, w[t].y);
      multiply_add<T>(sum[t], odd, w[t].z, w[t].w);
    }
  }
  __device__ __forceinline__ void run() {
    const int count = chunks();
#pragma unroll
    for (int i = 0; i < Plan::kStages; ++i) {
      if (i < count) fetch(i);
      commit_copies();
    }
    for (int i = 0; i < count; ++i) {
      wait_for_copies<Plan::kStages - 1>();
      multiply(i);
      if (i + Plan::kStages < count) fetch(i + Plan::kStages);
      commit_copies();
    }
  }
  // parts [warps][rows of x][rows of W]
  __device__ __forceinline__ void store(float* parts) const {
    parts += (warp * Plan::kRows + line) * Plan::kColumns + lane % 4 * 2;
#pragma unroll
    for (int t = 0; t < Plan::kTiles; ++t) {
#pragma unroll
      for (int j = 0; j < 4; ++j) parts[j / 2 * 8 * Plan::kColumns + t * 8 + j % 2] = sum[t][j];
    }
  }
};

template <class T, class Plan>
static __global__ void __launch_bounds__(Plan::kThreads)
    linear_few_rows_kernel(const __grid_constant__ FewRows<T> p) {
  const int64_t n0 = static_cast<int64_t>(blockIdx.x) * Plan::kColumns;
  FewRowsWarp<T, Plan> warp(p, n0);
  start_next_kernel();
  warp.fetch_early();
  wait_for_previous_kernel();
  warp.run();
  float* const parts = dynamic_shared<float>();
  __syncthreads();  // all warps are done with their stages
  warp.store(parts);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < p.M * Plan::kColumns; i += Plan::kThreads) {
    const int m = i / Plan::kColumns, column = i % Plan::kColumns;
    const int64_t n = n0 + column;
    if (n >= p.N) continue;
    float y = 0;
#pragma unroll
    for (int s = 0; s < Plan::kWarps; ++s) y += parts[s * Plan::kRows * Plan::kColumns + i];
    if (p.bias) y += to<float>(p.bias[n]);
    if (p.residual) y += to<float>(p.residual[m * p.residual_row + n * p.residual_step]);
    select_activation(p.fn,
                      [&]<Activation kFn>() { y = unary_value<activation_fn(kFn), float>(y, 0.0f, 0.0f); });
    p.out[m * p.out_row + n * p.out_step] = to<T>(y);
  }
}

template <class T, class Plan>
void launch_few_rows(const FewRows<T>& p) {
  launch(linear_few_rows_kernel<T, Plan>,
         {.grid = dim3(static_cast<unsigned>(ceil_div(p.N, Plan::kColumns))),
          .block = dim3(Plan::kThreads),
          .shared_bytes = Plan::kBytes,
          .early = true},
         p);
}

// For few rows of W, a block has one tile, so that there are enough blocks, and all copies of a row are on
// the way together.
template <class T>
void launch_few_rows(const FewRows<T>& p) {
  p.N <= 1024 ? launch_few_rows<T, FewRowsPlan<1, 12>>(p) : launch_few_rows<T, FewRowsPlan<2, 6>>(p);
}

// Returns true if this kernel is faster than cuBLASLt.
inline bool few_rows_pay(int64_t M, int64_t N, int64_t K) {
  constexpr int64_t kLargest = int64_t{1} << 24;
  return (M <= 8 && N <= kLargest / K) || (M <= 16 && N <= kLargest / 4 / K);
}

// x [M, K] W [N, K]^T. Returns false, and does nothing, if the operands are not those of this kernel. The
// bias is contiguous.
inline bool linear_few_rows(Activation fn, const View& out, const View& x, const View& weight,
                            const View& bias, const View& residual) {
  const int64_t M = x.shape[0], K = x.shape[1], N = weight.shape[0];
  const auto has_rows = [&](const View& v) {
    return v.dtype == x.dtype && v.strides[1] == 1 && v.strides[0] % 8 == 0 &&
           reinterpret_cast<uintptr_t>(v.data) % 16 == 0;
  };
  if (size_of(x.dtype) != 2 || out.dtype != x.dtype || K % 8 != 0 || K == 0 || !few_rows_pay(M, N, K) ||
      !has_rows(x) || !has_rows(weight) || !has_tensor_cores()) {
    return false;
  }
  const auto run = [&]<class T>(T*) {
    FewRows<T> p{};
    p.x = x.as<T>(), p.weight = weight.as<T>(), p.bias = bias.as<T>(), p.residual = residual.as<T>();
    p.out = out.as<T>();
    p.x_row = x.strides[0], p.weight_row = weight.strides[0];
    p.out_row = out.strides[0], p.out_step = out.strides[1];
    if (residual.data) p.residual_row = residual.strides[0], p.residual_step = residual.strides[1];
    p.N = N, p.M = static_cast<int>(M), p.K = static_cast<int>(K), p.fn = fn;
    launch_few_rows(p);
  };
  x.dtype == DType::bf16 ? run(static_cast<BFloat16*>(nullptr)) : run(static_cast<Half*>(nullptr));
  return true;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
