// Times one training step of GPT-2 124M on the CPU: forward, backward, gradient clipping, AdamW; f32, no
// dropout.
//
//   bench_gpt2              a table of the step by ops: time, and the roofline time as a share of it
//   bench_gpt2 --batch 1 --tokens 256 --steps 5 --json out.json
//   bench_gpt2 --serve      answers requests on stdin; bench/compare_gpt2.py alternates it with PyTorch
// The limit of a row is its roofline time: the larger of bytes / copy bandwidth and FLOPs / multiply-add
// peak.
#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/results_file.hpp>
#include <copy_bandwidth.hpp>
#include <ctime>
#include <gpt2_training.hpp>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <tinytorch/benchmarking/peak.hpp>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/profiling/profiler.hpp>

using nlohmann::json;
namespace tt = tinytorch;
using tt::benchmarking::SteadyClock;

namespace {

// Processor seconds of all threads of this process.
double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

class Training : public bench::Gpt2Training {
 public:
  using Gpt2Training::Gpt2Training;

  // Does a step under the profiler.
  tt::profiling::Profile profile() {
    tt::profiling::Profiler profiler(model);
    step();
    return profiler.finish();
  }
  // Writes the weights and the tokens, from which a peer can do the same steps.
  void save(const std::string& path) const {
    tt::StateDict tensors = model.state_dict();
    tensors.emplace("tokens", tokens), tensors.emplace("targets", targets);
    tt::save_safetensors(path, tensors);
  }
};

// Requests are {"save": path} or {"step": true}, one JSON object per line; each answer is one line.
int serve(Training& training) {
  for (std::string line; std::getline(std::cin, line);) {
    const json request = json::parse(line);
    json answer = json::object();
    if (request.contains("save")) training.save(request.at("save"));
    if (request.contains("step")) {
      const double processor = processor_seconds(), start = SteadyClock{}(), loss = training.step();
      answer = {{"seconds", SteadyClock{}() - start},
                {"processor", processor_seconds() - processor},
                {"loss", loss}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

json report(Training& training, int64_t steps) {
  const double peak = 1e-9 * tinytorch::benchmarking::measure_fma_peak(),
               copy = 1e-9 * bench::copy_bytes_per_second(1 << 24);
  training.step();  // warm-up: first touch of the memory
  const double seconds =
      tt::statistics::median(tt::benchmarking::time_calls([&] { training.step(); }, steps));
  tt::profiling::Profile profile;
  for (int64_t i = 0; i < steps; ++i) {
    tt::profiling::Profile one = training.profile();
    std::ranges::move(one.ops, std::back_inserter(profile.ops));
  }
  // Matrix products have one row per shape, all other ops one row per name.
  const auto line_of = [](const tt::profiling::OpRecord& op) {
    const bool product = op.name.starts_with("matmul") || op.name.starts_with("linear");
    return product ? op.name + " " + op.inputs[0].str() + " " + op.inputs[1].str() : op.name;
  };
  std::printf("%d threads, multiply-add peak %.0f GFLOP/s, copy %.1f GB/s\n", tt::thread_count(), peak, copy);
  std::printf("%-44s %6s %9s %9s %9s %7s\n", "a step", "calls", "ms", "GFLOP/s", "GB/s", "limit");
  json out = json::array();
  double limit_all = 0;
  const double each = 1.0 / static_cast<double>(steps);
  for (const tt::profiling::ProfileRow& row : tt::profiling::table_of(profile, line_of)) {
    const std::string name = row.name + (row.backward ? " (backward)" : "");
    const double limit = std::max(row.cost.flops / (peak * 1e9), row.cost.bytes / (copy * 1e9));
    limit_all += limit * each;
    std::printf("%-44s %6lld %9.2f %9.1f %9.1f %6.0f%%\n", name.c_str(),
                static_cast<long long>(row.calls / steps), row.seconds * each * 1e3,
                row.flops_per_second() * 1e-9, row.bytes_per_second() * 1e-9, 100 * limit / row.seconds);
    out.push_back({{"name", name},
                   {"calls", row.calls / steps},
                   {"seconds", row.seconds * each},
                   {"flops", row.cost.flops * each},
                   {"bytes", row.cost.bytes * each}});
  }
  std::printf("%-44s %6s %9.2f %9s %9s %6.0f%%\n", "the step", "", seconds * 1e3, "", "",
              100 * limit_all / seconds);
  return {{"seconds", seconds}, {"fma_peak_gflop_per_s", peak}, {"copy_gb_per_s", copy}, {"rows", out}};
}

int run(int argc, char** argv) {
  CLI::App app{"Times a training step of GPT-2 124M"};
  int64_t batch = 4, length = 64, steps = 3;
  int threads = 0;
  bool serving = false;
  std::string json_path;
  app.add_option("--batch", batch, "sequences a step")->check(CLI::Range(1, 1024));
  app.add_option("--tokens", length, "tokens of a sequence")->check(CLI::Range(1, 1024));
  app.add_option("--steps", steps, "steps to time, and again to profile")->check(CLI::Range(1, 1000));
  app.add_option("--threads", threads, "default: all");
  app.add_option("--json", json_path, "also write the numbers here");
  app.add_flag("--serve", serving, "answer requests on standard input");
  CLI11_PARSE(app, argc, argv);
  if (threads > 0) tt::set_thread_count(threads);
  const bench::ResultsFile file(json_path);
  Training training(batch, length);
  if (serving) return serve(training);
  file.finish(report(training, steps));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_gpt2", [&] { return run(argc, argv); });
}
