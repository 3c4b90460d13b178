// The fifth step of a fast product on a GPU: copies that overlap with products.
//
// A block that brings a stage, waits, and multiplies it uses either memory or tensor cores. With several
// buffers the next stages are on their way while one is multiplied. cp.async copies from device memory to
// shared memory without registers, and a thread waits for groups of its copies.
// Source: NVIDIA, "CUDA C++ Programming Guide", asynchronous data copies.
#pragma once

#include <tinytorch/backend/cuda/kernels/ladder/mma.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Requests the stage at k0 of the block's tile into `stage`, laid out as by bring_stage: each piece of eight
// numbers by copy_async(shared_address(to), from, inside), which writes zeros if not `inside`, and reads
// nothing then. The caller commits. Pieces are whole and aligned: a_row, b_row, N and K are multiples of 8.
__device__ __forceinline__ void request_stage(BFloat16* stage, const LadderProduct<BFloat16>& p,
                                              const LadderTile& tile, int64_t k0) {
  for (int i = static_cast<int>(threadIdx.x); i < kMmaTile * kMmaDepth / kMmaPiece; i += kMmaThreads) {
    const int r = i / 4, c = i % 4 * kMmaPiece, k = i / 8, n = i % 8 * kMmaPiece;
    const bool has_a = tile.m + r < p.M && k0 + c < p.K, has_b = k0 + k < p.K && tile.n + n < p.N;
    copy_async(shared_address(stage + r * kMmaPitchA + c),
               has_a ? p.a + (tile.m + r) * p.a_row + k0 + c : p.a, has_a);
    copy_async(shared_address(stage + kMmaStageA + k * kMmaPitchB + n),
               has_b ? p.b + (k0 + k) * p.b_row + tile.n + n : p.b, has_b);
  }
}

// Before the loop, kStages - 1 stages are requested, with a commit each. Step s of the loop does this:
//   1. wait_for_copies<kStages - 2>(): this thread's copies of stage s are complete;
//   2. __syncthreads(): so are those of all threads, and nobody reads the buffer of step s - 1 any more;
//   3. request stage s + kStages - 1, if there is one, into that buffer; commit in any case, so that the
//      number of groups is that of steps;
//   4. multiply_stage of buffer s % kStages.
template <int kStages>
static __global__ void __launch_bounds__(kMmaThreads)
    pipelined_kernel(const __grid_constant__ LadderProduct<BFloat16> p) {
  BFloat16* const stages = dynamic_shared<BFloat16>();
  const LadderTile tile = ladder_tile(p.N, kMmaTile, kMmaTile);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, row = warp / 2 * kMmaPart,
            col = warp % 2 * kMmaPart;
  const int64_t steps = ceil_div(p.K, kMmaDepth);
  float sum[2][4][4] = {};
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < steps) request_stage(stages + s * kMmaStage, p, tile, int64_t{s} * kMmaDepth);
    commit_copies();
  }
  for (int64_t s = 0; s < steps; ++s) {
    wait_for_copies<kStages - 2>();
    __syncthreads();
    const int64_t next = s + kStages - 1;
    if (next < steps) request_stage(stages + next % kStages * kMmaStage, p, tile, next * kMmaDepth);
    commit_copies();
    const BFloat16* const stage = stages + s % kStages * kMmaStage;
    multiply_stage(sum, stage + row * kMmaPitchA, stage + kMmaStageA + col);
  }
  write_sums(p, sum, tile.m + row, tile.n + col);
}

template <int kStages>
void launch_pipelined(const LadderProduct<BFloat16>& p) {
  launch(pipelined_kernel<kStages>,
         {ladder_grid(p, kMmaTile, kMmaTile), dim3(kMmaThreads), kStages * kMmaStage * 2}, p);
}

// Matrices whose pieces are not whole and aligned take the way of gemm_mma.
void gemm_pipelined(const View& out, const View& a, const View& b, int stages) {
  if (stages < 2 || stages > 4)
    fail("TT-RANGE-08", "gemm_pipelined: stages must be 2, 3 or 4, got " + std::to_string(stages));
  run_ladder_product<BFloat16>("gemm_pipelined", out, a, b, [&](const LadderProduct<BFloat16>& p) {
    if (!p.a_vectors || !p.b_vectors || p.K % kMmaPiece != 0 || p.N % kMmaPiece != 0) {
      launch(mma_kernel, {ladder_grid(p, kMmaTile, kMmaTile), dim3(kMmaThreads), kMmaStage * 2}, p);
    } else {
      (stages == 2 ? launch_pipelined<2> : stages == 3 ? launch_pipelined<3> : launch_pipelined<4>)(p);
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
