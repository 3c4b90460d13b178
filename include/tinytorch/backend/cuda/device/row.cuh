// Row: the elements of one row in registers of a group of threads, in their storage type. Softmax and
// normalization use a row two or three times, but read global memory once. A thread holds kVectors vectors of
// 16 bytes: vector v of lane t has elements (v kGroup + t) kVectorSize ... of an aligned row.
//
// Ragged rows have a length that is no multiple of 16 bytes, so they begin anywhere in a 16-byte vector. Such
// a row is held as the aligned vectors that contain it; its phase is the number of elements of the first
// vector that belong to the previous row. Elements outside of the row are not accessed: the elements of the
// first and the last vector are moved one by one. All rows of a kernel use the phase of the result; operands
// with another phase, such as weights, are assembled from two aligned vectors each.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/unaligned.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Calls a function for the vectors that a thread of row type R holds in registers. R derives from it.
template <class R>
struct RegisterVectors {
  // Calls f(first column, elements) for each vector of this thread.
  template <class F>
  __device__ __forceinline__ void each(int C, F&& f) const {
    const R& row = static_cast<const R&>(*this);
#pragma unroll
    for (int v = 0; v < R::kCount; ++v) {
      if (row.column(v) >= C) continue;
      typename R::A x[R::kVectorSize];
      row.get(v, x);
      f(row.column(v), x);
    }
  }
  // Calls f(first column, elements of this row, elements of the other row) for each vector of this thread.
  template <class F>
  __device__ __forceinline__ void each_pair(const R& other, int C, F&& f) const {
    const R& row = static_cast<const R&>(*this);
#pragma unroll
    for (int v = 0; v < R::kCount; ++v) {
      if (row.column(v) >= C) continue;
      typename R::A x[R::kVectorSize], y[R::kVectorSize];
      row.get(v, x);
      other.get(v, y);
      f(row.column(v), x, y);
    }
  }
};

template <class T, int kThreads, int kVectors, bool kIsAligned = true>
struct Row : RegisterVectors<Row<T, kThreads, kVectors, kIsAligned>> {
  static constexpr int kVectorSize = kVectorSizeOf<T>, kGroup = kThreads, kCount = kVectors;
  static constexpr bool kAligned = kIsAligned, kPersistent = !kIsAligned;  // persistent: loops over many rows
  using Element = T;
  using A = Compute<T>;
  uint4 vector[kVectors];
  int phase = 0;

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kGroup; }
  // First column of vector v; below 0 for the first vector of a ragged row.
  __device__ __forceinline__ int column(int v) const {
    return (v * kGroup + lane()) * kVectorSize - (kAligned ? 0 : phase);
  }
  // True if column c of a vector that is held belongs to the row.
  static __device__ __forceinline__ bool holds(int c, int C) { return kAligned || is_inside(c, C); }
  // Sets the phase. Call before the first read, with the start of the result's row.
  __device__ __forceinline__ void align_with(const T* result) {
    if constexpr (!kAligned) phase = phase_of(result);
  }
  __device__ __forceinline__ void read(const T* row, int C, int = 0, T fill = T{}) {
    const uint4* const vectors = reinterpret_cast<const uint4*>(row) + lane();  // for an aligned row
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kAligned) {
        if (column(v) < C) vector[v] = vectors[v * kGroup];
      } else {
        if (column(v) < C) vector[v] = load_unaligned_vector(row, column(v), C, fill);
      }
    }
  }
  static __device__ __forceinline__ void write(T* row, int c, int C, const A (&y)[kVectorSize]) {
    kAligned ? store(row + c, y) : store_inside(row, c, C, y);
  }
  // Reads kVectorSize elements of another array, such as the weight, at the columns of a vector of this row.
  static __device__ __forceinline__ void read_same_columns(A (&out)[kVectorSize], const T* line, int c,
                                                           int C) {
    if constexpr (kAligned) {
      load(out, line + c);
    } else {
      const uint4 vector = load_unaligned_vector(line, c, C, T{});
      load(out, reinterpret_cast<const T*>(&vector));
    }
  }
  // Reads rows a and b with all loads in flight at once, and calls f(first column, elements of a, elements of
  // b) for each vector. f changes the elements of a, which are then rounded to T, kept as this row and
  // written to `out`.
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
      if constexpr (!kAligned) {  // elements outside of the row stay 0
#pragma unroll
        for (int k = 0; k < kVectorSize; ++k) values[k] = holds(column(v) + k, C) ? values[k] : T{};
      }
      memcpy(&vector[v], values, sizeof(values));
      get(v, x);
      write(out, column(v), C, x);
    }
  }
  // The elements of vector v, in the compute type.
  __device__ __forceinline__ void get(int v, A (&out)[kVectorSize]) const {
    T values[kVectorSize];
    memcpy(values, &vector[v], sizeof(values));
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k) out[k] = to<A>(values[k]);
  }
};

