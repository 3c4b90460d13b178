// Sparse weights against dense ones on the CPU: times of products at several densities, in the same rounds.
//
//   bench_sparse                                   y = x w^T for one row of x, f32 weights of 64 MiB
//   bench_sparse --rows 64 --formats csr bsr32     many rows of x
//   bench_sparse --size 4096 --rounds 21 --json out.json
// A ratio is the time of the dense product divided by that of the sparse one, formed within a round. The
// limit is that of the bytes: dense bytes of the weight divided by the bytes of the format.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <gemm_race.hpp>
#include <tinytorch/backend/cpu/gemm/gemv.hpp>
#include <tinytorch/pruning/magnitude.hpp>
#include <tinytorch/pruning/sparse_weight.hpp>
#include <tinytorch/tinytorch.hpp>

using nlohmann::json;
namespace tt = tinytorch;

namespace {

// A random matrix [n, n] of which 1 - sparsity is kept: single elements, or whole blocks.
tt::Tensor pruned(int64_t n, double sparsity, int64_t block) {
  const tt::Tensor w = tt::randn({n, n});
  if (block == 0) return tt::masked(w, tt::random_mask({n, n}, sparsity));
  const tt::Tensor mask = tt::random_mask({n / block, n / block}, sparsity);
  const bool* const keep = static_cast<const bool*>(mask.raw());
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < n; ++c)
      if (!keep[r / block * (n / block) + c / block]) w.data<float>()[r * n + c] = 0;
  return w;
}

int run(int argc, char** argv) {
  CLI::App app{"Sparse weights against dense ones"};
  int64_t rounds = 11, size = 4096, rows = 1;
  double seconds = 2e-2;
  std::string path;
  std::vector<double> sparsities{0.5, 0.8, 0.9};
  std::vector<std::string> formats{"bitmap"};
  app.add_option("--size", size, "rows and columns of the weight, a multiple of 64")
      ->check(CLI::Range(64, 32768));
  app.add_option("--rows", rows, "rows of x")->check(CLI::Range(1, 100'000));
  app.add_option("--sparsity", sparsities, "shares of zeros")->check(CLI::Range(0.0, 0.999));
  app.add_option("--formats", formats,
                 "bitmap, csr, bsr16, bsr32, bsr64, bsr16_int8, bsr32_int8, bsr64_int8");
  app.add_option("--rounds", rounds, "rounds of each comparison")->check(CLI::Range(1, 1000));
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  size = size / 64 * 64;
  const bench::ResultsFile file(path);
  json out = {{"machine", bench::provenance()}, {"rounds", rounds}, {"size", size}, {"rows_of_x", rows}};
  fmt::print("{:8} {:>9} {:>11} {:>11} {:>8} {:>14} {:>8}\n", "format", "sparsity", "dense us", "sparse us",
             "ratio", "quartiles", "limit");
  const tt::NoGrad no_grad;
  const tt::Tensor x = tt::randn({rows, size}), dense = tt::randn({size, size}), y = tt::zeros({size});
  for (const std::string& format : formats) {
    for (const double sparsity : sparsities) {
      const tt::SparseWeight w =
          tt::sparse_weight(pruned(size, sparsity, tt::pruning::block_of_format(format)), format);
      // The dense product of one row is the kernel that reads its weights at the bandwidth of the memory.
      const auto full = [&] {
        if (rows == 1)
          tt::backend::cpu::gemv(y.view_of(), x.select(0, 0).view_of(), dense.view_of());
        else
          (void)tt::linear(x, dense);
      };
      const auto taken =
          bench::race({{"dense", full}, {"sparse", [&] { (void)tt::sparse_linear(x, w); }}}, rounds, seconds);
      const std::vector<double> q = bench::quartiles(taken[0], taken[1]);
      const double limit = 4.0 * static_cast<double>(size * size) / static_cast<double>(w.bytes()),
                   before = tt::statistics::median(taken[0]), after = tt::statistics::median(taken[1]);
      fmt::print("{:8} {:>9.2f} {:>11.1f} {:>11.1f} {:>8.2f} {:>7.2f}-{:<6.2f} {:>8.2f}\n", format, sparsity,
                 before * 1e6, after * 1e6, q[1], q[0], q[2], limit);
      out["results"].push_back({{"format", format},
                                {"sparsity", sparsity},
                                {"dense_seconds", before},
                                {"sparse_seconds", after},
                                {"ratio", q[1]},
                                {"quartiles", q},
                                {"bytes", w.bytes()},
                                {"limit_of_bytes", limit}});
      file.keep(out);
    }
  }
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_sparse", [&] { return run(argc, argv); });
}
