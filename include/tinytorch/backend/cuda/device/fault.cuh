// Range checks of indices in device memory.
//
// check_range() queues a kernel that checks the indices; the kernel that uses them skips an invalid index. An
// invalid index is recorded in pinned host memory. The next synchronization throws the error that the CPU
// would have thrown at once, with the same text and the same line of the caller. If several indices are
// invalid, the first position of the first call is reported.
#pragma once

#include <algorithm>
#include <array>
#include <mutex>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/fault.hpp>
#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <tinytorch/backend/cuda/device/walk.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct FaultRecord {
  unsigned lock;
  unsigned used;
  int64_t ticket, position, value;
};

// Access to pinned host memory is slow, and threads that contend for a lock there also delay its owner. So
// only one thread per block records a fault, and it stops as soon as an earlier fault is recorded.
inline constexpr int kFaultThreads = 256, kFaultBlocks = 4;  // per block; per multiprocessor

// True if the recorded fault is earlier. The writer changes position before ticket, and the reader reads
// ticket before position, so a half-written record never looks like an earlier fault.
__device__ __forceinline__ bool earlier_is_recorded(const volatile FaultRecord* record, int64_t ticket,
                                                    int64_t position) {
  if (record->used == 0) return false;
  const int64_t recorded = record->ticket;
  __threadfence_system();
  return recorded < ticket || (recorded == ticket && record->position <= position);
}
__device__ __forceinline__ void record_fault(FaultRecord* record, int64_t ticket, int64_t position,
                                             int64_t value) {
  while (!earlier_is_recorded(record, ticket, position)) {
    if (atomicCAS(&record->lock, 0u, 1u) != 0) continue;
    volatile FaultRecord* const mine = record;
    if (!earlier_is_recorded(record, ticket, position)) {
      mine->position = position;
      mine->value = value;
      __threadfence_system();
      mine->ticket = ticket;
      __threadfence_system();
      mine->used = 1;
    }
    __threadfence_system();
    atomicExch(&record->lock, 0u);
    return;
  }
}

static __global__ void __launch_bounds__(kFaultThreads)
    range_kernel(const __grid_constant__ Operands<1> o, int64_t size, bool excepts, int64_t except,
                 int64_t ticket, FaultRecord* record) {
  start_next_kernel();
  wait_for_previous_kernel();
  const int64_t none = o.count;
  int64_t position = none, found = 0;  // first invalid index of this thread
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kFaultThreads + threadIdx.x; i < o.count;
       i += static_cast<int64_t>(gridDim.x) * kFaultThreads) {
    const int64_t value = static_cast<const int64_t*>(o.operand[0].data)[o.offset(0, i)];
    if ((value >= 0 && value < size) || (excepts && value == except) || position != none) continue;
    position = i;
    found = value;
  }
  const int64_t first = block_reduce<kFaultThreads>(position, Minimum());
  if (position == first && first != none) record_fault(record, ticket, position, found);
}

// The fault records of all devices, and the error messages of the last kKept checks.
class FaultLog {
 public:
  static FaultLog& instance() {
    static auto* const the_log = new FaultLog;
    return *the_log;
  }

  FaultRecord* record(int device) {
    const std::lock_guard lock(mutex_);
    FaultRecord*& record = records_[static_cast<size_t>(device)];
    if (!record) {
      record = static_cast<FaultRecord*>(allocate_pinned(sizeof(FaultRecord)));
      *record = {};
    }
    return record;
  }
  int64_t add(RangeMessage message, Loc loc) {
    const std::lock_guard lock(mutex_);
    entries_[static_cast<size_t>(next_) % kKept] = {next_, std::move(message), loc};
    return next_++;
  }
  void raise(Loc loc) {
    std::unique_lock lock(mutex_);
    for (FaultRecord* record : records_) {
      if (!record || *static_cast<volatile unsigned*>(&record->used) == 0) continue;
      const FaultRecord fault = *record;
      *record = {};
      const Entry entry = entries_[static_cast<size_t>(fault.ticket) % kKept];
      lock.unlock();
      if (entry.ticket == fault.ticket && entry.message) {
        fail("TT-RANGE-05", entry.message(fault.value, fault.position), entry.loc);
      }
      fail("TT-RANGE-05",
           "an index (" + std::to_string(fault.value) + " at position " + std::to_string(fault.position) +
               ") of an op on the GPU is outside its range",
           loc);
    }
  }

 private:
  static constexpr size_t kKept = 256, kDevices = 64;
  struct Entry {
    int64_t ticket = -1;
    RangeMessage message;
    Loc loc{};
  };
  std::mutex mutex_;
  std::array<FaultRecord*, kDevices> records_{};
  std::array<Entry, kKept> entries_;
  int64_t next_ = 0;
};

void check_range(const View& index, int64_t size, std::optional<int64_t> except, RangeMessage message,
                 Loc loc) {
  if (index.numel() == 0) return;
  FaultRecord* const record = FaultLog::instance().record(current_device());
  const int64_t ticket = FaultLog::instance().add(std::move(message), loc);
  const Plan<1> plan({index}, 1);
  LaunchConfig config = over(plan.operands.count, kFaultThreads);
  config.grid.x =
      std::min(config.grid.x,
               static_cast<unsigned>(properties(current_device()).multiprocessors) * unsigned{kFaultBlocks});
  launch(range_kernel, early(config), plan.operands, size, except.has_value(), except.value_or(0), ticket,
         record);
}

void raise_faults(Loc loc) { FaultLog::instance().raise(loc); }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
