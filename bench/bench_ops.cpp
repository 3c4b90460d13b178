// Times every operation at several sizes: seconds, GB/s, GFLOP/s, and the roofline time as a share of the
// time.
//
//     bench_ops               table of all cases at 1k, 1M and 16M elements
//     bench_ops --sizes 1048576 --only softmax --json out.json
//     bench_ops --sizes 1 --only neg abs sub relu exp "add scalar" maximum    overhead of a call
//     bench_ops --serve       answers JSON requests on stdin; compare_ops.py alternates it with PyTorch
// The limit of a case is its roofline time: the larger of bytes / bandwidth (STREAM's triad of n floats,
// measured after every case) and FLOPs / peak (independent multiply-adds of all threads, measured once per
// run). Bytes and FLOPs are those that the primitives state. Cases named "Eigen ..." are the same work with
// Eigen, for compare_ops.py.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <common/guarded.hpp>
#include <common/op_cases.hpp>
#include <copy_bandwidth.hpp>
#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#if __has_include(<Eigen/Core>)
#include <peers/eigen_rows.hpp>
#endif
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/benchmarking/peak.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/profiling/cost.hpp>

using nlohmann::json;
namespace tt = tinytorch;
using tt::benchmarking::SteadyClock;
namespace statistics = tt::statistics;

namespace {

// Processor seconds of all threads of this process. Other users of a shared machine change them less than
// wall-clock time.
double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

struct Samples {
  std::vector<double> wall, processor;  // seconds per call
};

// Takes samples until `budget` seconds are over; each sample consists of calls that together last about 50
// microseconds.
Samples sample(const bench::Work& work, double budget) {
  const SteadyClock clock;
  double start = clock();
  work();
  const double once = std::max(clock() - start, 1e-9);
  const auto calls = static_cast<int64_t>(std::max(1.0, 5e-5 / once));
  Samples samples;
  const double deadline = clock() + budget;
  do {
    const double processor_start = processor_seconds();
    start = clock();
    for (int64_t i = 0; i < calls; ++i) work();
    samples.wall.push_back((clock() - start) / static_cast<double>(calls));
    samples.processor.push_back((processor_seconds() - processor_start) / static_cast<double>(calls));
  } while (clock() < deadline && samples.wall.size() < 1000);
  return samples;
}

std::vector<bench::Case> all_cases() {
  std::vector<bench::Case> cases = bench::op_cases();
#ifdef EIGEN_WORLD_VERSION
  for (bench::Case& c : bench::eigen_cases()) cases.push_back(std::move(c));
#endif
  return cases;
}

// Keeps the inputs of one size at a time, because those of 16M elements take a gigabyte.
class Bench {
 public:
  const bench::Case* find(const std::string& name) const {
    for (const bench::Case& c : cases_)
      if (c.name == name) return &c;
    return nullptr;
  }
  const std::vector<bench::Case>& cases() const { return cases_; }
  double peak() const { return peak_; }

  json measure(const bench::Case& c, int64_t n, double budget) {
    if (!inputs_ || inputs_->n != n) {
      inputs_.reset(), triad_.reset();
      inputs_ = std::make_unique<bench::Inputs>(n);
      triad_ = std::make_unique<bench::Triad>(n);
    }
    if (peak_ == 0) peak_ = 1e-9 * tinytorch::benchmarking::measure_fma_peak();
    const bench::Work work = c.prepare(*inputs_);
    const tt::Cost cost = tt::profiling::count_cost(work);
    const Samples samples = sample(work, budget);
    const double seconds = statistics::median(samples.wall);
    const double triad = 1e-9 * triad_->bytes_per_second();
    const double limit = std::max(cost.bytes / (triad * 1e9), cost.flops / (peak_ * 1e9));
    return {{"name", c.name},
            {"n", n},
            {"seconds", seconds},
            {"best", *std::min_element(samples.wall.begin(), samples.wall.end())},
            {"processor", statistics::median(samples.processor)},
            {"samples", samples.wall.size()},
            {"bytes", cost.bytes},
            {"flops", cost.flops},
            {"gb_per_s", cost.bytes / seconds * 1e-9},
            {"gflop_per_s", cost.flops / seconds * 1e-9},
            {"triad_gb_per_s", triad},
            {"share_of_limit", limit / seconds}};
  }

 private:
  std::vector<bench::Case> cases_ = all_cases();
  std::unique_ptr<bench::Inputs> inputs_;
  std::unique_ptr<bench::Triad> triad_;
  double peak_ = 0;
};

// Requests are lines: {"name", "n", "seconds"} measures a case; list (without quotes) returns all cases, with
// n = 0 if a case has no fixed size, and with the same work in PyTorch (common/op_cases.hpp). Each answer is
// one line of JSON.
int serve(Bench& bench) {
  for (std::string line; std::getline(std::cin, line);) {
    json answer;
    if (line == "list") {
      for (const bench::Case& c : bench.cases())
        answer.push_back({{"name", c.name},
                          {"n", c.n},
                          {"torch", c.torch},
                          {"operands", c.operands},
                          {"backward", c.backward}});
    } else {
      const json request = json::parse(line);
      const bench::Case* found = bench.find(request.at("name"));
      answer = found ? bench.measure(*found, request.at("n"), request.at("seconds"))
                     : json{{"error", "no case " + request.at("name").get<std::string>()}};
      answer["fma_peak_gflop_per_s"] = bench.peak();
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{"Times every operation of the library"};
  std::vector<int64_t> sizes = {1 << 10, 1 << 20, 1 << 24};
  std::vector<std::string> only;
  std::string json_path;
  double budget = 0.1;
  bool serving = false;
  int threads = 0;
  app.add_option("--sizes", sizes, "elements per operand")->check(CLI::Range(int64_t{1}, int64_t{1} << 28));
  app.add_option("--only", only, "cases whose name contains one of these");
  app.add_option("--seconds", budget, "time per case");
  app.add_option("--threads", threads, "default: all");
  app.add_option("--json", json_path, "also write the numbers here");
  app.add_flag("--serve", serving, "answer requests on standard input");
  CLI11_PARSE(app, argc, argv);
  if (threads > 0) tt::set_thread_count(threads);
  Bench bench;
  if (serving) return serve(bench);
  const bench::ResultsFile file(json_path);
  json results = json::array();
  std::printf("%-24s %10s %12s %9s %9s %7s\n", "case", "elements", "microseconds", "GB/s", "GFLOP/s",
              "limit");
  const auto run = [&](const bench::Case& c, int64_t n) {
    const auto asked = [&](const std::string& part) { return c.name.find(part) != std::string::npos; };
    if (!only.empty() && std::ranges::none_of(only, asked)) return;
    const json r = bench.measure(c, n, budget);
    std::printf("%-24s %10lld %12.2f %9.2f %9.2f %6.0f%%\n", c.name.c_str(), static_cast<long long>(n),
                r["seconds"].get<double>() * 1e6, r["gb_per_s"].get<double>(), r["gflop_per_s"].get<double>(),
                r["share_of_limit"].get<double>() * 100);
    results.push_back(r);
    file.keep(results);
  };
  for (int64_t n : sizes) {
    for (const bench::Case& c : bench.cases()) {
      if (c.n == 0) run(c, n);
    }
  }
  for (const bench::Case& c : bench.cases()) {
    if (c.n > 0) run(c, c.n);
  }
  file.finish({{"machine", bench::provenance()}, {"fma_peak_gflop_per_s", bench.peak()}, {"cases", results}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_ops", [&] { return run(argc, argv); });
}