// ElementRow holds a ragged row of some hundred bytes element by element. The loads of a warp are coalesced,
// and vectors would cost more at the two ends of such a short row than they save between them.
template <class T, int kVectors>
struct ElementRow : RegisterVectors<ElementRow<T, kVectors>> {
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
};

// SharedRow holds a row that is too long for registers in shared memory, with its phase. A thread reads only
// elements that it wrote itself, so no barrier is needed.
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
  // Address in shared memory of column c.
  __device__ __forceinline__ T* at(int c) const { return kept + c + (kAligned ? 0 : phase); }
  static __device__ __forceinline__ uint4 load_vector(const T* row, int c, int C, T fill) {
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
  // Reads like read(), and calls f(first column, elements) for each vector when it arrives.
  template <class F>
  __device__ __forceinline__ void read_each(const T* row, int C, T fill, F&& f) {
    constexpr int kAhead = 4;  // loads in flight
    kept = dynamic_shared<T>();
    for (int c = first_column(); c < C; c += kAhead * kThreads * kVectorSize) {
      uint4 vectors[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int at_ = c + a * kThreads * kVectorSize;
        if (at_ < C) vectors[a] = load_vector(row, at_, C, fill);
      }
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int at_ = c + a * kThreads * kVectorSize;
        if (at_ >= C) break;
        *reinterpret_cast<uint4*>(at(at_)) = vectors[a];
        A x[kVectorSize];
        load(x, reinterpret_cast<const T*>(&vectors[a]));
        f(at_, x);
      }
    }
  }
  // which: of the rows that a block holds at once, of vectors_of_row(C) vectors each.
  __device__ __forceinline__ void read(const T* row, int C, int which = 0, T fill = T{}) {
    kept =
        dynamic_shared<T>() + which * (kAligned ? C : (C + 2 * kVectorSize - 2) / kVectorSize * kVectorSize);
#pragma unroll 8
    for (int c = first_column(); c < C; c += kThreads * kVectorSize) {
      *reinterpret_cast<uint4*>(at(c)) = load_vector(row, c, C, fill);
    }
  }
  // Reads two rows as Row::read_with does.
  template <class F>
  __device__ __forceinline__ void read_with(const T* a, const T* b, T* out, int C, F&& f) {
    constexpr int kAhead = 2;  // loads in flight for each of the two rows
    kept = dynamic_shared<T>();
    for (int first = first_column(); first < C; first += kAhead * kThreads * kVectorSize) {
      uint4 x_vectors[kAhead], y_vectors[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int c = first + k * kThreads * kVectorSize;
        if (c >= C) break;
        x_vectors[k] = load_vector(a, c, C, T{});
        y_vectors[k] = load_vector(b, c, C, T{});
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int c = first + k * kThreads * kVectorSize;
        if (c >= C) break;
        A x[kVectorSize], y[kVectorSize];
        load(x, reinterpret_cast<const T*>(&x_vectors[k]));
        load(y, reinterpret_cast<const T*>(&y_vectors[k]));
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

// Reduces a value over the kGroup threads of a row: a part of a warp, or the whole block.
template <int kGroup, class A, class Op>
__device__ __forceinline__ A group_reduce(A x, Op op) {
  if constexpr (kGroup <= kWarp) {
    return warp_reduce<kGroup>(x, op);
  } else {
    return block_reduce<kGroup>(x, op);
  }
}

// Threads per block: four warps with short rows, or one long row. Small blocks avoid a tail at the end of the
// grid.
template <int kGroup>
inline constexpr int kRowThreads = kGroup <= kWarp ? 128 : kGroup;

// e^x for x <= 0. For 16-bit results the rounding error of x log2(e) does not matter, so they use the 2^x
// instruction directly.
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

// Calls f.operator()<R>() with the row type R that holds C elements in registers; returns false if there is
// none.
template <class T, bool kAligned, class F>
bool dispatch_register_row(int64_t C, F&& f) {
  const int64_t vectors = vectors_of_row<T>(C, kAligned);
  if constexpr (kAligned) {
    if (vectors <= 8 * 4) return f.template operator()<Row<T, 8, 4>>(), true;
    if (vectors <= 32 * 4) return f.template operator()<Row<T, 32, 4>>(), true;
    if (vectors <= 64 * 4) return f.template operator()<Row<T, 64, 4>>(), true;
    if (vectors <= 128 * 4) return f.template operator()<Row<T, 128, 4>>(), true;
    if (vectors <= 256 * 4) return f.template operator()<Row<T, 256, 4>>(), true;
  } else {
    // A ragged row has one vector more. Short rows use few lanes, so that the rows of a warp process their
    // first and last vectors at the same time.
    if (C <= kWarp * 8) return f.template operator()<ElementRow<T, 8>>(), true;
    if (vectors <= 16 * 5) return f.template operator()<Row<T, 16, 5, false>>(), true;
    if (vectors <= 32 * 5) return f.template operator()<Row<T, 32, 5, false>>(), true;
    if (vectors <= 128 * 5) return f.template operator()<Row<T, 128, 5, false>>(), true;
  }
  if (vectors <= 256 * 8) return f.template operator()<Row<T, 256, 8, kAligned>>(), true;
  if (vectors <= kRegisterVectors) return f.template operator()<Row<T, 512, 8, kAligned>>(), true;
  return false;
}
// Calls f.operator()<R>(bytes of shared memory) with the row type R for rows of C elements, of which a block
// holds `held` at once. Returns false if a row does not fit in shared memory.
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
  return {dim3(static_cast<unsigned>(ceil_div(rows, kEach))), dim3(kRowThreads<kGroup>), shared_bytes};
}

// Number of blocks, out of `resident`, for a kernel that loops over ragged rows: with this stride all rows of
// a block have the same phase.
template <class T>
int64_t whole_phases(int64_t resident) {
  return resident < kVectorSizeOf<T> ? kVectorSizeOf<T> : resident - resident % kVectorSizeOf<T>;
}

// The row of this thread's group. Groups past the last row exit, except those in the same warp as the last
// row: they continue with 0 columns, because all lanes of a warp take part in its shuffles.
struct GroupRow {
  int64_t row;
  int C;
  bool exits, valid;
};
template <int kGroup>
__device__ __forceinline__ GroupRow row_of_group(int64_t rows, int64_t C, int64_t block) {
  const int64_t row = block * (kRowThreads<kGroup> / kGroup) + threadIdx.x / kGroup;
  const int before = kGroup < kWarp ? static_cast<int>(threadIdx.x) % kWarp / kGroup : 0;  // in the warp
  const bool valid = row < rows;
  return {valid ? row : rows - 1, valid ? static_cast<int>(C) : 0, row - before >= rows, valid};
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
