// A grid's blocks, one after the other, and the threads of a block.
//
// Each thread of a block that has to wait keeps a fiber; one that never waits ends on the fiber on which it
// began, which then begins the next thread. So a kernel without barriers costs a call per thread, and one
// with barriers a switch per thread and barrier. Threads run in the order of their numbers until they wait:
// every run of a program takes the same order.
#pragma once

#include <tinytorch/backend/cuda/sim/fiber.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

using Where = std::source_location;

inline constexpr unsigned kLanes = 32, kMostThreads = 1024;
inline constexpr size_t kMostShared = 232448;  // bytes of shared memory of a block: 227 KiB, as on Hopper

enum class Waits : uint8_t { none, at_barrier, at_warp };

struct ThreadState {
  Fiber* fiber = nullptr;
  Where where{};
  uint3 index{};
  unsigned mask = 0;  // of the warp operation it waits at
  Waits waits = Waits::none;
  bool ended = false;
};

// Lanes of a warp that exchange values under one mask. Two sets of values: a lane may begin the next exchange
// while others still read this one.
struct Exchange {
  unsigned mask = 0, arrived = 0, phase = 0;
  alignas(16) unsigned char values[2][kLanes][16];
  const char* what = nullptr;
};
struct Warp {
  std::vector<Exchange> exchanges;
  unsigned ended = 0;  // lanes
};

// What the functions of a kernel find their thread by. One block at a time runs on a thread of the host.
struct Execution {
  uint3 thread{}, block{};
  dim3 block_dim, grid_dim;
  unsigned thread_number = 0, threads = 0, warp_epoch = 0;
  unsigned char* dynamic_shared = nullptr;
  size_t dynamic_bytes = 0;
  const void* kernel = nullptr;
  bool active = false;  // a kernel thread runs
};
inline constinit thread_local Execution* execution = nullptr;

class BlockRunner {
 public:
  static BlockRunner& instance() {
    thread_local BlockRunner runner;
    return runner;
  }

  void run_grid(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, void (*body)(void*),
                void* argument);
  void wait_at_barrier(Where where);
  // All lanes of `mask` give `bytes` bytes; afterwards the result holds those of each.
  const Exchange& exchange(unsigned mask, const void* value, size_t bytes, const char* what, Where where,
                           unsigned& phase);
  // Ends the grid from inside a kernel thread; run_grid throws.
  [[noreturn]] void stop(const std::string& fault);
  std::string describe_thread(unsigned number) const;
  Fiber* current_fiber() { return current_; }
  Execution state;
  uint64_t barriers = 0;  // passed by blocks of this grid
  unsigned epoch = 1;     // barriers passed by this block, since the thread's start

 private:
  friend void fiber_entry(boost::context::detail::transfer_t);
  void run_block();
  void work();
  void run_next();
  void resume(Fiber* fiber);
  Fiber* take_fiber();
  void release_barrier();
  void end_thread(unsigned number);
  std::string divergence() const;

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::vector<ThreadState> threads_;
  std::vector<Warp> warps_;
  std::vector<uint16_t> ready_, waiting_;  // ready_ is read from ready_at_ on
  size_t ready_at_ = 0;
  unsigned next_ = 0, ended_ = 0;
  Fiber* current_ = nullptr;
  boost::context::detail::fcontext_t main_ = nullptr, lost_ = nullptr;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  std::vector<unsigned char> shared_;
  std::string fault_;
  bool failed_ = false;
};

[[gnu::no_sanitize_thread]] inline void fiber_entry(boost::context::detail::transfer_t from) {
  *static_cast<boost::context::detail::fcontext_t*>(from.data) = from.fctx;
  BlockRunner::instance().work();
}

// The life of a fiber: threads that were not begun yet, then sleep until it is needed again.
[[gnu::no_sanitize_thread]] inline void BlockRunner::work() {
  for (;;) {
    while (next_ < state.threads) {
      const unsigned number = next_++;
      Fiber* const fiber = current_;
      fiber->thread = number;
      threads_[number].fiber = fiber;
      state.thread_number = number;
      state.thread = threads_[number].index;
      state.active = true;
      body_(argument_);
      state.active = false;
      end_thread(number);
    }
    Fiber* const fiber = current_;
    idle_.push_back(fiber);
    if (ready_at_ < ready_.size()) {
      resume(threads_[ready_[ready_at_++]].fiber);
    } else {
      switch_context(fiber->context, main_);
    }
    current_ = fiber;
  }
}

