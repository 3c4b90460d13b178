// CUDA C++ keywords and types for a host compiler: qualifiers, vector types, dim3.
//
// A block runs on one host thread, so its static shared memory consists of static thread-local variables.
#pragma once

// The standard library uses some of these keywords as attributes, so the headers that kernels need are
// included before the macros.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __shared__ static thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3() = default;
  constexpr dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

// Vector types with the alignment of the device. The copy operations below copy the whole vector by one
// access, because clang does not instrument the copy of a struct.
template <class T, int kCount>
using WholeVector [[gnu::vector_size(sizeof(T) * kCount), gnu::may_alias]] = T;

template <class T>
struct alignas(2 * sizeof(T)) VectorOf2 {
  T x, y;
  VectorOf2() = default;
  constexpr VectorOf2(T x_, T y_) : x(x_), y(y_) {}
  VectorOf2(const VectorOf2& other) { *this = other; }
  VectorOf2& operator=(const VectorOf2& other) {
    using Whole = WholeVector<T, 2>;
    *reinterpret_cast<Whole*>(this) = *reinterpret_cast<const Whole*>(&other);
    return *this;
  }
};
template <class T>
struct alignas(4 * sizeof(T)) VectorOf4 {
  T x, y, z, w;
  VectorOf4() = default;
  constexpr VectorOf4(T x_, T y_, T z_, T w_) : x(x_), y(y_), z(z_), w(w_) {}
  VectorOf4(const VectorOf4& other) { *this = other; }
  VectorOf4& operator=(const VectorOf4& other) {
    using Whole = WholeVector<T, 4>;
    *reinterpret_cast<Whole*>(this) = *reinterpret_cast<const Whole*>(&other);
    return *this;
  }
};
using int2 = VectorOf2<int>;
using int4 = VectorOf4<int>;
using uint2 = VectorOf2<unsigned>;
using uint4 = VectorOf4<unsigned>;
using float2 = VectorOf2<float>;
using float4 = VectorOf4<float>;
using double2 = VectorOf2<double>;
inline int2 make_int2(int x, int y) { return {x, y}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
