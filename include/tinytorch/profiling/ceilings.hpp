// The ceilings of this machine, measured now: peak arithmetic, memory bandwidth, the cost of an op.
//
// On the CPU arithmetic is chains of multiply-adds in f32 on every thread (benchmarking/peak.hpp); on a GPU a
// large matrix product in the dtype, since tensor cores have no plainer use. Bandwidth is a copy of much more
// than the caches hold, read plus written.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <tinytorch/benchmarking/peak.hpp>
#include <tinytorch/profiling/roofline.hpp>
#include <tinytorch/profiling/timer.hpp>
#include <tinytorch/tensor/functions.hpp>
#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

namespace detail {

inline double matmul_flops(Device device, DType dtype) {
  constexpr int64_t kSize = 8192;
  const Tensor a = ones({kSize, kSize}, dtype, device), b = ones({kSize, kSize}, dtype, device);
  const Timing t = time_on(device, [&] { matmul(a, b); });
  return 2.0 * kSize * kSize * kSize / *std::min_element(t.seconds.begin(), t.seconds.end());
}

inline double copy_bytes_per_second(Device device) {
  // Both sides together are twice the last cache, within what a small machine has.
  const size_t side = std::clamp(last_cache_bytes(device), size_t{64} << 20, size_t{256} << 20);
  const auto elements = static_cast<int64_t>(side / 4);
  const Tensor from = ones({elements}, DType::f32, device), to = zeros({elements}, DType::f32, device);
  const auto bytes = static_cast<size_t>(from.bytes());
  const auto copy = [&] {
    if (device.is_cuda())
      return backend::cuda::copy_bytes(to.view_of().data, device, from.view_of().data, device, bytes);
    parallel_for(elements, 65536, [&](int64_t begin, int64_t end) {
      std::memcpy(to.data<float>() + begin, from.data<float>() + begin, static_cast<size_t>(end - begin) * 4);
    });
  };
  return 2.0 * static_cast<double>(bytes) / time_on(device, copy).median;
}

}  // namespace detail

// Takes about two seconds. The emulator counts as a device that is not there: its speed says nothing.
inline Ceilings measure_ceilings(Device device, DType dtype = DType::f32, TT_LOC) {
  if (device.is_cuda() && TINYTORCH_CUDA_SIM) {
    fail("TT-PROF-04", "measure_ceilings: the emulator has no ceilings\n  hint: measure on a GPU, or tt::cpu",
         loc);
  }
  Ceilings c;
  c.flops_per_second =
      device.is_cpu() ? benchmarking::measure_fma_peak() : detail::matmul_flops(device, dtype);
  c.bytes_per_second = detail::copy_bytes_per_second(device);
  const Tensor x = ones({1}, DType::f32, device);
  c.seconds_per_op = time_on(device, [&] { add(x, x); }).median;
  c.device = device.is_cpu() ? std::to_string(thread_count()) + " threads"
                             : backend::cuda::properties(device.index).name;
  return c;
}

}  // namespace tinytorch::inline TT_BUILD::profiling
