// Row: the elements of one row, held by the registers of a group of threads as they are stored.
//
// Softmax and normalization visit a row two or three times; here memory sees it once. A thread holds kVectors
// words of 16 bytes: word number v of lane t covers elements (v kGroup + t) kVectorSize ... of an aligned
// row.
//
// Rows whose length is no multiple of 16 bytes begin anywhere in a word. Such a ragged row is held as the
// words that it lies in: its phase says how many elements of the first word belong to its neighbour. What is
// outside of the row is never read or written: the elements of the first and the last word move one by one.
// All rows of a kernel take the phase of the result; operands at another phase, such as weights, are spliced
// from two words each.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/unaligned.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

template <class T, int kThreads, int kVectors, bool kIsAligned = true>
struct Row {
  static constexpr int kVectorSize = kVectorSizeOf<T>, kGroup = kThreads, kCount = kVectors;
  static constexpr bool kAligned = kIsAligned,
                        kPersistent = !kIsAligned;  // whether it repays to take many rows
  using Element = T;
  using A = Compute<T>;
  uint4 word[kVectors];
  int phase = 0;

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kGroup; }
  // Below 0 in the first word of a ragged row.
  __device__ __forceinline__ int column(int v) const {
    return (v * kGroup + lane()) * kVectorSize - (kAligned ? 0 : phase);
  }
  // Whether column c, of a word that is held, is one of the row's.
  static __device__ __forceinline__ bool holds(int c, int C) { return kAligned || is_inside(c, C); }
  // Before the first read: where the row of the result begins.
  __device__ __forceinline__ void align_with(const T* result) {
    if constexpr (!kAligned) phase = phase_of(result);
  }
  __device__ __forceinline__ void read(const T* row, int C, int = 0, T fill = T{}) {
    const uint4* const words = reinterpret_cast<const uint4*>(row) + lane();  // of an aligned row
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kAligned) {
        if (column(v) < C) word[v] = words[v * kGroup];
      } else {
        if (column(v) < C) word[v] = load_unaligned_vector(row, column(v), C, fill);
      }
    }
  }
  static __device__ __forceinline__ void write(T* row, int c, int C, const A (&y)[kVectorSize]) {
    kAligned ? store(row + c, y) : store_inside(row, c, C, y);
  }
  // Part of another line, at the columns of a word of this row.
  static __device__ __forceinline__ void read_same_columns(A (&out)[kVectorSize], const T* line, int c,
                                                           int C) {
    if constexpr (kAligned) {
      load(out, line + c);
    } else {
      const uint4 word = load_unaligned_vector(line, c, C, T{});
      load(out, reinterpret_cast<const T*>(&word));
    }
  }
  // Reads the row at a and changes it by that at b, both on their way at once: f(first column, elements of a,
  // elements of b) changes the first, which are then rounded to T and left at `out` too.
  template <class F>
  __device__ __forceinline__ void read_with(const T* a, const T* b, T* out, int C, F&& f) {
    Row other;
    other.phase = phase;
    read(a, C);
    other.read(b, C);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) >= C) continue;
      A x[kVectorSize], y[kVectorSize];
      get(v, x);
      other.get(v, y);
      f(column(v), x, y);
      T values[kVectorSize];
      convert_elements(values, x);
      if constexpr (!kAligned) {  // what is outside stays 0
#pragma unroll
        for (int k = 0; k < kVectorSize; ++k) values[k] = holds(column(v) + k, C) ? values[k] : T{};
      }
      memcpy(&word[v], values, sizeof(values));
      get(v, x);
      write(out, column(v), C, x);
    }
  }
  // The vector's elements in the compute type.
  __device__ __forceinline__ void get(int v, A (&out)[kVectorSize]) const {
    T values[kVectorSize];
    memcpy(values, &word[v], sizeof(values));
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k) out[k] = to<A>(values[k]);
  }
  // Calls f(first column, elements) for each vector of this thread.
  template <class F>
  __device__ __forceinline__ void each(int C, F&& f) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) >= C) continue;
      A x[kVectorSize];
      get(v, x);
      f(column(v), x);
    }
  }
  // f(first column, elements of this, elements of other)
  template <class F>
  __device__ __forceinline__ void each_pair(const Row& other, int C, F&& f) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) >= C) continue;
      A x[kVectorSize], y[kVectorSize];
      get(v, x);
      other.get(v, y);
      f(column(v), x, y);
    }
  }
};

