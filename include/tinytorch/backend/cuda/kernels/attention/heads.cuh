// Shared code of the attention kernels: addresses of the matrices of a head, tiles in shared memory, and
// rows that a group of lanes holds in registers.
#pragma once

#include <algorithm>
#include <numbers>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/dropout_mask.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A tensor [B, H, rows, D] with any strides.
template <class T>
struct Heads {
  T* data;
  int64_t batch, head, row, col;  // strides in elements
  explicit Heads(const View& x)
      : data(x.as<T>()), batch(x.strides[0]), head(x.strides[1]), row(x.strides[2]), col(x.strides[3]) {}
  __device__ __forceinline__ T* place(int64_t b, int64_t h, int64_t r, int64_t c) const {
    return data + b * batch + h * head + r * row + c * col;
  }
};

// Elements of heads [B, H, T, D] of a dtype that is known only at run time.
template <class C>
struct HeadElements : Stored<C> {
  int64_t batch, head, row, col;
  explicit HeadElements(const View& x)
      : Stored<C>{x.data, x.dtype},
        batch(x.strides[0]),
        head(x.strides[1]),
        row(x.strides[2]),
        col(x.strides[3]) {}
  __device__ __forceinline__ int64_t place(int64_t b, int64_t h, int64_t r, int64_t c) const {
    return b * batch + h * head + r * row + c * col;
  }
};

// Sizes and parameters of a call.
struct AttentionCall {
  AttentionParameters rules;
  DropoutMask mask;
  int64_t H, G, T, S, D;
  int64_t sharing;  // query heads per key head: H / G

  AttentionCall(const View& q, const View& k, const AttentionParameters& p)
      : rules(p),
        mask(p.p, p.seed, p.first_block),
        H(q.shape[1]),
        G(k.shape[1]),
        T(q.shape[2]),
        S(k.shape[2]),
        D(q.shape[3]),
        sharing(G == 0 ? 1 : H / G) {}
  __device__ __forceinline__ int64_t group_of(int64_t head) const {
    return static_cast<unsigned>(head) / static_cast<unsigned>(sharing);
  }
  // Scale for scores as exponents of 2, the base in which tensor-core kernels compute probabilities.
  __device__ __forceinline__ float exponent_scale() const {
    return static_cast<float>(rules.scale) * std::numbers::log2e_v<float>;
  }
  // Functions for kernels that map a row of batch b to the IndexRange of keys (or queries) that it sees.
  __device__ __forceinline__ auto keys_of(int64_t b) const {
    return [this, b](int64_t t) { return rules.keys_of(t, T, S, b); };
  }
  __device__ __forceinline__ auto queries_of(int64_t b) const {
    return [this, b](int64_t s) { return rules.queries_of(s, T, S, b); };
  }
  bool has_dropout() const { return rules.p > 0; }
  // True if dropout keeps the probability of a key; line is the row-major index of the query in [B, H, T].
  __device__ __forceinline__ bool keeps(int64_t line, int64_t key) const {
    const PhiloxBlock words = mask.block(line * round_up(S, 4) + key);
    return mask.keeps(key % 4 < 2 ? words.v[key % 2] : words.v[2 + key % 2]);
  }
  // Applies dropout to x, the probability of a key.
  template <class A>
  __device__ __forceinline__ A dropped(A x, int64_t line, int64_t key) const {
    if (rules.p == 0) return x;
    return (keeps(line, key) ? x : A(0)) * static_cast<A>(mask.scale);
  }
};

// Lanes that share a row of up to kHead values, 128 bytes per lane, and the number of rows of a tile in
// shared memory.
template <class A, int kHead>
inline constexpr int kRowLanes = std::max(4, kHead* static_cast<int>(sizeof(A)) / 128);
template <int kHead>
inline constexpr int kTileRows = kHead <= 64    ? 32
                                 : kHead <= 128 ? 16
                                                : 8;
inline constexpr int kAttentionThreads = 128;

