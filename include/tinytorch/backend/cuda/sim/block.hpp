// Scheduler of the emulator: the blocks of a grid run one after the other, the threads of a block as fibers.
//
// A thread that waits keeps its fiber. A thread that never waits ends on the fiber on which it began, which
// then runs the next thread. So a kernel without barriers costs one call per thread, and a kernel with
// barriers one context switch per thread and barrier. Threads run in the order of their numbers until they
// wait, so the order is the same in every run of a program.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <tinytorch/backend/cuda/sim/access.hpp>
#include <tinytorch/backend/cuda/sim/fiber.hpp>
#include <tinytorch/core/shape.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

enum class Waits : uint8_t { none, at_barrier, at_warp, at_mbarrier };

struct ThreadState {
  Fiber* fiber = nullptr;
  Loc where{"", 0};
  uint3 index{};
  Waits waits = Waits::none;
  bool ended = false;
};

// Exchange of the lanes of a warp under one mask. The values are double buffered, because a lane may begin
// the next exchange while other lanes still read this one.
struct ExchangePoint {
  unsigned mask = 0, arrived = 0, phase = 0;
  Loc where{"", 0};
  WarpExchange exchanges[2];
};
struct Warp {
  std::vector<std::unique_ptr<ExchangePoint>> points;  // the first `used` are in use for this block
  size_t used = 0;
};

struct PhaseWaiter {
  uint16_t thread;
  const MBarrier* barrier;
  uint32_t phase;
};

class BlockRunner {
 public:
  static BlockRunner& instance() {
    thread_local BlockRunner runner;
    return runner;
  }
  void run_grid(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, void (*body)(void*),
                void* arguments, size_t argument_bytes);
  void wait_at_barrier(Loc where);
  void arrive(MBarrier* barrier);  // called by one lane per warp
  void wait_for_phase(const MBarrier* barrier, uint32_t phase, Loc where);
  void arrive(StageState* barrier, uint32_t announced_bytes);
  void take_bytes(StageState* barrier, uint32_t bytes);
  void wait_at_named_barrier(unsigned number, unsigned threads, Loc where);
  const WarpExchange& exchange_in_warp(unsigned mask, const void* value, size_t bytes, bool orders,
                                       const char* what, Loc where);
  // Ends the grid from inside a kernel thread; run_grid then throws.
  [[noreturn]] void stop(std::string fault);
  [[noreturn]] void stop_at(const std::string& fault, Loc where);
  std::string describe_thread(unsigned number) const;
  AccessChecker& checker() { return checker_; }

 private:
  friend void fiber_entry(boost::context::detail::transfer_t);
  void work();
  void enter(Fiber* fiber);
  void run_next();
  Fiber* take_fiber();
  Fiber* next_ready() { return threads_[ready_[ready_at_++]].fiber; }
  void make_ready(uint16_t number);
  void complete_phase(MBarrier* barrier);
  void complete_if_there(StageState* barrier);
  void release_barrier(Loc where);
  void run_block();
  void prepare(dim3 grid, dim3 block, size_t shared_bytes);
  ExchangePoint& exchange_point(Warp& warp, unsigned mask, Loc where);
  std::string divergence() const;

  AccessChecker checker_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::vector<ThreadState> threads_;
  std::vector<Warp> warps_;
  std::vector<uint16_t> ready_, waiting_;  // entries of ready_ before ready_at_ are already taken
  std::vector<PhaseWaiter> phase_waiters_;
  MBarrier named_[16] = {};
  size_t ready_at_ = 0;
  unsigned next_ = 0, ended_ = 0;
  Fiber* current_ = nullptr;
  boost::context::detail::fcontext_t main_ = nullptr, lost_ = nullptr;
  void (*body_)(void*) = nullptr;
  void* arguments_ = nullptr;
  std::vector<unsigned char> shared_;
  std::string fault_;
  bool failed_ = false;
};

inline void fiber_entry(boost::context::detail::transfer_t from) {
  *static_cast<boost::context::detail::fcontext_t*>(from.data) = from.fctx;
  BlockRunner::instance().work();
}

// Main loop of a fiber: runs threads that have not begun, then suspends until the fiber is used again.
inline void BlockRunner::work() {
  for (;;) {
    Fiber* const fiber = current_;
    while (next_ < execution.threads) {
      fiber->thread = next_++;
      threads_[fiber->thread].fiber = fiber;
      enter(fiber);
      body_(arguments_);
      execution.active = false;
      threads_[fiber->thread].ended = true;
      ++ended_;
    }
    idle_.push_back(fiber);
    if (ready_at_ < ready_.size()) {
      Fiber* const other = next_ready();
      enter(other);
      switch_context(fiber->context, other->context);
    } else {
      switch_context(fiber->context, main_);
    }
    current_ = fiber;
  }
}

