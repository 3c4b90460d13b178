// Compiles CUDA source to machine code of one GPU architecture with NVRTC, in memory. No GPU is needed.
#pragma once

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tinytorch/core/config.hpp>
#include <vector>

#ifdef TINYMLPERF_NVRTC_INCLUDE
#include <nvrtc.h>
#endif

namespace tinymlperf::device {

struct SourceFile {
  std::string name, text;
};

struct MachineCode {
  std::string cubin;
  std::map<std::string, std::string>
      symbols;  // mangled name of each kernel, by the name in the plan: "rows<256>"
};

#ifdef TINYMLPERF_NVRTC_INCLUDE

namespace detail {

class NvrtcProgram {
 public:
  NvrtcProgram(const SourceFile& source, const std::vector<SourceFile>& headers) {
    std::vector<const char*> names, texts;
    for (const SourceFile& h : headers) names.push_back(h.name.c_str()), texts.push_back(h.text.c_str());
    require(nvrtcCreateProgram(&program_, source.text.c_str(), source.name.c_str(),
                               static_cast<int>(headers.size()), texts.data(), names.data()));
  }
  ~NvrtcProgram() { nvrtcDestroyProgram(&program_); }
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;

  static void require(nvrtcResult result) {
    if (result != NVRTC_SUCCESS)
      throw std::invalid_argument(std::string("NVRTC: ") + nvrtcGetErrorString(result));
  }
  nvrtcProgram get() const { return program_; }
  std::string log() const {
    size_t bytes = 0;
    require(nvrtcGetProgramLogSize(program_, &bytes));
    std::string out(bytes, '\0');
    require(nvrtcGetProgramLog(program_, out.data()));
    out.resize(out.find('\0') == std::string::npos ? out.size() : out.find('\0'));
    return out;
  }
  std::string cubin() const {
    size_t bytes = 0;
    require(nvrtcGetCUBINSize(program_, &bytes));
    std::string out(bytes, '\0');
    require(nvrtcGetCUBIN(program_, out.data()));
    return out;
  }

 private:
  nvrtcProgram program_ = nullptr;
};

}  // namespace detail

// Definitions that nvcc gets from headers of the host, which NVRTC lacks.
inline const SourceFile& prelude() {
  static const SourceFile header{"tinymlperf_prelude.cuh", R"(
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
)"};
  return header;
}

// Compiles `source` for `architecture`, such as "sm_90a". The source may include `headers` and CUDA's own.
// Throws std::invalid_argument if it does not compile (with the compiler's log) or if it lacks one of
// `kernels`.
inline MachineCode compile(const SourceFile& source, std::vector<SourceFile> headers,
                           const std::set<std::string>& kernels, const std::string& architecture) {
  using detail::NvrtcProgram;
  headers.push_back(prelude());
  const NvrtcProgram program(source, headers);
  for (const std::string& name : kernels)
    NvrtcProgram::require(nvrtcAddNameExpression(program.get(), name.c_str()));
  const std::string target = "--gpu-architecture=" + architecture, before = "--pre-include=" + prelude().name;
  const char* const options[] = {target.c_str(), "--std=c++20", "--generate-line-info",
                                 "--include-path=" TINYMLPERF_NVRTC_INCLUDE, before.c_str()};
  if (nvrtcCompileProgram(program.get(), 5, options) != NVRTC_SUCCESS)
    throw std::invalid_argument(source.name + " does not compile:\n" + program.log());
  MachineCode out{program.cubin(), {}};
  for (const std::string& name : kernels) {
    const char* symbol = nullptr;
    NvrtcProgram::require(nvrtcGetLoweredName(program.get(), name.c_str(), &symbol));
    out.symbols.emplace(name, symbol);
  }
  return out;
}

#else

inline constexpr const char* kWithoutNvrtc =
    "this program was built without CUDA and cannot run device code; configure with -DTINYTORCH_WITH_CUDA=ON "
    "and a toolkit of 12.6 or later with NVRTC";

inline MachineCode compile(const SourceFile& source, const std::vector<SourceFile>&,
                           const std::set<std::string>&, const std::string&) {
  throw std::invalid_argument(source.name + ": " + kWithoutNvrtc);
}

#endif

}  // namespace tinymlperf::device
