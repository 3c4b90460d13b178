// Rows of floats as 8-bit codes with one scale per row (contract: backend/cpu/quantize_rows.hpp).
//
// Each element is read once and each code is written once: 3 bytes per element of bf16. A row stays in
// registers, or in shared memory if it is longer than 64 KiB (row.cuh), between the maximum and the codes.
// Rows that are too long for that, or too few to keep the device busy with a block each, are cut into
// segments of a block each, in two kernels: the first finds the largest magnitude of each segment, and the
// second reads the row again, from the L2 cache, because as many rows as fit there are processed at a time.
// Narrow rows are copied in tiles of many rows, for a vector of 16 bytes spans several of them.
// Limit: memory bandwidth.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/float8.cuh>
#include <tinytorch/backend/cuda/device/row.cuh>
#include <tinytorch/backend/cuda/device/segments.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/row_codes.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The result. vectors: the codes of an aligned vector of x begin at a multiple of their number.
struct CodeRows {
  uint8_t* codes;
  float* scale;
  bool fp8, vectors;

  __device__ __forceinline__ RowScale scale_of(float largest) const {
    return fp8 ? RowScale::of<Float8>(largest) : RowScale::of<int8_t>(largest);
  }
  // Two codes: the first in bits 0 to 7, the second in bits 8 to 15.
  __device__ __forceinline__ unsigned pair(float low, float high) const {
    if (fp8) return encode_pair<Float8>(low, high);
    return (static_cast<unsigned>(__float2int_rn(low)) & 0xffu) |
           (static_cast<unsigned>(__float2int_rn(high)) & 0xffu) << 8;
  }
  // Writes the codes of columns c, c + 1, ... that are inside the row at `to`.
  template <int kCount>
  __device__ __forceinline__ void write(uint8_t* to, int c, int C, const float (&x)[kCount],
                                        const RowScale& by) const {
    if constexpr (kCount == 1) {
      to[c] = static_cast<uint8_t>(pair(by.number(x[0]), 0));
    } else {
      uint16_t pairs[kCount / 2];
#pragma unroll
      for (int k = 0; k < kCount; k += 2) {
        pairs[k / 2] = static_cast<uint16_t>(pair(by.number(x[k]), by.number(x[k + 1])));
      }
      if (vectors && c >= 0 && c + kCount <= C) {
        using Word = typename WordOf<kCount>::Type;
        Word word;
        memcpy(&word, pairs, sizeof(word));
        *reinterpret_cast<Word*>(to + c) = word;
        return;
      }
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        if (is_inside(c + k, C)) to[c + k] = static_cast<uint8_t>(pairs[k / 2] >> k % 2 * 8);
      }
    }
  }
};

template <int kCount>
__device__ __forceinline__ float include_magnitudes(float largest, const float (&x)[kCount]) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) largest = Maximum()(largest, fabsf(x[k]));
  return largest;
}

// --- rows in registers or shared memory ---

template <class R, class T = typename R::Element>
static __global__ void __launch_bounds__(kRowThreads<R::kGroup>)
    quantize_rows_kernel(CodeRows to, const T* x, int64_t rows, int64_t columns) {
  constexpr int kGroup = R::kGroup, kCount = R::kVectorSize;
  const GroupRow mine = row_of_group<kGroup>(rows, columns, blockIdx.x);
  if (mine.exits) return;
  const int C = mine.C;
  const T* const from = x + mine.row * columns;
  R r;
  r.align_with(from);
  r.read(from, C);
  float largest = 0;
  r.each(C, [&](int, const float(&v)[kCount]) { largest = include_magnitudes(largest, v); });
  const RowScale by = to.scale_of(group_reduce<kGroup>(largest, Maximum()));
  if (R::lane() == 0 && mine.valid) to.scale[mine.row] = by.scale;
  uint8_t* const codes = to.codes + mine.row * columns;
  r.each(C, [&](int c, const float(&v)[kCount]) { to.write(codes, c, C, v, by); });
}

// --- narrow rows in tiles ---

inline constexpr int kNarrowThreads = 256;
inline constexpr int64_t kNarrowColumns = 64, kNarrowBytes = 16384;  // longest row; bytes of a tile
struct NarrowPlan {
  int C, each, lanes;  // columns, rows of a tile, lanes that share a row
  FastDivide by_columns;
  bool vectors;  // x begins at a multiple of 16 bytes, codes at a multiple of 4
};