// ElementRow holds a ragged row of some hundred bytes by elements: a warp's loads are side by side, and words
// would cost more at the two ends of such a row than they save between them.
template <class T, int kVectors>
struct ElementRow {
  static constexpr int kVectorSize = 1, kGroup = kWarp, kCount = kVectors;
  static constexpr bool kAligned = true, kPersistent = false;
  using Element = T;
  using A = Compute<T>;
  T element[kVectors];

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kGroup; }
  static __device__ __forceinline__ int column(int v) { return v * kGroup + lane(); }
  static __device__ __forceinline__ bool holds(int, int) { return true; }
  static __device__ __forceinline__ void align_with(const T*) {}
  __device__ __forceinline__ void read(const T* row, int C, int = 0, T = T{}) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) < C) element[v] = row[column(v)];
    }
  }
  static __device__ __forceinline__ void write(T* row, int c, int, const A (&y)[1]) { row[c] = to<T>(y[0]); }
  static __device__ __forceinline__ void read_same_columns(A (&out)[1], const T* line, int c, int) {
    out[0] = to<A>(line[c]);
  }
  template <class F>
  __device__ __forceinline__ void read_with(const T* a, const T* b, T* out, int C, F&& f) {
    ElementRow other;
    read(a, C);
    other.read(b, C);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) >= C) continue;
      A x[1], y[1];
      get(v, x);
      other.get(v, y);
      f(column(v), x, y);
      element[v] = to<T>(x[0]);
      out[column(v)] = element[v];
    }
  }
  __device__ __forceinline__ void get(int v, A (&out)[1]) const { out[0] = to<A>(element[v]); }
  template <class F>
  __device__ __forceinline__ void each(int C, F&& f) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) >= C) continue;
      A x[1];
      get(v, x);
      f(column(v), x);
    }
  }
  template <class F>
  __device__ __forceinline__ void each_pair(const ElementRow& other, int C, F&& f) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) >= C) continue;
      A x[1], y[1];
      get(v, x);
      other.get(v, y);
      f(column(v), x, y);
    }
  }
};

