// A thread with a stack of 256 KiB. A function that recurses once per node overflows it after few nodes; with
// the usual 8 MiB a check would need so many nodes that it takes seconds.
#pragma once

#include <pthread.h>

#include <exception>
#include <functional>
#include <support/check.hpp>

namespace course {

inline void on_small_stack(const std::function<void()>& f) {
  struct Work {
    const std::function<void()>& f;
    std::exception_ptr error;
  } work{f, nullptr};
  const auto run = [](void* given) -> void* {
    Work& w = *static_cast<Work*>(given);
    try {
      w.f();
    } catch (...) {
      w.error = std::current_exception();
    }
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_t thread;
  const bool began = pthread_create(&thread, &attributes, run, &work) == 0;
  pthread_attr_destroy(&attributes);
  expect("a thread with a small stack can be started", began);
  pthread_join(thread, nullptr);
  if (work.error) std::rethrow_exception(work.error);
}

}  // namespace course
