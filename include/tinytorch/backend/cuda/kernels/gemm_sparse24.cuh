// Products of a 2:4 sparse weight with many rows of x, by sparse warpgroups (wgmma.mma_async.sp, compute
// capability 9.0).
//
// The weights are the left operand. Each lane loads its own part of their strips (backend/strips24.hpp) from
// the L2 cache into registers, two steps ahead; so shared memory, whose speed limits the products, holds only
// x. A step is 64 numbers of a row: cp.async copies it some steps ahead. A block has 128 rows of the weight,
// 64 of each warpgroup, and 64, 128 or 256 rows of x.
//
// Limit: M N K multiply-adds count half, so 2 x 989 TFLOP/s on H100; shared memory allows 0.68 of this, as
// each warpgroup reads all of x's step.
#pragma once

#include <tinytorch/backend/cuda/device/linear_result.cuh>
#include <tinytorch/backend/cuda/device/pipelined_barrier.cuh>
#include <tinytorch/backend/cuda/device/strips24.cuh>
#include <tinytorch/backend/cuda/device/warpgroup_sparse.cuh>
#include <tinytorch/backend/cuda/kernels/gemm_int8_tiles.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// 64 kPanels rows of x; kSteps steps of x are in shared memory.
template <int kPanels_, int kSteps_>
struct SparseGroup {
  static constexpr int kPanels = kPanels_, kSteps = kSteps_, kAcross = 2;
  static constexpr int kThreads = 128 * kAcross, kRows = 64 * kAcross, kColumns = 64 * kPanels;
  // Warps are at most one step apart. A step is fetched into the place of the third one before it, whose
  // products are complete.
  static constexpr int kAhead = kSteps - 3;
  static constexpr int kStepBytes = kColumns * 128;
  static constexpr int kSumPitch = kRows + 4;  // floats
  static constexpr int kMainBytes = kSteps * kStepBytes, kSumBytes = kColumns * kSumPitch * 4;
  static constexpr unsigned kBytes =
      static_cast<unsigned>(kMainBytes > kSumBytes ? kMainBytes : kSumBytes) + kTileAlignment;
  static_assert(kAhead >= 2);
};

// sum += the products of a step. `x`: the step of x in shared memory.
template <class T, int kCount>
__device__ __forceinline__ void multiply_part(float (&sum)[kCount][4], PartOfStrip& part, unsigned x) {
  const SharedMatrix rows(x);
  wgmma_fence();
  multiply_sparse<T, 0>(sum, part.kept[0], part.places, rows);
  multiply_sparse<T, 1>(sum, part.kept[1], part.places, rows.after(64));
  wgmma_commit();
}

// Writes a lane's sums to shared memory, [row of x][row of the weight], and then all of them to the result.
template <class Group>
__device__ __forceinline__ void write_group(const StripsProduct& p, const LinearResult& to, float* sums,
                                            const float (&sum)[Group::kPanels * 8][4], int64_t m0,
                                            int64_t n0) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  float* const mine = sums + lane % 4 * 2 * Group::kSumPitch + thread / kWarp * 16 + lane / 4;
#pragma unroll
  for (int n = 0; n < Group::kPanels * 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) mine[(n * 8 + e % 2) * Group::kSumPitch + e / 2 * 8] = sum[n][e];
  }
  __syncthreads();
  for (int i = thread; i < Group::kColumns * Group::kRows; i += Group::kThreads) {
    const int m = i / Group::kRows, n = i % Group::kRows;
    if (m0 + m < p.M && n0 + n < p.N) to.store(m0 + m, n0 + n, sums[m * Group::kSumPitch + n]);
  }
}

