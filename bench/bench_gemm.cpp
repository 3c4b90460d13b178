// f32 GEMM against OpenBLAS and Eigen in interleaved rounds, and as a share of the multiply-add peak, which
// is measured in the same rounds.
//
//     bench_gemm                  all shapes: square, GPT-2's layers, small, skinny; layouts NN, NT, TN
//     bench_gemm --only gpt2 --rounds 15 --json out.json
//     OMP_NUM_THREADS=1 bench_gemm --openblas libopenblas.so.0
// Ratios are medians over the rounds (gemm_race.hpp) of peer's time / this library's time: above 1, this
// library is faster. OpenBLAS is measured with the kernels that it chooses itself and with those of each core
// type of the option --cores; "blas" is the fastest of them.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarm of g++ 12 in its AVX-512 header
#endif
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <Eigen/Core>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <gemm_race.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <peers/openblas.hpp>
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/backend/cpu/peak_kernels.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>

using nlohmann::json;
namespace tt = tinytorch;
namespace cpu = tt::backend::cpu;

namespace {

using bench::Contender;
using bench::Product;
using bench::quartiles;
using bench::race;
using bench::summarize;

std::vector<Product> all_products() {
  std::vector<Product> out;
  const auto add = [&](const char* group, int64_t M, int64_t N, int64_t K) {
    out.push_back({group, M, N, K, false, false});
    out.push_back({group, M, N, K, false, true});
    out.push_back({group, M, N, K, true, false});
  };
  for (const int64_t n : {256, 384, 512, 768, 1024, 1536, 2048}) add("square", n, n, n);
  // GPT-2 124M with 256 tokens: queries, keys and values; projection; up; down.
  add("gpt2", 256, 2304, 768), add("gpt2", 256, 768, 768), add("gpt2", 256, 3072, 768),
      add("gpt2", 256, 768, 3072);
  for (const int64_t n : {8, 13, 16, 24, 32, 48, 64}) add("small", n, n, n);
  for (const int64_t M : {1, 2, 4, 8})
    add("skinny", M, 768, 768), add("skinny", M, 3072, 768), add("skinny", M, 768, 3072);
  return out;
}

using EigenMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

class Bench {
 public:
  Bench(const std::string& openblas, const std::vector<std::string>& cores, int64_t rounds, double seconds)
      : rounds_(rounds), seconds_(seconds) {
    blas_.emplace_back(openblas, "");
    for (const std::string& core : cores) {
      bench::OpenBlas other(openblas, core);
      if (other.core() != blas_[0].core()) blas_.push_back(std::move(other));
    }
    if (!blas_[0].uses_openmp())
      fmt::print(
          "note: this OpenBLAS has its own threads, which slow the other contenders; see "
          "bench/peers/openblas.hpp\n");
  }

  json run(const Product& p) {
    const tt::Tensor a = tt::randn({p.a_transposed ? p.K : p.M, p.a_transposed ? p.M : p.K});
    const tt::Tensor b = tt::randn({p.b_transposed ? p.N : p.K, p.b_transposed ? p.K : p.N});
    const tt::Tensor c = tt::zeros({p.M, p.N}), theirs = tt::zeros({p.M, p.N});
    const tt::Tensor left = p.a_transposed ? tt::transpose(a, 0, 1) : a,
                     right = p.b_transposed ? tt::transpose(b, 0, 1) : b;
    std::vector<Contender> contenders = {
        {"tinytorch", [&] { cpu::gemm(c.view_of(), left.view_of(), right.view_of()); }},
        {"peak", [&] { cpu::fma_chains(chains_.view_of(), kChainRounds); }},
        {"eigen", [&] { eigen(p, a, b, theirs); }}};
    for (const bench::OpenBlas& blas : blas_)
      contenders.push_back({blas.core(), [&] {
                              blas.sgemm(p.a_transposed, p.b_transposed, p.M, p.N, p.K, a.data<float>(),
                                         b.data<float>(), theirs.data<float>());
                            }});
    const auto taken = race(contenders, rounds_, seconds_);
    for (size_t i = 2; i < contenders.size(); ++i) {  // times can be compared only if the results agree
      contenders[i].work();
      const float difference = tt::max(tt::abs(c - theirs)).item<float>();
      if (!(difference < 1e-5f * static_cast<float>(p.K) + 1e-4f))
        throw std::runtime_error("the product of " + contenders[i].name + " differs from this library's by " +
                                 std::to_string(difference));
    }
    return row(p, contenders, taken);
  }

 private:
  static constexpr int64_t kChainRounds = 20'000;

