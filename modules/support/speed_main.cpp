// main() of a task's speed program. It writes a line of JSON for each work and one for the machine's limits,
// to the file TT_RESULTS, so that output of a student's code is not mixed with them, or else to stdout.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <support/speed.hpp>
#include <tinytorch/benchmarking/peak.hpp>
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/emulator.hpp>
#endif

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
void finish() {
#if TINYTORCH_WITH_CUDA
  tinytorch::backend::cuda::synchronize();
#endif
}

// Median seconds of a call. Calls are bundled until a bundle takes 10 ms, so that the resolution of the clock
// and the latency of a launch do not count; then bundles are timed for 0.4 s.
double median_seconds(const std::function<void()>& run) {
  run();
  finish();
  int bundle = 1;
  std::vector<double> samples;
  for (const auto begin = Clock::now(); samples.size() < 5 || seconds_since(begin) < 0.4;) {
    const auto start = Clock::now();
    for (int i = 0; i < bundle; ++i) run();
    finish();
    const double taken = seconds_since(start);
    if (taken < 0.01 && bundle < 1 << 16) {
      bundle *= 2;
      continue;
    }
    samples.push_back(taken / bundle);
  }
  std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2),
                   samples.end());
  return samples[samples.size() / 2];
}

// Bytes per second, read and written, of a copy of 64 MiB.
double copy_bandwidth() {
  const int64_t n = int64_t{1} << 24;
#if TINYTORCH_WITH_CUDA
  constexpr tinytorch::Device kDevice{tinytorch::DeviceType::cuda, 0};
  void* const from = tinytorch::backend::cuda::allocate(static_cast<size_t>(n) * 4, 0);
  void* const to = tinytorch::backend::cuda::allocate(static_cast<size_t>(n) * 4, 0);
  const double seconds = median_seconds([&] {
    tinytorch::backend::cuda::copy_bytes_async(to, kDevice, from, kDevice, static_cast<size_t>(n) * 4);
  });
  tinytorch::backend::cuda::deallocate(from, static_cast<size_t>(n) * 4, 0);
  tinytorch::backend::cuda::deallocate(to, static_cast<size_t>(n) * 4, 0);
#else
  std::vector<float> from(static_cast<size_t>(n), 1.0f), to(static_cast<size_t>(n));
  const double seconds = median_seconds([&] {
    tinytorch::parallel_for(n, n / 64, [&](int64_t begin, int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin) * 4);
    });
  });
#endif
  return 8.0 * static_cast<double>(n) / seconds;
}

}  // namespace

int main() {
  const char* const path = std::getenv("TT_RESULTS");
  std::FILE* const out = path ? std::fopen(path, "w") : stdout;
  unsetenv("TT_RESULTS");
  if (!out) return 2;
  for (const course::Work& work : course::works()) {
#if TINYTORCH_CUDA_SIM
    namespace sim = tinytorch::backend::cuda::sim;
    work.run();
    sim::clear_counts();
    sim::set_counting(true);
    work.run();
    sim::set_counting(false);
    // `moved` counts the distinct bytes that each instruction of a warp requests: a number that 32 lanes read
    // is moved once. Uncoalesced accesses are counted by the sectors.
    sim::KernelCounts all;
    for (const sim::KernelCounts& c : sim::counts()) {
      all.launches += c.launches, all.requests += c.requests, all.sectors += c.sectors;
      all.ideal_sectors += c.ideal_sectors, all.wavefronts += c.wavefronts;
      all.ideal_wavefronts += c.ideal_wavefronts, all.barriers += c.barriers;
    }
    std::fprintf(
        out,
        "{\"work\": \"%s\", \"bytes\": %.17g, \"moved\": %llu, \"sectors\": %llu, \"ideal_sectors\": %llu, "
        "\"wavefronts\": %llu, \"ideal_wavefronts\": %llu, \"barriers\": %llu, \"launches\": %llu}\n",
        work.name.c_str(), work.bytes, static_cast<unsigned long long>(32 * all.ideal_sectors),
        static_cast<unsigned long long>(all.sectors), static_cast<unsigned long long>(all.ideal_sectors),
        static_cast<unsigned long long>(all.wavefronts),
        static_cast<unsigned long long>(all.ideal_wavefronts), static_cast<unsigned long long>(all.barriers),
        static_cast<unsigned long long>(all.launches));
#else
    std::fprintf(out, "{\"work\": \"%s\", \"bytes\": %.17g, \"flops\": %.17g, \"seconds\": %.9g}\n",
                 work.name.c_str(), work.bytes, work.flops, median_seconds(work.run));
#endif
  }
#if TINYTORCH_CUDA_SIM
  std::fprintf(out, "{\"limit\": true}\n");
#else
  std::fprintf(out, "{\"limit\": true, \"bytes_per_second\": %.6g, \"flops_per_second\": %.6g}\n",
               copy_bandwidth(), TINYTORCH_WITH_CUDA ? 0.0 : tinytorch::benchmarking::measure_fma_peak());
#endif
}
