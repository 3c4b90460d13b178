// The kernels that measure a GPU's peaks give the same results as the CPU's kernels at every size.
#include <support/check.hpp>
#include <support/device.hpp>
#include <tinytorch/backend/cpu/peak_kernels.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;

#if TINYTORCH_WITH_CUDA
namespace cuda = tt::backend::cuda;

namespace {
constexpr int64_t kSizes[] = {1, 3, 4, 5, 255, 256, 257, 1023, 1024, 1025, 2047, 2048, 2049, 5003};
}

TEST_CASE("triad: whole accesses and the last, partial one" * test::needs_devices()) {
  for (const int64_t n : kSizes) {
    CAPTURE(n);
    const Tensor a = tt::randn({n}), b = tt::randn({n}), expected = tt::zeros({n});
    tt::backend::cpu::triad(expected.view_of(), a.view_of(), b.view_of(), -2.5f);
    const Tensor x = a.to(tt::cuda), y = b.to(tt::cuda), out = tt::zeros({n}).to(tt::cuda);
    cuda::triad(out.view_of(), x.view_of(), y.view_of(), -2.5f);
    CHECK(tt::max(tt::abs(out.to(tt::cpu) - expected)).item<double>() <= 2e-6);
  }
}

TEST_CASE("chains: each element goes half the way to 1, so many times" * test::needs_devices()) {
  for (const int64_t n : kSizes) {
    for (const int64_t rounds : {0, 1, 5, 24}) {
      CAPTURE(n);
      CAPTURE(rounds);
      const Tensor start = tt::randn({n}), expected = start.clone();
      tt::backend::cpu::fma_chains(expected.view_of(), rounds);
      const Tensor x = start.to(tt::cuda);
      cuda::fma_chains(x.view_of(), rounds);
      CHECK(tt::max(tt::abs(x.to(tt::cpu) - expected)).item<double>() <= 1e-6);
    }
  }
}

TEST_CASE("nothing is no work" * test::needs_devices()) {
  const Tensor none = tt::zeros({0}).to(tt::cuda);
  cuda::triad(none.view_of(), none.view_of(), none.view_of(), 1);
  cuda::fma_chains(none.view_of(), 3);
  cuda::synchronize();
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