// Makes the thread of a fiber the current thread.
inline void BlockRunner::enter(Fiber* fiber) {
  current_ = fiber;
  execution.thread_number = fiber->thread;
  execution.thread = threads_[fiber->thread].index;
  execution.stack = fiber->stack;
  execution.active = true;
}

// Suspends the current thread and runs another one.
inline void BlockRunner::run_next() {
  Fiber* const self = current_;
  execution.active = false;
  if (next_ < execution.threads) {
    current_ = take_fiber();
    switch_context(self->context, current_->context);
  } else if (ready_at_ < ready_.size()) {
    Fiber* const other = next_ready();
    enter(other);
    switch_context(self->context, other->context);
  } else {
    switch_context(self->context, main_);
  }
  enter(self);
}

inline Fiber* BlockRunner::take_fiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>());
    fibers_.back()->restart(fiber_entry);
    return fibers_.back().get();
  }
  Fiber* const fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

inline void BlockRunner::make_ready(uint16_t number) {
  if (ready_at_ == ready_.size()) {
    ready_.clear();
    ready_at_ = 0;
  }
  threads_[number].waits = Waits::none;
  ready_.push_back(number);
}

inline bool same_place(Loc a, Loc b) { return a.line == b.line && std::strcmp(a.file, b.file) == 0; }

inline void BlockRunner::release_barrier(Loc where) {
  for (const uint16_t number : waiting_) {
    const ThreadState& thread = threads_[number];
    if (!same_place(thread.where, where)) {
      stop_at("a divergent barrier: " + describe_thread(number) + " waits at " + place_text(thread.where) +
                  ", " + describe_thread(execution.thread_number) + " at another",
              where);
    }
  }
  checker_.pass_barrier();
  for (const uint16_t number : waiting_) make_ready(number);
  waiting_.clear();
}

inline void BlockRunner::wait_at_barrier(Loc where) {
  const unsigned number = execution.thread_number;
  ThreadState& thread = threads_[number];
  thread.where = where;
  if (waiting_.size() + 1 == execution.threads) return release_barrier(where);
  thread.waits = Waits::at_barrier;
  waiting_.push_back(static_cast<uint16_t>(number));
  run_next();
}

inline ExchangePoint& BlockRunner::exchange_point(Warp& warp, unsigned mask, Loc where) {
  for (size_t i = 0; i < warp.used; ++i) {
    if (warp.points[i]->mask == mask) return *warp.points[i];
  }
  if (warp.used == warp.points.size()) warp.points.push_back(std::make_unique<ExchangePoint>());
  ExchangePoint& point = *warp.points[warp.used++];
  point.mask = mask;
  point.arrived = point.phase = 0;
  point.where = where;
  return point;
}

inline const WarpExchange& BlockRunner::exchange_in_warp(unsigned mask, const void* value, size_t bytes,
                                                         bool orders, const char* what, Loc where) {
  const unsigned number = execution.thread_number, lane = number % kLanes, first = number - lane;
  const unsigned lanes = std::min(kLanes, execution.threads - first);
  if (lanes < kLanes && mask == 0xffffffffu) mask = (1u << lanes) - 1;  // a partial warp has fewer lanes
  if (!(mask >> lane & 1)) {
    stop_at(std::string(what) + " by " + describe_thread(number) + ", which is not in its own mask", where);
  }
  ExchangePoint& point = exchange_point(warps_[number / kLanes], mask, where);
  if (point.arrived == 0) point.where = where;
  if (!same_place(point.where, where)) {
    stop_at(std::string("a divergent ") + what + ": other lanes of the warp are at " +
                place_text(point.where) + ", " + describe_thread(number) + " at another",
            where);
  }
  WarpExchange& exchange = point.exchanges[point.phase & 1];
  std::memcpy(exchange.values[lane], value, bytes);
  threads_[number].where = where;
  point.arrived |= 1u << lane;
  if (point.arrived != mask) {
    threads_[number].waits = Waits::at_warp;
    run_next();
    return exchange;
  }
  exchange.mask = mask;
  exchange.lanes = lanes;
  point.arrived = 0;
  ++point.phase;
  if (orders) checker_.pass_warp_barrier(number / kLanes);
  for (unsigned l = 0; l < lanes; ++l) {
    if (l != lane && mask >> l & 1) make_ready(static_cast<uint16_t>(first + l));
  }
  return exchange;
}

inline void BlockRunner::stop(std::string fault) {
  execution.active = false;
  fault_ = std::move(fault);
  failed_ = true;
  switch_context(lost_, main_);
  std::abort();  // the fiber is not resumed
}

inline void BlockRunner::stop_at(const std::string& fault, Loc where) {
  stop(fault + "\n  at " + place_text(where));
}

inline std::string BlockRunner::describe_thread(unsigned number) const {
  const auto triple = [](uint3 v) {
    return "(" + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " + std::to_string(v.z) + ")";
  };
  return "thread " + triple(threads_[number].index) + " of block " + triple(execution.block);
}

