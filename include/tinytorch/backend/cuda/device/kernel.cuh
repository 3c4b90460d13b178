// Base of every CUDA kernel: the CUDA language (by nvcc or the emulator), launch(), and grid arithmetic.
//
//   static __global__ void scale(float* x, int64_t n, float by) { ... }
//   launch(scale, over(n, 256), x, n, 2.0f);
//
// launch() queues the kernel on the current stream (runtime.hpp). Kernels are static, are launched only by
// launch(), and access dynamic shared memory by dynamic_shared<T>(), so that one source compiles with nvcc
// and for the emulator.
#pragma once

#include <tinytorch/backend/cuda/device/dependent_launch.cuh>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kWarp = 32;                   // threads per warp
inline constexpr size_t kSharedByDefault = 49152;  // bytes of shared memory per block without opt-in

struct LaunchConfig {
  dim3 grid, block;
  size_t shared_bytes = 0;   // dynamic shared memory per block
  unsigned cluster = 1;      // cluster size: neighbouring blocks in x that run at the same time (cluster.cuh)
  bool cooperative = false;  // cooperative launch: all blocks run at the same time (team.cuh)
  bool early = false;        // the kernel calls wait_for_previous_kernel() (dependent_launch.cuh)
};

// The old name of ceil_div (core/shape.hpp).
[[deprecated("since 0.1.0: call ceil_div; divided_up ends with 0.2.0")]] inline int64_t divided_up(
    int64_t a, int64_t b) {
  return ceil_div(a, b);
}

inline constexpr int64_t kMostGridRows = 65535;  // of a grid, along y

// Calls work(first, count) for parts of at most `most` of n things.
template <class F>
void for_each_part(int64_t n, int64_t most, F&& work) {
  for (int64_t first = 0; first < n; first += most) work(first, n - first < most ? n - first : most);
}

// A grid with one thread per element and `block` threads per block.
inline LaunchConfig over(int64_t elements, unsigned block) {
  return {dim3(static_cast<unsigned>(ceil_div(elements, block))), dim3(block)};
}

// The configuration of the same grid, launched early.
inline LaunchConfig early(LaunchConfig config) {
  config.early = true;
  return config;
}

#if !TINYTORCH_CUDA_SIM
// The native configuration, with the cooperative, the cluster or the early attribute. `attribute` must
// outlive the result.
inline cudaLaunchConfig_t with_attribute(const LaunchConfig& config, cudaLaunchAttribute& attribute) {
  if (config.cooperative) {
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  } else if (config.early && config.cluster == 1) {
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  } else {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {config.cluster, 1, 1};
  }
  return {config.grid, config.block, config.shared_bytes, native_stream(), &attribute, 1};
}
template <class... Parameters>
void allow_shared_memory(void (*kernel)(Parameters...), size_t bytes) {
  if (2 * bytes <= kSharedByDefault) return;  // the other half is left for static shared memory
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "requesting more shared memory");
}
#endif

// Queues a kernel on the current stream. A grid without blocks queues nothing.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchConfig& config, Arguments&&... arguments) {
  if (config.grid.x == 0 || config.grid.y == 0 || config.grid.z == 0) return;
  const void* const entry = reinterpret_cast<const void*>(kernel);
#if TINYTORCH_CUDA_SIM
  sim::run_grid(entry, config.grid, config.block, config.shared_bytes, native_stream(),
                [=] { kernel(static_cast<Parameters>(arguments)...); });
#else
  allow_shared_memory(kernel, config.shared_bytes);
  const bool early = config.early && config.cluster == 1 && pays_to_start_early(config.grid);
  if (config.cluster == 1 && !config.cooperative && !early) {
    kernel<<<config.grid, config.block, config.shared_bytes, native_stream()>>>(
        static_cast<Parameters>(arguments)...);
  } else {
    cudaLaunchAttribute attribute{};
    const cudaLaunchConfig_t all = with_attribute(config, attribute);
    check(cudaLaunchKernelEx(&all, kernel, static_cast<Parameters>(arguments)...),
          "launching a cooperative grid, clusters or a dependent kernel");
  }
#endif
  check_launch(entry);
  if (launches_counted())
    describe_launch(entry, static_cast<int>(config.block.x * config.block.y * config.block.z),
                    config.shared_bytes);
}

// Number of blocks that are resident on the device at the same time: the grid size of a persistent kernel.
template <class... Parameters>
int64_t resident_blocks(void (*kernel)(Parameters...), const LaunchConfig& config) {
  int each = 0;
#if !TINYTORCH_CUDA_SIM
  allow_shared_memory(kernel, config.shared_bytes);
  if (config.cluster > 1) {
    cudaLaunchAttribute size{};
    cudaLaunchConfig_t all = with_attribute(config, size);
    all.gridDim = dim3(config.cluster);
    check(cudaOccupancyMaxActiveClusters(&each, kernel, &all), "reading the occupancy of clusters");
    return static_cast<int64_t>(each > 1 ? each : 1) * config.cluster;
  }
#endif
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, static_cast<int>(config.block.x),
                                                      config.shared_bytes),
        "reading the occupancy of a kernel");
  return static_cast<int64_t>(each > 1 ? each : 1) * properties(current_device()).multiprocessors;
}

// Dynamic shared memory of the block, aligned to 128 bytes: an asynchronous copy of 32 bytes from global
// memory takes two requests if its place in shared memory is not a multiple of 32, as after a static variable
// of 16 bytes.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
#if TINYTORCH_CUDA_SIM
  return static_cast<T*>(sim::dynamic_shared());
#else
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  return reinterpret_cast<T*>(shared_bytes);
#endif
}

// Division of a 32-bit number by a divisor that is known at launch: a multiplication and a shift, where a
// division costs about 20 instructions.
//
// Source: Granlund and Montgomery, "Division by invariant integers using multiplication", 1994.
struct FastDivide {
  uint32_t divisor = 1, multiplier = 0, shift = 0;
  FastDivide() = default;
  explicit FastDivide(uint32_t d) : divisor(d) {
    while (shift < 32 && (uint64_t{1} << shift) < d) ++shift;
    multiplier = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  }
  __device__ __forceinline__ uint32_t quotient(uint32_t n) const {
    return static_cast<uint32_t>((static_cast<uint64_t>(__umulhi(n, multiplier)) + n) >> shift);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
