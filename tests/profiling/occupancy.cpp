// Occupancy is compared with the CUDA toolkit's calculator, if it is installed, and with its stored results.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/occupancy_calculator.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/profiling/occupancy.hpp>
#include <utility>

using namespace tinytorch::profiling;

TEST_CASE("occupancy_of reports the resource that is exhausted first, as computed by hand") {
  const MultiprocessorLimits hopper = limits_of(9, 0);
  const Occupancy free = occupancy_of({256, 32, 0}, hopper);
  CHECK(free.blocks == 8);  // 64 warps of 8
  CHECK(free.share == 1);
  CHECK(free.limit == "threads");
  CHECK(occupancy_of({32, 16, 0}, hopper).limit == "blocks");
  CHECK(occupancy_of({32, 16, 0}, hopper).share == 0.5);
  const Occupancy heavy =
      occupancy_of({256, 128, 0}, hopper);  // 4096 registers per warp, 4 warps per scheduler
  CHECK(heavy.blocks == 2);
  CHECK(heavy.limit == "registers");
  const Occupancy tiled = occupancy_of({128, 32, 100 * 1024}, hopper);  // 101 KiB of 228
  CHECK(tiled.blocks == 2);
  CHECK(tiled.limit == "shared memory");
  CHECK(tiled.share == doctest::Approx(8.0 / 64));
  CHECK(occupancy_of({1024, 96, 0}, hopper).blocks == 0);  // 32 warps of 3072 registers are more than 65,536
  CHECK(occupancy_of({33, 32, 0}, hopper).warps == 2 * occupancy_of({33, 32, 0}, hopper).blocks);
}

#if TINYTORCH_HAS_OCCUPANCY_CALCULATOR
TEST_CASE("random kernels on every known device match the toolkit's calculator") {
  tinytorch::Generator random(7);
  size_t checked = 0;
  for (const auto& capability : {std::pair{7, 0}, {7, 5}, {8, 0}, {8, 6}, {8, 9}, {9, 0}}) {
    const int major = capability.first, minor = capability.second;
    const MultiprocessorLimits sm = limits_of(major, minor);
    cudaOccDeviceProp device;
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = sm.warps * 32;
    device.regsPerBlock = 65536;
    device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.numSms = 100;
    device.sharedMemPerMultiprocessor = static_cast<size_t>(sm.shared_bytes);
    device.sharedMemPerBlock = 49152;
    device.reservedSharedMemPerBlock = static_cast<size_t>(sm.shared_of_system);
    device.sharedMemPerBlockOptin = static_cast<size_t>(sm.shared_bytes - sm.shared_of_system);
    for (int round = 0; round < 4000; ++round) {
      const auto shared_most = static_cast<uint64_t>(sm.shared_bytes - sm.shared_of_system);
      KernelNeeds kernel{1 + static_cast<int>(random.below(1024)), static_cast<int>(random.below(256)),
                         static_cast<int>(random.below(3) == 0 ? 0 : random.below(shared_most))};
      cudaOccFuncAttributes function{};
      function.maxThreadsPerBlock = 1024;
      function.numRegs = kernel.registers;
      function.maxDynamicSharedSizeBytes = shared_most;
      function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
      cudaOccDeviceState state;
      state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
      cudaOccResult result;
      REQUIRE(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, kernel.threads,
                                                      static_cast<size_t>(kernel.shared_bytes)) ==
              CUDA_OCC_SUCCESS);
      const Occupancy ours = occupancy_of(kernel, sm);
      CAPTURE(major);
      CAPTURE(minor);
      CAPTURE(kernel.threads);
      CAPTURE(kernel.registers);
      CAPTURE(kernel.shared_bytes);
      REQUIRE(ours.blocks == result.activeBlocksPerMultiprocessor);
      ++checked;
    }
  }
  CHECK(checked == 24000);
}
#else
TEST_CASE("the toolkit's calculator is not installed: only values computed by hand are checked") {
  MESSAGE("cuda_occupancy.h was not found");
}
#endif

TEST_CASE("invalid launches and unknown devices throw") {
  CHECK(errors::thrown_by([] { occupancy_of({0, 32, 0}, limits_of(9, 0)); }).code == "TT-PROF-03");
  CHECK(errors::thrown_by([] { occupancy_of({1025, 32, 0}, limits_of(9, 0)); }).code == "TT-PROF-03");
  CHECK(errors::thrown_by([] { limits_of(3, 5); }).code == "TT-PROF-02");
}