// A row of up to kHead values, held by kLanes adjacent lanes with kEach values per lane: lane l holds the
// four values from (k kLanes + l) 4 on, for each k. So adjacent lanes read adjacent words of shared memory.
template <class A, int kHead>
struct LaneRow {
  static constexpr int kLanes = kRowLanes<A, kHead>, kEach = kHead / kLanes;
  A v[kEach];

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  static __device__ __forceinline__ int column(int i) { return (i / 4 * kLanes + lane()) * 4 + i % 4; }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kEach; ++i) v[i] = 0;
  }
  // Reads a row of D <= kHead values. Values beyond D are zeros; all are zeros if the row does not exist.
  template <class T>
  __device__ __forceinline__ void read(const Heads<T>& x, int64_t b, int64_t h, int64_t r, int64_t D,
                                       bool exists) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      v[i] = exists && column(i) < D ? to<A>(*x.place(b, h, r, column(i))) : A(0);
    }
  }
  template <class T>
  __device__ __forceinline__ void write(const Heads<T>& x, int64_t b, int64_t h, int64_t r, int64_t D,
                                        A factor) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (column(i) < D) *x.place(b, h, r, column(i)) = to<T>(v[i] * factor);
    }
  }
  // Dot product with a row in shared memory over all kHead values; every lane of the row gets the result.
  __device__ __forceinline__ A dot(const A* row) const {
    A sum = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) sum += v[i] * row[column(i)];
    return warp_reduce<kLanes>(sum, Sum());
  }
  __device__ __forceinline__ void add(A factor, const A* row) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) v[i] += factor * row[column(i)];
  }
  __device__ __forceinline__ void scale(A factor) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) v[i] *= factor;
  }
};

// Loads rows r0, r0 + 1, ... of a head into tile [rows, kHead], by all threads of the block. Columns beyond
// D and rows from `end` on are zeros.
template <int kHead, class A, class T>
__device__ __forceinline__ void load_tile(A* tile, int rows, const Heads<T>& x, int64_t b, int64_t h,
                                          int64_t r0, int64_t end, int64_t D) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * kHead; i += static_cast<int>(blockDim.x)) {
    const int64_t r = r0 + i / kHead, c = i % kHead;
    tile[i] = r < end && c < D ? to<A>(*x.place(b, h, r, c)) : A(0);
  }
}

// The rows of a block: kRows rows of one head; blockIdx.x / tiles is the head, blockIdx.x % tiles the group
// of rows.
template <class A, int kHead>
struct BlockRows {
  static constexpr int kRows = kAttentionThreads / kRowLanes<A, kHead>;
  int64_t b, h, first, row;  // row: the row of this thread

  __device__ __forceinline__ BlockRows(int64_t rows, int64_t heads) {
    const int64_t tiles = ceil_div(rows, kRows), line = blockIdx.x / tiles;
    b = line / heads;
    h = line % heads;
    first = blockIdx.x % tiles * kRows;
    row = first + threadIdx.x / kRowLanes<A, kHead>;
  }
  static LaunchConfig config(int64_t batches, int64_t heads, int64_t rows) {
    return {dim3(static_cast<unsigned>(ceil_div(rows, kRows) * batches * heads)), dim3(kAttentionThreads)};
  }
};

// The columns that rows see: keys for queries, or queries for keys. any: the union over all rows of a block;
// mine: the columns of this thread's row. range_of(row) returns an IndexRange; both its ends must not
// decrease with the row.
struct SeenRange {
  IndexRange any, mine;
  template <class F>
  __device__ __forceinline__ SeenRange(int64_t first, int64_t count, int64_t row, int64_t rows, F&& range_of)
      : any(range_of(first)), mine(range_of(row)) {
    any.last = range_of(std::min(first + count, rows) - 1).last;
    if (row >= rows) mine = {0, 0};
  }
  __device__ __forceinline__ bool operator()(int64_t column) const {
    return column >= mine.first && column < mine.last;
  }
};

// Calls f.operator()<kHead>() for the smallest supported kHead >= D.
template <class F>
void dispatch_head(int64_t D, F&& f) {
  if (D <= 32) return f.template operator()<32>();
  if (D <= 64) return f.template operator()<64>();
  if (D <= 128) return f.template operator()<128>();
  if (D <= 256) return f.template operator()<256>();
  fail("TT-SHAPE-04", "attention: heads of " + std::to_string(D) +
                          " features are longer than 256, the limit of the CUDA kernels\n  hint: use more "
                          "and smaller heads, or the CPU");
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
