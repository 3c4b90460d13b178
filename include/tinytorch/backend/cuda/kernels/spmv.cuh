// Products with a weight stored as a bitmap (contract: backend/cpu/spmv.hpp), for few rows of x.
//
// A warp computes some rows of the weight. The numbers of a row are neighbours in memory, so they stream
// through a ring in shared memory some steps ahead of their use, whatever the bitmap says. In a step a lane
// has 8 neighbouring columns, a byte of the bitmap; a scan of the bytes' counts says where its numbers begin
// in the ring. x is loaded once for all rows of the warp. If the weight has few rows, the warps of a block
// share them: each has a part of the columns, and counts the bits before its part.
// Limit: bytes of the numbers and the bitmap over copy bandwidth; below a density of one half, the some 110
// instructions that a warp needs to decode 256 columns.
#pragma once

#include <tinytorch/backend/cuda/device/async_copy.cuh>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/linear_result.cuh>
#include <tinytorch/backend/cuda/kernels/rows/padded.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kSpmvWarps = 4, kSpmvThreads = kSpmvWarps * kWarp;
inline constexpr int kSpmvStep = kWarp * 8;  // columns of a step

// Numbers of one row of the weight, which a warp copies to a ring in shared memory ahead of their use.
// A step needs at most kSpmvStep numbers. They are copied at least one step before: fetch() is called
// kFetches times a step, and keeps the ring full, which is four steps with all numbers stored.
template <class T>
class NumberRing {
 public:
  static constexpr int kChunk = kWarp * 16;  // bytes of a copy by all lanes
  static constexpr int kFetches = kSpmvStep * static_cast<int>(sizeof(T)) / kChunk;
  static constexpr unsigned kBytes = 4 * kSpmvStep * sizeof(T);
  static constexpr int kSpare =
      8 * static_cast<int>(sizeof(T));  // its first bytes again: no lane's run wraps
  static constexpr int kPitch = static_cast<int>(kBytes) + kSpare;

  // Numbers first to last - 1 of `w`. `memory`: kPitch bytes.
  __device__ __forceinline__ void open(unsigned char* memory, const BitmapView& w, int64_t first,
                                       int64_t last) {
    const auto values = reinterpret_cast<uintptr_t>(w.values),
               at = values + static_cast<uintptr_t>(first) * sizeof(T);
    memory_ = memory;
    from_ = reinterpret_cast<const unsigned char*>(at / 16 * 16);
    used_ = static_cast<unsigned>(at % 16);
    left_ = (last - first) * static_cast<int64_t>(sizeof(T)) + static_cast<int64_t>(used_);
    end_ = reinterpret_cast<const unsigned char*>(values + static_cast<uintptr_t>(w.nnz) * sizeof(T));
  }
  // Starts to copy the next bytes, if they are needed and the ring has room.
  __device__ __forceinline__ void fetch() {
    if (left_ <= 0 || filled_ + kChunk - used_ / 16 * 16 > kBytes) return;
    const int mine = static_cast<int>(threadIdx.x) % kWarp * 16;
    unsigned char* const to = memory_ + filled_ % kBytes + mine;
    if (mine < left_) copy(to, from_ + mine);
    if (filled_ % kBytes == 0 && mine < kSpare && mine < left_) copy(to + kBytes, from_ + mine);
    from_ += kChunk, left_ -= kChunk, filled_ += kChunk;
  }
  // The number that is `ahead` of the next one. The 7 after it follow in memory.
  __device__ __forceinline__ const T* number(unsigned ahead) const {
    return reinterpret_cast<const T*>(memory_ + (used_ + ahead * static_cast<unsigned>(sizeof(T))) % kBytes);
  }
  __device__ __forceinline__ void drop(unsigned numbers) {
    used_ += numbers * static_cast<unsigned>(sizeof(T));
  }

 private:
  // 16 bytes, or those before the end of the numbers.
  __device__ __forceinline__ void copy(unsigned char* to, const unsigned char* from) const {
    if (from + 16 <= end_) {
      copy_async(shared_address(to), from, true);
    } else {
      for (int i = 0; from + (i + 1) * static_cast<int>(sizeof(T)) <= end_; ++i)
        reinterpret_cast<T*>(to)[i] = reinterpret_cast<const T*>(from)[i];
    }
  }

