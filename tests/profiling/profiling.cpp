// The umbrella header of profiling/ is enough to profile a function.
#include <doctest/doctest.h>

#include <tinytorch/profiling/profiling.hpp>

TEST_CASE("with profiling.hpp alone the ops of a function are recorded") {
  namespace tt = tinytorch;
  const tt::Tensor x = tt::ones({4, 4}, tt::f32, tt::cpu);
  tt::profiling::Profiler profiler;
  (void)tt::matmul(x, x);
  const tt::profiling::Profile profile = profiler.finish();
  CHECK(profile.ops.size() == 1);
}
