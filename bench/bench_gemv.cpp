// GEMV as a share of the memory's read bandwidth, both measured in the same rounds. The weights exceed the
// caches.
//
//   bench_gemv                                  f32, bf16, i8 and all block formats, 192 MiB of each
//   bench_gemv --megabytes 400 --rounds 15 --json out.json
// The read bandwidth is that of a sum over the same number of bytes by all threads. The share of a round is
// the bytes of weights and scales per second of the GEMV, divided by the bytes per second of the sum. Block
// formats are measured with activations of 8 bits, if they have a kernel for them, and with floats.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <gemm_race.hpp>
#include <read_bandwidth.hpp>
#include <tinytorch/backend/cpu/block_linear.hpp>
#include <tinytorch/backend/cpu/gemm/gemv.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tinytorch.hpp>

using nlohmann::json;
namespace tt = tinytorch;
namespace cpu = tt::backend::cpu;

namespace {

constexpr int64_t kColumns = 4096;

struct Measurement {
  int64_t bytes, rounds;  // bytes of weights, about
  double seconds;
};

// The rows of the report: one for each way to multiply, timed in the same rounds as reading.
struct Way {
  const char* activations;
  std::function<void()> multiply;
};
std::vector<json> race(const char* name, int64_t rows, double moved, const std::vector<Way>& ways,
                       const Measurement& m) {
  const tt::Tensor copy = tt::zeros({m.bytes}, tt::u8);
  std::vector<bench::Contender> contenders{{"reading", [&] { bench::read_all(copy); }}};
  for (const Way& w : ways) contenders.push_back({w.activations, w.multiply});
  const auto taken = bench::race(contenders, m.rounds, m.seconds);
  std::vector<json> out;
  for (size_t i = 0; i < ways.size(); ++i) {
    std::vector<double> shares = bench::quartiles(taken[0], taken[i + 1]);
    for (double& s : shares) s *= moved / static_cast<double>(m.bytes);
    out.push_back({{"weights", name},
                   {"activations", ways[i].activations},
                   {"rows", rows},
                   {"columns", kColumns},
                   {"gb_per_s", moved / tt::statistics::median(taken[i + 1]) * 1e-9},
                   {"read_gb_per_s", static_cast<double>(m.bytes) / tt::statistics::median(taken[0]) * 1e-9},
                   {"share_of_reading", shares[1]},
                   {"quartiles", shares}});
  }
  return out;
}

std::vector<json> plain(const char* name, tt::DType dtype, const Measurement& m) {
  const auto size = static_cast<int64_t>(tt::size_of(dtype));
  const int64_t rows = m.bytes / (size * kColumns);
  const tt::Tensor x = tt::randn({kColumns}), y = tt::zeros({rows}), scale = tt::rand({rows});
  const bool scaled = dtype == tt::i8;
  const tt::Tensor weight =
      scaled ? tt::randint(-128, 128, {rows, kColumns}, tt::i8) : tt::randn({rows, kColumns}).to(dtype);
  const auto multiply = [&] {
    cpu::gemv(y.view_of(), x.view_of(), weight.view_of(), scaled ? scale.view_of() : tt::backend::View{});
  };
  const double moved = static_cast<double>(weight.numel() * size + (scaled ? 4 * rows : 0));
  return race(name, rows, moved, {{"floats", multiply}}, m);
}

// Packing would take longer than measuring, so the rows repeat the first ones.
std::vector<json> packed(const tt::BlockFormat& f, const Measurement& m) {
  constexpr int64_t kDistinct = 64;
  const int64_t row = f.row_bytes(kColumns), rows = m.bytes / row / kDistinct * kDistinct;
  const tt::Tensor x = tt::randn({1, kColumns}), y = tt::zeros({1, rows}),
                   w = tt::randn({kDistinct, kColumns});
  const tt::Tensor weight = tt::zeros({rows, row}, tt::u8);
  auto* const bytes = weight.view_of().as<uint8_t>();
  f.pack(w.view_of().as<const float>(), w.numel() / f.block, bytes);
  for (int64_t r = kDistinct; r < rows; ++r)
    std::memcpy(bytes + r * row, bytes + r % kDistinct * row, size_t(row));
  const auto multiply = [&](tt::Activations a) {
    return [&, a] { cpu::block_linear(y.view_of(), x.view_of(), weight.view_of(), {}, f, a); };
  };
  std::vector<Way> ways;
  if (f.product_int8) ways.push_back({"int8", multiply(tt::Activations::int8)});
  ways.push_back({"floats", multiply(tt::Activations::floats)});
  return race(f.name, rows, static_cast<double>(weight.numel()), ways, m);
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
  fmt::print("{:8} {:>11} {:>8} {:>8} {:>9} {:>8}  {}\n", "weights", "activations", "rows", "GB/s", "reading",
             "share", "quartiles");
  const auto keep = [&](const std::vector<json>& measured) {
    for (const json& r : measured) {
      fmt::print("{:8} {:>11} {:>8} {:>8.1f} {:>9.1f} {:>8.2f}  {:.2f}-{:.2f}\n",
                 r["weights"].get<std::string>(), r["activations"].get<std::string>(),
                 r["rows"].get<int64_t>(), r["gb_per_s"].get<double>(), r["read_gb_per_s"].get<double>(),
                 r["share_of_reading"].get<double>(), r["quartiles"][0].get<double>(),
                 r["quartiles"][2].get<double>());
      out["rows"].push_back(r);
      file.keep(out);
    }
  };
  const Measurement m{megabytes << 20, rounds, seconds};
  keep(plain("f32", tt::f32, m)), keep(plain("bf16", tt::bf16, m)), keep(plain("i8", tt::i8, m));
  for (const tt::BlockFormat& f : tt::block_formats()) keep(packed(f, m));
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_gemv", [&] { return run(argc, argv); });
}
