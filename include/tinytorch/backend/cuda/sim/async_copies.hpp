// Asynchronous copies in the emulator. By default they are complete at once. After delay_copies(true) a
// thread's copies are made when it waits for their group, so that a kernel that reads a stage too early reads
// what was there before; waits_with(n) tells how often n groups were still on their way behind a wait.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <tinytorch/backend/cuda/sim/functions.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

inline constexpr int kMostGroups = 8, kMostCopies = 128, kMostCopyThreads = 1024;

struct AsyncCopy {
  unsigned to;
  const void* from;  // null: zeros
};
// A ring of a thread's copies, in order. end[g] is the number of copies before the end of group g.
struct ThreadCopies {
  unsigned block = ~0u;
  int64_t added = 0, made = 0, first = 0, groups = 0;
  int64_t end[kMostGroups] = {};
  AsyncCopy copies[kMostCopies] = {};
};
struct CopyState {
  bool delayed;
  int64_t waits[kMostGroups + 1];
  ThreadCopies* threads;  // by number in their block
};
inline CopyState copy_state{};

// Launches with delayed copies have one dimension of blocks and of threads.
inline void delay_copies(bool on) {
  delete[] copy_state.threads;
  copy_state = {on, {}, on ? new ThreadCopies[kMostCopyThreads] : nullptr};
}
[[gnu::no_sanitize_thread, gnu::noinline]] inline bool delays_copies() { return copy_state.delayed; }
inline int64_t waits_with(int groups) { return copy_state.waits[groups]; }

[[gnu::no_sanitize_thread, gnu::noinline]] inline ThreadCopies& copies_of_thread() {
  ThreadCopies* const mine = copy_state.threads + thread_index().x;
  if (mine->block != block_index().x) *mine = ThreadCopies{}, mine->block = block_index().x;
  return *mine;
}
[[gnu::no_sanitize_thread, gnu::noinline]] inline void add_copy(unsigned to, const void* from) {
  ThreadCopies& mine = copies_of_thread();
  if (mine.added - mine.made == kMostCopies) std::abort();
  mine.copies[mine.added++ % kMostCopies] = {to, from};
}
[[gnu::no_sanitize_thread, gnu::noinline]] inline void end_group() {
  ThreadCopies& mine = copies_of_thread();
  if (mine.groups - mine.first == kMostGroups) std::abort();
  mine.end[mine.groups++ % kMostGroups] = mine.added;
}
// The next copy of the groups but for the newest `pending`; false if all are made.
[[gnu::no_sanitize_thread, gnu::noinline]] inline bool next_copy(int pending, AsyncCopy* copy) {
  ThreadCopies& mine = copies_of_thread();
  while (mine.groups - mine.first > pending && mine.end[mine.first % kMostGroups] <= mine.made) ++mine.first;
  if (mine.groups - mine.first <= pending) {
    ++copy_state.waits[mine.groups - mine.first];
    return false;
  }
  *copy = mine.copies[mine.made++ % kMostCopies];
  return true;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
