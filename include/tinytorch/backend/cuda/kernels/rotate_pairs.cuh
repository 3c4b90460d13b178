// Rotation of pairs, one launch for all heads and tokens (contract: backend/cpu/rotate_pairs.hpp).
//
// A thread rotates kVector neighbouring pairs, which it reads and writes in accesses of 16 bytes where
// strides and sizes allow it. Elements beyond R are copied by further threads of the same row. A position
// outside of the tables gives NaN, since nothing beyond the tables may be read.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/pair_rotation.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kRotateThreads = 256;

// Operands of the kernel; strides in elements, and the elements of a vector are neighbours.
template <class T>
struct RotatedVectors {
  T* out;
  const T* x;
  int64_t heads, tokens, size;  // H, T, D
  int64_t batch, head, token;   // strides of x
  const float *cos, *sin;       // [rows, half]
  const int64_t* positions;     // or null
  int64_t rows, half, first;
  float sign;
};

template <class T, int kVector>
static __global__ void __launch_bounds__(kRotateThreads)
    rotate_pairs_kernel(const __grid_constant__ RotatedVectors<T> v, int64_t units, int64_t n) {
  using A = Compute<T>;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kRotateThreads + threadIdx.x;
  if (at >= n) return;
  const int64_t row = at / units, unit = at % units * kVector;
  const int64_t t = row % v.tokens, plane = row / v.tokens;
  const T* const x = v.x + plane / v.heads * v.batch + plane % v.heads * v.head + t * v.token;
  T* const out = v.out + row * v.size;
  const int64_t position = v.positions ? v.positions[t] : v.first + t;
  A a[kVector], b[kVector];
  if (unit >= v.half) {  // beyond R
    load(a, x + v.half + unit);
    store(out + v.half + unit, a);
    return;
  }
  load(a, x + unit);
  load(b, x + v.half + unit);
  float c[kVector], s[kVector];
  const bool known = position >= 0 && position < v.rows;
  load(c, v.cos + (known ? position : 0) * v.half + unit);
  load(s, v.sin + (known ? position : 0) * v.half + unit);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const A ci = known ? static_cast<A>(c[i]) : static_cast<A>(NAN), si = static_cast<A>(v.sign * s[i]);
    const A first = a[i] * ci - b[i] * si;
    b[i] = b[i] * ci + a[i] * si;
    a[i] = first;
  }
  store(out + unit, a);
  store(out + v.half + unit, b);
}

// True if accesses of `count` elements fit all strides, sizes and addresses.
template <class T>
bool rotates_by(const RotatedVectors<T>& v, int64_t count) {
  const auto address = reinterpret_cast<uintptr_t>(v.x) | reinterpret_cast<uintptr_t>(v.out);
  const bool aligned = address % (static_cast<size_t>(count) * sizeof(T)) == 0 &&
                       (reinterpret_cast<uintptr_t>(v.cos) | reinterpret_cast<uintptr_t>(v.sin)) % 16 == 0;
  const int64_t spans[] = {v.half, v.size, v.batch, v.head, v.token};
  bool divides = true;
  for (const int64_t span : spans) divides = divides && span % count == 0;
  return aligned && divides;
}

void rotate_pairs(const View& out, const View& x, const PairRotation& rotation) {
  if (out.numel() == 0) return;
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    const bool in_place = x.strides[3] == 1;
    const ContiguousInput<T> copied(in_place ? View{} : x);
    ContiguousOutput<T> to(out);
    const int64_t H = x.shape[1], tokens = x.shape[2], D = x.shape[3], half = rotation.half();
    const Strides s = in_place ? x.strides : Strides{H * tokens * D, tokens * D, D, 1};
    const RotatedVectors<T> v{to.data(),
                              in_place ? x.as<const T>() : copied.data(),
                              H,
                              tokens,
                              D,
                              s[0],
                              s[1],
                              s[2],
                              rotation.cos.as<const float>(),
                              rotation.sin.as<const float>(),
                              rotation.positions.as<const int64_t>(),
                              rotation.cos.shape[0],
                              half,
                              rotation.first,
                              rotation.inverse ? -1.0f : 1.0f};
    const auto run = [&]<int kVector>(std::integral_constant<int, kVector>) {
      const int64_t units = (D - half) / kVector, n = out.numel() / D * units;
      launch(rotate_pairs_kernel<T, kVector>, over(n, kRotateThreads), v, units, n);
    };
    constexpr int kWide = static_cast<int>(16 / sizeof(T));
    if (rotates_by(v, kWide))
      run(std::integral_constant<int, kWide>{});
    else
      run(std::integral_constant<int, 1>{});
    to.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
