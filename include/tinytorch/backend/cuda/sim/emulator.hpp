// Interface of the emulator, for kernels and for programs that use the emulator. Plain C++.
//
// Kernels are compiled with -fsanitize=thread, which inserts a call at each memory access; the emulator
// implements these calls (bodies.hpp, which is compiled without that flag). The blocks of a grid run one
// after the other on the calling thread, and the threads of a block in the order of their numbers until they
// wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tinytorch/backend/cuda/sim/types.hpp>
#include <tinytorch/core/error.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

inline constexpr unsigned kLanes = 32, kMostThreads = 1024, kMostWarps = kMostThreads / kLanes;

// The current kernel thread. Each host thread runs one block at a time.
struct Execution {
  uint3 thread{}, block{};
  dim3 block_dim, grid_dim;
  unsigned thread_number = 0, threads = 0;
  unsigned char* dynamic_shared = nullptr;
  bool active = false;          // true while code of a kernel runs
  const char* stack = nullptr;  // lowest address of the kernel thread's stack
};
inline constinit thread_local Execution execution;

// Runs body(arguments) for each thread of the grid. A fault ends the grid and throws TT-SIM-03.
void run_blocks(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, void (*body)(void*),
                void* arguments, size_t argument_bytes);

// Sets the order of the blocks of all grids, for all host threads: first to last, or last to first. A device
// guarantees no order, so a deterministic kernel gives the same bits in both.
void set_last_block_first(bool on);

// __syncthreads().
void wait_at_barrier(Loc where);
// State of an mbarrier in shared memory: number of complete phases, and of warps that have arrived since.
struct MBarrier {
  uint32_t complete, arrived;
};
void arrive(MBarrier* barrier);  // called by one lane per warp
void wait_for_phase(const MBarrier* barrier, uint32_t phase, Loc where);
// An mbarrier that counts single arrivals and bytes of copies: a phase is complete after `arrivals` arrivals,
// when all bytes that were announced have come.
struct StageState {
  MBarrier phase;
  uint32_t arrivals;
  int32_t bytes;  // announced and not there yet
};
void arrive(StageState* barrier, uint32_t announced_bytes);
void take_bytes(StageState* barrier, uint32_t bytes);
// bar.sync: waits until `threads` threads have called it with this number, 1 to 15.
void wait_at_named_barrier(unsigned number, unsigned threads, Loc where);
// The values that the lanes of a warp contribute to a shuffle or vote under one mask. Valid until the second
// exchange after this one.
struct WarpExchange {
  alignas(16) unsigned char values[kLanes][16];
  unsigned mask = 0, lanes = 0;  // lanes: number of lanes of the warp, 32 unless it is a partial warp
};
// Waits until all lanes of `mask` have contributed `bytes` bytes. `orders` is true if memory is ordered, too,
// which only __syncwarp does.
const WarpExchange& exchange_in_warp(unsigned mask, const void* value, size_t bytes, bool orders,
                                     const char* what, Loc where);
// Checks an atomic access. Two atomic accesses are not a data race.
void check_atomic(const void* address, size_t bytes, Loc where);
// Reports a shuffle that reads a lane outside of its mask. The launch throws TT-SIM-03.
[[noreturn]] void stop_at_lane(int lane, const char* what, Loc where);
// Reports metadata of a sparse operand that name no two ascending places. The launch throws TT-SIM-03.
[[noreturn]] void stop_at_metadata(unsigned places, int row, int group, const char* what, Loc where);
std::string describe_thread(unsigned number);

// ---- Device memory, in a separate range of addresses
void* device_allocate(size_t bytes);  // null if the device is full
bool device_free(void* address);      // false if the address is not the start of a live allocation
void pinned_range(const void* address, size_t bytes, bool present);  // adds or removes pinned host memory
size_t device_bytes_free();
size_t device_bytes_total();
void set_device_bytes_total(size_t bytes);
// A report of allocations that were not freed, with a line for each of the first 20; "" if there are none.
std::string leaks();

// The mangled name of a kernel; null if the program has no symbols.
const char* mangled_kernel_name(const void* kernel);

// ---- Counters, off by default. TINYTORCH_SIM_COUNT=1 turns them on and prints them at the end of the
// program.
struct KernelCounts {
  std::string kernel;
  uint64_t launches = 0, blocks = 0, threads = 0;
  uint64_t barriers = 0;                       // barriers passed, summed over blocks
  uint64_t bytes_read = 0, bytes_written = 0;  // device memory, bytes requested by threads
  // Device memory: a request is one instruction of one warp; a sector has 32 bytes.
  uint64_t requests = 0, sectors = 0, ideal_sectors = 0;
  uint64_t shared_requests = 0, wavefronts = 0, ideal_wavefronts = 0;  // wavefront: a pass over the 32 banks
};
void set_counting(bool on);
std::vector<KernelCounts> counts();  // since the program's start or clear_counts(), sorted by name
void clear_counts();
std::string counts_table();

// These are constant for a kernel thread, so the compiler may call each function only once (gnu::const).
[[gnu::no_sanitize_thread, gnu::const, gnu::noinline]] inline uint3 thread_index() {
  return execution.thread;
}
[[gnu::no_sanitize_thread, gnu::const, gnu::noinline]] inline uint3 block_index() { return execution.block; }
[[gnu::no_sanitize_thread, gnu::const, gnu::noinline]] inline dim3 block_size() {
  return execution.block_dim;
}
[[gnu::no_sanitize_thread, gnu::const, gnu::noinline]] inline dim3 grid_size() { return execution.grid_dim; }
[[gnu::no_sanitize_thread]] inline void init_mbarrier(MBarrier* barrier) { *barrier = {0, 0}; }
[[gnu::no_sanitize_thread]] inline void init_stage(StageState* barrier, uint32_t arrivals) {
  *barrier = {{0, 0}, arrivals, 0};
}
[[gnu::no_sanitize_thread]] inline void* dynamic_shared() { return execution.dynamic_shared; }
[[gnu::no_sanitize_thread]] inline int lane_number() {
  return static_cast<int>(execution.thread_number % kLanes);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
