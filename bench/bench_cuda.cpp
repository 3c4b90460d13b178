// Times the CUDA kernels behind tensors, layers and the optimizer. bench/compare_cuda.py compares them with
// PyTorch and prints the table.
//
//   bench_cuda                        all cases: microseconds, GB/s, TFLOP/s
//   bench_cuda --only softmax --seconds 0.2
//   bench_cuda --serve                answers requests on standard input, one JSON object per line
//   bench_cuda --device cpu --shrink 512
//                                     a dry run without a GPU: small sizes, wall-clock time
// The calls of a case are captured once as a CUDA graph, which is replayed between two events, so the time
// does not contain the host's work (mode "graph"). If the capture fails, the calls are launched one by one
// (mode "stream"), and "capture_error" gives the reason. The result is the median of many samples.
#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <cstdio>
#include <cuda_work.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <tinytorch/backend/cuda/runtime/graph.hpp>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/benchmarking/statistics.hpp>

using nlohmann::json;
namespace tt = tinytorch;
namespace cuda = tt::backend::cuda;
using bench::CudaCase;
using tt::benchmarking::SteadyClock;

namespace {

json describe(const CudaCase& c) {
  return {{"name", c.name},
          {"group", c.group},
          {"op", c.op},
          {"dtype", name_of(c.dtype)},
          {"shape", c.shape},
          {"peers", c.peers},
          {"bytes", c.bytes},
          {"flops", c.flops},
          {"graph", c.graph},
          {"sets", c.sets},
          {"calls", c.calls},
          {"tensor_bytes", c.tensor_bytes},
          {"tokens", c.tokens},
          {"options", c.options},
          {"operands", c.operands},
          {"rivals", c.rivals},
          {"torch", c.row.empty() ? "" : bench::call_of(c.row).torch}};
}

// A case with its operands and its captured graph; it can be measured any number of times.
class Prepared {
 public:
  Prepared(const CudaCase& c, tt::Device device) : case_(c), device_(device) {
    for (int64_t i = 0; i < c.sets; ++i) works_.push_back(bench::make_work(c, device));
    if (!works_[0]) tt::fail("TT-BENCH-01", "no such case: " + c.name);
    results_.resize(works_.size());
    for (size_t i = 0; i < works_.size(); ++i) results_[i] = works_[i]();
    if (!device.is_cuda()) return;
    cuda::synchronize_device(device.index);
    results_.assign(works_.size(), {});
    if (c.graph) capture();
    for (int i = 0; i < kBatch; ++i) {
      starts_.emplace_back(true, device.index);
      ends_.emplace_back(true, device.index);
    }
  }

  json measure(double budget) {
    const SteadyClock clock;
    const double deadline = clock() + budget;
    std::vector<double> samples;
    sample();  // warm-up: the GPU raises its clocks
    do {
      for (const double seconds : sample()) samples.push_back(seconds / static_cast<double>(case_.calls));
    } while (clock() < deadline && samples.size() < 2000);
    const double seconds = tt::statistics::median(samples);
    return {{"seconds", seconds},
            {"best", *std::min_element(samples.begin(), samples.end())},
            {"samples", samples.size()},
            {"gb_per_s", case_.bytes / seconds * 1e-9},
            {"tflop_per_s", case_.flops / seconds * 1e-12}};
  }

  json about() const {
    json answer{{"mode", graph_ ? "graph" : "stream"}};
    if (graph_) {
      answer["kernels_per_call"] = static_cast<double>(graph_->nodes()) / static_cast<double>(case_.calls);
    }
    if (!capture_error_.empty()) answer["capture_error"] = capture_error_;
    if (device_.is_cuda()) answer["peak_bytes"] = cuda::memory_stats(device_.index).peak;
    return answer;
  }

 private:
  static constexpr int kBatch = 8;  // samples in flight: all are queued before the first time is read

  void call_all() {
    for (int64_t i = 0; i < case_.calls; ++i) {
      const auto set = static_cast<size_t>(i % case_.sets);
      results_[set] = works_[set]();
    }
  }

  void capture() {
    auto graph = std::make_unique<cuda::Graph>(device_.index);
    try {
      graph->capture([this] { call_all(); });
      graph->replay();
      cuda::synchronize_device(device_.index);
      graph_ = std::move(graph);
    } catch (const std::exception& e) {
      capture_error_ = e.what();
      results_.assign(works_.size(), {});
      cuda::synchronize_device(device_.index);  // throws if the device is lost
    }
  }

  // Seconds of each sample of a batch.
  std::vector<double> sample() {
    std::vector<double> seconds;
    if constexpr (cuda::is_built()) {
      for (size_t i = 0; i < starts_.size(); ++i) {
        starts_[i].record();
        graph_ ? graph_->replay() : call_all();
        ends_[i].record();
      }
      for (size_t i = 0; i < starts_.size(); ++i) {
        seconds.push_back(ends_[i].milliseconds_since(starts_[i]) * 1e-3);
      }
    }
    if (!device_.is_cuda()) {
      const SteadyClock clock;
      const double start = clock();
      call_all();
      seconds.push_back(std::max(clock() - start, 1e-9));
    }
    return seconds;
  }

