// Products with a weight stored as numbers and gaps (contract: backend/cpu/spmv_gaps.hpp), for few rows of x.
//
// x is in shared memory as f32. A warp computes one row of the weight after the other, 256 entries in a step:
// each lane has 8 neighbouring entries, 16 bytes of 16-bit numbers and a word of gaps, which it loaded one
// step before. The sum of a lane's gaps, and a scan over the lanes, say in which column its first entry lies.
// So all lanes multiply 8 numbers, however the zeros lie, and a number takes six instructions. If the weight
// has few rows, the warps of a block share them: each has a part of the entries, and adds up the gaps before
// its part first.
//
// Limit: bytes of the entries over copy bandwidth. Below it, conflicts of banks: the columns of 32 lanes are
// random, so that a request for x takes 3.5 passes.
// Source: a column as the distance from the column before: Han, Mao and Dally, "Deep compression", 2016.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/linear_result.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kGapStep = kWarp * 8;        // entries of a step
inline constexpr int kGapPadding = kGapStep + 8;  // zeros behind x, which entries beyond a row's end meet

// A lane's entries of a step.
template <class T>
struct GapStep {
  static constexpr int kWords = static_cast<int>(sizeof(T)) / 2;
  unsigned values[kWords][4];
  unsigned gaps;

  // Entries first + 8 lane and the next seven; the number 0 from `count` entries on.
  __device__ __forceinline__ void load(const GapView& w, int64_t first, int count) {
    const int ahead = static_cast<int>(threadIdx.x % kWarp) * 8;
    const bool exists = ahead < count;
    const int64_t at = first + ahead;
    gaps = 0;
#pragma unroll
    for (int i = 0; i < kWords; ++i) values[i][0] = values[i][1] = values[i][2] = values[i][3] = 0;
    if (!exists) return;
    gaps = load_word_once(w.gaps + at / 2);
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      load_once(values[i], static_cast<const uint8_t*>(w.values) + at * static_cast<int>(sizeof(T)) + i * 16);
  }
  // The number of columns that the entries advance.
  __device__ __forceinline__ unsigned advance() const {
    const unsigned pairs = (gaps & 0x0f0f0f0fu) + (gaps >> 4 & 0x0f0f0f0fu);
    return 8 + (pairs * 0x01010101u >> 24);
  }
};

// sum += the products of a step. `column`: behind the last column of the step before; moves on. Entries of
// the number 0 meet numbers of x, which matters only if these are not finite: kCareful leaves them out.
template <bool kCareful, class T>
__device__ __forceinline__ void add_step(float (&sum)[2], const GapStep<T>& step, unsigned& column,
                                         const float* x) {
  const unsigned own = step.advance(), upto = warp_scan(own);
  const float* at = x + (column + upto - own);
  column += __shfl_sync(0xffffffffu, upto, kWarp - 1);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    at += step.gaps >> (4 * i) & 15u;
    constexpr int kEach = 16 / static_cast<int>(sizeof(T));
    const T value = reinterpret_cast<const T*>(step.values[i / kEach])[i % kEach];
    const float v = to<float>(value);
    if (!kCareful || v != 0) sum[i % 2] = fmaf(v, *at, sum[i % 2]);
    ++at;
  }
}

// The sum of gap + 1 over entries first to last - 1, by a warp. `first` is a multiple of kGapStep from the
// beginning of a row.
__device__ __forceinline__ unsigned columns_of_part(const GapView& w, int64_t first, int64_t last) {
  unsigned sum = 0;
  for (int64_t i = first + static_cast<int64_t>(threadIdx.x % kWarp) * 8; i < last; i += kGapStep) {
    GapStep<uint16_t> step;
    step.gaps = reinterpret_cast<const unsigned*>(w.gaps)[i / 8];
    sum += step.advance();
  }
  return warp_reduce(sum, Sum());
}

// A row of x as f32 with zeros behind it, and whether all of its numbers are finite.
struct GapRow {
  const float* x;
  bool finite;
};
// x: a row of K numbers, of any dtype and stride, which are copied to shared memory.
struct GapOperand {
  const void* x;
  int64_t row, step;
  DType dtype;

