// Counts launches by kernel while count_launches(true) is in effect.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <tinytorch/backend/cuda/runtime/errors.cuh>
#include <tinytorch/backend/cuda/runtime/launches.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct LaunchCounts {
  std::mutex mutex;
  std::map<const char*, LaunchRecord> by_name;  // the runtime's strings or literals, which stay valid
};
inline LaunchCounts launch_counts;

void count_launches(bool on) {
  const std::lock_guard lock(launch_counts.mutex);
  if (on) launch_counts.by_name.clear();
  launches_flag = on;
}

void count_launch(const char* name) {
  const std::lock_guard lock(launch_counts.mutex);
  launch_counts.by_name[name].launches += 1;
}

void describe_launch(const void* kernel, int threads, size_t dynamic_shared) {
  int registers = 0;
  size_t shared = dynamic_shared;
#if !TINYTORCH_CUDA_SIM
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "asking for a kernel's registers");
  registers = attributes.numRegs;
  shared += attributes.sharedSizeBytes;
#endif
  const std::lock_guard lock(launch_counts.mutex);
  LaunchRecord& record = launch_counts.by_name[kernel_name(kernel)];
  record.threads = threads;
  record.registers = registers;
  record.shared_bytes = static_cast<int64_t>(shared);
}

std::vector<LaunchRecord> launch_records() {
  std::map<std::string, LaunchRecord> named;  // two addresses may hold equal names
  const std::lock_guard lock(launch_counts.mutex);
  for (const auto& [name, record] : launch_counts.by_name) {
    const std::string text = readable_name(name);
    LaunchRecord& sum = named[text];
    const int64_t before = sum.launches;
    sum = record;
    sum.kernel = text;
    sum.launches += before;
  }
  std::vector<LaunchRecord> all;
  for (auto& [name, record] : named) all.push_back(std::move(record));
  return all;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
