// Definitions of the emulator, and of the ThreadSanitizer functions that instrumented kernels call. Exactly
// one file of a program includes this file, and is compiled without instrumentation; the files with kernels
// are compiled with -fsanitize=thread:
//
//   g++ -std=c++20 -O1 -g -fsanitize=thread -I include -DTINYTORCH_WITH_CUDA=1 -DTINYTORCH_CUDA_SIM=1
//       -c kernels.cpp
//
// ThreadSanitizer itself is not linked. Interface: compiler-rt, tsan_interface.h and tsan_interface_atomic.h.
#pragma once

#include <tinytorch/backend/cuda/sim/block_phases.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

inline constinit thread_local AccessChecker* checker = nullptr;

void set_last_block_first(bool on) { last_block_first = on; }

void run_blocks(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, void (*body)(void*),
                void* arguments, size_t argument_bytes) {
  if (execution.active) {
    fail("TT-SIM-02", "a kernel was launched by a kernel\n  hint: launch from the host");
  }
  checker = &BlockRunner::instance().checker();
  BlockRunner::instance().run_grid(kernel, grid, block, shared_bytes, body, arguments, argument_bytes);
}
// Turns access checks off while the emulator's own code runs inside a kernel.
struct OutsideKernel {
  OutsideKernel() { execution.active = false; }
  ~OutsideKernel() { execution.active = true; }
};

void arrive(MBarrier* barrier) {
  const OutsideKernel outside;
  BlockRunner::instance().arrive(barrier);
}
void wait_for_phase(const MBarrier* barrier, uint32_t phase, Loc where) {
  const OutsideKernel outside;
  BlockRunner::instance().wait_for_phase(barrier, phase, where);
}
void arrive(StageState* barrier, uint32_t announced_bytes) {
  const OutsideKernel outside;
  BlockRunner::instance().arrive(barrier, announced_bytes);
}
void take_bytes(StageState* barrier, uint32_t bytes) {
  const OutsideKernel outside;
  BlockRunner::instance().take_bytes(barrier, bytes);
}
void wait_at_named_barrier(unsigned number, unsigned threads, Loc where) {
  const OutsideKernel outside;
  BlockRunner::instance().wait_at_named_barrier(number, threads, where);
}
void wait_at_barrier(Loc where) {
  const OutsideKernel outside;
  BlockRunner::instance().wait_at_barrier(where);
}
const WarpExchange& exchange_in_warp(unsigned mask, const void* value, size_t bytes, bool orders,
                                     const char* what, Loc where) {
  const OutsideKernel outside;
  return BlockRunner::instance().exchange_in_warp(mask, value, bytes, orders, what, where);
}
void stop_at_lane(int lane, const char* what, Loc where) {
  const OutsideKernel outside;
  BlockRunner& block = BlockRunner::instance();
  block.stop_at(std::string(what) + ": " + block.describe_thread(execution.thread_number) + " reads lane " +
                    std::to_string(lane) + ", which is not in the mask",
                where);
}
void stop_at_metadata(unsigned places, int row, int group, const char* what, Loc where) {
  const OutsideKernel outside;
  BlockRunner& block = BlockRunner::instance();
  block.stop_at(
      std::string(what) + ": in the metadata that " + block.describe_thread(execution.thread_number) +
          " reads, group " + std::to_string(group) + " of row " + std::to_string(row) + " keeps places " +
          std::to_string(places & 3) + " and " + std::to_string(places >> 2 & 3) + ", which do not ascend",
      where);
}
void AccessChecker::stop_with(const std::string& fault) { BlockRunner::instance().stop(fault); }
std::string describe_thread(unsigned number) { return BlockRunner::instance().describe_thread(number); }

inline void on_access(const Access& access, bool whole) {
  if (!execution.active || static_cast<size_t>(access.address - execution.stack) < kStackBytes) return;
  const OutsideKernel outside;
  if (whole && reinterpret_cast<uintptr_t>(access.address) % access.bytes != 0) checker->misaligned(access);
  checker->check(access);
}
void check_atomic(const void* address, size_t bytes, Loc where) {
  on_access({static_cast<const char*>(address), bytes, true, true, __builtin_return_address(0), where}, true);
}

