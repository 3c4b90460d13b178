// Matrix product against Eigen 3.4, taking turns, with the multiply-add peak of the same run.
//
//   bench_matmul                    squares from 64 to 2048 and the layer shapes of GPT-2
//   bench_matmul --json out.json
// Both use all threads (OpenMP) and the same random inputs. ratio: time of this library / time of Eigen. In
// each round the two run in random order; the figures are medians over the rounds.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false, in g++ 12's AVX-512 header as Eigen uses it
#endif
#include <CLI/CLI.hpp>
#include <Eigen/Core>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/benchmarking/peak.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>

using nlohmann::json;
namespace tt = tinytorch;
using EigenMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace {

struct Product {
  int64_t M, N, K;
};

json race(Product p, int64_t rounds, double peak) {
  const tt::Tensor a = tt::randn({p.M, p.K}), b = tt::randn({p.K, p.N});
  const Eigen::Map<const EigenMatrix> left(a.data<float>(), p.M, p.K), right(b.data<float>(), p.K, p.N);
  EigenMatrix eigen_result(p.M, p.N);
  const auto ours = [&] { (void)tt::matmul(a, b); };
  const auto eigen = [&] { eigen_result.noalias() = left * right; };
  ours(), eigen();
  const double flops = 2.0 * static_cast<double>(p.M * p.N * p.K);
  const auto calls = std::max<int64_t>(1, static_cast<int64_t>(2e-3 * peak * 1e9 / flops));
  std::vector<double> seconds[2], ratios;
  for (const std::vector<size_t>& order :
       tt::benchmarking::random_blocks(2, static_cast<size_t>(rounds), 1)) {
    double taken[2];
    for (size_t contender : order) {
      const std::vector<double> times = contender == 0 ? tt::benchmarking::time_calls(ours, calls)
                                                       : tt::benchmarking::time_calls(eigen, calls);
      taken[contender] = tt::statistics::median(times);
      seconds[contender].push_back(taken[contender]);
    }
    ratios.push_back(taken[0] / taken[1]);
  }
  const double mine = tt::statistics::median(seconds[0]), theirs = tt::statistics::median(seconds[1]);
  const tt::Tensor product = tt::matmul(a, b);  // a race between different answers would mean nothing
  const Eigen::Map<const EigenMatrix> result(product.data<float>(), p.M, p.N);
  if (!result.isApprox(eigen_result, 1e-4f)) tt::fail("TT-BENCH-01", "matmul and Eigen disagree");
  return {{"M", p.M},
          {"N", p.N},
          {"K", p.K},
          {"gflop_per_s", flops / mine * 1e-9},
          {"eigen_gflop_per_s", flops / theirs * 1e-9},
          {"share_of_peak", flops / mine * 1e-9 / peak},
          {"ratio", tt::statistics::median(ratios)}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Matrix product against Eigen"};
  int64_t rounds = 9;
  std::string json_path;
  app.add_option("--rounds", rounds, "races per shape")->check(CLI::Range(1, 1000));
  app.add_option("--json", json_path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  const double peak = 1e-9 * tinytorch::benchmarking::measure_fma_peak();
  std::printf("multiply-add peak of %d threads: %.0f GFLOP/s\n", tt::thread_count(), peak);
  std::printf("%6s %6s %6s %10s %10s %8s %7s\n", "M", "N", "K", "GFLOP/s", "Eigen", "of peak", "ratio");
  json rows = json::array();
  // Squares, then GPT-2 124M with 256 tokens: qkv, projection, up, down.
  for (Product p : {Product{64, 64, 64},
                    {128, 128, 128},
                    {256, 256, 256},
                    {512, 512, 512},
                    {1024, 1024, 1024},
                    {2048, 2048, 2048},
                    {256, 2304, 768},
                    {256, 768, 768},
                    {256, 3072, 768},
                    {256, 768, 3072}}) {
    const json r = race(p, rounds, peak);
    std::printf("%6lld %6lld %6lld %10.1f %10.1f %7.0f%% %7.2f\n", static_cast<long long>(p.M),
                static_cast<long long>(p.N), static_cast<long long>(p.K), r["gflop_per_s"].get<double>(),
                r["eigen_gflop_per_s"].get<double>(), r["share_of_peak"].get<double>() * 100,
                r["ratio"].get<double>());
    rows.push_back(r);
  }
  if (!json_path.empty()) {
    std::ofstream(json_path) << json{{"fma_peak_gflop_per_s", peak}, {"shapes", rows}}.dump(1) << "\n";
  }
  return 0;
}
