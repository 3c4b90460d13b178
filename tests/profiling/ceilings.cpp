// Ceilings are measured: positive, and no op of the library goes above them.
#include <support/device.hpp>
#include <support/errors.hpp>
#include <tinytorch/profiling/ceilings.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using namespace tinytorch::profiling;

TEST_CASE("this machine's ceilings are plausible, and a product stays below them") {
  const Ceilings c = measure_ceilings(tt::cpu);
  CHECK(c.flops_per_second > 1e8);
  CHECK(c.bytes_per_second > 1e8);
  CHECK(c.seconds_per_op > 1e-9);
  CHECK(c.seconds_per_op < 1e-3);
  CHECK(c.device.find("thread") != std::string::npos);
  const tt::Tensor a = tt::ones({256, 256}), b = tt::ones({256, 256});
  const Timing t = time_on(tt::cpu, [&] { tt::matmul(a, b); }, {.seconds = 0.1});
  CHECK(2.0 * 256 * 256 * 256 / t.median < 1.5 * c.flops_per_second);
}

TEST_CASE("a GPU's ceilings" * test::needs_devices()) {
  if (test::kEmulated) {
    CHECK(errors::thrown_by([] { measure_ceilings(tt::cuda); }).code == "TT-PROF-04");
    return;
  }
  const Ceilings c = measure_ceilings(tt::cuda, tt::bf16);
  CHECK(c.flops_per_second > 1e12);
  CHECK(c.bytes_per_second > 1e10);
  CHECK(c.seconds_per_op < 1e-3);
}
