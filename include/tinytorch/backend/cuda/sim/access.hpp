// What the compiler's instrumentation calls at each access of a kernel: bounds, lifetime and alignment.
//
// The kernels are compiled with -fsanitize=thread for these calls alone; ThreadSanitizer itself is not
// linked. The call comes before the access, so a bad one never happens: the grid ends with an Error.
// Interface: compiler-rt, tsan_interface.h.
#pragma once

#include <tinytorch/backend/cuda/sim/runtime.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

// "kernels.cpp(symbol+0x12)": what addr2line needs.
inline std::string code_text(const void* code) {
  std::ostringstream text;
  Dl_info info{};
  if (dladdr(code, &info) && info.dli_fname) {
    text << info.dli_fname << "+0x" << std::hex
         << static_cast<const char*>(code) - static_cast<const char*>(info.dli_fbase);
  } else {
    text << code;
  }
  return text.str();
}

[[noreturn]] inline void report_access(const void* address, size_t bytes, bool write, const std::string& why,
                                       const void* code) {
  BlockRunner& block = BlockRunner::instance();
  std::ostringstream text;
  text << why << ": a " << (write ? "write" : "read") << " of " << bytes << " bytes at " << address << " by "
       << block.describe_thread(block.state.thread_number) << "\n  at " << code_text(code);
  block.stop(text.str());
}

[[gnu::noinline]] inline void check_device_access(const void* address, size_t bytes, bool write,
                                                  const void* code) {
  const DeviceMemory& memory = DeviceMemory::instance();
  const Allocation* const a = memory.find(address);
  const char* const p = static_cast<const char*>(address);
  if (a && !a->freed && p >= a->begin && p + bytes <= a->begin + a->bytes) return;
  execution->active = false;
  const Allocation* const near = a ? a : memory.before(address);
  std::string why = "outside of all device memory";
  if (a && a->freed) {
    why = "memory used after it was freed, of an allocation of " + std::to_string(a->bytes) + " bytes";
  } else if (near) {
    why = "out of bounds, " + std::to_string(p - near->begin) + " bytes from the begin of an allocation of " +
          std::to_string(near->bytes) + " bytes";
  }
  report_access(address, bytes, write, why, code);
}