  unsigned char* memory_;
  const unsigned char *from_, *end_;  // the next bytes; behind the last number of the weight
  int64_t left_;                      // bytes that are not copied yet
  unsigned filled_ = 0, used_ = 0;    // bytes copied and used since the ring began, modulo 2^32
};

// The rows of a warp. kRows is even.
template <class T, int kRows>
struct BitmapRows {
  NumberRing<T> ring[kRows];
  const uint8_t* bits[kRows];
  int bytes;  // of a row of the bitmap

  // Rows n0 to n0 + kRows - 1, from byte `first` of their bits on. `memory`: the rings of this warp.
  __device__ __forceinline__ BitmapRows(const BitmapView& w, int64_t n0, int first, unsigned char* memory)
      : bytes(static_cast<int>(ceil_div(w.columns, 64) * 8)) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t n = min(n0 + r, w.rows - 1);  // the last row again: its sum is not written
      bits[r] = reinterpret_cast<const uint8_t*>(w.bits) + n * bytes;
      ring[r].open(memory + r * NumberRing<T>::kPitch, w, w.offsets[n] + count_before(bits[r], first),
                   w.offsets[n + 1]);
    }
  }
  // The number of bits in bytes 0 to first - 1, counted by the warp; `first` is a multiple of 4.
  static __device__ __forceinline__ int count_before(const uint8_t* row, int first) {
    if (first == 0) return 0;
    int count = 0;
    for (int i = static_cast<int>(threadIdx.x) % kWarp; i < first / 4; i += kWarp)
      count += __popc(reinterpret_cast<const unsigned*>(row)[i]);
    for (int step = kWarp / 2; step > 0; step /= 2) count += __shfl_xor_sync(0xffffffffu, count, step);
    return count;
  }
  __device__ __forceinline__ void fetch() {
#pragma unroll
    for (int i = 0; i < NumberRing<T>::kFetches; ++i) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) ring[r].fetch();
    }
    commit_copies();
  }
  // The lane's byte of each row, in the step that begins at byte `first` of a row.
  __device__ __forceinline__ void load_bits(unsigned (&byte)[kRows], int first) const {
    const int at = first + static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int r = 0; r < kRows; ++r) byte[r] = at < bytes ? bits[r][at] : 0u;
  }
  // Multiplies the numbers of a step with the lane's 8 numbers of x.
  __device__ __forceinline__ void add_step(float (&sum)[kRows], const unsigned (&byte)[kRows],
                                           const float (&x)[8]) {
#pragma unroll
    for (int pair = 0; pair < kRows; pair += 2) {
      // Two rows are counted in one word: a step has at most 256 numbers.
      const unsigned own =
          static_cast<unsigned>(__popc(byte[pair])) | static_cast<unsigned>(__popc(byte[pair + 1])) << 16;
      const unsigned upto = warp_scan(own);
      const unsigned all = __shfl_sync(0xffffffffu, upto, kWarp - 1), before = upto - own;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = pair + half;
        const T* at = ring[r].number(before >> (16 * half) & 0xffffu);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          if ((byte[r] >> j & 1u) != 0) sum[r] = fmaf(to<float>(*at++), x[j], sum[r]);
        }
        ring[r].drop(all >> (16 * half) & 0xffffu);
      }
    }
  }
};

// The lane's 8 numbers of x from column k on; zeros from `columns` on.
template <class T>
__device__ __forceinline__ void load_factors(float (&factors)[8], const T* x, int k, int columns) {
  constexpr int kEach = 16 / static_cast<int>(sizeof(T));
#pragma unroll
  for (int part = 0; part < 8; part += kEach) {
    float few[kEach] = {};
    if (k + part < columns) load(few, x + k + part);
#pragma unroll
    for (int j = 0; j < kEach; ++j) factors[part + j] = few[j];
  }
}

// The sums of a warp's rows over steps begin to end - 1. `memory`: the rings of this warp.
template <class T, int kRows>
__device__ __forceinline__ void add_steps(float (&sum)[kRows], const BitmapView& w, int64_t n0, const T* x,
                                          int columns, int begin, int end, unsigned char* memory) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  BitmapRows<T, kRows> rows(w, n0, begin * kWarp, memory);
  unsigned byte[kRows], next[kRows];
  rows.load_bits(byte, begin * kWarp);