// The largest magnitude of row `row` of a tile, of which `lanes` neighbouring lanes each read a part.
template <class T>
__device__ __forceinline__ float largest_in_tile(const T* tile, const NarrowPlan& p, int row, int rows) {
  const int lane = static_cast<int>(threadIdx.x) % p.lanes;
  float largest = 0;
  for (int c = lane; c < p.C && row < rows; c += p.lanes) {
    largest = Maximum()(largest, fabsf(to<float>(tile[row * p.C + c])));
  }
  for (int step = p.lanes / 2; step > 0; step /= 2) {
    largest = Maximum()(largest, shuffle_xor(largest, step));
  }
  return largest;
}

template <class T>
static __global__ void __launch_bounds__(kNarrowThreads)
    quantize_narrow_kernel(CodeRows to_, const T* x, int64_t all, const __grid_constant__ NarrowPlan p) {
  T* const tile = dynamic_shared<T>();
  RowScale* const scales = reinterpret_cast<RowScale*>(tile + p.each * p.C);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * p.each, start = first * p.C;
  const int rows = static_cast<int>(min(static_cast<int64_t>(p.each), all - first)), n = rows * p.C;
  const int thread = static_cast<int>(threadIdx.x);
  int copied = 0;
  if (p.vectors) {
    constexpr int kVector = kVectorSizeOf<T>;
    copied = n / kVector * kVector;
    for (int i = thread * kVector; i < copied; i += kNarrowThreads * kVector) {
      *reinterpret_cast<uint4*>(tile + i) = *reinterpret_cast<const uint4*>(x + start + i);
    }
  }
  for (int i = copied + thread; i < n; i += kNarrowThreads) tile[i] = x[start + i];
  __syncthreads();
  for (int row = thread / p.lanes; row < p.each; row += kNarrowThreads / p.lanes) {
    const RowScale by = to_.scale_of(largest_in_tile(tile, p, row, rows));
    if (thread % p.lanes == 0 && row < rows) scales[row] = by, to_.scale[first + row] = by.scale;
  }
  __syncthreads();
  constexpr int kCount = 4;
  for (int i = thread * kCount; i < n; i += kNarrowThreads * kCount) {
    int row = static_cast<int>(p.by_columns.quotient(static_cast<unsigned>(i))), c = i - row * p.C;
    float number[kCount];
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      number[k] = i + k < n ? scales[row].number(to<float>(tile[i + k])) : 0.0f;
      if (++c == p.C) c = 0, ++row;
    }
    const unsigned word = to_.pair(number[0], number[1]) | to_.pair(number[2], number[3]) << 16;
    if (p.vectors && i + kCount <= n) {
      *reinterpret_cast<unsigned*>(to_.codes + start + i) = word;
    } else {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        if (i + k < n) to_.codes[start + i + k] = static_cast<uint8_t>(word >> 8 * k);
      }
    }
  }
}

template <class T>
void quantize_narrow(const CodeRows& to, const T* x, int64_t rows, int64_t C) {
  const int64_t fit = kNarrowBytes / (C * static_cast<int64_t>(sizeof(T))) / 16 * 16,
                each = std::clamp<int64_t>(fit, 16, 1024);
  NarrowPlan p{static_cast<int>(C), static_cast<int>(each), 1, FastDivide(static_cast<uint32_t>(C)), true};
  while (p.lanes < 16 && 2 * p.lanes * p.each <= kNarrowThreads) p.lanes *= 2;
  p.vectors = phase_of(x) == 0 && reinterpret_cast<uintptr_t>(to.codes) % 4 == 0;
  const size_t bytes =
      static_cast<size_t>(each * C) * sizeof(T) + static_cast<size_t>(each) * sizeof(RowScale);
  launch(quantize_narrow_kernel<T>,
         {dim3(static_cast<unsigned>(ceil_div(rows, each))), dim3(kNarrowThreads), bytes}, to, x, rows, p);
}

// --- long rows in segments ---

// Calls f(first column, elements) for the vectors of this block's segment of a row: aligned vectors, where
// elements outside of the row are 0.
template <class T, class F>
__device__ __forceinline__ void each_of_segment(const T* row, int C, int64_t segment, F&& f) {
  constexpr int kCount = kVectorSizeOf<T>, kEach = static_cast<int>(kSegment) / kCount / kSegmentThreads;
  const int first = static_cast<int>(segment * kSegment) - phase_of(row);
  uint4 vectors[kEach];
#pragma unroll
  for (int v = 0; v < kEach; ++v) {
    const int c = first + (v * kSegmentThreads + static_cast<int>(threadIdx.x)) * kCount;
    if (c < C) vectors[v] = load_aligned_vector(row, c, C, T{});
  }
#pragma unroll
  for (int v = 0; v < kEach; ++v) {
    const int c = first + (v * kSegmentThreads + static_cast<int>(threadIdx.x)) * kCount;
    if (c >= C) break;
    float x[kCount];
    load(x, reinterpret_cast<const T*>(&vectors[v]));
    f(c, x);
  }
}

