// Words of 16 bytes in lines that begin anywhere in one: what is outside of the line is neither read nor
// written, so that the elements of its first and last word move one by one.
#pragma once

#include <cstring>
#include <initializer_list>
#include <tinytorch/backend/cuda/device/vector.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Elements of T in 16 bytes.
template <class T>
inline constexpr int kVectorSizeOf = 16 / static_cast<int>(sizeof(T));

// Elements between the last multiple of 16 bytes and p.
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

// Columns c ... of a line of C elements, of which column c is aligned to 16 bytes; outside of it `fill`.
template <class T>
__device__ __forceinline__ uint4 load_aligned_vector(const T* line, int c, int C, T fill) {
  if (vector_is_inside<T>(c, C)) return *reinterpret_cast<const uint4*>(line + c);
  T values[kVectorSizeOf<T>];
#pragma unroll
  for (int k = 0; k < kVectorSizeOf<T>; ++k) values[k] = is_inside(c + k, C) ? line[c + k] : fill;
  uint4 word;
  memcpy(&word, values, sizeof(word));
  return word;
}
// The same, aligned or not.
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
// Leaves those columns of y that are inside.
template <class T, class A, int kVectorSize>
__device__ __forceinline__ void store_inside(T* line, int c, int C, const A (&y)[kVectorSize]) {
  if (vector_is_inside<T>(c, C)) return store(line + c, y);
#pragma unroll
  for (int k = 0; k < kVectorSize; ++k) {
    if (is_inside(c + k, C)) line[c + k] = to<T>(y[k]);
  }
}

// Rows of C elements that can be moved 16 bytes at a time.
template <class T>
bool rows_are_aligned(int64_t C, std::initializer_list<const void*> pointers) {
  if (C % kVectorSizeOf<T> != 0) return false;
  for (const void* p : pointers) {
    if (reinterpret_cast<uintptr_t>(p) % 16 != 0) return false;
  }
  return true;
}

// Words of 16 bytes that a row of C elements lies in, whatever its phase.
template <class T>
int64_t vectors_of_row(int64_t C, bool aligned) {
  return ceil_div(aligned ? C : C + kVectorSizeOf<T> - 1, kVectorSizeOf<T>);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
