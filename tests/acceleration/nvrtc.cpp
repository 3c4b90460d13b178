// The compiler for GPUs as a library: what it compiles, and what it says of text with errors.
#include <doctest/doctest.h>

#include <string>
#include <tinytorch/acceleration/nvrtc.hpp>

using namespace tinytorch::acceleration;

TEST_CASE("a kernel, text with an error, and an architecture that does not exist") {
  std::string problem;
  if (!nvrtc().problem.empty()) {
    CHECK(compile_cuda("", "sm_90", problem).empty());
    CHECK(problem == nvrtc().problem);
    return;
  }
  CHECK(nvrtc().identity.starts_with("NVRTC "));
  const std::string kernel = "extern \"C\" __global__ void f(float* x) { x[threadIdx.x] = sqrtf(x[0]); }\n";
  const std::vector<char> code = compile_cuda(kernel, "sm_90", problem);
  CHECK(problem == "");
  REQUIRE(code.size() > 4);
  CHECK(std::string(code.data() + 1, 3) == "ELF");
  CHECK(compile_cuda(kernel + "int g( {", "sm_90", problem).empty());
  CHECK(problem.find("error") != std::string::npos);
  CHECK(compile_cuda(kernel, "sm_1", problem).empty());
  CHECK(problem != "");
}

TEST_CASE("a library that is not there") {
  setenv("TINYTORCH_NVRTC", "/nowhere/libnvrtc.so", 1);
  CHECK(load_nvrtc().problem.find("/nowhere/libnvrtc.so") != std::string::npos);
  setenv("TINYTORCH_NVRTC", "0", 1);
  CHECK(load_nvrtc().problem.find("off") != std::string::npos);
  unsetenv("TINYTORCH_NVRTC");
}
