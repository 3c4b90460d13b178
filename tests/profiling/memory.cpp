// Memory by owner is compared with the allocator's own counts, block by block, on the CPU and on a GPU.
#include <support/device.hpp>
#include <support/errors.hpp>
#include <thread>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/profiling/memory.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using tt::profiling::MemoryProfile;
using tt::profiling::MemoryProfiler;
using tt::profiling::MemoryUse;
using tt::profiling::Profiler;

namespace {

int64_t bytes_of(const MemoryProfile& profile, const std::string& owner) {
  for (const MemoryUse& use : profile.at_peak) {
    if (use.owner == owner) return use.bytes;
  }
  return 0;
}

void check_sums(const MemoryProfile& profile) {
  int64_t sum = 0;
  for (const MemoryUse& use : profile.at_peak) sum += use.bytes;
  CHECK(sum == profile.peak);
  int64_t largest = 0;
  for (const auto& point : profile.timeline) largest = std::max(largest, point.bytes);
  CHECK(largest == profile.peak);
  CHECK(profile.timeline.front().bytes == profile.before);
  CHECK(profile.timeline.back().bytes == profile.current);
}

}  // namespace

TEST_CASE("peak, end and owners match the allocator") {
  const Tensor x = tt::ones({100, 10});
  tt::reset_peak();
  const int64_t before = static_cast<int64_t>(tt::allocator_stats().current);
  Profiler profiler;
  MemoryProfiler memory(profiler);
  Tensor kept;
  {
    const Tensor a = x + 1;  // 4000 bytes
    const Tensor b = a * 2;  // 8000
    kept = tt::sum(b);       // 8004 bytes and the kernel's scratch buffer
  }
  (void)(kept + 1);
  profiler.finish();
  const MemoryProfile profile = memory.finish(tt::cpu);
  CHECK(profile.before == before);
  CHECK(profile.current == static_cast<int64_t>(tt::allocator_stats().current));
  CHECK(profile.peak == static_cast<int64_t>(tt::allocator_stats().peak));
  CHECK(profile.peak >= before + 8004);
  CHECK(bytes_of(profile, "add") == 4000);
  CHECK(bytes_of(profile, "mul") == 4000);
  CHECK(bytes_of(profile, "in use before") == before);
  CHECK(profile.peak_seconds > 0);
  check_sums(profile);
}

TEST_CASE("memory from before the profiler that is freed is no longer listed") {
  Tensor x = tt::ones({1000});
  Profiler profiler;
  MemoryProfiler memory(profiler);
  x = Tensor();
  const Tensor y = tt::ones({10});
  profiler.finish();
  const MemoryProfile profile = memory.finish(tt::cpu);
  CHECK(profile.current == profile.before - 4000 + 40);
  CHECK(profile.peak == profile.before);
  check_sums(profile);
  // After finish() nothing is observed.
  const Tensor z = tt::ones({1000});
  CHECK(memory.finish(tt::cpu).timeline.size() == profile.timeline.size());
}

TEST_CASE("activations belong to their modules, gradients to the backward pass of the modules") {
  tt::Linear layer(20, 30);
  Profiler profiler(layer);
  MemoryProfiler memory(profiler);
  Tensor loss;
  {
    const tt::Scope scope("forward");
    loss = tt::sum(tt::relu(layer(tt::ones({8, 20}))));
  }
  loss.backward();
  profiler.finish();
  const MemoryProfile profile = memory.finish(tt::cpu);
  bool gradients = false;
  for (const MemoryUse& use : profile.at_peak) gradients = gradients || use.owner.ends_with("(backward)");
  CHECK(gradients);
  CHECK(profile.current - profile.before >= 4 * (20 * 30 + 30));  // the gradients of the parameters remain
  check_sums(profile);
}

TEST_CASE("memory of another thread is counted under `elsewhere`") {
  Profiler profiler;
  MemoryProfiler memory(profiler);
  Tensor theirs;
  std::thread([&] { theirs = tt::ones({500}); }).join();
  profiler.finish();
  const MemoryProfile profile = memory.finish(tt::cpu);
  CHECK(bytes_of(profile, "elsewhere") == 2000);
  check_sums(profile);
}

TEST_CASE("memory of a GPU is profiled in the same way" * test::needs_devices()) {
  const Tensor x = tt::ones({100, 10}).to(tt::cuda);
  tt::backend::cuda::reset_peak(0);
  Profiler profiler;
  MemoryProfiler memory(profiler);
  Tensor kept;
  {
    const Tensor a = x + 1;
    kept = a * 2;
  }
  const tt::profiling::Profile ops = profiler.finish();
  const MemoryProfile profile = memory.finish(tt::cuda);
  const auto stats = tt::backend::cuda::memory_stats(0);
  CHECK(profile.peak == static_cast<int64_t>(stats.peak));
  CHECK(profile.current == static_cast<int64_t>(stats.current));
  CHECK(bytes_of(profile, "add") == 4000);
  CHECK(bytes_of(profile, "mul") == 4000);
  check_sums(profile);
  REQUIRE(ops.ops.size() == 2);
  CHECK(ops.ops[0].device_seconds > 0);
}