// SharedRow holds a row that is too long for registers: it waits in shared memory, at its phase. A thread
// reads back what it wrote, so no barrier is needed.
template <class T, int kThreads, bool kIsAligned = true>
struct SharedRow {
  static constexpr int kVectorSize = kVectorSizeOf<T>, kGroup = kThreads;
  static constexpr bool kAligned = kIsAligned, kPersistent = !kIsAligned;
  using Element = T;
  using A = Compute<T>;
  T* kept;
  int phase = 0;

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x); }
  static __device__ __forceinline__ bool holds(int c, int C) { return kAligned || is_inside(c, C); }
  __device__ __forceinline__ void align_with(const T* result) {
    if constexpr (!kAligned) phase = phase_of(result);
  }
  __device__ __forceinline__ int first_column() const {
    return lane() * kVectorSize - (kAligned ? 0 : phase);
  }
  // The place of a word's first column.
  __device__ __forceinline__ T* at(int c) const { return kept + c + (kAligned ? 0 : phase); }
  static __device__ __forceinline__ uint4 word_of(const T* row, int c, int C, T fill) {
    if constexpr (kAligned) return *reinterpret_cast<const uint4*>(row + c);
    return load_unaligned_vector(row, c, C, fill);
  }
  static __device__ __forceinline__ void write(T* row, int c, int C, const A (&y)[kVectorSize]) {
    Row<T, kThreads, 1, kAligned>::write(row, c, C, y);
  }
  static __device__ __forceinline__ void read_same_columns(A (&out)[kVectorSize], const T* line, int c,
                                                           int C) {
    Row<T, kThreads, 1, kAligned>::read_same_columns(out, line, c, C);
  }
  // As read(), and f(first column, values) for each word as it arrives.
  template <class F>
  __device__ __forceinline__ void read_each(const T* row, int C, T fill, F&& f) {
    constexpr int kAhead = 4;  // loads in flight
    kept = dynamic_shared<T>();
    for (int c = first_column(); c < C; c += kAhead * kThreads * kVectorSize) {
      uint4 words[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int at_ = c + a * kThreads * kVectorSize;
        if (at_ < C) words[a] = word_of(row, at_, C, fill);
      }
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int at_ = c + a * kThreads * kVectorSize;
        if (at_ >= C) break;
        *reinterpret_cast<uint4*>(at(at_)) = words[a];
        A x[kVectorSize];
        load(x, reinterpret_cast<const T*>(&words[a]));
        f(at_, x);
      }
    }
  }
  // which: of the rows that a block holds at once, of vectors_of_row(C) words each.
  __device__ __forceinline__ void read(const T* row, int C, int which = 0, T fill = T{}) {
    kept =
        dynamic_shared<T>() + which * (kAligned ? C : (C + 2 * kVectorSize - 2) / kVectorSize * kVectorSize);
#pragma unroll 8
    for (int c = first_column(); c < C; c += kThreads * kVectorSize) {
      *reinterpret_cast<uint4*>(at(c)) = word_of(row, c, C, fill);
    }
  }
  // As Row's.
  template <class F>
  __device__ __forceinline__ void read_with(const T* a, const T* b, T* out, int C, F&& f) {
    constexpr int kAhead = 2;  // loads in flight, of each row
    kept = dynamic_shared<T>();
    for (int first = first_column(); first < C; first += kAhead * kThreads * kVectorSize) {
      uint4 x_words[kAhead], y_words[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int c = first + k * kThreads * kVectorSize;
        if (c >= C) break;
        x_words[k] = word_of(a, c, C, T{});
        y_words[k] = word_of(b, c, C, T{});
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int c = first + k * kThreads * kVectorSize;
        if (c >= C) break;
        A x[kVectorSize], y[kVectorSize];
        load(x, reinterpret_cast<const T*>(&x_words[k]));
        load(y, reinterpret_cast<const T*>(&y_words[k]));
        f(c, x, y);
#pragma unroll
        for (int i = 0; i < kVectorSize; ++i) x[i] = holds(c + i, C) ? x[i] : A(0);
        store(at(c), x);
        write(out, c, C, x);
      }
    }
  }
  template <class F>
  __device__ __forceinline__ void each(int C, F&& f) const {
#pragma unroll 2
    for (int c = first_column(); c < C; c += kThreads * kVectorSize) {
      A x[kVectorSize];
      load(x, at(c));
      f(c, x);
    }
  }
  template <class F>
  __device__ __forceinline__ void each_pair(const SharedRow& other, int C, F&& f) const {
#pragma unroll 2
    for (int c = first_column(); c < C; c += kThreads * kVectorSize) {
      A x[kVectorSize], y[kVectorSize];
      load(x, at(c));
      load(y, other.at(c));
      f(c, x, y);
    }
  }
};

// Combines a value over the kGroup threads of a row: part of a warp, or the whole block.
template <int kGroup, class A, class Op>
__device__ __forceinline__ A group_reduce(A x, Op op) {
  if constexpr (kGroup <= kWarp) {
    return warp_reduce<kGroup>(x, op);
  } else {
    return block_reduce<kGroup>(x, op);
  }
}

// Threads of a block: four warps of short rows, else one long row. Small blocks leave no tail at the end of a
// grid.
template <int kGroup>
inline constexpr int kRowThreads = kGroup <= kWarp ? 128 : kGroup;

// e^x for x <= 0. 16-bit results do not show the rounding of x log2(e), so they take the processor's 2^x as
// it is.
template <class T>
__device__ __forceinline__ Compute<T> exp_of(Compute<T> x) {
  if constexpr (kIs16Bit<T>) {
    return exp2_approx(x * 1.4426950408889634f);
  } else if constexpr (std::is_same_v<T, float>) {
    return expf(x);
  } else {
    return std::exp(x);
  }
}

