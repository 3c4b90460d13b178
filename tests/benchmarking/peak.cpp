#include <tinytorch/benchmarking/peak.hpp>

#include <doctest/doctest.h>

namespace tt = tinytorch;
using namespace tinytorch::benchmarking;

TEST_CASE("the measured peak of the CPU is positive; the peaks of some GPUs are known") {
  CHECK(peak_flops(tt::cpu, tt::f32) > 1e8);
  CHECK(tensor_core_peak("NVIDIA H200") == 989.5e12);
  CHECK(tensor_core_peak("NVIDIA A100-SXM4-80GB") == 312e12);
  CHECK(tensor_core_peak("an emulator") == 0);
}
