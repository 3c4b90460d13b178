// What a profiler costs: attached, per op and as a share of ops of about 0.1 and 1 ms; detached, per op and scope.
//
// With and without take turns (A B B A); the overhead is the ratio of their times, with its 95 % interval.
//
//   bench_profiler                      a table
//   bench_profiler --json out.json      the same as JSON
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <tinytorch/io/file.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/profiling/memory.hpp>
#include <tinytorch/profiling/timer.hpp>
#include <tinytorch/tinytorch.hpp>

using nlohmann::json;
namespace tt = tinytorch;
namespace statistics = tinytorch::statistics;
namespace profiling = tinytorch::profiling;

namespace {

// Seconds of `calls` calls of f, profiled or not.
template <class F>
double seconds_of(F&& f, int calls, bool profiled, bool with_memory) {
  const tt::benchmarking::SteadyClock clock;
  if (!profiled) {
    const double start = clock();
    for (int i = 0; i < calls; ++i) f();
    return clock() - start;
  }
  profiling::Profiler profiler;
  std::optional<profiling::MemoryProfiler> memory;
  if (with_memory) memory.emplace(profiler);
  const double start = clock();
  for (int i = 0; i < calls; ++i) f();
  const double seconds = clock() - start;
  profiler.finish();
  return seconds;
}

template <class F>
json overhead(const char* name, F&& f, size_t blocks, bool with_memory) {
  const double once = profiling::time_on(tt::cpu, f, {.seconds = 0.1}).median;
  const int calls = static_cast<int>(std::clamp(0.02 / once, 1.0, 20000.0));
  const auto turns = tt::benchmarking::take_turns(tt::benchmarking::abba_blocks(blocks, 1), [&](size_t side) {
    return seconds_of(f, calls, side == 1, with_memory) / calls;
  });
  const std::vector<double>&without = turns[0], &with = turns[1];
  const auto ratio = statistics::paired_ratio(with, without).value();
  const double seconds = statistics::median(without);
  std::printf("%-34s %10.2f us %9.3f %% [%.3f, %.3f] %9.0f ns\n", name, seconds * 1e6,
              100 * (ratio.estimate - 1), 100 * (ratio.low - 1), 100 * (ratio.high - 1),
              seconds * (ratio.estimate - 1) * 1e9);
  return {{"work", name},
          {"seconds_per_call", seconds},
          {"overhead", ratio.estimate - 1},
          {"low", ratio.low - 1},
          {"high", ratio.high - 1}};
}

// Nanoseconds of a call, the best of many.
template <class F>
double nanoseconds(F&& f) {
  double best = 1;
  for (int repeat = 0; repeat < 50; ++repeat) {
    const tt::benchmarking::SteadyClock clock;
    const double start = clock();
    for (int i = 0; i < 2000; ++i) f();
    best = std::min(best, (clock() - start) / 2000);
  }
  return best * 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"What a profiler costs"};
  std::string path;
  size_t blocks = 20;
  app.add_option("--json", path, "write the results here");
  app.add_option("--blocks", blocks, "A B B A blocks of each measurement")
      ->capture_default_str()
      ->check(CLI::Range(6, 1000));
  CLI11_PARSE(app, argc, argv);

  json out = json::object();
  std::printf("%-34s %13s %30s %12s\n", "attached", "a call", "overhead", "a call");
  json rows = json::array();
  const tt::NoGrad guard;
  const tt::Tensor x1 = tt::ones({1}), x = tt::ones({1 << 21}), a = tt::ones({384, 384}),
                   small = tt::ones({160, 160});
  rows.push_back(overhead(
      "add of one number", [&] { x1 + x1; }, blocks, false));
  rows.push_back(overhead(
      "matmul 160 x 160", [&] { tt::matmul(small, small); }, blocks, false));
  rows.push_back(overhead(
      "matmul 384 x 384", [&] { tt::matmul(a, a); }, blocks, false));
  rows.push_back(overhead(
      "add of 2M numbers", [&] { x + x; }, blocks, false));
  rows.push_back(overhead(
      "add of 2M numbers, memory as well", [&] { x + x; }, blocks, true));
  out["attached"] = rows;
  const double op = nanoseconds([&] { x1 + x1; });
  const double scope = nanoseconds([] { const tt::Scope nothing("nothing"); });
  std::printf("detached: an op of one number %.0f ns, a scope %.1f ns\n", op, scope);
  out["detached"] = {{"op_nanoseconds", op}, {"scope_nanoseconds", scope}};
  if (!path.empty()) tt::write_file(path, out.dump(1) + "\n");
  return 0;
}
