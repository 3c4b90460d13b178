// Queries of attention to a cache on tensor cores (attention_decode/paged_tensor.cuh): their way to shared
// memory and to the operands of the products with keys.
#pragma once

#include <tinytorch/backend/cuda/kernels/attention_decode/paged_tiles.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The queries of the block: rows of KeyT in kQueryParts parts in shared memory. A fragment is the operand b
// [16, 8] of a product: 16 columns of the head of a part of eight rows. Fragments are counted by columns,
// then by rows and parts, and two are loaded at once. For keys of few bits, a row is divided by the power of
// two of its largest number, and by the factors of KvHalves.
template <class Plan>
struct DecodeQueries {
  using T = typename Plan::KeyT;
  using K = typename Plan::K;
  static constexpr int kParts = Plan::kQueryParts, kOfStep = Plan::kTiles * kParts,
                       kPairs = Plan::kHead / 16 * kOfStep / 2;
  static constexpr bool kInRegisters = Plan::kQueriesInRegisters;
  static constexpr int kColumns = Plan::kHead / kWarp;
  using Row = float[kColumns];  // columns 32 j + lane
  static_assert(kInRegisters || kOfStep % 2 == 0);
  unsigned address;
  // In shared memory: [kRows], then offsets [kOffsets, kRows / 2, 4]: those of two rows twice, as they stand
  // in the sums of a product.
  const float* factors;
  unsigned operands[kInRegisters ? kPairs : 1][4];