  static void eigen(const Product& p, const tt::Tensor& a, const tt::Tensor& b, const tt::Tensor& c) {
    const Eigen::Map<const EigenMatrix> left(a.data<float>(), a.size(0), a.size(1));
    const Eigen::Map<const EigenMatrix> right(b.data<float>(), b.size(0), b.size(1));
    Eigen::Map<EigenMatrix> out(c.data<float>(), p.M, p.N);
    if (p.a_transposed) {
      out.noalias() = left.transpose() * right;
    } else if (p.b_transposed) {
      out.noalias() = left * right.transpose();
    } else {
      out.noalias() = left * right;
    }
  }

  json row(const Product& p, const std::vector<Contender>& contenders,
           const std::vector<std::vector<double>>& taken) const {
    const double chains = 2.0 * static_cast<double>(chains_.numel() * kChainRounds);
    std::vector<double> rate_share;  // FLOP/s divided by the peak of the same round
    for (size_t i = 0; i < taken[0].size(); ++i)
      rate_share.push_back(p.flops() / taken[0][i] / (chains / taken[1][i]));
    json out = {{"group", p.group},
                {"layout", p.layout()},
                {"M", p.M},
                {"N", p.N},
                {"K", p.K},
                {"gflop_per_s", p.flops() / tt::statistics::median(taken[0]) * 1e-9},
                {"share_of_peak", tt::statistics::median(rate_share)}};
    double best = 0;
    for (size_t i = 2; i < contenders.size(); ++i) {
      const std::vector<double> q = quartiles(taken[i], taken[0]);
      out["times"][contenders[i].name] = q;
      if (i > 2 && (best == 0 || q[1] < best)) best = q[1];
    }
    out["times_best_blas"] = best;
    out["times_eigen"] = out["times"]["eigen"][1];
    return out;
  }

  int64_t rounds_;
  double seconds_;
  tt::Tensor chains_ = tt::full({160 * tt::thread_count()}, 2.0f);
  std::vector<bench::OpenBlas> blas_;
};

int run(int argc, char** argv) {
  CLI::App app{"f32 GEMM against OpenBLAS and Eigen"};
  int64_t rounds = 11;
  double seconds = 5e-3;
  std::string only, path, openblas = "libopenblas.so.0";
  std::vector<std::string> cores = {"Haswell"};
  app.add_option("--rounds", rounds, "rounds per shape")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", seconds, "seconds of each contender in a round")->check(CLI::Range(1e-4, 10.0));
  app.add_option("--only", only, "one group: square, gpt2, small or skinny")
      ->check(CLI::IsMember({"square", "gpt2", "small", "skinny"}));
  app.add_option("--openblas", openblas, "the shared library: a name for the dynamic linker, or a path");
  app.add_option("--cores", cores, "core types to try besides the one that OpenBLAS chooses");
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  const bench::ResultsFile file(path);
  Bench bench(openblas, cores, rounds, seconds);
  fmt::print("{:8} {:>3} {:>6} {:>6} {:>6} {:>9} {:>8} {:>7} {:>7}\n", "group", "", "M", "N", "K", "GFLOP/s",
             "of peak", "x blas", "x Eigen");
  std::map<std::string, std::vector<json>> groups;
  for (const Product& p : all_products()) {
    if (!only.empty() && p.group != only) continue;
    const json r = bench.run(p);
    fmt::print("{:8} {:>3} {:>6} {:>6} {:>6} {:>9.1f} {:>7.0f}% {:>7.2f} {:>7.2f}\n", p.group, p.layout(),
               p.M, p.N, p.K, r["gflop_per_s"].get<double>(), r["share_of_peak"].get<double>() * 100,
               r["times_best_blas"].get<double>(), r["times_eigen"].get<double>());
    std::fflush(stdout);
    groups[p.group].push_back(r);
    file.keep(groups);
  }
  json out = {{"machine", bench::provenance()}, {"rounds", rounds}};
  for (const auto& [group, rows] : groups) {
    json& of_group = out["groups"][group];
    for (const char* key : {"share_of_peak", "times_best_blas", "times_eigen"})
      of_group[key] = summarize(rows, key);
    of_group["rows"] = rows;
    fmt::print(
        "{:8} of peak {:.2f}, worst {:.2f}; x blas {:.2f}, worst {:.2f}; x Eigen {:.2f}, worst {:.2f}\n",
        group, of_group["share_of_peak"]["geometric_mean"].get<double>(),
        of_group["share_of_peak"]["worst"].get<double>(),
        of_group["times_best_blas"]["geometric_mean"].get<double>(),
        of_group["times_best_blas"]["worst"].get<double>(),
        of_group["times_eigen"]["geometric_mean"].get<double>(),
        of_group["times_eigen"]["worst"].get<double>());
  }
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_gemm", [&] { return run(argc, argv); });
}
