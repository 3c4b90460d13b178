// Faults that only the device can see: an index outside its range.
//
// check_range() queues a look at the indices beside the kernel that uses them. A bad one moves nothing and
// harms nothing; it leaves a note in pinned host memory, which the next synchronization turns into the error
// that the CPU would have thrown at once: same text, same line of the caller. Of several, the first call's
// first position.
#pragma once

#include <array>
#include <mutex>
#include <tinytorch/backend/cuda/fault.hpp>
#include <tinytorch/backend/cuda/kernel.cuh>
#include <tinytorch/backend/cuda/walk.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct FaultNote {
  unsigned lock;
  unsigned used;
  int64_t ticket, position, value;
};

inline constexpr int kFaultThreads = 256;

static __global__ void __launch_bounds__(kFaultThreads)
    range_kernel(const __grid_constant__ Operands<1> o, int64_t size, int64_t except, int64_t ticket,
                 FaultNote* note) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kFaultThreads + threadIdx.x;
  if (i >= o.count) return;
  const int64_t value = static_cast<const int64_t*>(o.operand[0].data)[o.offset(0, i)];
  if ((value >= 0 && value < size) || value == except) return;
  bool done = false;
  while (!done) {  // one thread at a time; reached only by a program that is about to fail
    if (atomicCAS(&note->lock, 0u, 1u) != 0) continue;
    const bool earlier =
        note->used == 0 || ticket < note->ticket || (ticket == note->ticket && i < note->position);
    if (earlier) {
      note->used = 1;
      note->ticket = ticket;
      note->position = i;
      note->value = value;
    }
    __threadfence();
    atomicExch(&note->lock, 0u);
    done = true;
  }
}

// The notes of all devices, and what to say about each of the last checks.
class FaultLog {
 public:
  static FaultLog& instance() {
    static auto* const the_log = new FaultLog;
    return *the_log;
  }

  FaultNote* note(int device) {
    const std::lock_guard lock(mutex_);
    FaultNote*& note = notes_[static_cast<size_t>(device)];
    if (!note) {
      note = static_cast<FaultNote*>(allocate_pinned(sizeof(FaultNote)));
      *note = {};
    }
    return note;
  }
  int64_t add(RangeMessage message, Loc loc) {
    const std::lock_guard lock(mutex_);
    entries_[static_cast<size_t>(next_) % kKept] = {next_, std::move(message), loc};
    return next_++;
  }
  void raise(Loc loc) {
    std::unique_lock lock(mutex_);
    for (FaultNote* note : notes_) {
      if (!note || *static_cast<volatile unsigned*>(&note->used) == 0) continue;
      const FaultNote fault = *note;
      *note = {};
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
  std::array<FaultNote*, kDevices> notes_{};
  std::array<Entry, kKept> entries_;
  int64_t next_ = 0;
};

void check_range(const View& index, int64_t size, int64_t except, RangeMessage message, Loc loc) {
  if (index.numel() == 0) return;
  FaultNote* const note = FaultLog::instance().note(current_device());
  const int64_t ticket = FaultLog::instance().add(std::move(message), loc);
  const Plan<1> plan({index}, 1);
  launch(range_kernel, over(plan.operands.count, kFaultThreads), plan.operands, size, except, ticket, note);
}

void raise_faults(Loc loc) { FaultLog::instance().raise(loc); }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
