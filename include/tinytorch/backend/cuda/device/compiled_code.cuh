// The devices that this program's code was compiled for. Code for an older device also runs on a newer one,
// but its kernels of newer instructions are empty there: the device alone does not tell which kernels work.
#pragma once

#include <tinytorch/backend/cuda/runtime/native.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Each kind of code has the instructions of those before it.
enum class DeviceCode {
  older = 1,
  sm_80,  // mma, ldmatrix, cp.async
  sm_90,  // clusters, griddepcontrol
  sm_90a  // wgmma, which code for sm_90 does not have, although it runs on the same device
};

// The kind that is being compiled.
#if TINYTORCH_CUDA_SIM || defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr DeviceCode kDeviceCode = DeviceCode::sm_90a;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
inline constexpr DeviceCode kDeviceCode = DeviceCode::sm_90;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
inline constexpr DeviceCode kDeviceCode = DeviceCode::sm_80;
#else
inline constexpr DeviceCode kDeviceCode = DeviceCode::older;
#endif
inline constexpr bool kHasWarpgroups = kDeviceCode == DeviceCode::sm_90a;

#if TINYTORCH_CUDA_SIM
inline bool compiled_for(DeviceCode) { return true; }
#else
// A kernel that tells by its limit of threads which code the driver has loaded for the device.
static __global__ void __launch_bounds__(32 * static_cast<int>(kDeviceCode)) device_code_probe() {}

inline bool compiled_for(DeviceCode needed) {
  static const int loaded = [] {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, device_code_probe), "asking for the limits of a kernel");
    return attributes.maxThreadsPerBlock / 32;
  }();
  return loaded >= static_cast<int>(needed);
}
#endif

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
