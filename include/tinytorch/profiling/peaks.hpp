// measure_peaks: measures peak arithmetic throughput, peak memory bandwidth and the overhead of an op.
//
// The arithmetic is chains of f32 multiply-adds in registers. For 16-bit floats on a GPU it is a large matrix
// product, which is the simplest work that uses the tensor cores. The bandwidth is that of a triad over
// arrays larger than the caches; bytes read and bytes written are both counted.
#pragma once

#include <algorithm>
#include <string>
#include <tinytorch/backend/cpu/peak_kernels.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/benchmarking/peak.hpp>
#include <tinytorch/profiling/roofline.hpp>
#include <tinytorch/profiling/timer.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

namespace detail {

inline double matmul_flops(Device device, DType dtype) {
  constexpr int64_t kSize = 8192;
  const Tensor a = ones({kSize, kSize}, dtype, device), b = ones({kSize, kSize}, dtype, device);
  const Timing t = time_on(device, [&] { matmul(a, b); });
  return 2.0 * kSize * kSize * kSize / *std::min_element(t.seconds.begin(), t.seconds.end());
}

inline double fma_flops(Device device) {
  constexpr int64_t kElements = 1 << 21, kRounds = 8192;
  const Tensor x = ones({kElements}, DType::f32, device);
  const Timing t = time_on(device, [&] { TT_KERNEL(x, fma_chains(x.view_of(), kRounds)); });
  return 2.0 * kElements * kRounds / *std::min_element(t.seconds.begin(), t.seconds.end());
}

inline double triad_bytes_per_second(Device device) {
  // Each array is as large as the last-level cache, but at least 64 MiB, and at most 256 MiB for small
  // machines.
  const size_t each = std::clamp(last_cache_bytes(device), size_t{64} << 20, size_t{256} << 20);
  const auto n = static_cast<int64_t>(each / 4);
  const Tensor a = ones({n}, DType::f32, device), b = ones({n}, DType::f32, device),
               out = zeros({n}, DType::f32, device);
  const Timing t =
      time_on(device, [&] { TT_KERNEL(out, triad(out.view_of(), a.view_of(), b.view_of(), 2.0f)); });
  return 3.0 * static_cast<double>(out.bytes()) / t.median;
}

}  // namespace detail

// `dtype` chooses the arithmetic that is measured on a GPU. Takes about two seconds. On the emulator it
// throws TT-PROF-04, because the emulator's speed says nothing about a GPU.
inline MachinePeaks measure_peaks(Device device, DType dtype = DType::f32, TT_LOC) {
  if (device.is_cuda() && TINYTORCH_CUDA_SIM) {
    fail("TT-PROF-04", "measure_peaks: the emulator has no peak rates\n  hint: measure on a GPU, or tt::cpu",
         loc);
  }
  MachinePeaks c;
  c.flops_per_second = device.is_cpu()    ? benchmarking::measure_fma_peak()
                       : is_16_bit(dtype) ? detail::matmul_flops(device, dtype)
                                          : detail::fma_flops(device);
  c.bytes_per_second = detail::triad_bytes_per_second(device);
  const Tensor x = ones({1}, DType::f32, device);
  c.seconds_per_op = time_on(device, [&] { add(x, x); }).median;
  c.device = device.is_cpu() ? std::to_string(thread_count()) + " threads"
                             : backend::cuda::properties(device.index).name;
  return c;
}

}  // namespace tinytorch::inline TT_BUILD::profiling
