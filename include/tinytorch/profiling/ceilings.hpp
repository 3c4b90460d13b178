// The ceilings of this machine, measured now: peak arithmetic, memory bandwidth, the cost of an op.
//
// Arithmetic is chains of multiply-adds in f32 in registers; of 16-bit floats on a GPU a large matrix
// product, since tensor cores have no plainer use. Bandwidth is a triad over more than the caches hold, read
// plus written.
#pragma once

#include <algorithm>
#include <string>
#include <tinytorch/backend/cpu/ceilings.hpp>
#include <tinytorch/backend/cuda/kernels/launch.hpp>
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
  // The three together are three times the last cache, within what a small machine has.
  const size_t each = std::clamp(last_cache_bytes(device), size_t{64} << 20, size_t{256} << 20);
  const auto n = static_cast<int64_t>(each / 4);
  const Tensor a = ones({n}, DType::f32, device), b = ones({n}, DType::f32, device),
               out = zeros({n}, DType::f32, device);
  const Timing t =
      time_on(device, [&] { TT_KERNEL(out, triad(out.view_of(), a.view_of(), b.view_of(), 2.0f)); });
  return 3.0 * static_cast<double>(out.bytes()) / t.median;
}

}  // namespace detail

// Takes about two seconds. The emulator counts as a device that is not there: its speed says nothing.
inline Ceilings measure_ceilings(Device device, DType dtype = DType::f32, TT_LOC) {
  if (device.is_cuda() && TINYTORCH_CUDA_SIM) {
    fail("TT-PROF-04", "measure_ceilings: the emulator has no ceilings\n  hint: measure on a GPU, or tt::cpu",
         loc);
  }
  Ceilings c;
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
