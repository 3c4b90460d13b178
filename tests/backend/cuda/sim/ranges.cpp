// Profiler ranges: modules and ops are nested ranges, as Nsight Systems shows them.
#include <support/device.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/tinytorch.hpp>

#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/ranges.hpp>

namespace tt = tinytorch;
namespace cuda = tt::backend::cuda;

namespace {

// The ranges that f opens. Checks that all are closed at its end.
template <class F>
std::vector<std::string> seen_in(F&& f) {
  cuda::sim::ranges() = {};
  cuda::show_ranges(true);
  f();
  cuda::show_ranges(false);
  CHECK(cuda::sim::ranges().open.empty());
  return cuda::sim::ranges().seen;
}

}  // namespace

TEST_CASE("the range of a module contains the ranges of its ops" * test::needs_devices()) {
  tt::Sequential model(tt::Linear(4, 8), tt::Linear(8, 2));
  model.to(tt::cuda);
  const tt::Tensor x = tt::ones({3, 4}).to(tt::cuda);
  const tt::NoGrad guard;
  CHECK(seen_in([&] { model(x); }) == std::vector<std::string>{"module Sequential",
                                                               "module Sequential > module Linear",
                                                               "module Sequential > module Linear > linear",
                                                               "module Sequential > module Linear",
                                                               "module Sequential > module Linear > linear"});
}

TEST_CASE("a scope has a range with its own name, and an exception closes a range" * test::needs_devices()) {
  const tt::Tensor x = tt::ones({3, 4}).to(tt::cuda);
  const auto seen = seen_in([&] {
    const tt::Scope scope("evaluation");
    tt::relu(x);
    CHECK_THROWS(tt::matmul(x, x));
  });
  CHECK(seen == std::vector<std::string>{"scope evaluation", "scope evaluation > relu"});
}

TEST_CASE("no ranges are opened if ranges are not shown") {
  cuda::sim::ranges() = {};
  { const tt::Scope scope("quiet"); }
  CHECK(cuda::sim::ranges().seen.empty());
}

#else
TEST_CASE("ranges: the test needs the emulator" * doctest::skip()) {}
#endif
