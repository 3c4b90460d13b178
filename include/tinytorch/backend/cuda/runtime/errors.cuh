// Errors of the CUDA API and of kernels, thrown as Error with a code and a hint. native.cuh explains when the
// error of a kernel is reported.
//
//   TT-CUDA-03   a call failed               TT-CUDA-05   not allowed while a graph is captured
//   TT-CUDA-04   no usable device or driver  TT-CUDA-06   a kernel failed; its device cannot be used any more
#pragma once

#include <cxxabi.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <tinytorch/backend/cuda/runtime/native.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Ring buffer of the last launches of the program. Relaxed atomics are enough, because the names are only a
// hint in error messages.
struct LaunchLog {
  static constexpr size_t kNames = 8;
  std::array<std::atomic<const char*>, kNames> names{};
  std::atomic<size_t> next{0};

  void add(const char* name) {
    names[next.fetch_add(1, std::memory_order_relaxed) % kNames].store(name, std::memory_order_relaxed);
  }
  // "c, b, a", newest first; empty if nothing was launched.
  std::string list() const;
};
inline LaunchLog launch_log;

// Demangles a kernel name and removes the library's namespace, the result type void and the parameters:
//   "_ZN9tinytorch...5scaleIfEEvPT_l" -> "scale<float>"
inline std::string readable_name(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string out = text ? text : name;
  std::free(text);
  if (out.starts_with("void ")) out.erase(0, 5);
  const std::string own = "::backend::cuda::", root = "tinytorch::";
  for (size_t at = out.find(own); at != std::string::npos; at = out.find(own)) {
    const size_t from = out.rfind(root, at);
    if (from == std::string::npos) break;
    out.erase(from, at + own.size() - from);
  }
  const std::string nameless = "(anonymous namespace)";
  int depth = 0;  // nesting depth of template arguments, which may contain parentheses
  for (size_t at = 0; at < out.size(); ++at) {
    if (out[at] == '(' && depth == 0 && out.compare(at, nameless.size(), nameless) != 0) out.resize(at);
    if (at < out.size()) depth += (out[at] == '<') - (out[at] == '>');
  }
  return out;
}

inline std::string LaunchLog::list() const {
  std::string out;
  const size_t end = next.load(std::memory_order_relaxed);
  for (size_t k = 0; k < kNames && k < end; ++k) {
    const char* const name = names[(end - 1 - k) % kNames].load(std::memory_order_relaxed);
    if (name) out += (out.empty() ? "" : ", ") + readable_name(name);
  }
  return out;
}

// Error code and hint for a CUDA error, found by its name and not by its number, because the list of errors
// grows with every CUDA version.
struct ErrorAdvice {
  const char* code;
  const char* hint;
};
inline ErrorAdvice advice_for(const std::string& name) {
  const auto any_of = [&](std::initializer_list<const char*> parts) {
    for (const char* part : parts) {
      if (name.find(part) != std::string::npos) return true;
    }
    return false;
  };
  if (any_of({"StreamCapture"})) {
    return {
        "TT-CUDA-05",
        "a captured step may only queue device work: no .item(), .to(cpu) or printing, no synchronize(), no "
        "stream that the capture did not start from; run the step once before capturing it"};
  }
  if (any_of({"NoDevice", "InsufficientDriver", "InitializationError", "SystemDriverMismatch",
              "DevicesUnavailable", "SystemNotReady"})) {
    return {"TT-CUDA-04",
            "check nvidia-smi: a CUDA tensor needs a GPU and a driver at least as new as this program; after "
            "fork() the child cannot use one, but a program that it starts by exec() can"};
  }
  if (any_of({"NoKernelImageForDevice", "UnsupportedPtx", "InvalidPtx"})) {
    return {"TT-CUDA-04",
            "the kernels were not compiled for this device: add its architecture "
            "(TINYTORCH_CUDA_ARCHITECTURES, or nvcc -gencode)"};
  }
  if (any_of({"IllegalAddress", "MisalignedAddress", "LaunchFailure", "LaunchTimeout", "Assert",
              "IllegalInstruction", "InvalidAddressSpace", "InvalidPc", "HardwareStackError"})) {
    return {"TT-CUDA-06",
            "the device cannot be used any more by this program; compute-sanitizer names the faulty access, "
            "and a build with assertions (Debug) the kernel"};
  }
  if (any_of({"MemoryAllocation"}))
    return {"TT-MEM-02", "use a smaller batch, or free tensors no longer needed"};
  return {"TT-CUDA-03", nullptr};
}

void fail_cuda(cudaError_t error, const std::string& what, Loc loc) {
  (void)cudaGetLastError();  // clears an error that is not fatal, so that the next launch does not report it
  const std::string name = cudaGetErrorName(error);
  const ErrorAdvice advice = advice_for(name);
  std::string text = what + ": " + cudaGetErrorString(error) + " (" + name + ")";
  const std::string last = launch_log.list();
  if (!last.empty()) text += "\n  last kernels launched, newest first: " + last;
  if (advice.hint) text += std::string("\n  hint: ") + advice.hint;
  fail(advice.code, text, loc);
}

// Name of a kernel by its address. The name is cached per thread, because cudaFuncGetName costs more than a
// launch.
inline const char* kernel_name(const void* kernel) {
  struct Known {
    const void* kernel = nullptr;
    const char* name = nullptr;
  };
  thread_local std::array<Known, 512> known;
  Known& slot = known[(reinterpret_cast<uintptr_t>(kernel) >> 4) % known.size()];
  if (slot.kernel != kernel) {
    const char* name = "a kernel";
#if TINYTORCH_CUDA_SIM || CUDART_VERSION >= 12030  // cudaFuncGetName is new in CUDA 12.3
    if (cudaFuncGetName(&name, kernel) != cudaSuccess) {
      (void)cudaGetLastError();
      name = "a kernel";
    }
#endif
    slot = {kernel, name};
  }
  return slot.name;
}

void note_launch(const char* kernel) {
  launch_log.add(kernel);
  if (launches_counted()) count_launch(kernel);
}

// `error` is the result of the launch itself.
inline void finish_launch(cudaError_t error, const char* kernel, Loc loc) {
  note_launch(kernel);
  if (error != cudaSuccess) fail_cuda(error, "launching " + readable_name(kernel), loc);
#ifndef NDEBUG
  if (is_capturing()) return;
  error = cudaStreamSynchronize(native_stream());
  if (error != cudaSuccess) fail_cuda(error, "running " + readable_name(kernel), loc);
#endif
}

void check_after_launch(const char* kernel) { finish_launch(cudaGetLastError(), kernel, Loc::current()); }

void check_launch(const void* kernel, Loc loc) {
  const cudaError_t error = cudaGetLastError();  // read first, because kernel_name() may change it
  finish_launch(error, kernel_name(kernel), loc);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
