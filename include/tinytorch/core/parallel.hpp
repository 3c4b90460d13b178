// Threads: parallel_for over a range, by OpenMP if it is enabled, else on the calling thread.
//
// The range is split at multiples of `grain`, so the boundaries that a task sees are multiples of `grain` for
// any number of threads, and results are bitwise the same.
//
// fork() copies a process without its threads, and OpenMP would wait for them for ever. A child of a process
// that has used threads therefore runs everything on one thread, until exec(). It cannot use a GPU at all
// (TT-CUDA-04).
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <tinytorch/core/config.hpp>
#include <type_traits>
#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
#endif

namespace tinytorch::inline TT_BUILD {

inline constexpr int64_t kElementwiseGrain = 32768;  // elements whose work is worth waking a thread
inline constexpr int64_t kParallelFlops = 400'000;   // products with more operations (2 M N K) are parallel

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
// True in a forked child of a process that called this function before the fork. It must be called before
// threads are used, because the first call installs the fork handler.
inline bool has_lost_threads() {
  static bool lost = false;
  static const int watching = pthread_atfork(nullptr, nullptr, [] { lost = true; });
  (void)watching;
  return lost;
}
#endif

namespace detail {
// parallel_for of a function whose type is known no more, so that the threads are started by one piece of
// code instead of one for each loop of the library: f(begin, end) is call(f, begin, end).
inline void share_range(int64_t n, int64_t grain, void (*call)(void*, int64_t, int64_t), void* f) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
#ifdef _OPENMP
  const int64_t pieces = (n + grain - 1) / grain;
  if (pieces > 1 && thread_count() > 1 && !omp_in_parallel() && !has_lost_threads()) {
    std::exception_ptr error;
    // All threads of the team are started, even if there are fewer pieces. With a smaller team, GNU OpenMP
    // ends the surplus threads and starts new ones for the next larger team, which takes longer than most
    // loops here.
#pragma omp parallel
    {
      const int64_t id = omp_get_thread_num(), count = omp_get_num_threads();
      const int64_t begin = std::min(n, pieces * id / count * grain);
      const int64_t end = std::min(n, pieces * (id + 1) / count * grain);
      try {
        if (begin < end) call(f, begin, end);
      } catch (...) {
#pragma omp critical
        error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
    return;
  }
#endif
  call(f, 0, n);
}
}  // namespace detail

// Calls f(begin, end) on disjoint pieces that cover [0, n); each piece starts at a multiple of grain.
// An exception thrown by any piece is rethrown to the caller.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  using Body = std::remove_reference_t<F>;
  const auto call = [](void* body, int64_t begin, int64_t end) { (*static_cast<Body*>(body))(begin, end); };
  detail::share_range(n, grain, call, const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

// parallel_for if `parallel`, else one call f(0, n) on this thread.
template <class F>
void maybe_parallel(bool parallel, int64_t n, int64_t grain, F&& f) {
  if (parallel) return parallel_for(n, grain, f);
  f(int64_t{0}, n);
}

// The grain for tasks that process `elements` elements each.
inline int64_t grain_of(int64_t elements) {
  return std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(1, elements));
}

}  // namespace tinytorch::inline TT_BUILD
