// Products with a weight of dense blocks (contract: backend/cpu/spmm.hpp), on tensor cores. Blocks are of
// bf16 or f16, and the other operand is rounded to their dtype.
//
// A thread block computes all results of one row of blocks for 256 rows of x, or 64 if x has no more. Its
// warps have 64 rows of x each and all rows of the weight's blocks, so that a loaded number is multiplied 64
// times. A step is 32 columns: half a block of 64, one of 32, or two of 16. cp.async copies the part of x
// that belongs to the step's blocks, and the blocks, three steps ahead; the number of a block's column is
// read one step before its copies. Columns without a block are never read. Each sum runs over the blocks in
// order. On devices with warpgroups, blocks of 64 have a kernel of their own (sparse/bsr_warpgroups.cuh).
//
// Limit: 2 M B^2 operations for each block at the speed of mma, which is 0.6 of the dense peak on H100. x
// comes from the L2 cache once for each row of blocks, which limits blocks of 16 and 32 before.
// Source: Gray, Radford and Kingma, "GPU kernels for block-sparse weights", 2017.
#pragma once

#include <tinytorch/backend/cuda/device/linear_result.cuh>
#include <tinytorch/backend/cuda/device/tensor_core.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/int8_tiles.cuh>
#include <tinytorch/backend/cuda/kernels/rows/padded.cuh>
#include <tinytorch/backend/cuda/kernels/sparse/bsr_warpgroups.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// x: rows of K numbers padded to `columns`, a multiple of eight.
template <class T>
struct BsrProduct {
  const T *x, *values;
  const int32_t* columns_of;
  const int64_t* offsets;
  int64_t M, N, x_row, columns;
  bool vectors;  // eight neighbouring results of T begin at a multiple of 16 bytes
};

// The tile of a thread block: kWarps * 64 rows of x and one row of blocks.
template <int kBlock_, int kWarps_>
struct BsrTile {
  static constexpr int kBlock = kBlock_, kWarps = kWarps_, kThreads = kWarps * kWarp, kRows = kWarps * 64;
  static constexpr int kDepth = 32, kPieces = kDepth / 8, kRowBytes = kDepth * 2, kStages = 4;
  static constexpr unsigned kRowsBytes = kRows * kRowBytes, kStageBytes = (kRows + kBlock) * kRowBytes;
  static constexpr int kSumPitch = kBlock + 8;  // floats; the rows of a request differ in banks
  static constexpr unsigned kSumBytes = kRows * kSumPitch * 4, kStagesBytes = kStages * kStageBytes;
  static constexpr unsigned kBytes = kSumBytes > kStagesBytes ? kSumBytes : kStagesBytes;

  // The place of 16-byte piece `piece` of a row in a stage. The eight rows of a small matrix are in different
  // banks, two rows in each 128 bytes.
  static __device__ __forceinline__ unsigned place(int row, int piece) {
    return static_cast<unsigned>(row * kRowBytes + (piece ^ row / 2 % kPieces) * 16);
  }
};

// Copies the steps of one row of blocks to shared memory, in order. A thread has the same piece of 16 bytes
// of some rows of x and of the blocks.
template <class T, class Tile>
class BsrSteps {
 public:
  __device__ __forceinline__ BsrSteps(const BsrProduct<T>& p, int64_t block_row, int64_t m0)
      : x_(p.x + (m0 + line()) * p.x_row),
        x_step_(kLines * p.x_row),
        columns_(p.columns),
        rows_(static_cast<int>(min(p.M - m0 - line(), static_cast<int64_t>(Tile::kRows)))),
        column_of_(p.columns_of),
        values_(p.values),
        spare_(p.x),
        end_(p.offsets[block_row + 1]) {
    const int64_t begin = p.offsets[block_row];
    steps_ = (end_ - begin) * kB / Tile::kDepth + ((end_ - begin) * kB % Tile::kDepth != 0);
    block_ = begin + piece() * 8 / kB;
    within_ = piece() * 8 % kB;
    column_ = column();
  }
  __device__ __forceinline__ int64_t steps() const { return steps_; }

