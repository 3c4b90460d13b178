// CUDA's native types and error checks, for the .cuh files.
//
// check() throws an error of the CUDA API as Error, with its name, its text and a hint. A kernel runs after
// launch() has returned, so its error is reported by a later call, together with the names of the last
// kernels launched. In a build with assertions each launch waits for its kernel, so the report names the
// right kernel.
#pragma once

#include <tinytorch/core/config.hpp>

#if !TINYTORCH_WITH_CUDA
#error "a .cuh file of tinytorch needs -DTINYTORCH_WITH_CUDA=1, as do all files of the program"
#endif
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/cuda.hpp>
#else
#include <cuda_runtime.h>
#endif

#include <tinytorch/backend/cuda/runtime/runtime.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline cudaStream_t native(StreamHandle* stream) { return reinterpret_cast<cudaStream_t>(stream); }
inline cudaEvent_t native(EventHandle* event) { return reinterpret_cast<cudaEvent_t>(event); }
// The current stream of the current device.
inline cudaStream_t native_stream() { return native(current_stream()); }

// DeviceGuard for destructors: ignores errors, because at program exit there may be no device left.
struct QuietDeviceGuard {
  int before = 0;
  explicit QuietDeviceGuard(int device) {
    (void)cudaGetDevice(&before);
    if (device != before) (void)cudaSetDevice(device);
  }
  ~QuietDeviceGuard() { (void)cudaSetDevice(before); }
  QuietDeviceGuard(const QuietDeviceGuard&) = delete;
  QuietDeviceGuard& operator=(const QuietDeviceGuard&) = delete;
};

[[noreturn]] void fail_cuda(cudaError_t error, const std::string& what, Loc loc);

// Throws if `error` is not cudaSuccess. `what` names the failed action; the message is "<what>: <text>
// (<name>)".
inline void check(cudaError_t error, const char* what, TT_LOC) {
  if (error != cudaSuccess) fail_cuda(error, what, loc);
}

// Called after each launch. kernel: the address of the __global__ function.
void check_launch(const void* kernel, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
