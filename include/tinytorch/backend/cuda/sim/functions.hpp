// The functions that CUDA gives to kernels: barriers, shuffles, votes, atomics, arithmetic.
//
// A shuffle or vote waits for all lanes of its mask, and then reads what they gave.
#pragma once

#include <tinytorch/backend/cuda/sim/block.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

// The value of lane `from`, or the lane's own where `from` is outside its group of `width` lanes.
template <class T>
[[gnu::no_sanitize_thread]] T shuffle(unsigned mask, T value, int from, int width, const char* what,
                                      Where where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
  BlockRunner& block = BlockRunner::instance();
  const int lane = static_cast<int>(block.state.thread_number % kLanes);
  unsigned phase = 0;
  const Exchange& all = block.exchange(mask, &value, sizeof(T), what, where, phase);
  const int group = lane / width * width;
  if (from < group || from >= group + width) return value;
  if (!(all.mask >> from & 1)) {
    block.stop(std::string(what) + ": " + block.describe_thread(block.state.thread_number) + " reads lane " +
               std::to_string(from) + ", which is not in the mask\n  at " + where.file_name() + ":" +
               std::to_string(where.line()));
  }
  T out;
  std::memcpy(&out, all.values[phase][from], sizeof(T));
  return out;
}
// Bit l: lane l of the mask gave true.
[[gnu::no_sanitize_thread]] inline unsigned vote(unsigned mask, bool value, const char* what, Where where) {
  BlockRunner& block = BlockRunner::instance();
  const unsigned char mine = value;
  unsigned phase = 0, bits = 0;
  const Exchange& all = block.exchange(mask, &mine, 1, what, where, phase);
  for (unsigned l = 0; l < kLanes; ++l) {
    if (all.mask >> l & 1 && all.values[phase][l][0]) bits |= 1u << l;
  }
  return bits;
}
[[gnu::no_sanitize_thread]] inline int lane_number() {
  return static_cast<int>(execution->thread_number % kLanes);
}

// Blocks of different grids may run on several threads of the host, so atomics are the host's.
template <class T, class F>
[[gnu::no_sanitize_thread]] T atomic_update(T* address, F&& f) {
  T old = __atomic_load_n(address, __ATOMIC_RELAXED), next;
  do {
    next = f(old);
  } while (!__atomic_compare_exchange_n(address, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  return old;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim

#define TT_SIM_WHERE std::source_location where = std::source_location::current()
namespace tt_sim = ::tinytorch::backend::cuda::sim;

[[gnu::no_sanitize_thread]] inline void __syncthreads(TT_SIM_WHERE) {
  tt_sim::BlockRunner::instance().wait_at_barrier(where);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, TT_SIM_WHERE) {
  (void)tt_sim::vote(mask, true, "__syncwarp", where);
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
  return tt_sim::vote(mask, value != 0, "__ballot_sync", where);
}
inline int __any_sync(unsigned mask, int value, TT_SIM_WHERE) {
  return tt_sim::vote(mask, value != 0, "__any_sync", where) != 0;
}
inline int __all_sync(unsigned mask, int value, TT_SIM_WHERE) {
  return tt_sim::vote(mask, value == 0, "__all_sync", where) == 0;
}
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_block() { std::atomic_thread_fence(std::memory_order_seq_cst); }

template <class T>
T atomicAdd(T* p, std::type_identity_t<T> v) {
  return tt_sim::atomic_update(p, [v](T old) { return static_cast<T>(old + v); });
}
template <class T>
T atomicMax(T* p, std::type_identity_t<T> v) {
  return tt_sim::atomic_update(p, [v](T old) { return old > v ? old : v; });
}
template <class T>
T atomicMin(T* p, std::type_identity_t<T> v) {
  return tt_sim::atomic_update(p, [v](T old) { return old < v ? old : v; });
}
template <class T>
T atomicOr(T* p, std::type_identity_t<T> v) {
  return tt_sim::atomic_update(p, [v](T old) { return static_cast<T>(old | v); });
}
template <class T>
T atomicAnd(T* p, std::type_identity_t<T> v) {
  return tt_sim::atomic_update(p, [v](T old) { return static_cast<T>(old & v); });
}
template <class T>
T atomicExch(T* p, std::type_identity_t<T> v) {
  return tt_sim::atomic_update(p, [v](T) { return v; });
}
template <class T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> v) {
  return tt_sim::atomic_update(p, [=](T old) { return old == expected ? v : old; });
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
