// Compilation of device code if the program was built with CUDA. No GPU is needed.
#include <doctest/doctest.h>

#include <tinymlperf/device/nvrtc.hpp>

using namespace tinymlperf::device;

namespace {

const SourceFile kSource{"rows.cu", R"(
#include "part.cuh"
template <int n>
__global__ void twice(const float* x, float* out) { out[threadIdx.x] = scaled(x[threadIdx.x % n], INFINITY > 0 ? 2.0f : 1.0f); }
__global__ void plain(float* out) { *out = 1; }
)"};
const std::vector<SourceFile> kHeaders{
    {"part.cuh", "__device__ float scaled(float x, float s) { return x * s; }\n"}};

std::string reason_of(const SourceFile& source, const std::set<std::string>& kernels) {
  try {
    (void)compile(source, kHeaders, kernels, "sm_80");
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

#ifdef TINYMLPERF_NVRTC_INCLUDE

TEST_CASE("a source is compiled to machine code, and each kernel has a symbol") {
  const MachineCode code = compile(kSource, kHeaders, {"twice<32>", "plain"}, "sm_80");
  CHECK(code.cubin.substr(1, 3) == "ELF");
  CHECK(has(code.symbols.at("plain"), "plain"));
  CHECK(has(code.symbols.at("twice<32>"), "twice"));
  CHECK(code.symbols.at("twice<32>") != "twice<32>");
  CHECK(compile(kSource, kHeaders, {"plain"}, "sm_90a").cubin != code.cubin);
}

TEST_CASE("compile errors are reported with file and line") {
  CHECK(has(reason_of({"bad.cu", "__global__ void f() { int x = ; }"}, {"f"}), "bad.cu(1)"));
  CHECK(has(reason_of(kSource, {"missing"}), "missing"));
  CHECK(has(reason_of({"host.cu", "#include <iostream>\n"}, {}), "host.cu(1)"));
}

#else

TEST_CASE("without CUDA the error says that the program was built without CUDA") {
  CHECK(has(reason_of(kSource, {"plain"}), "rows.cu: this program was built without CUDA"));
}

#endif
