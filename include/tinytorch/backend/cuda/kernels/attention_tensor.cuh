// Attention of 16-bit operands on tensor cores, forward (compute capability 8.0; contract:
// backend/cpu/attention.hpp).
//
// A block has 128 queries of one head (64 of long heads), a warp a quarter of them. Tiles of 64 keys and
// values come in turn, each on its way while the other is multiplied. A warp's scores stay in registers: the
// layout in which the first product leaves them is the one in which the second wants its left side.
// Source: Dao, "FlashAttention-2", 2023. Limit: FLOPs of the tensor cores.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/attention_heads.cuh>
#include <tinytorch/backend/cuda/tensor_core.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kTensorWarps = 4, kTensorKeys = 64;
// Groups of 16 queries that a warp works on: as many as registers hold.
template <int kHead>
inline constexpr int kTensorGroups = kHead <= 64 ? 2 : 1;
template <int kHead>
inline constexpr int kTensorQueries = 16 * kTensorGroups<kHead>* kTensorWarps;

// Rows of kHead 16-bit values in shared memory, in pieces of 16 bytes. Pieces trade places from row to row,
// so that the eight rows of a matrix lie in different banks.
template <int kHead>
struct TensorTile {
  static constexpr int kPieces = kHead / 8;
  static __device__ __forceinline__ unsigned piece(int row, int number) {
    const int turn = kPieces >= 8 ? row % 8 : row / 2 % 4;
    return static_cast<unsigned>((row * kPieces + (number ^ turn)) * 16);
  }
  // Rows r0 ... of a head to shared memory, zeros beyond `end` and D, by the whole block.
  template <class T>
  static __device__ __forceinline__ void fetch(unsigned to_, int rows, const Heads<T>& x, int64_t b,
                                               int64_t h, int64_t r0, int64_t end, int64_t D) {
    const T* const from = x.place(b, h, r0, 0);
    for (int i = static_cast<int>(threadIdx.x); i < rows * kPieces; i += kTensorWarps * kWarp) {
      const int row = i / kPieces, number = i % kPieces;
      const bool inside = r0 + row < end && number * 8 < D;
      copy_async(to_ + piece(row, number), inside ? from + row * x.row + number * 8 : x.data, inside);
    }
  }
};

// The scores [16, 64] and sums [16, kHead] of one warp's 16 rows; lane l has rows l / 4 and l / 4 + 8.
template <int kHead>
struct TensorRows {
  float score[kTensorKeys / 8][4], sum[kHead / 8][4];
  float top[2], total[2];  // maximum and sum of 2^score, by row

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int d = 0; d < kHead / 8; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[d][i] = 0;
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) top[r] = -std::numeric_limits<float>::infinity(), total[r] = 0;
  }
  // score = 2^(score - top), after the sums have been brought to the new maximum.
  __device__ __forceinline__ void exponentiate() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float highest = top[r];
#pragma unroll
      for (int n = 0; n < kTensorKeys / 8; ++n) {
        highest = Maximum()(highest, Maximum()(score[n][2 * r], score[n][2 * r + 1]));
      }
      highest = warp_reduce<4>(highest, Maximum());
      const float shift = highest == -std::numeric_limits<float>::infinity() ? 0.0f : highest;
      const float factor = power_of_two(top[r] - shift);
      top[r] = highest;
      float added = 0;
#pragma unroll
      for (int n = 0; n < kTensorKeys / 8; ++n) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          float& x = score[n][2 * r + k];
          x = power_of_two(x - shift);
          added += x;
        }
      }
      total[r] = total[r] * factor + added;  // of this lane's columns
#pragma unroll
      for (int d = 0; d < kHead / 8; ++d) sum[d][2 * r] *= factor, sum[d][2 * r + 1] *= factor;
    }
  }
};

// Two floats as neighbours of a 16-bit register pair.
template <class T>
__device__ __forceinline__ unsigned pack_pair(float low, float high) {
  const T pair[2] = {to<T>(low), to<T>(high)};
  unsigned word;
  memcpy(&word, pair, sizeof(word));
  return word;
}

// score = q k^T of 16 rows. query: address of the warp's first row; keys: of the tile.
template <class T, int kHead>
__device__ __forceinline__ void multiply_keys(TensorRows<kHead>& rows, unsigned queries, int first,
                                              unsigned keys) {
  using Tile = TensorTile<kHead>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int n = 0; n < kTensorKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) rows.score[n][i] = 0;
  }