  // memory: the block's shared memory.
  explicit __device__ __forceinline__ DecodeQueries(unsigned char* memory)
      : address(shared_address(memory) + Plan::kQueriesAt), factors(factors_in(memory)) {
    if constexpr (kInRegisters) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) load(operands[i], i);
    }
  }

  // A warp writes every fourth row; rows that do not exist are zeros.
  static __device__ __forceinline__ void write(unsigned char* memory, const StepRows<float>& q,
                                               const KvView& kv, const DecodeSpan& at, float scale) {
    float* const factors = factors_in(memory);
    const int lane = static_cast<int>(threadIdx.x) % kWarp, size = static_cast<int>(kv.head_size);
#pragma unroll 1
    for (int r = static_cast<int>(threadIdx.x) / kWarp; r < Plan::kRows; r += Plan::kWarps) {
      unsigned char* const row = memory + Plan::kQueriesAt + static_cast<unsigned>(r) * Plan::kQueryStride;
      if (r >= at.rows) {
        for (int i = lane; i < Plan::kHead / 8 * kParts; i += kWarp)
          *reinterpret_cast<uint4*>(row + static_cast<unsigned>(i / (Plan::kHead / 8)) * Plan::kQueryBytes +
                                    i % (Plan::kHead / 8) * 16) = uint4{};
        if (!Plan::kIs16 && lane == 0) factors[r] = 0;
        if (lane < Plan::kOffsets) write_offset(factors, lane, r, 0);
        continue;
      }
      Row x;
      q.read_columns(x, at.row(r) * q.row + at.head(r) * q.head + lane * q.col, kWarp * q.col,
                     (size - lane + kWarp - 1) / kWarp);
      if constexpr (Plan::kInt4) rotate_row(x, kv.head_size);  // as the keys are
      if constexpr (!Plan::kIs16) {
        const float size = power_of_largest(x);
        if (lane == 0) factors[r] = __fmul_rn(scale, size);
        divide(x, size);
        write_offsets(factors, r, x);
      }
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const int k = j * kWarp + Plan::query_place(lane);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const T y = cuda::to<T>(x[j]);
          *reinterpret_cast<T*>(row + part * static_cast<int>(Plan::kQueryBytes) + k * 2) = y;
          x[j] -= cuda::to<float>(y);
        }
      }
    }
    __syncthreads();
  }
  // Scores of tokens 16 t to 16 t + 15 before the products: what takes back the offsets of the keys of group
  // `group` of i4, or of all keys.
  __device__ __forceinline__ void start(float (&score)[Plan::kTiles][Plan::kTokenTiles][4], int t,
                                        int group) const {
#pragma unroll
    for (int m = 0; m < Plan::kTiles; ++m)
      cuda::load(score[m][t], offsets_of(factors, group) + (m * 4 + static_cast<int>(threadIdx.x) % 4) * 4);
  }
  // The factor of the scores of row r of this lane's two of tile m.
  __device__ __forceinline__ float factor(int m, int r) const {
    return factors[m * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + r];
  }
  // sum[m][t] [16, 8] += a times columns 16 k to 16 k + 15 of query rows 8 m to 8 m + 7.
  __device__ __forceinline__ void multiply(float (&sum)[Plan::kTiles][Plan::kTokenTiles][4], int t, int k,
                                           const unsigned (&a)[4]) const {
    [[maybe_unused]] unsigned loaded[4];
#pragma unroll
    for (int i = 0; i < kOfStep; ++i) {
      const int fragment = k * kOfStep + i, half = fragment % 2 * 2;
      float(&to)[4] = sum[i / kParts][t];
      if constexpr (kInRegisters) {
        multiply_add<T>(to, a, operands[fragment / 2][half], operands[fragment / 2][half + 1]);
      } else {
        if (half == 0) load(loaded, fragment / 2);
        multiply_add<T>(to, a, loaded[half], loaded[half + 1]);
      }
    }
  }

 private:
  static __device__ __forceinline__ float* factors_in(unsigned char* memory) {
    return reinterpret_cast<float*>(memory + Plan::kFactorsAt);
  }
  template <class Float>
  static __device__ __forceinline__ Float* offsets_of(Float* factors, int group) {
    return factors + Plan::kRows + group * 2 * Plan::kRows;
  }
  static __device__ __forceinline__ void write_offset(float* factors, int group, int r, float x) {
    float* const to = offsets_of(factors, group) + r / 2 * 4 + r % 2;
    to[0] = to[2] = x;
  }
  // Loads fragments 2 pair and 2 pair + 1.
  __device__ __forceinline__ void load(unsigned (&out)[4], int pair) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp, fragment = 2 * pair + lane / 16,
              k = fragment / kOfStep, i = fragment % kOfStep;
    load_matrices(out, address + static_cast<unsigned>(i % kParts) * Plan::kQueryBytes +
                           static_cast<unsigned>(i / kParts * 8 + lane % 8) * Plan::kQueryStride +
                           static_cast<unsigned>(k * 32 + lane / 8 % 2 * 16));
  }
  // The largest power of two that is at most the largest number of a row; 1 for a row that is not finite.
  static __device__ __forceinline__ float power_of_largest(const Row& x) {
    float largest = 0;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) largest = fmaxf(largest, fabsf(x[j]));
    largest = warp_reduce(largest, Maximum());
    constexpr float kLeast = 0x1p-126f, kMost = 0x1p126f;  // their inverses are normal numbers
    if (!(largest <= std::numeric_limits<float>::max())) return 1;
    return std::bit_cast<float>(std::bit_cast<unsigned>(fminf(fmaxf(largest, kLeast), kMost)) & 0x7f800000u);
  }
  // The columns of the high halves of bytes are those of the upper 16 lanes.
  static __device__ __forceinline__ int step_of_lane() {
    return Plan::kInt4 ? static_cast<int>(threadIdx.x) % kWarp / 16 : 0;
  }
  static __device__ __forceinline__ void divide(Row& x, float size) {
    const float by = 1 / (size * KvHalves<K>::factor(step_of_lane()));
#pragma unroll
    for (int j = 0; j < kColumns; ++j) x[j] = cuda::to<float>(cuda::to<T>(__fmul_rn(x[j], by)));
  }
  static __device__ __forceinline__ void write_offsets(float* factors, int r, const Row& x) {
    const float offset = KvHalves<K>::offset(step_of_lane()) * KvHalves<K>::factor(step_of_lane());
    float all = 0;
#pragma unroll
    for (int j = 0; j < kColumns && Plan::kOffsets > 0; ++j) {
      const float sum = warp_reduce(x[j] * offset, Sum());
      all += sum;
      if (Plan::kInt4 && threadIdx.x % kWarp == 0) write_offset(factors, j, r, -sum);
    }
    if (!Plan::kInt4 && Plan::kOffsets == 1 && threadIdx.x % kWarp == 0) write_offset(factors, 0, r, -all);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