void* device_allocate(size_t bytes) { return DeviceMemory::instance().allocate(bytes); }
bool device_free(void* address) { return DeviceMemory::instance().deallocate(address); }
size_t device_bytes_free() { return DeviceMemory::instance().free(); }
size_t device_bytes_total() { return DeviceMemory::instance().total(); }
void set_device_bytes_total(size_t bytes) { DeviceMemory::instance().set_total(bytes); }
std::string leaks() { return DeviceMemory::instance().leaks(); }
void pinned_range(const void* address, size_t bytes, bool present) {
  PinnedRanges& all = PinnedRanges::instance();
  const std::lock_guard lock(all.mutex);
  if (present) {
    all.ranges[static_cast<const char*>(address)] = bytes;
  } else {
    all.ranges.erase(static_cast<const char*>(address));
  }
}
const char* mangled_kernel_name(const void* kernel) { return mangled_name(kernel); }

void set_counting(bool on) { CountTable::instance().on = on; }
std::vector<KernelCounts> counts() { return CountTable::instance().all(); }
void clear_counts() { CountTable::instance().clear(); }
std::string counts_table() { return CountTable::instance().text(); }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim

// ---- Functions that the instrumentation calls. Each has a name of its own and the symbol that the compiler
// expects, because the compiler has built-in declarations of other types for the symbols' names.