  // Row m, after a barrier of the block.
  __device__ __forceinline__ GapRow open(int64_t m, int64_t columns) const {
    __shared__ unsigned infinite;
    if (threadIdx.x == 0) infinite = 0;
    __syncthreads();
    float* const own = dynamic_shared<float>();
    bool finite = true;
    const auto keep = [&](int64_t k, float number) {
      own[k] = number;
      finite = finite && fabsf(number) < INFINITY;
    };
    for_stored<float>(dtype, [&]<class T>(T*) {
      const T* const from = static_cast<const T*>(x) + m * row;
      constexpr int kEach = 16 / static_cast<int>(sizeof(T));
      // Vectors, as far as they are aligned: a block waits for x before anything else.
      const bool vectors = step == 1 && reinterpret_cast<uintptr_t>(from) % 16 == 0;
      const int64_t whole = vectors ? columns / kEach * kEach : 0;
      for (int64_t k = int64_t{threadIdx.x} * kEach; k < whole; k += int64_t{blockDim.x} * kEach) {
        float few[kEach];
        load(few, from + k);
#pragma unroll
        for (int i = 0; i < kEach; ++i) keep(k + i, few[i]);
      }
      for (int64_t k = whole + threadIdx.x; k < columns; k += blockDim.x) keep(k, to<float>(from[k * step]));
    });
    for (int64_t k = columns + threadIdx.x; k < columns + kGapPadding; k += blockDim.x) own[k] = 0;
    if (!finite) atomicOr(&infinite, 1u);
    __syncthreads();
    return {own, infinite == 0};
  }
  size_t shared_bytes(int64_t columns) const {
    return static_cast<size_t>(columns + kGapPadding) * sizeof(float);
  }
};
// The rows as f32 with kGapPadding zeros behind each, in device memory: for rows that do not fit. The
// compiler must know which memory it is, so that loads from shared memory are not generic ones.
struct LongGapOperand {
  const float* x;
  int64_t row;

  __device__ __forceinline__ GapRow open(int64_t m, int64_t) const { return {x + m * row, false}; }
  size_t shared_bytes(int64_t) const { return 0; }
};

// A warp computes whole rows. The first step of the next row is loaded during the last of this one.
template <bool kCareful, class T, int kThreads>
__device__ __forceinline__ void multiply_rows(const GapView& w, const float* x, const LinearResult& to) {
  // Rows and the entries of a row are counted in 32 bits: so that registers do not limit the threads.
  const int rows = static_cast<int>(w.rows), warps = static_cast<int>(gridDim.x) * (kThreads / kWarp);
  int row = static_cast<int>(blockIdx.x) * (kThreads / kWarp) + static_cast<int>(threadIdx.x) / kWarp;
  if (row >= rows) return;
  const auto open = [&](int n, int64_t& first, int& count) {
    first = w.offsets[n], count = static_cast<int>(w.offsets[n + 1] - first);
  };
  int64_t at, next_at = 0;
  int left, next_left = 0;
  open(row, at, left);
  if (rows - row > warps) open(row + warps, next_at, next_left);
  GapStep<T> now, later;
  now.load(w, at, left);
  float sum[2] = {};
  unsigned column = 0;
#pragma unroll 1
  while (true) {
    at += kGapStep, left -= kGapStep;
    const bool last = left <= 0;
    later.load(w, last ? next_at : at, last ? next_left : left);
    add_step<kCareful>(sum, now, column, x);
    now = later;
    if (!last) continue;
    const float total = warp_reduce(sum[0] + sum[1], Sum());
    if (threadIdx.x % kWarp == 0) to.store(blockIdx.y, row, total);
    if (rows - row <= warps) return;
    row += warps, at = next_at, left = next_left;
    sum[0] = sum[1] = 0, column = 0, next_left = 0;
    if (rows - row > warps) open(row + warps, next_at, next_left);
  }
}
template <class T, class Operand, int kThreads, int kResident>
static __global__ void __launch_bounds__(kThreads, kResident)
    spmv_gaps_kernel(const __grid_constant__ GapView w, const __grid_constant__ Operand operand,
                     const __grid_constant__ LinearResult to) {
  const GapRow row = operand.open(blockIdx.y, w.columns);
  if (row.finite) {
    multiply_rows<false, T, kThreads>(w, row.x, to);
  } else {
    multiply_rows<true, T, kThreads>(w, row.x, to);
  }
}