// The error message of a deadlock: the groups of waiting threads, with their number and one example each.
inline std::string BlockRunner::divergence() const {
  std::map<std::pair<std::string, Waits>, std::pair<unsigned, unsigned>> groups;  // example, count
  for (unsigned t = 0; t < execution.threads; ++t) {
    const ThreadState& thread = threads_[t];
    auto& group = groups[{thread.ended ? "" : place_text(thread.where), thread.waits}];
    if (group.second++ == 0) group.first = t;
  }
  std::string text = "deadlock: the threads wait for each other, at a divergent barrier or shuffle";
  for (const auto& [key, group] : groups) {
    text += "\n  " + std::to_string(group.second) + " of " + std::to_string(execution.threads) +
            " threads, such as " + describe_thread(group.first);
    if (key.first.empty()) {
      text += ", ended without reaching it";
    } else {
      constexpr const char* kFor[] = {", continue at ", ", wait at the barrier at ",
                                      ", wait for lanes of their warp at ", ", wait at the mbarrier at "};
      text += kFor[static_cast<size_t>(key.second)] + key.first;
    }
  }
  return text;
}

inline void BlockRunner::run_block() {
  next_ = ended_ = 0;
  checker_.begin_block();
  ready_.clear();
  waiting_.clear();
  phase_waiters_.clear();
  for (MBarrier& b : named_) b = {};
  ready_at_ = 0;
  for (ThreadState& t : threads_) {
    t.waits = Waits::none;
    t.ended = false;
  }
  for (Warp& w : warps_) w.used = 0;
  while (ended_ < execution.threads && !failed_) {
    if (next_ < execution.threads) {
      current_ = take_fiber();
    } else if (ready_at_ < ready_.size()) {
      enter(next_ready());
    } else {
      fault_ = divergence();
      failed_ = true;
      break;
    }
    switch_context(main_, current_->context);
    execution.active = false;
  }
  if (!failed_) checker_.end_block();
}

inline void BlockRunner::prepare(dim3 grid, dim3 block, size_t shared_bytes) {
  constexpr size_t kGuard = 65536;  // bytes after the dynamic shared memory, to detect accesses past its end
  shared_.resize(std::max(shared_.size(), shared_bytes + kGuard));
  execution = {};
  execution.block_dim = block;
  execution.grid_dim = grid;
  execution.threads = block.x * block.y * block.z;
  const auto unaligned = reinterpret_cast<uintptr_t>(shared_.data()) % 16;
  execution.dynamic_shared = shared_.data() + (16 - unaligned) % 16;
  threads_.assign(execution.threads, {});
  warps_.resize(ceil_div(execution.threads, kLanes));
  for (unsigned t = 0; t < execution.threads; ++t) {
    threads_[t].index = {t % block.x, t / block.x % block.y, t / (block.x * block.y)};
  }
  failed_ = false;
}

inline std::atomic<bool> last_block_first{false};

inline void BlockRunner::run_grid(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                                  void (*body)(void*), void* arguments, size_t argument_bytes) {
  constexpr size_t kMostShared = 232448;  // 227 KiB, the limit of Hopper
  const std::string name = kernel_name(kernel);
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMostThreads) {
    fail("TT-SIM-02", name + ": a block of " + std::to_string(threads) + " threads\n  hint: 1 to 1024");
  }
  if (shared_bytes > kMostShared) {
    fail("TT-SIM-02", name + ": " + std::to_string(shared_bytes) +
                          " bytes of shared memory\n  hint: at most " + std::to_string(kMostShared));
  }
  if (grid.y > 65535 || grid.z > 65535) {
    fail("TT-SIM-02", name + ": a grid of " + std::to_string(grid.y) + " by " + std::to_string(grid.z) +
                          " blocks in y and z\n  hint: at most 65535 each; x goes to 2147483647");
  }
  prepare(grid, block, shared_bytes);
  body_ = body;
  arguments_ = arguments;
  checker_.begin_grid(kernel, name, execution.dynamic_shared, shared_bytes, shared_.data(), shared_.size(),
                      arguments, argument_bytes, uint64_t{grid.x} * grid.y * grid.z, threads);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        execution.block =
            last_block_first ? uint3{grid.x - 1 - x, grid.y - 1 - y, grid.z - 1 - z} : uint3{x, y, z};
        run_block();
        if (!failed_) continue;
        idle_.clear();  // fibers that stopped in the middle of a kernel are restarted
        for (const auto& fiber : fibers_) {
          fiber->restart(fiber_entry);
          idle_.push_back(fiber.get());
        }
        throw Error("TT-SIM-03", "TT-SIM-03: kernel " + name + ": " + fault_);
      }
    }
  }
  checker_.end_grid();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
