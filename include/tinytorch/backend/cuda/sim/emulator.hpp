// What a kernel sees of the emulator, and what its users may ask of it. Plain C++.
//
// The kernels are compiled with -fsanitize=thread, whose calls at every access the emulator answers; the
// emulator itself (bodies.hpp) is another file, compiled without. A grid's blocks run one after the other on
// the calling thread, the threads of a block in the order of their numbers until they wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tinytorch/backend/cuda/sim/types.hpp>
#include <tinytorch/core/error.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

inline constexpr unsigned kLanes = 32, kMostThreads = 1024, kMostWarps = kMostThreads / kLanes;

// By this a kernel's code finds its thread. One block at a time runs on a thread of the host.
struct Execution {
  uint3 thread{}, block{};
  dim3 block_dim, grid_dim;
  unsigned thread_number = 0, threads = 0;
  unsigned char* dynamic_shared = nullptr;
  bool active = false;          // a kernel thread runs
  const char* stack = nullptr;  // of that thread, lowest address
};
inline constinit thread_local Execution execution;

// Runs body(arguments) for each thread of the grid. A fault ends the grid with an Error.
void run_blocks(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, void (*body)(void*),
                void* arguments, size_t argument_bytes);

// In which order the blocks of a grid run, of all threads of the host: a device promises none, so a result
// that has the same bits each time may not depend on it.
void set_last_block_first(bool on);

// __syncthreads().
void wait_at_barrier(Loc where);
// How often all warps of a block arrived, and how many have since; in the kernel's shared memory.
struct MBarrier {
  uint32_t complete, arrived;
};
void arrive(MBarrier* barrier);  // once a warp
void wait_for_phase(const MBarrier* barrier, uint32_t phase, Loc where);
// The lanes of a warp that meet under one mask, and what each gave. Valid until the next exchange but one.
struct WarpExchange {
  alignas(16) unsigned char values[kLanes][16];
  unsigned mask = 0, lanes = 0;  // lanes: of the warp, 32 but for the last
};
// Waits until all lanes of `mask` have given `bytes` bytes. `orders`: memory too, as only __syncwarp does.
const WarpExchange& exchange_in_warp(unsigned mask, const void* value, size_t bytes, bool orders,
                                     const char* what, Loc where);
// Checks an atomic access, which no race with other atomics is.
void check_atomic(const void* address, size_t bytes, Loc where);
// The fault of a shuffle that reads a lane outside of its mask. The launch throws an Error.
[[noreturn]] void stop_at_lane(int lane, const char* what, Loc where);
std::string describe_thread(unsigned number);

// ---- Device memory: a range of addresses of its own.
void* device_allocate(size_t bytes);  // null when the device is full
bool device_free(void* address);      // false: not the begin of an allocation that lives
void pinned_range(const void* address, size_t bytes, bool present);  // host memory that kernels may read
size_t device_bytes_free();
size_t device_bytes_total();
void set_device_bytes_total(size_t bytes);
// Allocations that were not freed: "", or a line for each of the first 20.
std::string leaks();

// The linker's name of a kernel; null if the program holds no symbols.
const char* mangled_kernel_name(const void* kernel);

// ---- Counts, off unless TINYTORCH_SIM_COUNT=1, which also prints them at the end of the program.
struct KernelCounts {
  std::string kernel;
  uint64_t launches = 0, blocks = 0, threads = 0;
  uint64_t barriers = 0;                       // passed, summed over blocks
  uint64_t bytes_read = 0, bytes_written = 0;  // of device memory, as asked for by threads
  uint64_t requests = 0, sectors = 0,
           ideal_sectors = 0;  // of device memory: a warp's instruction; of 32 bytes
  uint64_t shared_requests = 0, wavefronts = 0, ideal_wavefronts = 0;  // passes over the 32 banks
};
void set_counting(bool on);
std::vector<KernelCounts> counts();  // since the program's start or clear_counts(), by name
void clear_counts();
std::string counts_table();

// Constant for a thread of a kernel, so the compiler may ask once.
[[gnu::no_sanitize_thread, gnu::const, gnu::noinline]] inline uint3 thread_index() {
  return execution.thread;
}
[[gnu::no_sanitize_thread, gnu::const, gnu::noinline]] inline uint3 block_index() { return execution.block; }
[[gnu::no_sanitize_thread, gnu::const, gnu::noinline]] inline dim3 block_size() {
  return execution.block_dim;
}
[[gnu::no_sanitize_thread, gnu::const, gnu::noinline]] inline dim3 grid_size() { return execution.grid_dim; }
[[gnu::no_sanitize_thread]] inline void init_mbarrier(MBarrier* barrier) { *barrier = {0, 0}; }
[[gnu::no_sanitize_thread]] inline void* dynamic_shared() { return execution.dynamic_shared; }
[[gnu::no_sanitize_thread]] inline int lane_number() {
  return static_cast<int>(execution.thread_number % kLanes);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
