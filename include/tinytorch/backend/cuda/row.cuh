// Row: the elements of one row, held by the registers of a warp or a block as they are stored.
//
// Softmax and normalization visit a row two or three times; here memory sees it once. A thread holds kVectors
// vectors of kWide elements: vector number v of lane t covers elements (v kGroup + t) kWide ... A vector has
// 16 bytes, or one element where rows are not aligned to 16 bytes: a warp's loads are side by side either
// way. Rows that are too long take other kernels.
#pragma once

#include <tinytorch/backend/cuda/collective.cuh>
#include <tinytorch/backend/cuda/vector.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Elements of T in 16 bytes.
template <class T>
inline constexpr int kWideOf = 16 / static_cast<int>(sizeof(T));

template <class T, int kThreads, int kVectors, int kElements = kWideOf<T>>
struct Row {
  static constexpr int kWide = kElements, kGroup = kThreads, kCount = kVectors;
  using Element = T;
  using A = Wide<T>;
  using Word = typename WordOf<kAccessBytes<T, kWide>>::Type;
  Word word[kVectors];

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kGroup; }
  static __device__ __forceinline__ int64_t column(int v) {
    return (static_cast<int64_t>(v) * kGroup + lane()) * kWide;
  }
  __device__ __forceinline__ void read(const T* row, int64_t C, int = 0) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) < C) word[v] = reinterpret_cast<const Word*>(row)[column(v) / kWide];
    }
  }
  // Reads the row at a and changes it by that at b, both on their way at once: f(first column, elements of a,
  // elements of b) changes the first, which are then rounded to T and left at `out` too.
  template <class F>
  __device__ __forceinline__ void read_with(const T* a, const T* b, T* out, int64_t C, F&& f) {
    Row other;
    read(a, C);
    other.read(b, C);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) >= C) continue;
      A x[kWide], y[kWide];
      get(v, x);
      other.get(v, y);
      f(column(v), x, y);
      T values[kWide];
      convert_neighbours(values, x);
      memcpy(&word[v], values, sizeof(values));
      reinterpret_cast<Word*>(out)[column(v) / kWide] = word[v];
    }
  }
  // The vector's elements in the compute type.
  __device__ __forceinline__ void get(int v, A (&out)[kWide]) const {
    T values[kWide];
    memcpy(values, &word[v], sizeof(values));
#pragma unroll
    for (int k = 0; k < kWide; ++k) out[k] = to<A>(values[k]);
  }
  // Calls f(first column, elements) for each vector of this thread.
  template <class F>
  __device__ __forceinline__ void each(int64_t C, F&& f) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) >= C) continue;
      A x[kWide];
      get(v, x);
      f(column(v), x);
    }
  }
  // f(first column, elements of this, elements of other)
  template <class F>
  __device__ __forceinline__ void each_pair(const Row& other, int64_t C, F&& f) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) >= C) continue;
      A x[kWide], y[kWide];
      get(v, x);
      other.get(v, y);
      f(column(v), x, y);
    }
  }
};

// The same for rows too long for registers: they wait in shared memory. A thread reads back what it wrote, so
// no barrier is needed.
template <class T, int kThreads, int kElements = kWideOf<T>>
struct SharedRow {
  static constexpr int kWide = kElements, kGroup = kThreads;
  using Element = T;
  using A = Wide<T>;
  using Word = typename WordOf<kAccessBytes<T, kWide>>::Type;
  T* kept;

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x); }
  // As read(), and f(values) for each vector as it arrives.
  template <class F>
  __device__ __forceinline__ void read_each(const T* row, int64_t C, F&& f) {
    constexpr int kAhead = kWide == 1 ? 16 : 4;  // loads in flight
    kept = dynamic_shared<T>();
    const auto* const from = reinterpret_cast<const Word*>(row);
    auto* const to_ = reinterpret_cast<Word*>(kept);
    for (int64_t v = threadIdx.x; v < C / kWide; v += kAhead * kThreads) {
      Word words[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        if (v + a * kThreads < C / kWide) words[a] = from[v + a * kThreads];
      }
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        if (v + a * kThreads >= C / kWide) break;
        to_[v + a * kThreads] = words[a];
        A x[kWide];
        load(x, reinterpret_cast<const T*>(&words[a]));
        f(x);
      }
    }
  }
  // which: of the rows that a block holds at once.
  __device__ __forceinline__ void read(const T* row, int64_t C, int which = 0) {
    kept = dynamic_shared<T>() + which * C;
#pragma unroll 8
    for (int64_t v = threadIdx.x; v < C / kWide; v += kThreads) {
      reinterpret_cast<Word*>(kept)[v] = reinterpret_cast<const Word*>(row)[v];
    }
  }
  // As Row's.
  template <class F>
  __device__ __forceinline__ void read_with(const T* a, const T* b, T* out, int64_t C, F&& f) {
    constexpr int kAhead = kWide == 1 ? 4 : 2;  // loads in flight, of each row
    kept = dynamic_shared<T>();
    const auto *const from = reinterpret_cast<const Word*>(a), *const with = reinterpret_cast<const Word*>(b);
    for (int64_t v = threadIdx.x; v < C / kWide; v += kAhead * kThreads) {
      Word x_words[kAhead], y_words[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (v + k * kThreads >= C / kWide) break;
        x_words[k] = from[v + k * kThreads];
        y_words[k] = with[v + k * kThreads];
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int64_t c = (v + k * kThreads) * kWide;
        if (c >= C) break;
        A x[kWide], y[kWide];
        load(x, reinterpret_cast<const T*>(&x_words[k]));
        load(y, reinterpret_cast<const T*>(&y_words[k]));
        f(c, x, y);
        store(kept + c, x);
        store(out + c, x);
      }
    }
  }
  template <class F>
  __device__ __forceinline__ void each(int64_t C, F&& f) const {
#pragma unroll 2
    for (int64_t c = static_cast<int64_t>(threadIdx.x) * kWide; c < C; c += kThreads * kWide) {
      A x[kWide];
      load(x, kept + c);
      f(c, x);
    }
  }
  template <class F>
  __device__ __forceinline__ void each_pair(const SharedRow& other, int64_t C, F&& f) const {
#pragma unroll 2
    for (int64_t c = static_cast<int64_t>(threadIdx.x) * kWide; c < C; c += kThreads * kWide) {
      A x[kWide], y[kWide];
      load(x, kept + c);
      load(y, other.kept + c);
      f(c, x, y);
    }
  }
};

