// Vectorized access (16 bytes) to lines of any alignment. Elements outside of a line are neither read nor
// written: the elements of its first and last vector are moved one by one.
#pragma once

#include <cstring>
#include <initializer_list>
#include <tinytorch/backend/cuda/device/vector.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Number of elements of T in a vector of 16 bytes.
template <class T>
inline constexpr int kVectorSizeOf = 16 / static_cast<int>(sizeof(T));

// The phase of p: number of elements between the previous multiple of 16 bytes and p.
template <class T>
__host__ __device__ __forceinline__ int phase_of(const T* p) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(p) / sizeof(T) % kVectorSizeOf<T>);
}
__device__ __forceinline__ bool is_inside(int c, int C) {
  return static_cast<unsigned>(c) < static_cast<unsigned>(C);
}
template <class T>
__device__ __forceinline__ bool vector_is_inside(int c, int C) {
  return c >= 0 && c + kVectorSizeOf<T> <= C;
}

// A vector of a line of C elements, from column c on, which is aligned to 16 bytes; `fill` outside of the
// line.
template <class T>
__device__ __forceinline__ uint4 load_aligned_vector(const T* line, int c, int C, T fill) {
  if (vector_is_inside<T>(c, C)) return *reinterpret_cast<const uint4*>(line + c);
  T values[kVectorSizeOf<T>];
#pragma unroll
  for (int k = 0; k < kVectorSizeOf<T>; ++k) values[k] = is_inside(c + k, C) ? line[c + k] : fill;
  uint4 vector;
  memcpy(&vector, values, sizeof(vector));
  return vector;
}
// Loads a vector of any alignment from two aligned vectors; otherwise it is load_aligned_vector.
template <class T>
__device__ __forceinline__ uint4 load_unaligned_vector(const T* line, int c, int C, T fill) {
  const int shift = (phase_of(line) + c) & (kVectorSizeOf<T> - 1);
  const uint4 low = load_aligned_vector(line, c - shift, C, fill);
  if (shift == 0) return low;
  const uint4 high = load_aligned_vector(line, c - shift + kVectorSizeOf<T>, C, fill);
  unsigned w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  const int bytes = shift * static_cast<int>(sizeof(T));
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = bytes & 8 ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = bytes & 4 ? w[i + 1] : w[i];
#pragma unroll
  for (int i = 0; i < 4; ++i) w[i] = bytes & 2 ? w[i] >> 16 | w[i + 1] << 16 : w[i];
  return {w[0], w[1], w[2], w[3]};
}
// Stores the elements of y whose columns are inside the line. Column c is aligned to 16 bytes.
template <class T, class A, int kVectorSize>
__device__ __forceinline__ void store_inside(T* line, int c, int C, const A (&y)[kVectorSize]) {
  if (vector_is_inside<T>(c, C)) return store(line + c, y);
#pragma unroll
  for (int k = 0; k < kVectorSize; ++k) {
    if (is_inside(c + k, C)) line[c + k] = to<T>(y[k]);
  }
}

// True if all rows of C elements at these pointers begin and end at multiples of 16 bytes.
template <class T>
bool rows_are_aligned(int64_t C, std::initializer_list<const void*> pointers) {
  if (C % kVectorSizeOf<T> != 0) return false;
  for (const void* p : pointers) {
    if (reinterpret_cast<uintptr_t>(p) % 16 != 0) return false;
  }
  return true;
}

// Number of aligned 16-byte vectors that contain a row of C elements, for any phase unless it is aligned.
template <class T>
int64_t vectors_of_row(int64_t C, bool aligned) {
  return ceil_div(aligned ? C : C + kVectorSizeOf<T> - 1, kVectorSizeOf<T>);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