#pragma unroll 1
  for (int i = 0; i < 3; ++i) rows.fetch();
#pragma unroll 1
  for (int s = begin; s < end; ++s) {
    rows.load_bits(next, (s + 1) * kWarp);  // one step ahead
    float factors[8];
    load_factors(factors, x, s * kSpmvStep + lane * 8, columns);
    rows.fetch();
    wait_for_copies<1>();
    __syncwarp();  // the numbers of this step are there for all lanes
    rows.add_step(sum, byte, factors);
    __syncwarp();  // and their places may be filled again
#pragma unroll
    for (int r = 0; r < kRows; ++r) byte[r] = next[r];
  }
  wait_for_copies<0>();
}

// x: rows of K padded to `columns`, a multiple of 16 bytes. blockIdx.y is the row of x. kParts warps share
// kRows rows of the weight: 1, or all warps of the block.
template <class T, int kRows, int kParts>
static __global__ void __launch_bounds__(kSpmvThreads)
    spmv_bitmap_kernel(const __grid_constant__ BitmapView w, const T* x, int64_t x_row, int columns,
                       const __grid_constant__ LinearResult to) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t n0 = (static_cast<int64_t>(blockIdx.x) * (kSpmvWarps / kParts) + warp / kParts) * kRows;
  const int steps = ceil_div(columns, kSpmvStep), each = ceil_div(steps, kParts);
  const int begin = min(warp % kParts * each, steps), end = min(begin + each, steps);
  float sum[kRows] = {};
  if (n0 < w.rows && begin < end) {
    unsigned char* const memory = dynamic_shared<unsigned char>() + warp * kRows * NumberRing<T>::kPitch;
    add_steps(sum, w, n0, x + blockIdx.y * x_row, columns, begin, end, memory);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    for (int step = kWarp / 2; step > 0; step /= 2) sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], step);
  }
  if constexpr (kParts > 1) {
    __shared__ float parts[kSpmvWarps][kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (lane == 0) parts[warp][r] = sum[r];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sum[r] = 0;
      for (int p = 0; p < kParts; ++p) sum[r] += parts[p][r];
    }
    if (warp > 0) return;
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (lane == 0 && n0 + r < w.rows) to.store(blockIdx.y, n0 + r, sum[r]);
  }
}

// --- launchers ---

template <class T, int kRows, int kParts>
void launch_spmv_bitmap(const BitmapView& w, const PaddedRows<T>& x, int64_t M, const LinearResult& to) {
  LaunchConfig config = over(ceil_div(w.rows, kRows) * kParts * kWarp, kSpmvThreads);
  config.grid.y = static_cast<unsigned>(M);
  config.shared_bytes = static_cast<size_t>(kSpmvWarps * kRows * NumberRing<T>::kPitch);
  launch(spmv_bitmap_kernel<T, kRows, kParts>, config, w, x.data(), x.row(), static_cast<int>(x.columns()),
         to);
}

void spmv_bitmap(const View& out, const View& x, const BitmapView& w) {
  if (out.numel() == 0) return;
  if (x.shape[0] > kMostGridRows) {
    return for_each_part(x.shape[0], kMostGridRows, [&](int64_t first, int64_t count) {
      spmv_bitmap(rows_of(out, first, count), rows_of(x, first, count), w);
    });
  }
  dispatch_stored(w.dtype, [&]<class T>(T*) {
    if constexpr (std::is_same_v<Compute<T>, float>) {
      const PaddedRows<T> rows(x);
      const LinearResult to(out, {});
      // More rows of a warp would need registers of more warps. Few rows are divided among warps.
      if (w.rows >= int64_t{16} * properties(current_device()).multiprocessors)
        return launch_spmv_bitmap<T, 2, 1>(w, rows, x.shape[0], to);
      return launch_spmv_bitmap<T, 2, kSpmvWarps>(w, rows, x.shape[0], to);
    } else {
      fail("TT-DTYPE-02",
           std::string("spmv_bitmap: on CUDA the values must be f32, bf16 or f16, got ") + name_of(w.dtype));
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