// Combines a value over the kGroup threads of a row: 32, or the whole block.
template <int kGroup, class A, class Op>
__device__ __forceinline__ A group_reduce(A x, Op op) {
  if constexpr (kGroup == kWarp) {
    return warp_reduce(x, op);
  } else {
    return block_reduce<kGroup>(x, op);
  }
}

// Threads of a block: a warp for each of 4 short rows, else one long row. Small blocks leave no tail at the
// end of a grid.
template <int kGroup>
inline constexpr int kRowThreads = kGroup == kWarp ? 128 : kGroup;

// e^x for x <= 0. 16-bit results do not show the rounding of x log2(e), so they take the processor's 2^x as
// it is.
template <class T>
__device__ __forceinline__ Wide<T> exp_of(Wide<T> x) {
  if constexpr (kIs16Bit<T>) {
    return power_of_two(x * 1.4426950408889634f);
  } else if constexpr (std::is_same_v<T, float>) {
    return expf(x);
  } else {
    return std::exp(x);
  }
}

// Rows of C elements that can be moved 16 bytes at a time.
template <class T>
bool rows_are_aligned(int64_t C, std::initializer_list<const void*> pointers) {
  if (C % kWideOf<T> != 0) return false;
  for (const void* p : pointers) {
    if (reinterpret_cast<uintptr_t>(p) % 16 != 0) return false;
  }
  return true;
}

// Bytes of the longest aligned row that registers hold.
inline constexpr int64_t kRegisterRowBytes = int64_t{512} * 8 * 16;
template <class T>
bool registers_hold(int64_t C) {
  return C * static_cast<int64_t>(sizeof(T)) <= kRegisterRowBytes;
}

// Calls f.operator()<R>(bytes of shared memory) with the kind of row that holds C elements, `held` of them at
// once; false when none does.
template <class T, class F>
bool dispatch_row(int64_t C, int held, bool aligned, F&& f) {
  const auto shared = [&]<int kWide>() {
    const size_t bytes = static_cast<size_t>(C * held) * sizeof(T),
                 kept = properties(current_device()).shared_per_block_optin;
    if (2 * (bytes + 2048) <= kept) return f.template operator()<SharedRow<T, 512, kWide>>(bytes), true;
    if (bytes + 2048 <= kept) return f.template operator()<SharedRow<T, 1024, kWide>>(bytes), true;
    return false;
  };
  if (!aligned) {
    if (C <= 32 * 8) return f.template operator()<Row<T, 32, 8, 1>>(0), true;
    if (C <= 256 * 4) return f.template operator()<Row<T, 256, 4, 1>>(0), true;
    if (C <= 256 * 16) return f.template operator()<Row<T, 256, 16, 1>>(0), true;
    return shared.template operator()<1>();
  }
  const int64_t vectors = C / kWideOf<T>;
  if (vectors <= 32 * 4) return f.template operator()<Row<T, 32, 4>>(0), true;
  if (vectors <= 64 * 4) return f.template operator()<Row<T, 64, 4>>(0), true;
  if (vectors <= 128 * 4) return f.template operator()<Row<T, 128, 4>>(0), true;
  if (vectors <= 256 * 4) return f.template operator()<Row<T, 256, 4>>(0), true;
  if (vectors <= 256 * 8) return f.template operator()<Row<T, 256, 8>>(0), true;
  if (registers_hold<T>(C)) return f.template operator()<Row<T, 512, 8>>(0), true;
  return shared.template operator()<kWideOf<T>>();
}

template <int kGroup>
LaunchConfig rows_grid(int64_t rows, size_t shared_bytes = 0) {
  constexpr int64_t kEach = kRowThreads<kGroup> / kGroup;
  return {dim3(static_cast<unsigned>((rows + kEach - 1) / kEach)), dim3(kRowThreads<kGroup>), shared_bytes};
}

// The row of this thread's group. Those beyond the last are whole warps, which may leave.
template <int kGroup>
__device__ __forceinline__ int64_t row_of_group() {
  return static_cast<int64_t>(blockIdx.x) * (kRowThreads<kGroup> / kGroup) + threadIdx.x / kGroup;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