  const CudaCase case_;
  tt::Device device_;
  std::vector<bench::Work> works_;
  std::unique_ptr<cuda::Graph> graph_;
  std::vector<tt::Tensors> results_;
  std::vector<cuda::Event> starts_, ends_;
  std::string capture_error_;
};

class Bench {
 public:
  Bench(tt::Device device, int64_t shrink) : device_(device), list_(shrink) {}
  const std::vector<CudaCase>& cases() const { return list_.cases; }

  json prepare(const std::string& name) {
    release();
    if (device_.is_cuda()) cuda::reset_peak(device_.index);
    for (const CudaCase& c : cases()) {
      if (c.name != name) continue;
      prepared_ = std::make_unique<Prepared>(c, device_);
      return prepared_->about();
    }
    tt::fail("TT-BENCH-01", "no case named '" + name + "'");
  }
  json measure(double seconds) {
    if (!prepared_) tt::fail("TT-BENCH-02", "\"measure\" needs a case: send \"prepare\" first");
    return prepared_->measure(seconds);
  }
  void release() {
    prepared_.reset();
    if (device_.is_cuda()) cuda::release_cached(device_.index);
  }
  json about() const {
    json answer{{"tinytorch", TINYTORCH_VERSION}, {"compiler", __VERSION__}, {"device", device_.str()}};
    if (!device_.is_cuda()) return answer;
    const cuda::DeviceProperties& p = cuda::properties(device_.index);
    answer["device"] = p.name;
    answer["compute_capability"] = std::to_string(p.major) + "." + std::to_string(p.minor);
    answer["multiprocessors"] = p.multiprocessors;
    answer["l2_bytes"] = p.l2_bytes;
    answer["cuda_driver"] = cuda::driver_version();
    answer["cuda_runtime"] = cuda::runtime_version();
    return answer;
  }

 private:
  tt::Device device_;
  bench::CudaCaseList list_;
  std::unique_ptr<Prepared> prepared_;
};

json answer(Bench& bench, const json& request) {
  const std::string what = request.at("do");
  if (what == "list") {
    json list = json::array();
    for (const CudaCase& c : bench.cases()) list.push_back(describe(c));
    return {{"cases", list}};
  }
  if (what == "about") return bench.about();
  if (what == "prepare") return bench.prepare(request.at("name"));
  if (what == "measure") return bench.measure(request.at("seconds"));
  if (what == "release") {
    bench.release();
    return json::object();
  }
  return {{"error", "unknown request: " + what}};
}

// Requests: {"do": "list" | "about" | "prepare" (with "name") | "measure" (with "seconds") | "release"}. The
// answer to a request that failed has the key "error".
int serve(Bench& bench) {
  for (std::string line; std::getline(std::cin, line);) {
    json reply;
    try {
      reply = answer(bench, json::parse(line));
    } catch (const std::exception& e) {
      reply = {{"error", e.what()}};
    }
    std::cout << reply.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
  }
  return 0;
}

int print_all(Bench& bench, const std::string& only, double seconds) {
  int failed = 0;
  std::printf("%-56s %12s %9s %9s  mode\n", "case", "microseconds", "GB/s", "TFLOP/s");
  for (const CudaCase& c : bench.cases()) {
    if (c.name.find(only) == std::string::npos) continue;
    try {
      const json about = bench.prepare(c.name), r = bench.measure(seconds);
      std::printf("%-56s %12.2f %9.1f %9.2f  %s\n", c.name.c_str(), r["seconds"].get<double>() * 1e6,
                  r["gb_per_s"].get<double>(), r["tflop_per_s"].get<double>(),
                  about["mode"].get<std::string>().c_str());
    } catch (const std::exception& e) {
      ++failed;
      std::printf("%-56s failed: %s\n", c.name.c_str(), e.what());
    }
    std::fflush(stdout);
  }
  return failed ? 1 : 0;
}

int run(int argc, char** argv) {
  CLI::App app{"Times the CUDA kernels"};
  std::string only, device = "cuda";
  double seconds = 0.05;
  int64_t shrink = 1;
  bool serving = false;
  app.add_option("--device", device)->check(CLI::IsMember({"cuda", "cpu"}));
  app.add_option("--shrink", shrink, "divisor of the sizes, for a dry run")->check(CLI::Range(1, 1 << 20));
  app.add_option("--only", only, "cases whose name contains this");
  app.add_option("--seconds", seconds, "time per case");
  app.add_flag("--serve", serving, "answer requests on standard input");
  CLI11_PARSE(app, argc, argv);
  if (device == "cuda" && !cuda::is_available()) {
    std::fprintf(
        stderr,
        "bench_cuda: no CUDA device is available%s\n  hint: --device cpu --shrink 512 makes a dry run\n",
        cuda::is_built() ? "" : ", and this program was built without CUDA");
    return 2;
  }
  Bench bench(device == "cuda" ? tt::cuda : tt::cpu, shrink);
  return serving ? serve(bench) : print_all(bench, only, seconds);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_cuda", [&] { return run(argc, argv); });
}
