// Products with packed weights on a GPU: time as a share of a copy of as many bytes, and against the same
// product with bf16 weights.
//
//   bench_packed_cuda --json out.json
//
// Each call has its own weights, several times the size of the L2 cache together. The calls of a sample are
// one CUDA graph, and the contenders take turns.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <captured_calls.hpp>
#include <common/gpu_results.hpp>
#include <common/guarded.hpp>
#include <common/results_file.hpp>
#include <gemm_race.hpp>
#include <nlohmann/json.hpp>
#include <tinytorch/quantization/tensor.hpp>

using nlohmann::json;
namespace tt = tinytorch;
namespace cuda = tt::backend::cuda;

namespace {

struct Case {
  const char* format;
  int64_t M, N, K;
};

json run_case(const Case& c, int64_t rounds) {
  const tt::BlockFormat& format = tt::block_format(c.format);
  const int64_t bytes = c.N * format.row_bytes(c.K);
  const int64_t sets = std::max<int64_t>(2, (int64_t{256} << 20) / bytes);
  const tt::Tensor x = tt::randn({c.M, c.K}, tt::f32, tt::cuda).to(tt::bf16);
  std::vector<std::function<tt::Tensor()>> packed, halves, copies;
  for (int64_t i = 0; i < sets; ++i) {
    // Random bytes would have scales that are NaN, so a few packed rows are repeated.
    const tt::QuantizedTensor some = tt::quantize(tt::randn({64, c.K}, tt::f32, tt::cpu), format);
    tt::Tensor blocks = tt::zeros({c.N, format.row_bytes(c.K)}, tt::u8, tt::cuda);
    for (int64_t n = 0; n < c.N; n += 64)
      tt::slice(blocks, 0, n, std::min(n + 64, c.N))
          .copy_(tt::slice(some.blocks(), 0, 0, std::min<int64_t>(64, c.N - n)).to(tt::cuda));
    const tt::QuantizedTensor w(format, c.K, blocks);
    packed.push_back([x, w] { return tt::linear(x, w); });
    if (i < 4) {
      const tt::Tensor half = tt::zeros({c.N, c.K}, tt::bf16, tt::cuda);
      halves.push_back([x, half] { return tt::linear(x, half); });
    }
    const tt::Tensor from = tt::zeros({bytes / 2}, tt::u8, tt::cuda);
    copies.push_back([from] { return from.clone(); });
  }
  bench::Captured ours(std::move(packed)), own_bf16(std::move(halves)), copy(std::move(copies));
  std::vector<double> a, b, read;
  for (int64_t r = 0; r < rounds + 2; ++r) {
    const double t[] = {ours.seconds(), own_bf16.seconds(), copy.seconds()};
    if (r >= 2) a.push_back(t[0]), b.push_back(t[1]), read.push_back(t[2]);
  }
  const std::vector<double> shares = bench::quartiles(read, a), speedups = bench::quartiles(b, a);
  const double seconds = tt::statistics::median(a);
  fmt::print(
      "{:5} {:4} x {:6} x {:6}, {:6.1f} MB: {:8.1f} us, {:.2f} of copy ({:.2f}-{:.2f}), {:.2f} times bf16 "
      "({:.2f}-{:.2f})\n",
      c.format, c.M, c.N, c.K, static_cast<double>(bytes) * 1e-6, seconds * 1e6, shares[1], shares[0],
      shares[2], speedups[1], speedups[0], speedups[2]);
  return {{"format", c.format},     {"shape", {c.M, c.N, c.K}},     {"bytes", bytes},
          {"seconds", seconds},     {"share_of_copy", shares[1]},   {"share_quartiles", shares},
          {"of_bf16", speedups[1]}, {"of_bf16_quartiles", speedups}};
}

int run(int argc, char** argv) {
  CLI::App app{"Products with packed weights on a GPU"};
  int64_t rounds = 21;
  std::string path;
  app.add_option("--rounds", rounds, "rounds of each case")->check(CLI::Range(1, 1000));
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  bench::require_gpu("bench_gemv measures the CPU");
  const bench::ResultsFile file(path);
  json out = bench::gpu_results(rounds);
  tt::manual_seed(1);
  for (const Case& c : {Case{"Q4_0", 1, 16384, 8192},
                        {"Q4_0", 1, 8192, 8192},
                        {"Q4_0", 1, 4096, 4096},
                        {"Q8_0", 1, 16384, 8192},
                        {"Q4_1", 1, 16384, 8192},
                        {"Q8_1", 1, 16384, 8192},
                        {"Q4_K", 1, 16384, 8192},
                        {"Q6_K", 1, 16384, 8192},
                        {"MXFP4", 1, 16384, 8192},
                        {"NVFP4", 1, 16384, 8192},
                        {"Q4_0", 4, 16384, 8192},
                        {"Q4_0", 16, 16384, 8192},
                        {"Q4_0", 64, 16384, 8192},
                        {"Q4_0", 512, 16384, 8192}}) {
    out["cases"].push_back(run_case(c, rounds));
    file.keep(out);
  }
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_packed_cuda", [&] { return run(argc, argv); });
}
