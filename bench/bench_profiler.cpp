// What a profiler costs: attached, as a share of ops of about 1 ms and of small ones; detached, against no
// observer at all. profiler_overhead.hpp says how; ops are made as large as 1 ms takes on this machine.
//
//   bench_profiler                        a table; exit status 1 where a limit of profiler_overhead.hpp is
//   exceeded bench_profiler --device cuda          of ops on the GPU, from the first launch of a turn to the
//   last kernel's end bench_profiler --json out.json        the same as JSON, with machine, date, commit and
//   all blocks
#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/results_file.hpp>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <profiler_overhead.hpp>
#include <tinymlperf/support/machine.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/matmul.hpp>
#include <tinytorch/profiling/memory.hpp>
#include <tinytorch/profiling/profiler.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tinymlperf {
extern const char* const kCommit;  // "": unknown
}

using bench::Overhead;
using bench::ProfilerState;
using nlohmann::json;
namespace tt = tinytorch;
namespace profiling = tinytorch::profiling;

namespace {

// Kernels of the library behind ops of their own, since an op is needed both past the gate and through it.
struct Copy final : tt::Primitive<Copy> {
  static constexpr const char* kName = "copy";
  tt::Specs infer(const tt::Tensors& in, tt::Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  double flops(const tt::Tensors&, const tt::Tensors& out) const override {
    return static_cast<double>(out[0].numel());
  }
  void run(const tt::Tensors& in, tt::Tensors& out) const override {
    TT_KERNEL(out[0], copy(out[0].view_of(), in[0].view_of()));
  }
};
struct Square final : tt::Primitive<Square> {  // a matrix times itself
  static constexpr const char* kName = "square";
  tt::Specs infer(const tt::Tensors& in, tt::Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  double flops(const tt::Tensors& in, const tt::Tensors& out) const override {
    return 2.0 * static_cast<double>(out[0].numel() * in[0].shape()[0]);
  }
  void run(const tt::Tensors& in, tt::Tensors& out) const override {
    TT_KERNEL(out[0], matmul(out[0].view_of(), in[0].view_of(), in[0].view_of()));
  }
};

struct Options {
  size_t blocks = 20;
  double turn = 0.02;  // seconds, about
  uint64_t seed = 1;
  std::string device = "cpu", path;

