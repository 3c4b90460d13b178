// Device memory of the emulator: new memory is NaN, and leaks are listed.
#include <support/device.hpp>
#include <tinytorch/core/error.hpp>

#if TINYTORCH_CUDA_SIM
#include <cmath>
#include <tinytorch/backend/cuda/sim/emulator.hpp>

namespace sim = tinytorch::backend::cuda::sim;

TEST_CASE("memory that is not freed is listed") {
  const std::string before = sim::leaks();
  void* const block = sim::device_allocate(12345);
  const std::string during = sim::leaks();
  CHECK(during.find("were not freed") != std::string::npos);
  CHECK(during.find("12345 bytes") != std::string::npos);
  CHECK(sim::device_free(block));
  CHECK(sim::leaks() == before);
  CHECK(!sim::device_free(block));
  int host = 0;
  CHECK(!sim::device_free(&host));
}

TEST_CASE("allocations fail only if they exceed the size of the device") {
  const size_t total = sim::device_bytes_total(), used = total - sim::device_bytes_free();
  sim::set_device_bytes_total(used + 1000);
  CHECK(sim::device_allocate(1001) == nullptr);
  void* const block = sim::device_allocate(1000);
  CHECK(block != nullptr);
  CHECK(sim::device_bytes_free() == 0);
  CHECK(sim::device_free(block));
  sim::set_device_bytes_total(total);
}

TEST_CASE("new memory is NaN, even if it was used before") {
  for (int i = 0; i < 40; ++i) {  // more than is kept before addresses are reused
    auto* const block = static_cast<float*>(sim::device_allocate(size_t{4} << 20));
    REQUIRE(block != nullptr);
    CHECK(std::isnan(block[0]));
    CHECK(std::isnan(block[(size_t{1} << 20) - 1]));
    block[0] = block[(size_t{1} << 20) - 1] = 1;
    CHECK(sim::device_free(block));
  }
}

#else
TEST_CASE("device memory: the test needs the emulator" * doctest::skip()) {}
#endif
