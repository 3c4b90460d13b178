// Epilogue of warpgroup products whose operand A is the weight: a warpgroup has the sums of 64 rows of the
// weight and 8 kCount rows of x, and writes them to y [M, N], where the rows of the weight are columns.
//
// The sums pass through shared memory, 32 rows of x at a time, so that neighbouring threads write
// neighbouring results; stmatrix transposes 8 x 8 numbers on the way. Results of another dtype than T, or
// with other strides, are written number by number.
#pragma once

#include <tinytorch/backend/cuda/device/linear_result.cuh>
#include <tinytorch/backend/cuda/device/stage_barrier.cuh>
#include <tinytorch/backend/cuda/device/tensor_core.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A tile of 32 rows of x and 64 numbers of T, with 16 bytes between rows, so that the rows of a request lie
// in different banks.
inline constexpr unsigned kTransposedPitch = 64 * 2 + 16, kTransposedTile = 32 * kTransposedPitch;
inline constexpr unsigned kTransposedBytes = 2 * kTransposedTile;  // of shared memory, for a warpgroup

// Stores four matrices of 8 x 8 16-bit numbers, of which a lane has a word in each (the layout of
// tensor_core.cuh), transposed: a and b below each other become neighbours in 8 rows, c and d the next 8
// rows.
__device__ __forceinline__ void store_transposed(unsigned shared, unsigned a, unsigned b, unsigned c,
                                                 unsigned d) {
#if TINYTORCH_CUDA_SIM
  const unsigned lane = threadIdx.x % kWarp, words[] = {a, b, c, d};
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned row = i / 2 * 8 + lane % 4 * 2 + half, column = i % 2 * 8 + lane / 4;
      *reinterpret_cast<uint16_t*>(shared_pointer(shared + row * kTransposedPitch + column * 2)) =
          static_cast<uint16_t>(words[i] >> 16 * half);
    }
  }
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned at = shared + (lane / 16 * 8 + lane % 8) * kTransposedPitch + lane / 8 % 2 * 16;
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a),
               "r"(b), "r"(c), "r"(d)
               : "memory");
#else
  (void)shared, (void)a, (void)b, (void)c, (void)d;
#endif
}

// The part of a result that a warpgroup writes: rows m0 to m0 + 8 kCount - 1, columns n0 to n0 + 63.
struct TransposedPart {
  int64_t m0, n0, M, N;
  int warpgroup;   // its number in the block
  unsigned space;  // kTransposedBytes of shared memory, a multiple of 16
};

template <class T, int kCount>
__device__ __forceinline__ void write_vectors(const LinearResult& to, const TransposedPart& part,
                                              const float (&sum)[kCount][4]) {
  const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % kWarp, first = thread / kWarp * 16;
  float bias[2] = {};
  if (to.bias) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t n = part.n0 + first + lane / 4 + half * 8;
      if (n < part.N) bias[half] = to.bias_at(n);
    }
  }
#pragma unroll
  for (int pass = 0; pass < kCount / 4; ++pass) {
    const unsigned tile = part.space + static_cast<unsigned>(pass % 2) * kTransposedTile;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const float(&s)[4] = sum[pass * 4 + i], (&t)[4] = sum[pass * 4 + i + 1];
      store_transposed(
          tile + static_cast<unsigned>(i * 8) * kTransposedPitch + static_cast<unsigned>(first * 2),
          pack_pair<T>(s[0] + bias[0], s[1] + bias[0]), pack_pair<T>(s[2] + bias[1], s[3] + bias[1]),
          pack_pair<T>(t[0] + bias[0], t[1] + bias[0]), pack_pair<T>(t[2] + bias[1], t[3] + bias[1]));
    }
    sync_threads_of<128>(1 + part.warpgroup);  // the other tile is read by now, too
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = thread / 8 + i * 16, column = thread % 8 * 8;
      const int64_t m = part.m0 + pass * 32 + row, n = part.n0 + column;
      if (m >= part.M || n >= part.N) continue;
      const unsigned from =
          tile + static_cast<unsigned>(row) * kTransposedPitch + static_cast<unsigned>(column * 2);
      const uint4 eight = *reinterpret_cast<const uint4*>(shared_pointer(from));
      T* const y = static_cast<T*>(to.out) + m * to.row + n;
      if (n + 8 <= part.N) {
        *reinterpret_cast<uint4*>(y) = eight;
      } else {
        for (int e = 0; n + e < part.N; ++e) y[e] = reinterpret_cast<const T*>(shared_pointer(from))[e];
      }
    }
  }
}

template <int kCount>
__device__ __forceinline__ void write_numbers(const LinearResult& to, const TransposedPart& part,
                                              const float (&sum)[kCount][4]) {
  constexpr int kPitch = 64 + 4;  // floats
  const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % kWarp;
  float* const tile = reinterpret_cast<float*>(shared_pointer(part.space));
#pragma unroll
  for (int pass = 0; pass < kCount / 2; ++pass) {
    sync_threads_of<128>(1 + part.warpgroup);  // the tile before was read
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        tile[(i * 8 + lane % 4 * 2 + e % 2) * kPitch + thread / kWarp * 16 + lane / 4 + e / 2 * 8] =
            sum[pass * 2 + i][e];
    }
    sync_threads_of<128>(1 + part.warpgroup);
#pragma unroll 1
    for (int i = thread; i < 16 * 64; i += 128) {
      const int64_t m = part.m0 + pass * 16 + i / 64, n = part.n0 + i % 64;
      if (m < part.M && n < part.N) to.store(m, n, tile[i / 64 * kPitch + i % 64]);
    }
  }
}

// Writes the sums of a warpgroup; all its threads call this function.
template <class T, int kCount>
__device__ __forceinline__ void write_transposed(const LinearResult& to, const TransposedPart& part,
                                                 const float (&sum)[kCount][4]) {
  if (to.has_vectors<T>()) {
    write_vectors<T>(to, part, sum);
  } else {
    write_numbers(to, part, sum);
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
