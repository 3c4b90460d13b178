// Code that is loaded at run time: what is not code is refused with a reason. That kernels run is tested in
// acceleration/device_kernels.cpp, which compiles them.
#include <doctest/doctest.h>

#include <string>
#include <tinytorch/backend/cuda/runtime/loaded_kernel.hpp>
#include <vector>

using namespace tinytorch;

TEST_CASE("what is not code is refused with a reason") {
  for (const std::string& bytes : {std::string(), std::string("no code"), std::string(4096, '\0')}) {
    std::string problem;
    CHECK(backend::cuda::load_kernel(bytes, "tinytorch_kernel", problem) == nullptr);
    CHECK(problem != "");
  }
}

TEST_CASE("the architecture is that of the current device, and empty without a GPU") {
  const std::string name = backend::cuda::architecture();
  if (name.empty()) {
    CHECK((!backend::cuda::is_available() ||
           backend::cuda::properties(0).name.find("emulator") != std::string::npos));
  } else {
    const backend::cuda::DeviceProperties& device =
        backend::cuda::properties(backend::cuda::current_device());
    CHECK(name == "sm_" + std::to_string(device.major) + std::to_string(device.minor));
  }
}