[[gnu::no_sanitize_thread]] inline void BlockRunner::resume(Fiber* fiber) {
  Fiber* const from = current_;
  current_ = fiber;
  state.thread_number = fiber->thread;
  state.thread = threads_[fiber->thread].index;
  state.active = true;
  switch_context(from->context, fiber->context);
}

// The current thread waits: somebody else goes on.
[[gnu::no_sanitize_thread]] inline void BlockRunner::run_next() {
  Fiber* const self = current_;
  const unsigned number = state.thread_number;
  state.active = false;
  if (next_ < state.threads) {
    Fiber* const fiber = take_fiber();
    current_ = fiber;
    switch_context(self->context, fiber->context);
  } else if (ready_at_ < ready_.size()) {
    resume(threads_[ready_[ready_at_++]].fiber);
  } else {
    switch_context(self->context, main_);
  }
  current_ = self;
  state.thread_number = number;
  state.thread = threads_[number].index;
  state.active = true;
}

[[gnu::no_sanitize_thread]] inline Fiber* BlockRunner::take_fiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>());
    fibers_.back()->restart(fiber_entry);
    return fibers_.back().get();
  }
  Fiber* const fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

[[gnu::no_sanitize_thread]] inline void BlockRunner::end_thread(unsigned number) {
  threads_[number].ended = true;
  warps_[number / kLanes].ended |= 1u << number % kLanes;
  ++ended_;
}

[[gnu::no_sanitize_thread]] inline void BlockRunner::release_barrier() {
  ++epoch;
  ++barriers;
  for (const uint16_t number : waiting_) threads_[number].waits = Waits::none;
  if (ready_at_ == ready_.size()) {
    ready_.clear();
    ready_at_ = 0;
  }
  ready_.insert(ready_.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
}

[[gnu::no_sanitize_thread]] inline void BlockRunner::wait_at_barrier(Where where) {
  const unsigned number = state.thread_number;
  ThreadState& thread = threads_[number];
  thread.where = where;
  if (waiting_.size() + 1 == state.threads) return release_barrier();
  thread.waits = Waits::at_barrier;
  waiting_.push_back(static_cast<uint16_t>(number));
  run_next();
}

[[gnu::no_sanitize_thread]] inline const Exchange& BlockRunner::exchange(unsigned mask, const void* value,
                                                                         size_t bytes, const char* what,
                                                                         Where where, unsigned& phase) {
  const unsigned number = state.thread_number, lane = number % kLanes;
  Warp& warp = warps_[number / kLanes];
  const unsigned there = state.threads - number / kLanes * kLanes;
  if (there < kLanes && mask == 0xffffffffu) mask = (1u << there) - 1;  // the lanes of a cut warp
  if (!(mask >> lane & 1)) {
    stop(std::string(what) + " by " + describe_thread(number) + ", which is not in its own mask\n  at " +
         where.file_name() + ":" + std::to_string(where.line()));
  }
  size_t at = 0;
  while (at < warp.exchanges.size() && warp.exchanges[at].mask != mask) ++at;
  if (at == warp.exchanges.size()) {
    warp.exchanges.reserve(kLanes);  // references stay
    warp.exchanges.emplace_back().mask = mask;
  }
  Exchange& meeting = warp.exchanges[at];
  phase = meeting.phase & 1;
  std::memcpy(meeting.values[phase][lane], value, bytes);
  meeting.arrived |= 1u << lane;
  threads_[number].where = where;
  if (meeting.arrived == mask) {
    meeting.arrived = 0;
    ++meeting.phase;
    for (unsigned l = 0; l < kLanes; ++l) {
      if (l == lane || !(mask >> l & 1)) continue;
      const unsigned other = number / kLanes * kLanes + l;
      threads_[other].waits = Waits::none;
      ready_.push_back(static_cast<uint16_t>(other));
    }
  } else {
    threads_[number].waits = Waits::at_warp;
    threads_[number].mask = mask;
    run_next();
  }
  return meeting;
}

inline void BlockRunner::stop(const std::string& fault) {
  state.active = false;
  fault_ = fault;
  failed_ = true;
  switch_context(lost_, main_);
  std::abort();  // nobody comes back here
}

inline std::string BlockRunner::describe_thread(unsigned number) const {
  const auto triple = [](uint3 v) {
    return "(" + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " + std::to_string(v.z) + ")";
  };
  return "thread " + triple(threads_[number].index) + " of block " + triple(state.block);
}

