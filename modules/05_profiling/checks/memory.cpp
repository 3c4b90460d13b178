#include <tinytorch/profiling/memory.hpp>

#include <support/check.hpp>
#include <thread>
#include <tinytorch/tensor/functions.hpp>

#include "ops.hpp"

using namespace course;
using namespace profiling;

namespace {

constexpr Device kFirst{DeviceType::cuda, 0}, kSecond{DeviceType::cuda, 1};

// A memory profiler with simulated allocations of blocks 1, 2, ..., each in a scope with the name of its
// owner.
struct SimulatedBlocks {
  Profiler profiler;
  MemoryProfiler memory{profiler};
  static const void* block(int no) { return reinterpret_cast<const void*>(static_cast<uintptr_t>(no) << 20); }
  void allocate(const char* owner, int no, size_t bytes, Device device = kFirst) {
    const Scope scope(owner);
    memory.allocated(device, block(no), bytes);
  }
  void release(int no, size_t bytes, Device device = kFirst) { memory.freed(device, block(no), bytes); }
};

std::string uses_of(const MemoryProfile& p) {
  std::string text;
  for (const MemoryUse& u : p.at_peak)
    text += (text.empty() ? "" : ", ") + u.owner + " " + std::to_string(u.bytes);
  return text;
}
std::vector<int64_t> line_of(const MemoryProfile& p) {
  std::vector<int64_t> bytes;
  for (const MemoryPoint& point : p.timeline) bytes.push_back(point.bytes);
  return bytes;
}
int64_t held_by(const MemoryProfile& p, const std::string& owner) {
  int64_t bytes = 0;
  for (const MemoryUse& u : p.at_peak) bytes += u.owner == owner ? u.bytes : 0;
  return bytes;
}
// These are not templates and take literals, which saves compile time.
void expect_bytes(const char* what, int64_t got, int64_t want) { expect_equal(std::string(what), got, want); }
void expect_uses(const char* what, const MemoryProfile& p, const std::string& want) {
  expect_equal(std::string(what), uses_of(p), want);
}
void expect_line(const char* what, const MemoryProfile& p, const std::vector<int64_t>& want) {
  expect_equal(std::string(what), line_of(p), want);
}
void expect_sums(const MemoryProfile& p) {
  int64_t sum = 0;
  for (const MemoryUse& u : p.at_peak) sum += u.bytes;
  expect_bytes("the sum of what the owners held at the peak", sum, p.peak);
  expect("the timeline has a point", !p.timeline.empty());
  int64_t largest = p.timeline[0].bytes;
  for (const MemoryPoint& point : p.timeline) largest = std::max(largest, point.bytes);
  expect_bytes("the largest value of the timeline, which is the peak", largest, p.peak);
  expect_bytes("the first value of the timeline: the memory in use before", p.timeline.front().bytes,
               p.before);
  expect_bytes("the last value of the timeline: the memory in use now", p.timeline.back().bytes, p.current);
}

}  // namespace

TEST_CASE("5.5 memory in use is what was allocated and not yet freed") {
  SimulatedBlocks blocks;
  blocks.allocate("a", 1, 100);
  blocks.allocate("b", 2, 30);
  blocks.release(1, 100);
  blocks.allocate("c", 3, 50);
  blocks.release(3, 50);
  blocks.release(2, 30);
  const MemoryProfile p = blocks.memory.finish(kFirst);
  expect_line("the timeline of +100 +30 -100 +50 -50 -30", p, {0, 100, 130, 30, 80, 30, 0});
  expect("the peak: 130, got " + shown(p.peak), p.peak == 130,
         p.peak == 180 ? "180 is the sum of all allocations, but freed memory is not in use any more" : "");
  expect_bytes("in use at the end", p.current, 0);
  expect_uses("owners at the peak", p, "a 100, b 30");
  for (size_t i = 1; i < p.timeline.size(); ++i)
    expect("the timeline goes forward in time", p.timeline[i].seconds >= p.timeline[i - 1].seconds);
  expect(
      "the peak was when b was allocated: " + shown(p.timeline[2].seconds) + ", got " + shown(p.peak_seconds),
      p.peak_seconds == p.timeline[2].seconds);
  expect_sums(p);
}

TEST_CASE("5.5 the owners are those at the peak, not at the end") {
  SimulatedBlocks blocks;
  blocks.allocate("small", 1, 10);
  blocks.allocate("large", 2, 500);
  blocks.allocate("small", 3, 20);
  blocks.allocate("gone", 4, 5);
  blocks.release(4, 5);
  blocks.allocate("last", 5, 40);
  blocks.release(2, 500);
  blocks.allocate("late", 6, 300);
  const MemoryProfile p = blocks.memory.finish(kFirst);
  expect_uses("owners of the 570 bytes at the peak, largest first, without owners of 0 bytes", p,
              "large 500, last 40, small 30");
  expect_bytes("the peak", p.peak, 570);
  expect_bytes("in use at the end", p.current, 370);
  expect_sums(p);
}

TEST_CASE("5.5 the first of equal peaks counts") {
  SimulatedBlocks blocks;
  blocks.allocate("first", 1, 64);
  blocks.release(1, 64);
  blocks.allocate("second", 1, 64);
  blocks.release(1, 64);
  const MemoryProfile p = blocks.memory.finish(kFirst);
  expect_uses("owners of the 64 bytes", p, "first 64");
  SimulatedBlocks equal;
  equal.allocate("z", 1, 8), equal.allocate("a", 2, 8), equal.allocate("m", 3, 8);
  expect_uses("owners of equal size, sorted by name", equal.memory.finish(kFirst), "a 8, m 8, z 8");
}