// The sum of the products of entries first to last - 1, in all lanes. `column`: where the first begins.
template <bool kCareful, class T>
__device__ __forceinline__ float multiply_part(const GapView& w, int64_t first, int64_t last, unsigned column,
                                               const float* x) {
  float sum[2] = {};
  for (int64_t at = first; at < last; at += kGapStep) {
    GapStep<T> step;
    step.load(w, at, static_cast<int>(min(last - at, int64_t{kGapStep})));
    add_step<kCareful>(sum, step, column, x);
  }
  return warp_reduce(sum[0] + sum[1], Sum());
}

// The warps of a block share each row.
template <class T, class Operand, int kThreads>
static __global__ void __launch_bounds__(kThreads)
    spmv_gaps_parts_kernel(const __grid_constant__ GapView w, const __grid_constant__ Operand operand,
                           const __grid_constant__ LinearResult to) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ unsigned columns[kWarps];
  __shared__ float parts[kWarps];
  const GapRow x = operand.open(blockIdx.y, w.columns);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t row = blockIdx.x; row < w.rows; row += gridDim.x) {
    const int64_t begin = w.offsets[row], end = w.offsets[row + 1],
                  each = ceil_div(ceil_div(end - begin, kGapStep), kWarps) * kGapStep,
                  first = min(begin + warp * each, end), last = min(first + each, end);
    const unsigned own = columns_of_part(w, first, last);
    if (lane == 0) columns[warp] = own;
    __syncthreads();
    unsigned column = 0;
    for (int i = 0; i < warp; ++i) column += columns[i];
    const float part = x.finite ? multiply_part<false, T>(w, first, last, column, x.x)
                                : multiply_part<true, T>(w, first, last, column, x.x);
    if (lane == 0) parts[warp] = part;
    __syncthreads();
    if (threadIdx.x == 0) {
      float total = 0;
      for (int i = 0; i < kWarps; ++i) total += parts[i];
      to.store(blockIdx.y, row, total);
    }
  }
}

// --- launchers ---

template <int kThreads, class Kernel, class Operand>
void launch_spmv_gaps(Kernel* kernel, int64_t blocks, const GapView& w, const Operand& x, int64_t M,
                      const LinearResult& to) {
  LaunchConfig config{dim3(1), dim3(kThreads), x.shared_bytes(w.columns)};
  config.grid.x = static_cast<unsigned>(std::min(blocks, resident_blocks(kernel, config)));
  config.grid.y = static_cast<unsigned>(M);
  launch(kernel, config, w, x, to);
}

template <class T, class Operand>
void launch_spmv_gaps(const GapView& w, const Operand& x, int64_t M, const LinearResult& to) {
  constexpr int kThreads = 512, kFew = 256, kResident = 2;
  if (w.rows >= int64_t{16} * properties(current_device()).multiprocessors) {
    launch_spmv_gaps<kThreads>(spmv_gaps_kernel<T, Operand, kThreads, kResident>,
                               ceil_div(w.rows, kThreads / kWarp), w, x, M, to);
  } else {
    launch_spmv_gaps<kFew>(spmv_gaps_parts_kernel<T, Operand, kFew>, w.rows, w, x, M, to);
  }
}

void spmv_gaps(const View& out, const View& x, const GapView& w) {
  if (out.numel() == 0) return;
  if (x.shape[0] > kMostGridRows) {
    return for_each_part(x.shape[0], kMostGridRows, [&](int64_t first, int64_t count) {
      spmv_gaps(rows_of(out, first, count), rows_of(x, first, count), w);
    });
  }
  dispatch_stored(w.dtype, [&]<class T>(T*) {
    if constexpr (std::is_same_v<Compute<T>, float>) {
      const int64_t M = x.shape[0], K = w.columns, pitch = K + kGapPadding;
      const LinearResult to(out, {});
      const GapOperand operand{x.data, x.strides[0], x.strides[1], x.dtype};
      // Half of the shared memory, so that two blocks are resident.
      if (2 * operand.shared_bytes(K) <= properties(current_device()).shared_per_block_optin)
        return launch_spmv_gaps<T>(w, operand, M, to);
      const DeviceScratch<float> own(M * pitch);
      fill({own.data(), DType::f32, {M, pitch}, {pitch, 1}}, 0.0);
      copy({own.data(), DType::f32, {M, K}, {pitch, 1}}, x);
      launch_spmv_gaps<T>(w, LongGapOperand{own.data(), pitch}, M, to);
    } else {
      fail("TT-DTYPE-02",
           std::string("spmv_gaps: on CUDA the values must be f32, bf16 or f16, got ") + name_of(w.dtype));
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
