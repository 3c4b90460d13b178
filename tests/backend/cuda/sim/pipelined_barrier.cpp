// PipelinedBarrier: warps pass values from iteration to iteration through a ring buffer in shared memory.
#include <support/device_array.hpp>

#if TINYTORCH_CUDA_SIM
#include <support/faults.hpp>
#include <tinytorch/backend/cuda/device/pipelined_barrier.cuh>

namespace cuda = tinytorch::backend::cuda;
using namespace test;

namespace {

constexpr int kThreads = 128, kPlaces = 4;

enum class Fault { none, no_wait, no_arrival };

// out[iteration, i] = the value that the thread before i has put into the ring buffer for this iteration. The
// last warp may skip the last iteration.
__global__ void pass_on(float* out, int iterations, Fault fault) {
  __shared__ uint64_t state;
  __shared__ float places[kPlaces][kThreads];
  const cuda::PipelinedBarrier barrier(&state);
  const int thread = static_cast<int>(threadIdx.x), before = (thread + kThreads - 1) % kThreads;
  const auto put = [&](int iteration) {
    places[iteration % kPlaces][thread] = static_cast<float>(iteration * 1000 + thread);
  };
  put(0);
  __syncthreads();
  const int mine = thread < kThreads - 32 ? iterations : iterations - 1;
  for (int iteration = 0; iteration < mine; ++iteration) {
    if (iteration > 0 && fault != Fault::no_wait) barrier.wait(static_cast<unsigned>(iteration - 1));
    put(iteration + 1);  // for the next iteration of the others; this place was last read in iteration - 3
    if (fault != Fault::no_arrival || iteration < 3 || thread >= 32) barrier.arrive();
    out[iteration * kThreads + thread] = places[iteration % kPlaces][before];
  }
}

}  // namespace

TEST_CASE("values that were written before a warp arrived are visible in the next iteration" *
          needs_devices()) {
  const int iterations = 37;
  DeviceArray out = DeviceArray::random(f32, {iterations, kThreads}, 1);
  REQUIRE(fault_of(pass_on, {dim3(1), dim3(kThreads)}, out.view().as<float>(), iterations, Fault::none) ==
          "");
  const std::vector<double> got = out.values();
  for (int iteration = 0; iteration < iterations; ++iteration) {
    for (int i = 0; i < (iteration < iterations - 1 ? kThreads : kThreads - 32); ++i) {
      REQUIRE(got[static_cast<size_t>(iteration * kThreads + i)] ==
              iteration * 1000 + (i + kThreads - 1) % kThreads);
    }
  }
}

TEST_CASE("without the wait the emulator reports a race" * needs_devices()) {
  DeviceArray out = DeviceArray::random(f32, {5, kThreads}, 1);
  CHECK(tells(fault_of(pass_on, {dim3(1), dim3(kThreads)}, out.view().as<float>(), 5, Fault::no_wait),
              {"race"}));
}

TEST_CASE("a warp that does not arrive causes a deadlock" * needs_devices()) {
  DeviceArray out = DeviceArray::random(f32, {9, kThreads}, 1);
  CHECK(tells(fault_of(pass_on, {dim3(1), dim3(kThreads)}, out.view().as<float>(), 9, Fault::no_arrival),
              {"deadlock", "wait at the mbarrier at"}));
}

#else
TEST_CASE("faults: the test needs the emulator" * doctest::skip()) {}
#endif
