// Threads: parallel_for over a range, on OpenMP when compiled with it, else serial.
//
// The range is cut at multiples of `grain`, so that which elements are computed together never depends on the
// number of threads: results are the same bits at any thread count.
//
// fork() copies a process without its threads, for which OpenMP would wait for ever. In a child of a process
// that has used them everything runs on one thread; exec() ends that. A GPU cannot be used there at all
// (TT-CUDA-04).
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <tinytorch/core/config.hpp>
#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
#endif

namespace tinytorch::inline TT_BUILD {

inline constexpr int64_t kElementwiseGrain = 32768;  // elements that repay waking a thread
inline constexpr int64_t kParallelFlops = 400'000;   // of matrix products, that do so

inline int thread_count() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

inline void set_thread_count([[maybe_unused]] int n) {
#ifdef _OPENMP
  omp_set_num_threads(n < 1 ? 1 : n);
#endif
}

#ifdef _OPENMP
// Whether this process is such a child. Who is about to use threads asks, so that the question is put before
// there are any.
inline bool has_lost_threads() {
  static bool lost = false;
  static const int watching = pthread_atfork(nullptr, nullptr, [] { lost = true; });
  (void)watching;
  return lost;
}
#endif

// Calls f(begin, end) on disjoint pieces that cover [0, n); each piece starts at a multiple of grain.
// An exception thrown by any piece is rethrown to the caller.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
#ifdef _OPENMP
  const int64_t pieces = (n + grain - 1) / grain;
  if (pieces > 1 && thread_count() > 1 && !omp_in_parallel() && !has_lost_threads()) {
    std::exception_ptr error;
    // Always the whole team, though some may find no piece: GNU OpenMP ends the threads that a smaller team
    // leaves over, and starts new ones for the next larger team, which takes longer than most of what is done
    // here.
#pragma omp parallel
    {
      const int64_t id = omp_get_thread_num(), count = omp_get_num_threads();
      const int64_t begin = std::min(n, pieces * id / count * grain);
      const int64_t end = std::min(n, pieces * (id + 1) / count * grain);
      try {
        if (begin < end) f(begin, end);
      } catch (...) {
#pragma omp critical
        error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
    return;
  }
#endif
  f(int64_t{0}, n);
}

// The same, or all of it on this thread.
template <class F>
void maybe_parallel(bool parallel, int64_t n, int64_t grain, F&& f) {
  if (parallel) return parallel_for(n, grain, f);
  f(int64_t{0}, n);
}

// A grain for tasks of so many elements each.
inline int64_t grain_of(int64_t elements) {
  return std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(1, elements));
}

}  // namespace tinytorch::inline TT_BUILD
