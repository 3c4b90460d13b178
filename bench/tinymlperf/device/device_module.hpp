// Machine code that is loaded on a GPU, and its launches on the current stream. A module that is loaded again
// has no state of earlier launches.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>
#include <span>
#include <tinymlperf/device/nvrtc.hpp>
#include <tinymlperf/device/plan.hpp>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>

#ifdef TINYMLPERF_NVRTC_INCLUDE
#include <cuda_runtime_api.h>
#endif

namespace tinymlperf::device {

// The value of a kernel's argument.
struct Value {
  Argument::Kind kind;
  std::array<std::byte, 8> bytes{};  // little-endian; the kernel reads the first 4 or all 8

  template <class T>
  static Value of(Argument::Kind kind, T value) {
    Value out{kind};
    std::memcpy(out.bytes.data(), &value, sizeof value);
    return out;
  }
  // True if it can be passed for a parameter of `parameter` bytes.
  bool fits(size_t parameter) const {
    if (kind == Argument::Kind::pointer) return parameter == sizeof(void*);
    if (kind == Argument::Kind::real) return parameter == sizeof(float);
    int64_t integer = 0;
    std::memcpy(&integer, bytes.data(), sizeof integer);
    return parameter == 8 || (parameter == 4 && integer >= std::numeric_limits<int32_t>::min() &&
                              integer <= std::numeric_limits<int32_t>::max());
  }
};

#ifdef TINYMLPERF_NVRTC_INCLUDE

class DeviceModule {
 public:
  explicit DeviceModule(const MachineCode& code) : symbols_(code.symbols) {
    require("load machine code",
            cudaLibraryLoadData(&library_, code.cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  ~DeviceModule() { cudaLibraryUnload(library_); }
  DeviceModule(const DeviceModule&) = delete;
  DeviceModule& operator=(const DeviceModule&) = delete;

  void launch(const std::string& name, const Dimensions& d, std::span<const Value> arguments) const {
    cudaKernel_t kernel = nullptr;
    require("find " + name, cudaLibraryGetKernel(&kernel, library_, symbols_.at(name).c_str()));
    require_parameters(name, kernel, arguments);
    if (d.shared > kDefaultSharedBytes) {
      const int device = tinytorch::backend::cuda::current_device();
      require("set the shared memory of " + name,
              cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(d.shared), device));
    }
    std::vector<void*> pointers;
    for (const Value& v : arguments) pointers.push_back(const_cast<std::byte*>(v.bytes.data()));
    const auto* stream = tinytorch::backend::cuda::current_stream();
    require("launch " + name,
            cudaLaunchKernel(
                reinterpret_cast<const void*>(kernel), three(d.grid), three(d.block), pointers.data(),
                static_cast<size_t>(d.shared),
                reinterpret_cast<cudaStream_t>(const_cast<tinytorch::backend::cuda::StreamHandle*>(stream))));
  }

 private:
  static constexpr int64_t kDefaultSharedBytes = 48 << 10;  // a kernel must opt in to more

  static void require(const std::string& what, cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error("cannot " + what + ": " + cudaGetErrorString(error));
  }
  static dim3 three(const std::array<int64_t, 3>& d) {
    return {static_cast<unsigned>(d[0]), static_cast<unsigned>(d[1]), static_cast<unsigned>(d[2])};
  }
  // Checks the arguments against the kernel's parameters, since the driver reads as many bytes as the kernel
  // declares and checks nothing.
  static void require_parameters(const std::string& name, cudaKernel_t kernel,
                                 std::span<const Value> arguments) {
    size_t count = 0, offset = 0, bytes = 0;
    while (cudaFuncGetParamInfo(reinterpret_cast<const void*>(kernel), count, &offset, &bytes) ==
           cudaSuccess) {
      if (count < arguments.size() && !arguments[count].fits(bytes))
        throw std::invalid_argument(
            fmt::format("{}: argument {} does not fit its parameter of {} bytes", name, count, bytes));
      ++count;
    }
    (void)cudaGetLastError();  // the last call fails because there is no further parameter
    if (count != arguments.size())
      throw std::invalid_argument(
          fmt::format("{} has {} parameters, but the plan has {} arguments", name, count, arguments.size()));
  }

  std::map<std::string, std::string> symbols_;
  cudaLibrary_t library_ = nullptr;
};

#else

class DeviceModule {
 public:
  explicit DeviceModule(const MachineCode&) { throw std::invalid_argument(kWithoutNvrtc); }
  void launch(const std::string&, const Dimensions&, std::span<const Value>) const {}
};

#endif

}  // namespace tinymlperf::device