  // Starts the copies of the next step. What does not exist becomes zeros.
  __device__ __forceinline__ void fetch(unsigned stage) {
    const int64_t k = static_cast<int64_t>(column_) * kB + within_;
    const bool inside = column_ >= 0 && k < columns_;
    const unsigned to_ = stage + Tile::place(line(), piece());
#pragma unroll
    for (int i = 0; i < Tile::kRows / kLines; ++i) {
      const bool exists = inside && i * kLines < rows_;
      copy_async(to_ + static_cast<unsigned>(i * kLines * Tile::kRowBytes),
                 exists ? x_ + i * x_step_ + k : spare_, exists);
    }
    if (kLines <= kB || line() < kB) {
      const T* const from = values_ + (block_ * kB + line()) * kB + within_;
#pragma unroll
      for (int i = 0; i < ceil_div(kB, kLines); ++i) {
        copy_async(to_ + Tile::kRowsBytes + static_cast<unsigned>(i * kLines * Tile::kRowBytes),
                   inside ? from + i * kLines * kB : spare_, inside);
      }
    }
    advance();
  }

 private:
  static constexpr int kB = Tile::kBlock, kLines = Tile::kThreads / Tile::kPieces;
  static_assert(kLines % 8 == 0, "all rows of a thread must have the same swizzle");
  static __device__ __forceinline__ int line() { return static_cast<int>(threadIdx.x) / Tile::kPieces; }
  static __device__ __forceinline__ int piece() { return static_cast<int>(threadIdx.x) % Tile::kPieces; }
  __device__ __forceinline__ int column() const { return block_ < end_ ? column_of_[block_] : -1; }
  __device__ __forceinline__ void advance() {
    within_ += Tile::kDepth;
    if (within_ < kB) return;
    block_ += within_ / kB, within_ %= kB;
    column_ = column();
  }

  const T* x_;
  int64_t x_step_, columns_;
  int rows_;
  const int32_t* column_of_;
  const T *values_, *spare_;
  int64_t end_, steps_, block_;  // of blocks; this thread's next one
  int within_, column_;          // the first column of its next piece in the block; the block's column
};

// sum [64, kBlock] += the products of a step. x and w: this warp's rows of x and the blocks in shared memory.
template <class T, class Tile>
__device__ __forceinline__ void multiply_step(float (&sum)[4][Tile::kBlock / 8][4], unsigned x, unsigned w) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, row = lane % 8, which = lane / 8;
#pragma unroll
  for (int k = 0; k < Tile::kDepth / 16; ++k) {
    unsigned a[4][4], b[Tile::kBlock / 16][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)  // matrices: top, bottom, and both again 8 columns further
      load_matrices(a[i], x + Tile::place(i * 16 + which % 2 * 8 + row, k * 2 + which / 2));
#pragma unroll
    for (int j = 0; j < Tile::kBlock / 16; ++j)  // 8 columns further, and the next eight rows of the weight
      load_matrices(b[j], w + Tile::place(j * 16 + which / 2 * 8 + row, k * 2 + which % 2));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int n = 0; n < Tile::kBlock / 8; ++n)
        multiply_add<T>(sum[i][n], a[i], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
  }
}

// Writes a warp's sums [64, kBlock] from row m0 and column n0 on, in pieces of eight neighbours: they pass
// through `space` in shared memory, because a lane has only pairs.
template <class T, class Tile>
__device__ __forceinline__ void write_blocks(const BsrProduct<T>& p, const LinearResult& to, float* space,
                                             const float (&sum)[4][Tile::kBlock / 8][4], int64_t m0,
                                             int64_t n0) {
  constexpr int kPieces = Tile::kBlock / 8;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int n = 0; n < kPieces; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const at = space + (i * 16 + half * 8 + lane / 4) * Tile::kSumPitch + n * 8 + lane % 4 * 2;
        *reinterpret_cast<float2*>(at) = make_float2(sum[i][n][half * 2], sum[i][n][half * 2 + 1]);
      }
    }
  }
  __syncwarp();
  for (int i = lane; i < 64 * kPieces; i += kWarp) {
    const int64_t m = m0 + i / kPieces, n = n0 + i % kPieces * 8;
    if (m >= p.M) break;
    const float* const from = space + i / kPieces * Tile::kSumPitch + i % kPieces * 8;
    float eight[8];
    load(eight, from);
    if (p.vectors && n + 8 <= p.N) {
      store(static_cast<T*>(to.out) + m * to.row + n, eight);
    } else {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (n + e < p.N) to.store(m, n + e, eight[e]);
      }
    }
  }
}