inline constexpr int64_t kRegisterVectors = 512 * 8;
template <class T>
bool registers_hold(int64_t C, bool aligned) {
  return vectors_of_row<T>(C, aligned) <= kRegisterVectors;
}

// Calls f.operator()<R>() with the kind of row that holds C elements in registers; false when none does.
template <class T, bool kAligned, class F>
bool dispatch_register_row(int64_t C, F&& f) {
  const int64_t words = vectors_of_row<T>(C, kAligned);
  if constexpr (kAligned) {
    if (words <= 8 * 4) return f.template operator()<Row<T, 8, 4>>(), true;
    if (words <= 32 * 4) return f.template operator()<Row<T, 32, 4>>(), true;
    if (words <= 64 * 4) return f.template operator()<Row<T, 64, 4>>(), true;
    if (words <= 128 * 4) return f.template operator()<Row<T, 128, 4>>(), true;
    if (words <= 256 * 4) return f.template operator()<Row<T, 256, 4>>(), true;
  } else {  // a word more; few lanes for short rows, so that those of a warp meet their first and last words
            // together
    if (C <= kWarp * 8) return f.template operator()<ElementRow<T, 8>>(), true;
    if (words <= 16 * 5) return f.template operator()<Row<T, 16, 5, false>>(), true;
    if (words <= 32 * 5) return f.template operator()<Row<T, 32, 5, false>>(), true;
    if (words <= 128 * 5) return f.template operator()<Row<T, 128, 5, false>>(), true;
  }
  if (words <= 256 * 8) return f.template operator()<Row<T, 256, 8, kAligned>>(), true;
  if (words <= kRegisterVectors) return f.template operator()<Row<T, 512, 8, kAligned>>(), true;
  return false;
}
// Calls f.operator()<R>(bytes of shared memory) with the kind of row that holds C elements, `held` of them at
// once; false when none does.
template <class T, class F>
bool dispatch_row(int64_t C, int held, bool aligned, F&& f) {
  const auto in_registers = [&]<class R>() { f.template operator()<R>(0); };
  if (aligned ? dispatch_register_row<T, true>(C, in_registers)
              : dispatch_register_row<T, false>(C, in_registers)) {
    return true;
  }
  const size_t bytes = static_cast<size_t>(vectors_of_row<T>(C, aligned) * held) * 16,
               kept = properties(current_device()).shared_per_block_optin;
  const auto in_shared = [&]<bool kAligned>() {
    if (2 * (bytes + 2048) <= kept) return f.template operator()<SharedRow<T, 512, kAligned>>(bytes), true;
    if (bytes + 2048 <= kept) return f.template operator()<SharedRow<T, 1024, kAligned>>(bytes), true;
    return false;
  };
  return aligned ? in_shared.template operator()<true>() : in_shared.template operator()<false>();
}

template <int kGroup>
LaunchConfig rows_grid(int64_t rows, size_t shared_bytes = 0) {
  constexpr int64_t kEach = kRowThreads<kGroup> / kGroup;
  return {dim3(static_cast<unsigned>((rows + kEach - 1) / kEach)), dim3(kRowThreads<kGroup>), shared_bytes};
}

// How many blocks shall walk ragged rows, of `resident` that run at once: rows so many lines apart have one
// phase.
template <class T>
int64_t whole_phases(int64_t resident) {
  return resident < kVectorSizeOf<T> ? kVectorSizeOf<T> : resident - resident % kVectorSizeOf<T>;
}

// The row of this thread's group. Groups beyond the last row leave, but for those that share a warp with the
// last: they go along with a row of no columns.
struct GroupRow {
  int64_t row;
  int C;
  bool exits, valid;
};
template <int kGroup>
__device__ __forceinline__ GroupRow row_of_group(int64_t rows, int64_t C, int64_t block) {
  const int64_t row = block * (kRowThreads<kGroup> / kGroup) + threadIdx.x / kGroup;
  const int before = kGroup < kWarp ? static_cast<int>(threadIdx.x) % kWarp / kGroup : 0;  // in the warp
  const bool there = row < rows;
  return {there ? row : rows - 1, there ? static_cast<int>(C) : 0, row - before >= rows, there};
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
