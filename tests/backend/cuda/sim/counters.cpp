// Counters of small kernels, compared with numbers that are computed by hand.
#include <support/device.hpp>
#include <tinytorch/core/error.hpp>

namespace tt = tinytorch;

#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/device/kernel.cuh>

namespace cuda = tinytorch::backend::cuda;
namespace sim = tinytorch::backend::cuda::sim;

namespace {

__global__ void copy_every(float* out, const float* x, int stride) {
  out[threadIdx.x] = x[static_cast<int>(threadIdx.x) * stride];
}
__global__ void column_of_tile(float* out, int width) {
  float* const tile = cuda::dynamic_shared<float>();
  for (int i = 0; i < 32; ++i) tile[i * width + static_cast<int>(threadIdx.x)] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[static_cast<int>(threadIdx.x) * width];
}

template <class... Parameters, class... Arguments>
sim::KernelCounts counts_of(void (*kernel)(Parameters...), size_t shared_bytes, Arguments... arguments) {
  sim::clear_counts();
  sim::set_counting(true);
  cuda::launch(kernel, cuda::LaunchConfig{dim3(1), dim3(32), shared_bytes}, arguments...);
  sim::set_counting(false);
  const auto all = sim::counts();
  REQUIRE(all.size() == 1);
  return all[0];
}

}  // namespace

TEST_CASE("coalesced accesses share sectors of 32 bytes, strided accesses do not") {
  const test::DeviceBytes x(32 * 32 * 4), out(128);
  auto* const to = reinterpret_cast<float*>(out.data());
  const auto* const from = reinterpret_cast<const float*>(x.data());
  const auto near = counts_of(copy_every, 0, to, from, 1);
  CHECK(near.kernel == "copy_every");
  CHECK(near.requests == 2);  // a read and a write of one warp
  CHECK(near.sectors == 8);
  CHECK(near.ideal_sectors == 8);
  CHECK(near.bytes_read == 128);
  CHECK(near.bytes_written == 128);
  CHECK(near.threads == 32);
  CHECK(near.barriers == 0);
  const auto far = counts_of(copy_every, 0, to, from, 8);
  CHECK(far.sectors == 32 + 4);
  CHECK(far.ideal_sectors == 8);
  const auto same = counts_of(copy_every, 0, to, from, 0);
  CHECK(same.sectors == 1 + 4);
  CHECK(same.ideal_sectors == 1 + 4);
}

TEST_CASE("bank conflicts: a column takes 32 wavefronts with rows of 32 words, and one with rows of 33") {
  const test::DeviceBytes out(128);
  auto* const to = reinterpret_cast<float*>(out.data());
  const auto bad = counts_of(column_of_tile, 32 * 33 * 4, to, 32);
  CHECK(bad.shared_requests == 33);
  CHECK(bad.wavefronts == 32 + 32);
  CHECK(bad.ideal_wavefronts == 33);
  CHECK(bad.barriers == 1);
  const auto good = counts_of(column_of_tile, 32 * 33 * 4, to, 33);
  CHECK(good.wavefronts == 33);
  CHECK(sim::counts_table().find("column_of_tile") != std::string::npos);
}

#else
TEST_CASE("accesses: the test needs the emulator" * doctest::skip()) {}
#endif