  tt::Device on() const { return device == "cuda" ? tt::cuda : tt::cpu; }
};

// Seconds of `calls` calls, to the end of the last kernel.
double seconds_of(const std::function<void()>& call, int64_t calls, tt::Device device) {
  const tt::benchmarking::SteadyClock clock;
  const auto wait = [&] {
    if (device.is_cuda()) tt::backend::cuda::synchronize();
  };
  call();  // what other turns left in the caches is no part of it
  wait();
  const double start = clock();
  for (int64_t i = 0; i < calls; ++i) call();
  wait();
  return clock() - start;
}

Overhead measure(const std::string& work, bool judged, const tt::PrimitiveBase& op, const tt::Tensor& x,
                 const Options& o, bool with_memory = false) {
  const tt::Tensors inputs{x};
  const std::function<void()> bare = [&] { tt::execute(op, inputs, tt::Loc::current()); };
  const std::function<void()> gated = [&] { tt::apply_all(op, inputs); };
  seconds_of(gated, 1, o.on());
  const double once = seconds_of(gated, 3, o.on()) / 3;
  const int64_t calls = tt::benchmarking::calls_within(o.turn, once, 1, 20'000);
  const auto turn = [&](ProfilerState state) {
    const auto divide = static_cast<double>(calls);
    if (state == ProfilerState::bare) return seconds_of(bare, calls, o.on()) / divide;
    if (state == ProfilerState::detached) return seconds_of(gated, calls, o.on()) / divide;
    profiling::Profiler profiler;
    std::optional<profiling::MemoryProfiler> memory;
    if (with_memory) memory.emplace(profiler);
    const double seconds = seconds_of(gated, calls, o.on());
    profiler.finish();
    return seconds / divide;
  };
  return bench::measure_overhead(work, judged, o.blocks, o.seed, turn);
}

std::vector<Overhead> measure_all(const Options& o) {
  const auto vector_of = [&](int64_t n) { return tt::ones({n}).to(o.on()); };
  const auto matrix_of = [&](int64_t n) { return (tt::ones({n, n}) / static_cast<double>(n)).to(o.on()); };
  const auto size_for = [&](const tt::PrimitiveBase& op, int64_t first, double growth, auto&& make) {
    return bench::size_that_takes(0.7e-3, first, growth, [&](int64_t n) {
      const tt::Tensors x{make(n)};
      return seconds_of([&] { tt::apply_all(op, x); }, 3, o.on()) / 3;
    });
  };
  const int64_t n = size_for(Copy(), 64, 2, vector_of), side = size_for(Square(), 8, 1.26, matrix_of);
  const std::string vector = fmt::format("copy of {} numbers", n);
  return {measure("copy of one number", false, Copy(), vector_of(1), o),
          measure(vector, true, Copy(), vector_of(n), o),
          measure(fmt::format("matmul {} x {}", side, side), true, Square(), matrix_of(side), o),
          measure(vector + ", memory as well", false, Copy(), vector_of(n), o, true)};
}

// Nanoseconds of a scope that nobody observes, the best of many.
double scope_nanoseconds() {
  double best = 1;
  for (int repeat = 0; repeat < 50; ++repeat) {
    const tt::benchmarking::SteadyClock clock;
    const double start = clock();
    for (int i = 0; i < 2000; ++i) {
      const tt::Scope nothing("nothing");
      asm volatile("" ::: "memory");  // whether somebody observes is asked each time
    }
    best = std::min(best, (clock() - start) / 2000);
  }
  return best * 1e9;
}

json to_json(const tt::statistics::Interval& ratio) {
  return {{"overhead", ratio.estimate - 1}, {"low", ratio.low - 1}, {"high", ratio.high - 1}};
}
json to_json(const Overhead& o) {
  return {{"work", o.work},
          {"judged", o.judged},
          {"seconds_per_call", tt::statistics::median(o.of(ProfilerState::detached))},
          {"attached", to_json(o.attached)},
          {"detached", to_json(o.detached)},
          {"blocks",
           {{"bare", o.of(ProfilerState::bare)},
            {"detached", o.of(ProfilerState::detached)},
            {"attached", o.of(ProfilerState::attached)}}},
          {"objection", bench::objection(o)}};
}

json known(const std::string& text) { return text.empty() ? json() : json(text); }

int run(const Options& o) {
  const tt::NoGrad guard;
  const bench::ResultsFile file(o.path);
  const bench::OverheadLimits limits;
  json out = {{"machine", tinymlperf::to_json(tinymlperf::describe_machine())},
              {"date", tinymlperf::utc_now()},
              {"commit", known(tinymlperf::kCommit)},
              {"device", o.device},
              {"limits", {{"attached", limits.attached}, {"detached", limits.detached}}},
              {"scope_nanoseconds", scope_nanoseconds()}};
  if (o.on().is_cuda()) {
    out["gpu"] = tt::backend::cuda::properties(0).name;
    out["driver"] = known(tinymlperf::gpu_driver());
  }
  std::printf("%-38s %12s  %-32s %s\n", "", "a call", "attached, over detached", "detached, over bare");
  int bad = 0;
  for (const Overhead& row : measure_all(o)) {
    const auto text = [](const tt::statistics::Interval& r) {
      return fmt::format("{:+8.3f} % [{:+.3f}, {:+.3f}]", 100 * (r.estimate - 1), 100 * (r.low - 1),
                         100 * (r.high - 1));
    };
    std::printf("%-38s %9.2f us  %-32s %s\n", row.work.c_str(),
                1e6 * tt::statistics::median(row.of(ProfilerState::detached)), text(row.attached).c_str(),
                text(row.detached).c_str());
    out["rows"].push_back(to_json(row));
    if (const std::string why = bench::objection(row); !why.empty()) {
      std::printf("  TOO SLOW: %s\n", why.c_str());
      ++bad;
    }
  }
  std::printf("a scope without a profiler: %.1f ns\n", out["scope_nanoseconds"].get<double>());
  file.finish(out);
  return bad > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"What a profiler costs"};
  Options o;
  app.add_option("--json", o.path, "write the results here");
  app.add_option("--blocks", o.blocks, "blocks of each measurement, a turn of each state in each")
      ->capture_default_str()
      ->check(CLI::Range(6, 1000));
  app.add_option("--turn", o.turn, "seconds of a turn")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--seed", o.seed, "of the order of turns")->capture_default_str();
  app.add_option("--device", o.device)->capture_default_str()->check(CLI::IsMember({"cpu", "cuda"}));
  CLI11_PARSE(app, argc, argv);
  return bench::guarded(
      "bench_profiler", [&] { return run(o); }, 2);
}
