// The part of a generated kernel that is the same for all CPU kernels: vectors, and the calls of functions on
// them.
//
// A function of one element is called for the lanes of a vector by a loop of constant length, which the
// compiler makes one vector instruction per operation. In between, each operand of a step passes an empty asm
// statement. Without it the compiler would join the product of one step with the sum of the next one to a
// fused multiply-add, which rounds once where the single operations round twice. It could also share a
// product between two steps, and then not fuse it inside the one whose single operation does.
//
// The text expects kBytes, the bytes of a vector, and the type T, in which values are computed.
#pragma once

#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD::acceleration {

inline constexpr const char* kKernelSupport = R"text(
using namespace tinytorch;
using namespace tinytorch::backend;
typedef T V __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
typedef T StreamV __attribute__((vector_size(kBytes), may_alias));
constexpr int64_t W = kBytes / sizeof(T);
struct alignas(kBytes) Lanes { T at[W]; };
// Hides from the compiler where a value came from.
[[gnu::always_inline]] static inline void hide(V& v) {
#if defined(__x86_64__)
  asm volatile("" : "+v"(v));
#elif defined(__aarch64__)
  asm volatile("" : "+w"(v));
#else
  asm volatile("" : "+m"(v));
#endif
}
// f(i) for each lane; becomes one vector instruction for each operation of f.
template <class F> [[gnu::always_inline]] static inline void each_lane(F f) {
#if defined(__clang__)
#pragma clang loop vectorize(enable)
#else
#pragma GCC ivdep
#pragma GCC unroll 1
#endif
  for (int64_t i = 0; i < W; ++i) f(i);
}
[[gnu::always_inline]] static inline V vector_of(const Lanes& lanes) { return *reinterpret_cast<const V*>(lanes.at); }
[[gnu::always_inline]] static inline Lanes lanes_of(V v) {
  hide(v);
  Lanes lanes;
  *reinterpret_cast<V*>(lanes.at) = v;
  return lanes;
}
template <class F> [[gnu::always_inline]] static inline V apply(V a, F f) {
  const Lanes x = lanes_of(a);
  Lanes r;
  each_lane([&](int64_t i) { r.at[i] = f(x.at[i]); });
  return vector_of(r);
}
template <class F> [[gnu::always_inline]] static inline V apply(V a, V b, F f) {
  const Lanes x = lanes_of(a), y = lanes_of(b);
  Lanes r;
  each_lane([&](int64_t i) { r.at[i] = f(x.at[i], y.at[i]); });
  return vector_of(r);
}
template <class F> [[gnu::always_inline]] static inline V apply(V a, V b, V c, F f) {
  const Lanes x = lanes_of(a), y = lanes_of(b), z = lanes_of(c);
  Lanes r;
  each_lane([&](int64_t i) { r.at[i] = f(x.at[i], y.at[i], z.at[i]); });
  return vector_of(r);
}
// Sine and cosine: libm reduces huge arguments exactly.
template <bool is_sin> [[gnu::always_inline]] static inline V apply_trig(V a) {
  constexpr UnaryFn fn = is_sin ? UnaryFn::sin : UnaryFn::cos;
  const V r = apply(a, [](T x) { return unary_value<fn, T>(x, T(0), T(0)); });
  if constexpr (sizeof(T) == 4) {
    const Lanes x = lanes_of(a);
    bool huge = false;
    each_lane([&](int64_t i) { huge |= std::abs(x.at[i]) > T(math::kMaxTrigArgument); });
    if (__builtin_expect(huge, 0)) {
      Lanes y = lanes_of(r);
      for (int64_t i = 0; i < W; ++i)
        if (std::abs(x.at[i]) > T(math::kMaxTrigArgument)) y.at[i] = is_sin ? std::sin(x.at[i]) : std::cos(x.at[i]);
      return vector_of(y);
    }
  }
  return r;
}
[[gnu::always_inline]] static inline V repeat(T x) {
  Lanes r;
  each_lane([&](int64_t i) { r.at[i] = x; });
  return vector_of(r);
}
template <class X> [[gnu::always_inline]] static inline V load(const X* p, int64_t step) {
  if constexpr (std::is_same_v<X, T>) {
    if (step == 1) return *reinterpret_cast<const V*>(p);
  }
  Lanes r;
  if (step == 1) {
    each_lane([&](int64_t i) { r.at[i] = convert<T>(p[i]); });
  } else {
    for (int64_t i = 0; i < W; ++i) r.at[i] = convert<T>(p[i * step]);
  }
  return vector_of(r);
}
template <class X> [[gnu::always_inline]] static inline void store(X* p, V v, [[maybe_unused]] bool stream) {
  if constexpr (std::is_same_v<X, T>) {
    if (stream) {
#if defined(__clang__)
      __builtin_nontemporal_store(v, reinterpret_cast<StreamV*>(p));
      return;
#elif defined(__AVX__)
      typedef float Floats __attribute__((vector_size(kBytes)));
      __builtin_ia32_movntps256(reinterpret_cast<float*>(p), (Floats)v);  // the bits of v
      return;
#endif
    }
    *reinterpret_cast<V*>(p) = v;
  } else {
    const Lanes x = lanes_of(v);
    each_lane([&](int64_t i) { p[i] = convert<X>(x.at[i]); });
  }
}
// The last elements of a run, fewer than a vector, are computed in a buffer.
template <class X> struct Buffer {
  alignas(64) X at[W] = {};
};
template <class X> [[gnu::always_inline]] static inline const X* copied(Buffer<X>& to, const X* from, int64_t step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to.at[i] = from[i * step];
  return to.at;
}
template <class X> [[gnu::always_inline]] static inline bool aligned(const X* p) { return reinterpret_cast<uint64_t>(p) % kBytes == 0; }
[[gnu::always_inline]] static inline double parameter(int64_t bits) { return std::bit_cast<double>(bits); }
// The multidimensional index of an element, which moves on to the next run along the last dimension.
struct Position {
  int64_t index[4];
  Position(const int64_t* size, int64_t linear) {
    for (int d = 3; d >= 0; --d) index[d] = linear % size[d], linear /= size[d];
  }
  int64_t offset(const int64_t* stride) const {
    return index[0] * stride[0] + index[1] * stride[1] + index[2] * stride[2] + index[3] * stride[3];
  }
  void next_run(const int64_t* size) {
    index[3] = 0;
    for (int d = 2; d >= 0; --d) {
      if (++index[d] < size[d]) return;
      index[d] = 0;
    }
  }
};
)text";

}  // namespace tinytorch::inline TT_BUILD::acceleration