#pragma unroll
  for (int d = 0; d < Tile::kPieces; d += 2) {
    unsigned a[4];
    load_matrices(a, queries + Tile::piece(first + lane % 16, d + lane / 16));
#pragma unroll
    for (int n = 0; n < kTensorKeys / 16; ++n) {
      unsigned b[4];
      load_matrices(b, keys + Tile::piece(n * 16 + lane % 8 + lane / 16 * 8, d + lane / 8 % 2));
      multiply_add<T>(rows.score[2 * n], a, b[0], b[1]);
      multiply_add<T>(rows.score[2 * n + 1], a, b[2], b[3]);
    }
  }
}
// sum += p v of 16 rows, p being the scores.
template <class T, int kHead>
__device__ __forceinline__ void multiply_values(TensorRows<kHead>& rows, unsigned values) {
  using Tile = TensorTile<kHead>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int n = 0; n < kTensorKeys / 16; ++n) {
    const auto &left = rows.score[2 * n], &right = rows.score[2 * n + 1];
    const unsigned a[4] = {pack_pair<T>(left[0], left[1]), pack_pair<T>(left[2], left[3]),
                           pack_pair<T>(right[0], right[1]), pack_pair<T>(right[2], right[3])};
#pragma unroll
    for (int d = 0; d < Tile::kPieces; d += 2) {
      unsigned b[4];
      load_transposed(b, values + Tile::piece(n * 16 + lane % 16, d + lane / 16));
      multiply_add<T>(rows.sum[d], a, b[0], b[1]);
      multiply_add<T>(rows.sum[d + 1], a, b[2], b[3]);
    }
  }
}

// Scores to the base 2, those of hidden keys to -inf. t: the lane's first row; its second is t + 8.
template <int kHead>
__device__ __forceinline__ void hide_and_scale(TensorRows<kHead>& rows, const AttentionCall& call, int64_t t,
                                               int64_t s0, bool whole) {
  const float scale = static_cast<float>(call.rules.scale) * 1.4426950408889634f;
#pragma unroll
  for (int n = 0; n < kTensorKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) rows.score[n][i] *= scale;
  }
  if (whole) return;
  const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const KeyRange range = call.rules.keys_of(t + 8 * r, call.T, call.S);
    const auto low = static_cast<int>(range.first - s0),
               high = static_cast<int>(std::min<int64_t>(range.last - s0, kTensorKeys));
#pragma unroll
    for (int n = 0; n < kTensorKeys / 8; ++n) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int key = n * 8 + pair + k;
        if (key < low || key >= high) rows.score[n][2 * r + k] = -std::numeric_limits<float>::infinity();
      }
    }
  }
}
// Dropout of the probabilities; line: number of the lane's first query among all of the call.
template <int kHead>
__device__ __forceinline__ void drop(TensorRows<kHead>& rows, const AttentionCall& call, int64_t line,
                                     int64_t s0) {
  if (call.rules.p == 0) return;
  const int64_t padded = (call.S + 3) / 4 * 4;
  const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll  // or the scores would have to lie in memory
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int n = 0; n < kTensorKeys / 8; ++n) {
      const PhiloxBlock words = call.mask.block((line + 8 * r) * padded + s0 + n * 8 + pair);
      float& left = rows.score[n][2 * r];
      float& right = rows.score[n][2 * r + 1];
      left = call.mask.apply(pair % 4 == 0 ? words.v[0] : words.v[2], left);
      right = call.mask.apply(pair % 4 == 0 ? words.v[1] : words.v[3], right);
    }
  }
}
template <class T, int kHead>
__device__ __forceinline__ void write_rows(const TensorRows<kHead>& rows, const Heads<T>& out, float* lse,
                                           const AttentionCall& call, int64_t b, int64_t h, int64_t t) {
  const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float total = warp_reduce<4>(rows.total[r], Sum());
    if (t + 8 * r >= call.T) continue;
    const float scale = total == 0 ? 0.0f : 1 / total;
    T* const to_ = out.place(b, h, t + 8 * r, 0);
#pragma unroll
    for (int n = 0; n < kHead / 8; ++n) {
      if (n * 8 >= call.D) break;
      const unsigned word = pack_pair<T>(rows.sum[n][2 * r] * scale, rows.sum[n][2 * r + 1] * scale);
      memcpy(to_ + n * 8 + pair, &word, sizeof(word));
    }
    if (pair == 0) {
      lse[t + 8 * r] = total == 0 ? -std::numeric_limits<float>::infinity()
                                  : (rows.top[r] + std::log2(total)) * 0.6931471805599453f;
    }
  }
}

