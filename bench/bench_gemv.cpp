// GEMV as a share of the memory's read bandwidth, both measured in the same rounds. The weights exceed the
// caches.
//
//   bench_gemv                                  f32, bf16, i8 and 4-bit weights of 192 MiB each
//   bench_gemv --megabytes 400 --rounds 15 --json out.json
// The read bandwidth is that of a sum over the same number of bytes by all threads. The share of a round is
// the bytes of weights and scales per second of the GEMV, divided by the bytes per second of the sum.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <gemm_race.hpp>
#include <read_bandwidth.hpp>
#include <tinytorch/backend/cpu/gemm/gemv.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tinytorch.hpp>

using nlohmann::json;
namespace tt = tinytorch;
namespace cpu = tt::backend::cpu;

namespace {

constexpr int64_t kColumns = 4096;

struct Weights {
  const char* name;
  double bytes_each;
  tt::DType dtype;
};

json run(const Weights& w, int64_t bytes, int64_t rounds, double seconds) {
  const auto rows = static_cast<int64_t>(static_cast<double>(bytes) / (w.bytes_each * kColumns));
  const bool int4 = w.dtype == tt::u8;
  const tt::Tensor x = tt::randn({kColumns}), y = tt::zeros({rows}), copy = tt::zeros({bytes}, tt::u8);
  const tt::Tensor scale = int4 ? tt::rand({rows, kColumns / cpu::kInt4Group}) : tt::rand({rows});
  const tt::Tensor weight = int4                ? tt::randint(0, 256, {rows, kColumns / 2}, tt::u8)
                            : w.dtype == tt::i8 ? tt::randint(-128, 128, {rows, kColumns}, tt::i8)
                                                : tt::randn({rows, kColumns}).to(w.dtype);
  const bool scaled = w.dtype == tt::i8;
  const std::vector<bench::Contender> contenders = {
      {w.name,
       [&] {
         if (int4) return cpu::gemv_int4(y.view_of(), x.view_of(), weight.view_of(), scale.view_of());
         cpu::gemv(y.view_of(), x.view_of(), weight.view_of(),
                   scaled ? scale.view_of() : tt::backend::View{});
       }},
      {"reading", [&] { bench::read_all(copy); }}};
  const auto taken = bench::race(contenders, rounds, seconds);
  const double moved =
      static_cast<double>(weight.numel()) * static_cast<double>(tt::size_of(weight.dtype())) +
      (int4 || scaled ? 4.0 * static_cast<double>(scale.numel()) : 0.0);
  std::vector<double> shares = bench::quartiles(taken[1], taken[0]);
  for (double& s : shares) s *= moved / static_cast<double>(bytes);
  return {{"weights", w.name},
          {"rows", rows},
          {"columns", kColumns},
          {"gb_per_s", moved / tt::statistics::median(taken[0]) * 1e-9},
          {"read_gb_per_s", static_cast<double>(bytes) / tt::statistics::median(taken[1]) * 1e-9},
          {"share_of_reading", shares[1]},
          {"quartiles", shares}};
}

int run(int argc, char** argv) {
  CLI::App app{"GEMV as a share of the memory's read bandwidth"};
  int64_t rounds = 11, megabytes = 192;
  double seconds = 2e-2;
  std::string path;
  app.add_option("--megabytes", megabytes, "MiB of weights; several times the last-level cache")
      ->check(CLI::Range(1, 16'000));
  app.add_option("--rounds", rounds, "rounds for each kind of weights")->check(CLI::Range(1, 1000));
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  const bench::ResultsFile file(path);
  json out = {{"machine", bench::provenance()}, {"rounds", rounds}, {"megabytes", megabytes}};
  fmt::print("{:8} {:>8} {:>8} {:>9} {:>8}  {}\n", "weights", "rows", "GB/s", "reading", "share",
             "quartiles");
  for (const Weights& w : {Weights{"f32", 4, tt::f32},
                           {"bf16", 2, tt::bf16},
                           {"i8", 1, tt::i8},
                           {"int4", 0.5 + 4.0 / cpu::kInt4Group, tt::u8}}) {
    const json r = run(w, megabytes << 20, rounds, seconds);
    fmt::print("{:8} {:>8} {:>8.1f} {:>9.1f} {:>8.2f}  {:.2f}-{:.2f}\n", w.name, r["rows"].get<int64_t>(),
               r["gb_per_s"].get<double>(), r["read_gb_per_s"].get<double>(),
               r["share_of_reading"].get<double>(), r["quartiles"][0].get<double>(),
               r["quartiles"][2].get<double>());
    out["rows"].push_back(r);
    file.keep(out);
  }
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_gemv", [&] { return run(argc, argv); });
}