[[gnu::no_sanitize_thread, gnu::always_inline]] inline void on_access(const void* address, size_t bytes,
                                                                      bool write, const void* code) {
  if (!execution || !execution->active) return;
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0 && bytes <= 16 && (bytes & (bytes - 1)) == 0) {
    execution->active = false;
    report_access(address, bytes, write, "misaligned", code);
  }
  execution->active = false;  // what runs here is not the kernel's
  if (DeviceMemory::instance().contains(address)) check_device_access(address, bytes, write, code);
  execution->active = true;
}
[[gnu::no_sanitize_thread, gnu::always_inline]] inline void on_range(const void* address, size_t bytes,
                                                                     bool write, const void* code) {
  if (!execution || !execution->active || bytes == 0) return;
  execution->active = false;
  if (DeviceMemory::instance().contains(address)) check_device_access(address, bytes, write, code);
  execution->active = true;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim

// ---- The calls themselves. A name of ours with the symbol the compiler uses: it knows its own declarations.

#define TT_SIM_CALL(symbol, function, parameters)                                                       \
  extern "C" __attribute__((weak, used, no_sanitize_thread)) void function parameters __asm__(#symbol); \
  extern "C" void function parameters
#define TT_SIM_ACCESS(kind, bytes, write)                                                     \
  TT_SIM_CALL(__tsan_##kind##bytes, tt_sim_##kind##bytes, (void* p)) {                        \
    ::tinytorch::backend::cuda::sim::on_access(p, bytes, write, __builtin_return_address(0)); \
  }
#define TT_SIM_RANGE(kind, write)                                                             \
  TT_SIM_CALL(__tsan_##kind##_range, tt_sim_##kind##_range, (void* p, unsigned long bytes)) { \
    ::tinytorch::backend::cuda::sim::on_range(p, bytes, write, __builtin_return_address(0));  \
  }
#define TT_SIM_UNALIGNED(kind, bytes, write)                                                 \
  TT_SIM_CALL(__tsan_unaligned_##kind##bytes, tt_sim_unaligned_##kind##bytes, (void* p)) {   \
    ::tinytorch::backend::cuda::sim::on_range(p, bytes, write, __builtin_return_address(0)); \
  }
#define TT_SIM_ALL(bytes)                    \
  TT_SIM_ACCESS(read, bytes, false)          \
  TT_SIM_ACCESS(write, bytes, true)          \
  TT_SIM_ACCESS(volatile_read, bytes, false) \
  TT_SIM_ACCESS(volatile_write, bytes, true)
#define TT_SIM_ALL_UNALIGNED(bytes)    \
  TT_SIM_UNALIGNED(read, bytes, false) \
  TT_SIM_UNALIGNED(write, bytes, true)
TT_SIM_ALL(1)
TT_SIM_ALL(2)
TT_SIM_ALL(4)
TT_SIM_ALL(8)
TT_SIM_ALL(16)
TT_SIM_ALL_UNALIGNED(2)
TT_SIM_ALL_UNALIGNED(4)
TT_SIM_ALL_UNALIGNED(8)
TT_SIM_ALL_UNALIGNED(16)
TT_SIM_RANGE(read, false)
TT_SIM_RANGE(write, true)
TT_SIM_CALL(__tsan_init, tt_sim_init, ()) {}
TT_SIM_CALL(__tsan_func_entry, tt_sim_func_entry, (void*)) {}
TT_SIM_CALL(__tsan_func_exit, tt_sim_func_exit, (void*)) {}
TT_SIM_CALL(__tsan_vptr_update, tt_sim_vptr_update, (void*, void*)) {}
TT_SIM_CALL(__tsan_vptr_read, tt_sim_vptr_read, (void*)) {}

// The atomics of the runtime's own code; those of kernels are in functions.hpp.
#define TT_SIM_ATOMIC_CALL(result, bits, name, parameters)                                 \
  extern "C" __attribute__((weak, used, no_sanitize_thread))                               \
  result tt_sim_atomic##bits##_##name parameters __asm__("__tsan_atomic" #bits "_" #name); \
  extern "C" result tt_sim_atomic##bits##_##name parameters
#define TT_SIM_ATOMIC_UPDATE(T, bits, name)                       \
  TT_SIM_ATOMIC_CALL(T, bits, name, (volatile T * p, T v, int)) { \
    return __atomic_##name(p, v, __ATOMIC_SEQ_CST);               \
  }
#define TT_SIM_ATOMIC_EXCHANGE(T, bits, strength, weak)                                           \
  TT_SIM_ATOMIC_CALL(int, bits, compare_exchange_##strength,                                      \
                     (volatile T * p, T * expected, T v, int, int)) {                             \
    return __atomic_compare_exchange_n(p, expected, v, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
#define TT_SIM_ATOMIC(T, bits)                                                                     \
  TT_SIM_ATOMIC_CALL(T, bits, load, (const volatile T* p, int)) {                                  \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                \
  TT_SIM_ATOMIC_CALL(void, bits, store, (volatile T * p, T v, int)) {                              \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                      \
  }                                                                                                \
  TT_SIM_ATOMIC_CALL(T, bits, exchange, (volatile T * p, T v, int)) {                              \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                            \
  }                                                                                                \
  TT_SIM_ATOMIC_CALL(T, bits, compare_exchange_val, (volatile T * p, T expected, T v, int, int)) { \
    (void)__atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    return expected;                                                                               \
  }                                                                                                \
  TT_SIM_ATOMIC_EXCHANGE(T, bits, strong, false)                                                   \
  TT_SIM_ATOMIC_EXCHANGE(T, bits, weak, true)                                                      \
  TT_SIM_ATOMIC_UPDATE(T, bits, fetch_add)                                                         \
  TT_SIM_ATOMIC_UPDATE(T, bits, fetch_sub)                                                         \
  TT_SIM_ATOMIC_UPDATE(T, bits, fetch_and)                                                         \
  TT_SIM_ATOMIC_UPDATE(T, bits, fetch_or)                                                          \
  TT_SIM_ATOMIC_UPDATE(T, bits, fetch_xor)
TT_SIM_ATOMIC(uint8_t, 8)
TT_SIM_ATOMIC(uint32_t, 32)
TT_SIM_ATOMIC(uint64_t, 64)
TT_SIM_CALL(__tsan_atomic_thread_fence, tt_sim_atomic_thread_fence, (int)) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#undef TT_SIM_ATOMIC_CALL
#undef TT_SIM_ATOMIC_UPDATE
#undef TT_SIM_ATOMIC_EXCHANGE
#undef TT_SIM_ATOMIC
#undef TT_SIM_CALL
#undef TT_SIM_ACCESS
#undef TT_SIM_RANGE
#undef TT_SIM_UNALIGNED
#undef TT_SIM_ALL
#undef TT_SIM_ALL_UNALIGNED
