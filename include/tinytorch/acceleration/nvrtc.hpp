// NVRTC: the CUDA compiler as a library, loaded when the first kernel for a GPU is made.
//
//   std::string problem;
//   const std::vector<char> code = compile_cuda(source, "sm_90a", problem);   // empty: problem says why
//
// A program needs neither the library nor its headers to be built. Without it there are no generated kernels
// on a GPU, and the interpreter runs. The library is libnvrtc.so.13 or .12 of the linker's path, or the one
// that the environment variable TINYTORCH_NVRTC names; TINYTORCH_NVRTC=0 means none. Only its C interface is
// used, which NVIDIA keeps stable: https://docs.nvidia.com/cuda/nvrtc.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <tinytorch/core/config.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::acceleration {

// The functions of the library. A result of 0 is success; a program is an opaque pointer.
struct Nvrtc {
  int (*version)(int*, int*) = nullptr;
  int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(void*, int, const char* const*) = nullptr;
  int (*destroy)(void**) = nullptr;
  int (*log_size)(void*, size_t*) = nullptr;
  int (*log)(void*, char*) = nullptr;
  int (*code_size)(void*, size_t*) = nullptr;
  int (*code)(void*, char*) = nullptr;
  std::string identity;  // its version
  std::string problem;   // why it cannot be used; empty if it can
};

inline Nvrtc load_nvrtc() {
  Nvrtc library;
  const char* const chosen = std::getenv("TINYTORCH_NVRTC");
  if (chosen && std::string_view(chosen) == "0") {
    library.problem = "TINYTORCH_NVRTC=0 switches the compiler for GPUs off";
    return library;
  }
  void* handle = nullptr;
  if (chosen) {
    handle = ::dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
  } else {
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"})
      if (!handle) handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (!handle) {
    const char* const text = ::dlerror();
    library.problem = std::string("NVRTC is not there: ") + (text ? text : "unknown");
    return library;
  }
  const auto find = [&]<class F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(::dlsym(handle, name));
    if (!function && library.problem.empty()) library.problem = std::string("NVRTC has no ") + name;
  };
  find(library.version, "nvrtcVersion");
  find(library.create, "nvrtcCreateProgram");
  find(library.compile, "nvrtcCompileProgram");
  find(library.destroy, "nvrtcDestroyProgram");
  find(library.log_size, "nvrtcGetProgramLogSize");
  find(library.log, "nvrtcGetProgramLog");
  find(library.code_size, "nvrtcGetCUBINSize");
  find(library.code, "nvrtcGetCUBIN");
  int major = 0, minor = 0;
  if (library.problem.empty() && library.version(&major, &minor) == 0)
    library.identity = "NVRTC " + std::to_string(major) + "." + std::to_string(minor);
  return library;
}

// The library of this process, which is loaded at the first call.
inline const Nvrtc& nvrtc() {
  static const Nvrtc library = load_nvrtc();
  return library;
}

// The options that every kernel is compiled with. A function without __device__ is one for the device.
inline std::vector<std::string> nvrtc_options(const std::string& architecture) {
  return {"--gpu-architecture=" + architecture, "--std=c++20", "--device-as-default-execution-space",
          "--disable-warnings"};
}

// Compiles a source to the code of a GPU of that architecture, such as sm_90a. Empty if that failed.
inline std::vector<char> compile_cuda(const std::string& source, const std::string& architecture,
                                      std::string& problem) {
  const Nvrtc& library = nvrtc();
  problem = library.problem;
  if (!problem.empty()) return {};
  void* program = nullptr;
  if (library.create(&program, source.c_str(), "tinytorch_kernel.cu", 0, nullptr, nullptr) != 0) {
    problem = "NVRTC cannot create a program";
    return {};
  }
  const std::vector<std::string> options = nvrtc_options(architecture);
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  std::vector<char> code;
  size_t size = 0;
  const int result = library.compile(program, static_cast<int>(words.size()), words.data());
  if (result == 0 && library.code_size(program, &size) == 0 && size > 0) {
    code.resize(size);
    if (library.code(program, code.data()) != 0) code.clear();
  }
  if (code.empty()) {
    std::string log;
    if (library.log_size(program, &size) == 0 && size > 1) {
      log.resize(size);
      library.log(program, log.data());
    }
    problem = "NVRTC failed (" + std::to_string(result) + "): " + log.substr(0, 2000);
  }
  library.destroy(&program);
  return code;
}

}  // namespace tinytorch::inline TT_BUILD::acceleration