TEST_CASE("5.5 an address may be allocated again, by another owner") {
  SimulatedBlocks blocks;
  blocks.allocate("a", 1, 100);
  blocks.release(1, 100);
  blocks.allocate("b", 1, 60);
  blocks.allocate("c", 2, 70);
  const MemoryProfile p = blocks.memory.finish(kFirst);
  expect_uses("owners at the peak, when b's block had the address of a's freed block", p, "c 70, b 60");
  expect_sums(p);

  SimulatedBlocks more;
  more.allocate("a", 1, 100);
  more.release(1, 100);
  more.allocate("b", 1, 60);
  more.release(1, 60);
  more.allocate("c", 2, 200);
  const MemoryProfile q = more.memory.finish(kFirst);
  expect_uses("owners at the peak, after b's block at a's address was freed as well", q, "c 200");
  expect_sums(q);
}

TEST_CASE("5.5 each device is counted separately") {
  SimulatedBlocks blocks;
  blocks.allocate("a", 1, 100, kFirst);
  blocks.allocate("b", 2, 1000, kSecond);
  blocks.allocate("c", 3, 20, kFirst);
  blocks.release(2, 1000, kSecond);
  blocks.allocate("d", 4, 7, kSecond);
  const MemoryProfile first = blocks.memory.finish(kFirst), second = blocks.memory.finish(kSecond);
  expect_bytes("peak of the first device", first.peak, 120);
  expect_bytes("peak of the second device", second.peak, 1000);
  expect_uses("owners on the first device", first, "a 100, c 20");
  expect_uses("owners on the second device", second, "b 1000");
  expect_line("the timeline of the second device", second, {0, 1000, 0, 7});
  expect_bytes("in use on the second device at the end", second.current, 7);
  expect_sums(first), expect_sums(second);
}

TEST_CASE("5.5 memory from before the profiler can be freed, too") {
  SimulatedBlocks blocks;
  blocks.allocate("a", 1, 10);
  blocks.release(99, 4);  // its allocation was not profiled
  blocks.allocate("a", 2, 1);
  const MemoryProfile p = blocks.memory.finish(kFirst);
  expect_line("the timeline of +10, -4 of a block allocated before, +1", p, {0, 10, 6, 7});

  Tensor weights = empty({1000});
  Profiler profiler;
  MemoryProfiler memory(profiler);
  const auto before = static_cast<int64_t>(allocator_stats().current);
  const Tensor x = act(weights, 1, {}, "copy");
  weights = Tensor();
  const MemoryProfile real = memory.finish(cpu);
  expect_bytes("memory in use before, with 4000 bytes of weights", real.before, before);
  expect_bytes("memory from before that is held at the peak", held_by(real, "in use before"), before);
  expect_bytes("memory of the copy that is held at the peak", held_by(real, "copy"), 4000);
  expect_bytes("in use at the end, after the weights were freed", real.current, before);
  expect_sums(real);
}

TEST_CASE("5.5 memory belongs to the op or scope that allocated it; other threads count as `elsewhere`") {
  Profiler profiler;
  MemoryProfiler memory(profiler);
  reset_peak();
  Tensor theirs, kept;
  {
    const Scope scope("part");
    kept = act(
        empty({50}), 1, [] { const Tensor scratch = empty({25}); }, "op");
  }
  std::thread([&] { theirs = empty({10}); }).join();
  const auto peak = static_cast<int64_t>(allocator_stats().peak),
             now = static_cast<int64_t>(allocator_stats().current);
  const MemoryProfile p = memory.finish(cpu);
  expect_bytes("the peak, compared with the allocator's", p.peak, peak);
  expect_bytes("in use at the end, compared with the allocator's", p.current, now);
  expect_bytes("held by the op: its result and its scratch memory", held_by(p, "part op"), 300);
  expect_bytes("held by the scope outside the op", held_by(p, "part"), 200);
  expect_sums(p);

  Profiler again;
  MemoryProfiler second(again);
  std::thread([&] { theirs = empty({70}); }).join();
  expect_bytes("held by allocations of another thread", held_by(second.finish(cpu), "elsewhere"), 280);
}

TEST_CASE("5.5 the forward pass holds memory, the backward pass frees it") {
  Tensor x = empty({100});
  x.requires_grad_();
  Profiler profiler;
  MemoryProfiler memory(profiler);
  {
    Tensor y = x;
    for (int i = 0; i < 4; ++i) y = exp(y);  // each op keeps its result for the backward pass
    y.backward(empty({100}));
  }
  const MemoryProfile p = memory.finish(cpu);
  expect("exp holds four results of 400 bytes at the peak: " + uses_of(p), held_by(p, "exp") >= 1200);
  expect("the backward pass holds gradients: " + uses_of(p),
         std::any_of(p.at_peak.begin(), p.at_peak.end(),
                     [](const MemoryUse& u) { return u.owner.ends_with("(backward)"); }));
  expect_bytes("in use at the end: the gradient of x", p.current - p.before, 400);
  expect_sums(p);
}