// Nobody can go on: who waits where, an example of each.
inline std::string BlockRunner::divergence() const {
  std::string text = "threads wait for each other for ever: a divergent barrier or shuffle";
  std::map<std::pair<std::string, int>, std::pair<unsigned, unsigned>> groups;  // example, count
  for (unsigned t = 0; t < state.threads; ++t) {
    const ThreadState& thread = threads_[t];
    const std::string at =
        thread.ended ? "" : std::string(thread.where.file_name()) + ":" + std::to_string(thread.where.line());
    auto& group = groups.try_emplace({at, static_cast<int>(thread.waits)}, std::pair{t, 0u}).first->second;
    ++group.second;
  }
  for (const auto& [key, group] : groups) {
    const std::string who = std::to_string(group.second) + " of " + std::to_string(state.threads) +
                            " threads, such as " + describe_thread(group.first);
    text += "\n  " + who +
            (key.first.empty() ? ", ended without"
                               : (key.second == static_cast<int>(Waits::at_barrier)
                                      ? ", wait at the barrier at "
                                      : ", wait for lanes of their warp at ") +
                                     key.first);
  }
  return text;
}

[[gnu::no_sanitize_thread]] inline void BlockRunner::run_block() {
  next_ = ended_ = 0;
  ++epoch;
  ready_.clear();
  waiting_.clear();
  ready_at_ = 0;
  for (ThreadState& t : threads_) {
    t.waits = Waits::none;
    t.ended = false;
  }
  for (Warp& w : warps_) {
    w.ended = 0;
    w.exchanges.clear();
  }
  while (ended_ < state.threads && !failed_) {
    Fiber* fiber;
    if (next_ < state.threads) {
      fiber = take_fiber();
    } else if (ready_at_ < ready_.size()) {
      fiber = threads_[ready_[ready_at_++]].fiber;
      state.thread_number = fiber->thread;
      state.thread = threads_[fiber->thread].index;
      state.active = true;
    } else {
      fault_ = divergence();
      failed_ = true;
      break;
    }
    current_ = fiber;
    switch_context(main_, fiber->context);
    state.active = false;
  }
}

inline std::string kernel_text(const void* kernel);

inline void BlockRunner::run_grid(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                                  void (*body)(void*), void* argument) {
  const unsigned threads = block.x * block.y * block.z;
  if (threads == 0 || threads > kMostThreads)
    fail("TT-SIM-02",
         kernel_text(kernel) + ": a block of " + std::to_string(threads) + " threads\n  hint: 1 to 1024");
  if (shared_bytes > kMostShared)
    fail("TT-SIM-02", kernel_text(kernel) + ": " + std::to_string(shared_bytes) +
                          " bytes of shared memory\n  hint: at most " + std::to_string(kMostShared));
  state = {};
  state.block_dim = block;
  state.grid_dim = grid;
  state.threads = threads;
  state.kernel = kernel;
  if (shared_.size() < shared_bytes + 16) shared_.resize(shared_bytes + 16);
  state.dynamic_shared = shared_.data() + (16 - reinterpret_cast<uintptr_t>(shared_.data()) % 16) % 16;
  state.dynamic_bytes = shared_bytes;
  execution = &state;
  threads_.assign(threads, {});
  warps_.resize((threads + kLanes - 1) / kLanes);
  for (unsigned t = 0; t < threads; ++t)
    threads_[t].index = {t % block.x, t / block.x % block.y, t / (block.x * block.y)};
  body_ = body;
  argument_ = argument;
  failed_ = false;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        state.block = {x, y, z};
        run_block();
        if (!failed_) continue;
        idle_.clear();  // fibers that were left in the middle of a kernel begin anew
        for (const auto& fiber : fibers_) {
          fiber->restart(fiber_entry);
          idle_.push_back(fiber.get());
        }
        fail("TT-SIM-03", "kernel " + kernel_text(kernel) + ": " + fault_);
      }
    }
  }
}

// Constant for a thread of a kernel, so the compiler may ask once.
[[gnu::no_sanitize_thread, gnu::const, gnu::noinline]] inline uint3 thread_index() {
  return execution->thread;
}
[[gnu::no_sanitize_thread, gnu::const, gnu::noinline]] inline uint3 block_index() { return execution->block; }
[[gnu::no_sanitize_thread, gnu::const, gnu::noinline]] inline dim3 block_size() {
  return execution->block_dim;
}
[[gnu::no_sanitize_thread, gnu::const, gnu::noinline]] inline dim3 grid_size() { return execution->grid_dim; }
[[gnu::no_sanitize_thread]] inline void* dynamic_shared() { return execution->dynamic_shared; }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim

#define threadIdx (::tinytorch::backend::cuda::sim::thread_index())
#define blockIdx (::tinytorch::backend::cuda::sim::block_index())
#define blockDim (::tinytorch::backend::cuda::sim::block_size())
#define gridDim (::tinytorch::backend::cuda::sim::grid_size())
