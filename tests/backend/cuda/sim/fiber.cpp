// Fibers: context switches and restart.
#include <doctest/doctest.h>

#if TINYTORCH_CUDA_SIM
#include <string>
#include <tinytorch/backend/cuda/sim/fiber.hpp>

using namespace tinytorch::backend::cuda::sim;

namespace {

boost::context::detail::fcontext_t main_context = nullptr;
Fiber* present = nullptr;
std::string story;

void tell(boost::context::detail::transfer_t from) {
  *static_cast<boost::context::detail::fcontext_t*>(from.data) = from.fctx;
  Fiber* const self = present;
  for (int i = 0;; ++i) {
    story += static_cast<char>('a' + self->thread);
    story += static_cast<char>('0' + i);
    switch_context(self->context, main_context);
  }
}
void go_on(Fiber& fiber) {
  present = &fiber;
  switch_context(main_context, fiber.context);
}

}  // namespace

TEST_CASE("two fibers alternate, each with its own stack, and a fiber can be restarted") {
  story.clear();
  Fiber a, b;
  b.thread = 1;
  a.restart(tell);
  b.restart(tell);
  go_on(a);
  go_on(b);
  go_on(a);
  go_on(b);
  a.restart(tell);
  go_on(a);
  go_on(b);
  CHECK(story == "a0b0a1b1a0b2");
  CHECK(a.stack != b.stack);
}

#else
TEST_CASE("fibers: the test needs the emulator" * doctest::skip()) {}
#endif