// Block b has segment b % segments of row b / segments.
template <class T>
static __global__ void __launch_bounds__(kSegmentThreads)
    largest_of_segments(float* largest_of, const T* x, int64_t C, int64_t segments) {
  float largest = 0;
  each_of_segment(x + blockIdx.x / segments * C, static_cast<int>(C), blockIdx.x % segments,
                  [&](int, const float(&v)[kVectorSizeOf<T>]) { largest = include_magnitudes(largest, v); });
  largest = block_reduce<kSegmentThreads>(largest, Maximum());
  if (threadIdx.x == 0) largest_of[blockIdx.x] = largest;
}
template <class T>
static __global__ void __launch_bounds__(kSegmentThreads)
    encode_segments(CodeRows to, const T* x, const float* largest_of, int64_t C, int64_t segments) {
  const int64_t row = blockIdx.x / segments;
  float largest = 0;
  for (int64_t s = threadIdx.x; s < segments; s += kSegmentThreads) {
    largest = Maximum()(largest, largest_of[row * segments + s]);
  }
  const RowScale by = to.scale_of(block_reduce<kSegmentThreads>(largest, Maximum()));
  if (threadIdx.x == 0 && blockIdx.x % segments == 0) to.scale[row] = by.scale;
  uint8_t* const codes = to.codes + row * C;
  each_of_segment(
      x + row * C, static_cast<int>(C), blockIdx.x % segments,
      [&](int c, const float(&v)[kVectorSizeOf<T>]) { to.write(codes, c, static_cast<int>(C), v, by); });
}

inline constexpr int64_t kSegmentedBytes = int64_t{16} << 20;  // of the rows that are read twice

template <class T>
void quantize_segments(CodeRows to, const T* x, int64_t rows, int64_t C) {
  const int64_t segments = ceil_div(C + kVectorSizeOf<T> - 1, kSegment);
  const int64_t together =
      std::clamp<int64_t>(kSegmentedBytes / (C * static_cast<int64_t>(sizeof(T))), 1, rows);
  const DeviceScratch<float> largest(together * segments);
  for (int64_t row = 0; row < rows; row += together) {
    const int64_t some = std::min(together, rows - row);
    const LaunchConfig grid{dim3(static_cast<unsigned>(some * segments)), dim3(kSegmentThreads)};
    launch(largest_of_segments<T>, grid, largest.data(), x + row * C, C, segments);
    launch(encode_segments<T>, grid, CodeRows{to.codes + row * C, to.scale + row, to.fp8, to.vectors},
           x + row * C, largest.data(), C, segments);
  }
}

// --- launcher ---

template <class T>
void quantize_stored(CodeRows to, const T* x, int64_t rows, int64_t C) {
  const bool aligned = rows_are_aligned<T>(C, {x});
  to.vectors = static_cast<int>(reinterpret_cast<uintptr_t>(to.codes) % kVectorSizeOf<T>) == phase_of(x);
  if (C <= kNarrowColumns && (!aligned || C < 4 * kVectorSizeOf<T>)) return quantize_narrow(to, x, rows, C);
  const bool few = 2 * rows <= properties(current_device()).multiprocessors &&
                   C * static_cast<int64_t>(sizeof(T)) >= 16384;
  const auto held = [&] {
    return dispatch_row<T>(C, 1, aligned, [&]<class R>(size_t shared) {
      launch(quantize_rows_kernel<R>, rows_grid<R::kGroup>(rows, shared), to, x, rows, C);
    });
  };
  if (few || !held()) quantize_segments(to, x, rows, C);
}

void quantize_rows(const View& codes, const View& scale, const View& x) {
  const int64_t rows = x.shape[0], C = x.shape[1];
  if (rows == 0) return;
  if (C == 0) return fill(scale, 0.0);
  if (codes.dtype != DType::i8 && codes.dtype != DType::u8) {
    fail("TT-DTYPE-02", std::string("quantize_rows: codes of ") + name_of(codes.dtype) +
                            "\n  rule: codes are i8, or u8 for fp8");
  }
  const Contiguous in(x);
  const CodeRows to{codes.as<uint8_t>(), scale.as<float>(), codes.dtype == DType::u8, false};
  if (x.dtype == DType::f32) return quantize_stored(to, in.as<const float>(), rows, C);
  if (x.dtype == DType::bf16) return quantize_stored(to, in.as<const BFloat16>(), rows, C);
  if (x.dtype == DType::f16) return quantize_stored(to, in.as<const Half>(), rows, C);
  fail("TT-DTYPE-02", std::string("quantize_rows: x is ") + name_of(x.dtype) + "\n  rule: f32, bf16 or f16");
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