// The strip of this warp, part after part. Beyond the last part, and beyond the last strip, the last one
// comes again: its products are not used. So loads are not conditional: else registers of operands would be
// set by several instructions, and the compiler would serialize the products.
class WarpStrip {
 public:
  __device__ __forceinline__ WarpStrip(const StripsProduct& p, int64_t n0) : left_(p.parts) {
    const int64_t strip = min(n0 / Strips24::kRows + threadIdx.x / kWarp, (p.N - 1) / Strips24::kRows);
    at_ = p.strips + strip * p.parts * Strips24::kPartBytes;
  }
  __device__ __forceinline__ void next(PartOfStrip& part) {
    part.load(at_);
    --left_;
    at_ += left_ > 0 ? Strips24::kPartBytes : 0;
  }

 private:
  const uint8_t* at_;
  int left_;
};

template <class T, class Group>
static __global__ void __launch_bounds__(Group::kThreads, 1)
    gemm_sparse24_kernel(const __grid_constant__ StripsProduct p, const __grid_constant__ LinearResult to,
                         TileOrder order) {
  if constexpr (kHasWarpgroups) {
    int64_t m0, n0;
    order.place(m0, n0);
    m0 *= Group::kColumns, n0 *= Group::kRows;
    __shared__ uint64_t barrier_state;
    const PipelinedBarrier barrier(&barrier_state);
    const unsigned shared = aligned_shared_memory();
    const ByteRows<Group::kColumns, Group::kThreads> x(static_cast<const int8_t*>(p.x), p.M, m0, p.x_row * 2,
                                                       p.K * 2);
    int fetched = 0, place = 0;
    const auto fetch = [&] {
      if (fetched < p.parts)
        x.fetch(shared + static_cast<unsigned>(place * Group::kStepBytes), fetched * kSlab);
      commit_copies();
      ++fetched, place = place + 1 == Group::kSteps ? 0 : place + 1;
    };
    for (int i = 0; i < Group::kAhead; ++i) fetch();
    WarpStrip strip(p, n0);
    PartOfStrip part[3];
    strip.next(part[0]), strip.next(part[1]);
    float sum[Group::kPanels * 8][4] = {};
    fence_operands(sum);  // else the zeros are set between the products, which serializes these
    wait_for_copies<Group::kAhead - 1>();
    fence_async_proxy();
    __syncthreads();  // step 0 is there
    int at = 0;
    // `now` has the parts of step i; `later` those of step i - 1, and then of step i + 2.
    const auto step = [&](int i, PartOfStrip& now, PartOfStrip& later) {
      wait_for_copies<Group::kAhead - 2>();  // step i + 1 is there, as far as this thread copies it
      fence_async_proxy();
      if (i > 0) barrier.wait(static_cast<unsigned>(i - 1));
      barrier.arrive();
      multiply_part<T>(sum, now, shared + static_cast<unsigned>(at * Group::kStepBytes));
      wgmma_wait<1>();  // the products of step i - 1 are complete
      strip.next(later);
      fetch();
      at = at + 1 == Group::kSteps ? 0 : at + 1;
    };
    // Three steps a turn, so that registers have fixed numbers. The last ones may be beyond K, and are zeros.
#pragma unroll 1
    for (int i = 0; i < p.parts; i += 3) {
      step(i, part[0], part[2]);
      if (i + 1 >= p.parts) break;
      step(i + 1, part[1], part[0]);
      if (i + 2 >= p.parts) break;
      step(i + 2, part[2], part[1]);
    }
    wgmma_wait<0>();
    wait_for_copies<0>();
    fence_operands(sum);
    __syncthreads();
    write_group<Group>(p, to, dynamic_shared<float>(), sum, m0, n0);
  } else {
    (void)p, (void)to, (void)order;
  }
}

// --- launchers ---

// Returns false if the device has too little shared memory.
template <class T, class Group>
bool launch_gemm_sparse24(const StripsProduct& p, const LinearResult& to) {
  if (Group::kBytes > properties(current_device()).shared_per_block_optin) return false;
  const TileOrder order{ceil_div(p.M, Group::kColumns), ceil_div(p.N, Group::kRows)};
  launch(gemm_sparse24_kernel<T, Group>,
         {dim3(static_cast<unsigned>(order.down * order.across)), dim3(Group::kThreads), Group::kBytes}, p,
         to, order);
  return true;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
