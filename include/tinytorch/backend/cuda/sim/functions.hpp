// Emulated device functions of CUDA: barriers, shuffles, votes, atomics and intrinsics.
//
// A shuffle or vote waits for all lanes of its mask, and then reads the values that they contributed.
#pragma once

#include <math.h>  // CUDA has log(float) and others without std::

#include <bit>
#include <cstring>
#include <tinytorch/backend/cuda/sim/emulator.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

// The value of lane `from`, or the calling lane's own value if `from` is outside of its group of `width`
// lanes.
template <class T>
[[gnu::no_sanitize_thread]] T shuffle(unsigned mask, T value, int from, int width, const char* what,
                                      Loc where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
  const WarpExchange& all = exchange_in_warp(mask, &value, sizeof(T), false, what, where);
  const int group = lane_number() / width * width;
  if (from < group || from >= group + width) return value;
  if (!(all.mask >> from & 1)) {
    if (from >= static_cast<int>(all.lanes)) return value;  // a partial warp: lane `from` does not exist
    stop_at_lane(from, what, where);
  }
  T out;
  __builtin_memcpy(&out, all.values[from], sizeof(T));
  return out;
}
// Bit l is set if lane l is in the mask and contributed true.
[[gnu::no_sanitize_thread]] inline unsigned vote(unsigned mask, bool value, bool orders, const char* what,
                                                 Loc where) {
  const unsigned char mine = value;
  unsigned bits = 0;
  const WarpExchange& all = exchange_in_warp(mask, &mine, 1, orders, what, where);
  for (unsigned l = 0; l < kLanes; ++l) {
    if (all.mask >> l & 1 && all.values[l][0]) bits |= 1u << l;
  }
  return bits;
}

// Several host threads may run grids at the same time, so atomics use the atomics of the host.
template <class T, class F>
[[gnu::no_sanitize_thread]] T atomic_update(T* address, Loc where, F&& f) {
  check_atomic(address, sizeof(T), where);
  T old, next;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  do {
    next = f(old);
  } while (!__atomic_compare_exchange(address, &old, &next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  return old;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim

#define TT_SIM_WHERE ::tinytorch::Loc where = ::tinytorch::Loc::current()
namespace tt_sim = ::tinytorch::backend::cuda::sim;

inline void __syncthreads(TT_SIM_WHERE) { tt_sim::wait_at_barrier(where); }
inline void __syncwarp(unsigned mask = 0xffffffffu, TT_SIM_WHERE) {
  (void)tt_sim::vote(mask, true, true, "__syncwarp", where);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, TT_SIM_WHERE) {
  const int group = tt_sim::lane_number() / width * width;
  return tt_sim::shuffle(mask, value, group + lane % width, width, "__shfl_sync", where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, TT_SIM_WHERE) {
  return tt_sim::shuffle(mask, value, tt_sim::lane_number() ^ bits, width, "__shfl_xor_sync", where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned step, int width = 32, TT_SIM_WHERE) {
  return tt_sim::shuffle(mask, value, tt_sim::lane_number() - static_cast<int>(step), width, "__shfl_up_sync",
                         where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned step, int width = 32, TT_SIM_WHERE) {
  return tt_sim::shuffle(mask, value, tt_sim::lane_number() + static_cast<int>(step), width,
                         "__shfl_down_sync", where);
}
inline unsigned __ballot_sync(unsigned mask, int value, TT_SIM_WHERE) {
  return tt_sim::vote(mask, value != 0, false, "__ballot_sync", where);
}
inline int __any_sync(unsigned mask, int value, TT_SIM_WHERE) {
  return tt_sim::vote(mask, value != 0, false, "__any_sync", where) != 0;
}
inline int __all_sync(unsigned mask, int value, TT_SIM_WHERE) {
  return tt_sim::vote(mask, value == 0, false, "__all_sync", where) == 0;
}
// The threads of a block run one after the other on one host thread, so their writes are already visible.
inline void __threadfence() { std::atomic_signal_fence(std::memory_order_seq_cst); }
inline void __threadfence_system() { std::atomic_signal_fence(std::memory_order_seq_cst); }
inline void __threadfence_block() { std::atomic_signal_fence(std::memory_order_seq_cst); }

template <class T>
T atomicAdd(T* p, std::type_identity_t<T> v, TT_SIM_WHERE) {
  return tt_sim::atomic_update(p, where, [v](T old) { return static_cast<T>(old + v); });
}
template <class T>
T atomicMax(T* p, std::type_identity_t<T> v, TT_SIM_WHERE) {
  return tt_sim::atomic_update(p, where, [v](T old) { return old > v ? old : v; });
}
template <class T>
T atomicMin(T* p, std::type_identity_t<T> v, TT_SIM_WHERE) {
  return tt_sim::atomic_update(p, where, [v](T old) { return old < v ? old : v; });
}
template <class T>
T atomicOr(T* p, std::type_identity_t<T> v, TT_SIM_WHERE) {
  return tt_sim::atomic_update(p, where, [v](T old) { return static_cast<T>(old | v); });
}
template <class T>
T atomicAnd(T* p, std::type_identity_t<T> v, TT_SIM_WHERE) {
  return tt_sim::atomic_update(p, where, [v](T old) { return static_cast<T>(old & v); });
}
template <class T>
T atomicExch(T* p, std::type_identity_t<T> v, TT_SIM_WHERE) {
  return tt_sim::atomic_update(p, where, [v](T) { return v; });
}
template <class T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> v, TT_SIM_WHERE) {
  return tt_sim::atomic_update(p, where, [=](T old) { return old == expected ? v : old; });
}

template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}
// c + the sum of the products of the four bytes of a and b, which are signed or unsigned; the sum wraps.
template <class Byte>
constexpr unsigned dot_of_bytes(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) {
    c += static_cast<unsigned>(static_cast<Byte>(a >> i & 0xffu) * static_cast<Byte>(b >> i & 0xffu));
  }
  return c;
}
inline int __dp4a(int a, int b, int c) {
  const auto bits = [](int x) { return static_cast<unsigned>(x); };
  return static_cast<int>(dot_of_bytes<signed char>(bits(a), bits(b), bits(c)));
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) { return dot_of_bytes<unsigned char>(a, b, c); }
inline int __float2int_rn(float x) {  // saturates, and gives 0 for NaN, as the instruction does
  if (!(x == x)) return 0;
  if (x >= 0x1p31f) return 0x7fffffff;
  return x < -0x1p31f ? -0x7fffffff - 1 : static_cast<int>(std::nearbyint(x));
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x ? std::countr_zero(static_cast<unsigned>(x)) + 1 : 0; }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