template <class T, int kHead>
static __global__ void __launch_bounds__(kTensorWarps* kWarp)
    attention_tensor_kernel(Heads<T> out, float* lse, Heads<const T> q, Heads<const T> k, Heads<const T> v,
                            const __grid_constant__ AttentionCall call) {
#if TINYTORCH_CUDA_SIM || __CUDA_ARCH__ >= 800
  using Tile = TensorTile<kHead>;
  constexpr int kGroups = kTensorGroups<kHead>, kQueries = kTensorQueries<kHead>;
  constexpr unsigned kTileBytes = kTensorKeys * kHead * 2;
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            first = static_cast<int>(threadIdx.x) / kWarp * 16 * kGroups;
  // The last queries, which see the most keys, start first.
  const int64_t tiles = (call.T + kQueries - 1) / kQueries, line = blockIdx.x / tiles,
                t0 = (tiles - 1 - blockIdx.x % tiles) * kQueries;
  const int64_t b = line / call.H, h = line % call.H, g = call.group_of(h);
  const unsigned queries = shared_address(dynamic_shared<T>()), keys = queries + kQueries * kHead * 2,
                 values = keys + kTileBytes;
  const int64_t t1 = std::min(t0 + kQueries, call.T);
  const KeyRange start = call.rules.keys_of(t0, call.T, call.S),
                 end = call.rules.keys_of(t1 - 1, call.T, call.S);
  const int64_t s_begin = start.first / kTensorKeys * kTensorKeys, s_end = end.last;
  TensorRows<kHead> rows[kGroups];
#pragma unroll
  for (int m = 0; m < kGroups; ++m) rows[m].clear();
  Tile::fetch(queries, kQueries, q, b, h, t0, call.T, call.D);
  Tile::fetch(keys, kTensorKeys, k, b, g, s_begin, s_end, call.D);
  commit_copies();
  for (int64_t s0 = s_begin; s0 < s_end; s0 += kTensorKeys) {
    Tile::fetch(values, kTensorKeys, v, b, g, s0, s_end, call.D);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();  // the keys are there
#pragma unroll
    for (int m = 0; m < kGroups; ++m) multiply_keys<T>(rows[m], queries, first + m * 16, keys);
    __syncthreads();  // and have been read
    Tile::fetch(keys, kTensorKeys, k, b, g, s0 + kTensorKeys, s_end, call.D);
    commit_copies();
    const bool whole = s0 >= end.first && s0 + kTensorKeys <= start.last;
#pragma unroll
    for (int m = 0; m < kGroups; ++m) {
      hide_and_scale(rows[m], call, t0 + first + m * 16 + lane / 4, s0, whole);
      rows[m].exponentiate();
      drop(rows[m], call, line * call.T + t0 + first + m * 16 + lane / 4, s0);
    }
    wait_for_copies<1>();
    __syncthreads();  // the values are there
#pragma unroll
    for (int m = 0; m < kGroups; ++m) multiply_values<T>(rows[m], values);
    __syncthreads();  // and have been read
  }
  wait_for_copies<0>();
#pragma unroll
  for (int m = 0; m < kGroups; ++m) {
    write_rows<T>(rows[m], out, lse + line * call.T, call, b, h, t0 + first + m * 16 + lane / 4);
  }
#endif
}

// Whether its rows can be moved 16 bytes at a time.
inline bool has_whole_pieces(const View& x) {
  const auto aligned = [](int64_t elements) { return elements % 8 == 0; };
  return x.strides[3] == 1 && x.shape[3] % 8 == 0 && aligned(x.strides[0]) && aligned(x.strides[1]) &&
         aligned(x.strides[2]) && reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

// False where the plain kernel has to do it.
template <class T>
bool attention_on_tensor_cores(const View& out, const View& lse, const View& q, const View& k, const View& v,
                               const AttentionCall& call) {
  if (!has_tensor_cores() || call.D > 128) return false;
  for (const View* x : {&out, &q, &k, &v}) {
    if (!has_whole_pieces(*x)) return false;
  }
  const auto run = [&]<int kHead>() {
    const auto blocks = divided_up(call.T, kTensorQueries<kHead>) * q.shape[0] * call.H;
    const LaunchConfig config{dim3(static_cast<unsigned>(blocks)), dim3(kTensorWarps * kWarp),
                              static_cast<size_t>((kTensorQueries<kHead> + 2 * kTensorKeys) * kHead * 2)};
    launch(attention_tensor_kernel<T, kHead>, config, Heads<T>(out), lse.as<float>(), Heads<const T>(q),
           Heads<const T>(k), Heads<const T>(v), call);
    return true;
  };
  if (call.D <= 32) return run.template operator()<32>();
  if (call.D <= 64) return run.template operator()<64>();
  return run.template operator()<128>();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
