// measure_peaks: the peaks are positive, and no op of the library exceeds them.
#include <support/device.hpp>
#include <support/errors.hpp>
#include <tinytorch/profiling/peaks.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using namespace tinytorch::profiling;

TEST_CASE("the measured peaks of the CPU are plausible, and a matrix product stays below them") {
  const MachinePeaks c = measure_peaks(tt::cpu);
  CHECK(c.flops_per_second > 1e8);
  CHECK(c.bytes_per_second > 1e8);
  CHECK(c.seconds_per_op > 1e-9);
  CHECK(c.seconds_per_op < 1e-3);
  CHECK(c.device.find("thread") != std::string::npos);
  const tt::Tensor a = tt::ones({256, 256}), b = tt::ones({256, 256});
  const Timing t = time_on(tt::cpu, [&] { tt::matmul(a, b); }, {.seconds = 0.1});
  CHECK(2.0 * 256 * 256 * 256 / t.median < 1.5 * c.flops_per_second);
}

TEST_CASE("the measured peaks of a GPU are plausible; on the emulator measure_peaks throws" *
          test::needs_devices()) {
  if (test::kEmulated) {
    CHECK(errors::thrown_by([] { measure_peaks(tt::cuda); }).code == "TT-PROF-04");
    return;
  }
  const MachinePeaks c = measure_peaks(tt::cuda, tt::bf16);
  CHECK(c.flops_per_second > 1e12);
  CHECK(c.bytes_per_second > 1e10);
  CHECK(c.seconds_per_op < 1e-3);
}