#define TT_SIM_CALL(result, symbol, name, parameters) \
  extern "C" result name parameters __asm__(#symbol); \
  extern "C" result name parameters
#define TT_SIM_ACCESS(kind, bytes, write, whole)                                                 \
  TT_SIM_CALL(void, __tsan_##kind##bytes, tt_sim_##kind##bytes, (const void* p)) {               \
    ::tinytorch::backend::cuda::sim::on_access(                                                  \
        {static_cast<const char*>(p), bytes, write, false, __builtin_return_address(0)}, whole); \
  }
#define TT_SIM_RANGE(kind, write)                                                                         \
  TT_SIM_CALL(void, __tsan_##kind##_range, tt_sim_##kind##_range, (const void* p, unsigned long bytes)) { \
    if (bytes) {                                                                                          \
      ::tinytorch::backend::cuda::sim::on_access(                                                         \
          {static_cast<const char*>(p), bytes, write, false, __builtin_return_address(0)}, false);        \
    }                                                                                                     \
  }
#define TT_SIM_BYTES(bytes)                                   \
  TT_SIM_ACCESS(read, bytes, false, true)                     \
  TT_SIM_ACCESS(write, bytes, true, true)                     \
  TT_SIM_ACCESS(volatile_read, bytes, false, true)            \
  TT_SIM_ACCESS(volatile_write, bytes, true, true)            \
  TT_SIM_ACCESS(unaligned_read, bytes, false, false)          \
  TT_SIM_ACCESS(unaligned_write, bytes, true, false)          \
  TT_SIM_ACCESS(unaligned_volatile_read, bytes, false, false) \
  TT_SIM_ACCESS(unaligned_volatile_write, bytes, true, false) \
  TT_SIM_ACCESS(read_write, bytes, true, true)                \
  TT_SIM_ACCESS(unaligned_read_write, bytes, true, false)
TT_SIM_BYTES(1)
TT_SIM_BYTES(2)
TT_SIM_BYTES(4)
TT_SIM_BYTES(8)
TT_SIM_BYTES(16)
TT_SIM_RANGE(read, false)
TT_SIM_RANGE(write, true)
TT_SIM_CALL(void, __tsan_init, tt_sim_init, ()) {}
TT_SIM_CALL(void, __tsan_func_entry, tt_sim_func_entry, (const void*)) {}
TT_SIM_CALL(void, __tsan_func_exit, tt_sim_func_exit, (const void*)) {}
TT_SIM_CALL(void, __tsan_vptr_update, tt_sim_vptr_update, (const void*, const void*)) {}
TT_SIM_CALL(void, __tsan_vptr_read, tt_sim_vptr_read, (const void*)) {}
// Clang replaces calls of memcpy, memmove and memset by these.
TT_SIM_CALL(void*, __tsan_memcpy, tt_sim_memcpy, (void* to, const void* from, unsigned long bytes)) {
  return std::memcpy(to, from, bytes);
}
TT_SIM_CALL(void*, __tsan_memmove, tt_sim_memmove, (void* to, const void* from, unsigned long bytes)) {
  return std::memmove(to, from, bytes);
}
TT_SIM_CALL(void*, __tsan_memset, tt_sim_memset, (void* to, int value, unsigned long bytes)) {
  return std::memset(to, value, bytes);
}
// Atomics of the library's host code. The atomics of kernels are in functions.hpp.
#define TT_SIM_ATOMIC_UPDATE(T, bits, name)                                                                \
  TT_SIM_CALL(T, __tsan_atomic##bits##_##name, tt_sim_atomic##bits##_##name, (volatile T * p, T v, int)) { \
    return __atomic_##name(p, v, __ATOMIC_SEQ_CST);                                                        \
  }
#define TT_SIM_ATOMIC_EXCHANGE(T, bits, strength, weak)                                                 \
  TT_SIM_CALL(int, __tsan_atomic##bits##_compare_exchange_##strength, tt_sim_atomic##bits##_##strength, \
              (volatile T * p, T * expected, T v, int, int)) {                                          \
    return __atomic_compare_exchange_n(p, expected, v, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);       \
  }
#define TT_SIM_ATOMIC(T, bits)                                                                              \
  TT_SIM_CALL(T, __tsan_atomic##bits##_load, tt_sim_atomic##bits##_load, (const volatile T* p, int)) {      \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                            \
  }                                                                                                         \
  TT_SIM_CALL(void, __tsan_atomic##bits##_store, tt_sim_atomic##bits##_store, (volatile T * p, T v, int)) { \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                               \
  }                                                                                                         \
  TT_SIM_CALL(T, __tsan_atomic##bits##_exchange, tt_sim_atomic##bits##_exchange,                            \
              (volatile T * p, T v, int)) {                                                                 \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                     \
  }                                                                                                         \
  TT_SIM_CALL(T, __tsan_atomic##bits##_compare_exchange_val, tt_sim_atomic##bits##_exchange_val,            \
              (volatile T * p, T expected, T v, int, int)) {                                                \
    (void)__atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);          \
    return expected;                                                                                        \
  }                                                                                                         \
  TT_SIM_ATOMIC_EXCHANGE(T, bits, strong, false)                                                            \
  TT_SIM_ATOMIC_EXCHANGE(T, bits, weak, true)                                                               \
  TT_SIM_ATOMIC_UPDATE(T, bits, fetch_add)                                                                  \
  TT_SIM_ATOMIC_UPDATE(T, bits, fetch_sub)                                                                  \
  TT_SIM_ATOMIC_UPDATE(T, bits, fetch_and)                                                                  \
  TT_SIM_ATOMIC_UPDATE(T, bits, fetch_or)                                                                   \
  TT_SIM_ATOMIC_UPDATE(T, bits, fetch_xor)
TT_SIM_ATOMIC(uint8_t, 8)
TT_SIM_ATOMIC(uint32_t, 32)
TT_SIM_ATOMIC(uint64_t, 64)
TT_SIM_CALL(void, __tsan_atomic_thread_fence, tt_sim_atomic_thread_fence, (int)) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
TT_SIM_CALL(void, __tsan_atomic_signal_fence, tt_sim_atomic_signal_fence, (int)) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#undef TT_SIM_CALL
#undef TT_SIM_ACCESS
#undef TT_SIM_RANGE
#undef TT_SIM_BYTES
#undef TT_SIM_ATOMIC_UPDATE
#undef TT_SIM_ATOMIC_EXCHANGE
#undef TT_SIM_ATOMIC
