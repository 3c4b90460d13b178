// The barriers of a block that have phases: mbarriers in shared memory, which count warps or single arrivals
// and bytes, and the numbered barriers of bar.sync. A thread that waits continues when its phase is complete.
#pragma once

#include <tinytorch/backend/cuda/sim/block.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

[[gnu::no_sanitize_thread]] inline void BlockRunner::arrive(MBarrier* barrier) {
  if (++barrier->arrived == warps_.size()) complete_phase(barrier);
}
[[gnu::no_sanitize_thread]] inline void BlockRunner::arrive(StageState* barrier, uint32_t announced_bytes) {
  ++barrier->phase.arrived;
  barrier->bytes += static_cast<int32_t>(announced_bytes);
  complete_if_there(barrier);
}
[[gnu::no_sanitize_thread]] inline void BlockRunner::take_bytes(StageState* barrier, uint32_t bytes) {
  barrier->bytes -= static_cast<int32_t>(bytes);
  complete_if_there(barrier);
}
[[gnu::no_sanitize_thread]] inline void BlockRunner::complete_if_there(StageState* barrier) {
  if (barrier->phase.arrived == barrier->arrivals && barrier->bytes == 0) complete_phase(&barrier->phase);
}
[[gnu::no_sanitize_thread]] inline void BlockRunner::wait_at_named_barrier(unsigned number, unsigned threads,
                                                                           Loc where) {
  MBarrier& barrier = named_[number];
  const uint32_t phase = barrier.complete;
  if (++barrier.arrived == threads) return complete_phase(&barrier);
  wait_for_phase(&barrier, phase, where);
}
[[gnu::no_sanitize_thread]] inline void BlockRunner::complete_phase(MBarrier* barrier) {
  barrier->arrived = 0;
  ++barrier->complete;
  checker_.pass_barrier();  // accesses before and after the phase are in different epochs
  const auto done = [&](const PhaseWaiter& w) { return w.barrier == barrier && w.phase < barrier->complete; };
  for (const PhaseWaiter& w : phase_waiters_) {
    if (done(w)) make_ready(w.thread);
  }
  std::erase_if(phase_waiters_, done);
}
[[gnu::no_sanitize_thread]] inline void BlockRunner::wait_for_phase(const MBarrier* barrier, uint32_t phase,
                                                                    Loc where) {
  if (barrier->complete > phase) return;
  const unsigned number = execution.thread_number;
  threads_[number].where = where;
  threads_[number].waits = Waits::at_mbarrier;
  phase_waiters_.push_back({static_cast<uint16_t>(number), barrier, phase});
  run_next();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
