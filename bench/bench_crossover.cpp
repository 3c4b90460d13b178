// Measures the sparsity from which on each sparse format is faster than dense weights on this machine.
//
//   bench_crossover                                             one row of x, f32, a weight of 4096 x 4096
//   bench_crossover --rows 64 --formats csr bsr32               many rows
//   bench_crossover --dtype bf16 --device cuda                  on a GPU
//   bench_crossover --json crossover.json --html crossover.html
// The table is what choose_format() and store_faster() read (pruning/crossover.hpp). The dense product is
// that of a linear layer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <tinytorch/pruning/crossover.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

int run(int argc, char** argv) {
  CLI::App app{"Crossover of sparse formats"};
  tt::CrossoverOptions o;
  o.size = 4096;
  std::string json, html, dtype = "f32", device = "cpu";
  app.add_option("--rows", o.rows, "rows of x")->check(CLI::Range(1, 100'000));
  app.add_option("--size", o.size, "rows and columns of the weight, a multiple of 64");
  app.add_option("--sparsity", o.sparsities, "shares of zeros, ascending");
  app.add_option("--formats", o.formats, "bitmap, csr, bsr16, bsr32, bsr64, strips; none: all that run here");
  app.add_option("--rounds", o.rounds, "rounds of each comparison")->check(CLI::Range(1, 1000));
  app.add_option("--dtype", dtype, "f32, bf16 or f16")->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_option("--device", device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--json", json, "write the table here");
  app.add_option("--html", html, "write the page here");
  CLI11_PARSE(app, argc, argv);
  o.dtype = dtype == "f32" ? tt::f32 : dtype == "bf16" ? tt::bf16 : tt::f16;
  o.device = device == "cpu" ? tt::cpu : tt::cuda;
  const tt::CrossoverTable table = tt::measure_crossover(o);
  fmt::print("{}", table.text());
  if (!json.empty()) tt::save_crossover(table, json);
  if (!html.empty()) tt::save_crossover_page(table, html);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_crossover", [&] { return run(argc, argv); });
}