template <class T, class Tile>
static __global__ void __launch_bounds__(Tile::kThreads, Tile::kWarps == 1 ? 1 : 2)
    spmm_bsr_kernel(const __grid_constant__ BsrProduct<T> p, const __grid_constant__ LinearResult to,
                    TileOrder order) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  int64_t m0, block_row;
  order.place(m0, block_row);
  m0 *= Tile::kRows;
  const unsigned shared = shared_address(dynamic_shared<unsigned char>());
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  BsrSteps<T, Tile> next(p, block_row, m0);
  const int64_t steps = next.steps();
  float sum[4][Tile::kBlock / 8][4] = {};
  for (int s = 0; s < Tile::kStages - 1; ++s) {
    if (s < steps) next.fetch(shared + static_cast<unsigned>(s) * Tile::kStageBytes);
    commit_copies();
  }
  unsigned reading = 0, writing = Tile::kStages - 1;
  for (int64_t s = 0; s < steps; ++s) {
    wait_for_copies<Tile::kStages - 2>();
    // The step is there for all threads, and all have finished reading the step before it.
    __syncthreads();
    if (s + Tile::kStages - 1 < steps) next.fetch(shared + writing * Tile::kStageBytes);
    commit_copies();
    const unsigned stage = shared + reading * Tile::kStageBytes;
    multiply_step<T, Tile>(sum, stage + static_cast<unsigned>(warp * 64 * Tile::kRowBytes),
                           stage + Tile::kRowsBytes);
    reading = reading + 1 == Tile::kStages ? 0 : reading + 1;
    writing = writing + 1 == Tile::kStages ? 0 : writing + 1;
  }
  wait_for_copies<0>();
  __syncthreads();
  write_blocks<T, Tile>(p, to, dynamic_shared<float>() + warp * 64 * Tile::kSumPitch, sum, m0 + warp * 64,
                        block_row * Tile::kBlock);
#endif
}

// --- launchers ---

template <class T, class Tile>
void launch_spmm_bsr(const BsrProduct<T>& p, const LinearResult& to) {
  const TileOrder order{ceil_div(p.M, Tile::kRows), ceil_div(p.N, Tile::kBlock)};
  launch(spmm_bsr_kernel<T, Tile>,
         {dim3(static_cast<unsigned>(order.down * order.across)), dim3(Tile::kThreads), Tile::kBytes}, p, to,
         order);
}
template <class T, int kBlock>
void launch_spmm_bsr(const BsrProduct<T>& p, const LinearResult& to) {
  if (p.M <= 64) return launch_spmm_bsr<T, BsrTile<kBlock, 1>>(p, to);
  launch_spmm_bsr<T, BsrTile<kBlock, 4>>(p, to);
}

void spmm_bsr(const View& c, const BsrView& w, const View& b) {
  if (c.numel() == 0) return;
  if (!has_tensor_cores()) {
    fail("TT-CUDA-04",
         "spmm_bsr: blocks are multiplied by tensor cores (compute capability 8.0)\n  hint: use a bitmap, or "
         "keep the weight dense");
  }
  const auto run = [&]<class T>(T*) {
    const View x = transposed(b), out = transposed(c);
    const PaddedRows<T> rows(x);
    const LinearResult to(out, {});
    if (multiply_bsr_by_groups<T>(w, rows, x.shape[0], to)) return;
    const bool vectors = to.has_vectors<T>();
    const BsrProduct<T> p{rows.data(),  static_cast<const T*>(w.values),
                          w.columns_of, w.offsets,
                          x.shape[0],   w.rows,
                          rows.row(),   rows.columns(),
                          vectors};
    if (w.block == 16) return launch_spmm_bsr<T, 16>(p, to);
    if (w.block == 32) return launch_spmm_bsr<T, 32>(p, to);
    launch_spmm_bsr<T, 64>(p, to);
  };
  if (w.dtype == DType::bf16) return run(static_cast<BFloat16*>(nullptr));
  if (w.dtype == DType::f16) return run(static_cast<Half*>(nullptr));
  fail("TT-DTYPE-02", std::string("spmm_bsr: on CUDA the blocks must be of bf16 or f16, got ") +
                          name_of(w.dtype) + "\n  hint: convert the weight with .to(bf16)");
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
