// Fibers: cooperative threads, each with its own stack. A context switch takes a few nanoseconds.
//
// Fibers are reused for one kernel thread after the other. Below each stack is a guard page without access
// rights, so a stack overflow of a kernel ends the program at once.
#pragma once

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <tinytorch/core/error.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

inline constexpr size_t kStackBytes = 256 * 1024, kGuardBytes = 4096;

struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;  // point at which the suspended fiber continues
  char* stack = nullptr;                                 // lowest address, above the guard page
  unsigned thread = 0;                                   // number of the kernel thread in its block

  Fiber() {
    void* const memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) {
      fail("TT-SIM-01",
           "the emulator: there is no memory for the stack of a kernel's thread\n  hint: end other programs");
    }
    (void)mprotect(memory, kGuardBytes, PROT_NONE);
    stack = static_cast<char*>(memory) + kGuardBytes;
  }
  ~Fiber() { (void)munmap(stack - kGuardBytes, kStackBytes + kGuardBytes); }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void restart(void (*entry)(boost::context::detail::transfer_t)) {
    context = boost::context::detail::make_fcontext(stack + kStackBytes, kStackBytes, entry);
  }
};

// Saves the current context in `from` and switches to `to`. Returns when another fiber switches back to
// `from`.
inline void switch_context(boost::context::detail::fcontext_t& from, boost::context::detail::fcontext_t& to) {
  const boost::context::detail::transfer_t back = boost::context::detail::jump_fcontext(to, &from);
  *static_cast<boost::context::detail::fcontext_t*>(back.data) = back.fctx;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
