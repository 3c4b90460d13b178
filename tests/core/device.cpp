#include <doctest/doctest.h>

#include <tinytorch/core/device.hpp>

namespace tt = tinytorch;

TEST_CASE("devices are compared by type and index, and have a text form") {
  CHECK(tt::cpu == tt::Device{});
  CHECK(tt::cpu != tt::cuda);
  CHECK(tt::Device{tt::DeviceType::cuda, 1} != tt::cuda);
  CHECK(tt::cpu.is_cpu());
  CHECK_FALSE(tt::cpu.is_cuda());
  CHECK(tt::cuda.is_cuda());
  CHECK(tt::cpu.str() == "cpu");
  CHECK(tt::Device{tt::DeviceType::cuda, 3}.str() == "cuda:3");
}
