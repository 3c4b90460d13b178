// Speedup by threads: f32 GEMM of 2048 x 2048 x 2048 and a training step of GPT-2 124M, against one thread.
//
//   bench_scaling                            1, 2, 4, ... threads up to all of this machine
//   bench_scaling --threads 1 16 --rounds 9 --json out.json
//   OMP_PROC_BIND=spread OMP_PLACES=cores bench_scaling
// Each round measures every number of threads once, in random order. The table also contains the machine's
// own limits, multiply-adds in registers and a copy of memory, which two threads of one core share; the work
// can hardly scale further than its limit. Speedups are medians over the rounds with their quartiles.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <copy_bandwidth.hpp>
#include <gemm_race.hpp>
#include <gpt2_training.hpp>
#include <nlohmann/json.hpp>
#include <thread>
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/benchmarking/peak.hpp>

using nlohmann::json;
namespace tt = tinytorch;

namespace {

struct Work {
  std::string name;
  std::function<double()> seconds;  // does the work and returns its seconds
};

// The fastest of `calls` calls. After a change of the number of threads, the first call starts threads and
// reloads their caches.
template <class F>
double quickest(const F& work, int64_t calls) {
  return std::ranges::min(tt::benchmarking::time_calls(work, calls));
}

std::vector<Work> products() {
  const int64_t n = 2048;
  const tt::Tensor a = tt::randn({n, n}), b = tt::randn({n, n}), c = tt::zeros({n, n});
  std::vector<Work> out;
  for (const char* layout : {"NN", "NT", "TN"}) {
    const tt::Tensor left = layout[0] == 'T' ? tt::transpose(a, 0, 1) : a,
                     right = layout[1] == 'T' ? tt::transpose(b, 0, 1) : b;
    out.push_back({fmt::format("sgemm {0}x{0}x{0} {1}", n, layout), [=] {
                     return quickest(
                         [&] { tt::backend::cpu::gemm(c.view_of(), left.view_of(), right.view_of()); }, 2);
                   }});
  }
  return out;
}

std::vector<int> powers_of_two_up_to(int most) {
  std::vector<int> out;
  for (int n = 1; n < most; n *= 2) out.push_back(n);
  out.push_back(most);
  return out;
}

// [work][threads][round]
using Seconds = std::vector<std::vector<std::vector<double>>>;

Seconds measure(const std::vector<Work>& works, const std::vector<int>& threads, size_t rounds,
                const bench::ResultsFile& file) {
  Seconds seconds(works.size(), std::vector<std::vector<double>>(threads.size()));
  for (size_t w = 0; w < works.size(); ++w) {
    // Otherwise blocks that the work before left in the cache would take the place of this one's.
    tt::HostAllocator::instance().release_cached();
    for (const auto& order : tt::benchmarking::random_blocks(threads.size(), rounds, w + 1))
      for (const size_t t : order) {
        tt::set_thread_count(threads[t]);
        seconds[w][t].push_back(works[w].seconds());
      }
    file.keep({{"threads", threads}, {"work", works[w].name}, {"seconds_so_far", seconds}});
  }
  return seconds;
}

int run(int argc, char** argv) {
  CLI::App app{"Speedup by threads"};
  std::vector<int> threads =
      powers_of_two_up_to(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  size_t rounds = 7;
  bool without_training = false;
  std::string json_path;
  app.add_option("--threads", threads, "numbers of threads; speedups are relative to the first")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--rounds", rounds, "measurements of each number of threads")
      ->check(CLI::Range(3, 1000))
      ->capture_default_str();
  app.add_flag("--no-training", without_training, "only the products");
  app.add_option("--json", json_path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);

  const bench::ResultsFile file(json_path);
  std::vector<Work> works{
      {"multiply-adds in registers", [] { return 1 / tt::benchmarking::measure_fma_peak(); }},
      {"copy of 256 MiB", [] { return 1 / bench::copy_bytes_per_second(1 << 26); }}};
  std::ranges::move(products(), std::back_inserter(works));
  bench::Gpt2Training training(4, 64);
  if (!without_training) {
    training.step();  // warm-up: first touch of the memory
    works.push_back(
        {"GPT-2 124M step, 4 x 64 tokens", [&] { return quickest([&] { training.step(); }, 3); }});
  }
  const Seconds seconds = measure(works, threads, rounds, file);

  fmt::print("{:<32}", "speedup [quartiles]");
  for (const int t : threads) fmt::print("{:>20}", fmt::format("{} threads", t));
  fmt::print("\n");
  json rows = json::array();
  for (size_t w = 0; w < works.size(); ++w) {
    fmt::print("{:<32}", works[w].name);
    json counts = json::array();
    for (size_t t = 0; t < threads.size(); ++t) {
      const std::vector<double> q = bench::quartiles(seconds[w][0], seconds[w][t]);
      fmt::print("{:>20}", fmt::format("{:.2f} [{:.2f}, {:.2f}]", q[1], q[0], q[2]));
      counts.push_back(
          {{"threads", threads[t]}, {"times", q[1]}, {"quartiles", q}, {"seconds", seconds[w][t]}});
    }
    fmt::print("\n");
    rows.push_back({{"name", works[w].name}, {"counts", counts}});
  }
  file.finish({{"machine", bench::provenance()}, {"rounds", rounds}, {"rows", rows}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_scaling", [&] { return run(argc, argv); });
}
