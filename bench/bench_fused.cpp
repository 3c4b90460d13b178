// Chains of elementwise operations: one by one, interpreted in blocks, and compiled, against STREAM's triad.
//
//     bench_fused                                  16 Mi elements; add, mul, sub, relu, mul, add
//     bench_fused --elements 4194304 --rounds 15 --json out.json
// Each round measures the triad and all forms once. A share of the triad is bytes that must be moved (two
// inputs and one result) per second, divided by the triad's bytes per second in the same round. Results of
// all forms must have the same bits.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <copy_bandwidth.hpp>
#include <cstring>
#include <functional>
#include <gemm_race.hpp>
#include <nlohmann/json.hpp>
#include <tinytorch/acceleration/compiled_pointwise.hpp>
#include <tinytorch/backend/cpu/pointwise.hpp>
#include <tinytorch/tinytorch.hpp>

using nlohmann::json;
namespace tt = tinytorch;
using namespace tinytorch::backend;

namespace {

struct Chain {
  const char* name;
  PointwiseProgram program;
  std::function<tt::Tensor(const tt::Tensor&, const tt::Tensor&)> eager;
};

PointwiseStep binary(BinaryFn fn, int a, int b) {
  return {PointwiseStep::Kind::binary, static_cast<uint8_t>(fn), tt::f32, {a, b, -1}, {}};
}
PointwiseStep unary(UnaryFn fn, int a) {
  return {PointwiseStep::Kind::unary, static_cast<uint8_t>(fn), tt::f32, {a, -1, -1}, {}};
}

// Value 2 of each program is the constant 0.5.
std::vector<Chain> chains() {
  return {{"light: relu((a + b) a - b) 0.5 + a",
           {tt::f32,
            {tt::f32, tt::f32, tt::f32},
            {binary(BinaryFn::add, 0, 1), binary(BinaryFn::mul, 3, 0), binary(BinaryFn::sub, 4, 1),
             unary(UnaryFn::relu, 5), binary(BinaryFn::mul, 6, 2), binary(BinaryFn::add, 7, 0)},
            {8}},
           [](const tt::Tensor& a, const tt::Tensor& b) { return tt::relu((a + b) * a - b) * 0.5 + a; }},
          {"heavy: gelu_tanh((a + b) 0.5) sigmoid(b) + a",
           {tt::f32,
            {tt::f32, tt::f32, tt::f32},
            {binary(BinaryFn::add, 0, 1), binary(BinaryFn::mul, 3, 2), unary(UnaryFn::gelu_tanh, 4),
             unary(UnaryFn::sigmoid, 1), binary(BinaryFn::mul, 5, 6), binary(BinaryFn::add, 7, 0)},
            {8}},
           [](const tt::Tensor& a, const tt::Tensor& b) {
             return tt::gelu_tanh((a + b) * 0.5) * tt::sigmoid(b) + a;
           }}};
}

json run(const Chain& chain, int64_t n, int64_t rounds) {
  const tt::Tensor a = tt::randn({n}), b = tt::randn({n}), half = tt::full({}, 0.5);
  const tt::Tensor interpreted = tt::zeros({n}), compiled = tt::zeros({n});
  const View in[] = {a.view_of(), b.view_of(), half.view_of()};
  const View to[] = {interpreted.view_of()}, other[] = {compiled.view_of()};
  tt::acceleration::CompiledPointwise kernel(chain.program, {.background = false});
  const bool has_kernel = kernel.run(other, in);
  cpu::pointwise(chain.program, to, in);
  const tt::Tensor expected = chain.eager(a, b);
  const auto same = [&](const tt::Tensor& y) {
    return std::memcmp(y.data<float>(), expected.data<float>(), static_cast<size_t>(4 * n)) == 0;
  };
  if (!same(interpreted) || (has_kernel && !same(compiled)))
    throw std::runtime_error("the forms of a chain have different bits");
  const bench::Triad triad(n);
  const std::function<void()> forms[] = {[&] { chain.eager(a, b); },
                                         [&] { cpu::pointwise(chain.program, to, in); },
                                         [&] { kernel.run(other, in); }};
  const int64_t calls = std::max<int64_t>(1, (int64_t{1} << 24) / n);  // of a form in one measurement
  std::vector<double> limit, times[3];
  for (int64_t round = 0; round < rounds; ++round) {
    limit.push_back(12.0 * static_cast<double>(n) / triad.bytes_per_second());
    for (size_t k = 0; k < 3; ++k) {
      const auto several = [&] {
        for (int64_t i = 0; i < calls; ++i) forms[k]();
      };
      times[k].push_back(tt::statistics::median(tt::benchmarking::time_calls(several, 5)) /
                         static_cast<double>(calls));
    }
  }
  json out = {{"chain", chain.name},
              {"elements", n},
              {"eager_of_triad", bench::quartiles(limit, times[0])},
              {"interpreted_of_triad", bench::quartiles(limit, times[1])},
              {"interpreted_times_eager", bench::quartiles(times[0], times[1])},
              {"seconds_eager", tt::statistics::median(times[0])}};
  if (!has_kernel) {
    for (const auto& k : kernel.kernels()) out["no_kernel"] = k->problem;
    return out;
  }
  out["compiled_of_triad"] = bench::quartiles(limit, times[2]);
  out["compiled_times_eager"] = bench::quartiles(times[0], times[2]);
  out["compiler_seconds"] = kernel.kernels().front()->seconds;
  return out;
}

int run(int argc, char** argv) {
  CLI::App app{"Fused elementwise chains against the triad and single operations"};
  int64_t n = int64_t{1} << 24, rounds = 9;
  std::string path;
  app.add_option("--elements", n, "elements of each tensor")->check(CLI::Range(1, 1 << 28));
  app.add_option("--rounds", rounds, "rounds")->check(CLI::Range(1, 1000));
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  const bench::ResultsFile file(path);
  json out = {{"machine", bench::provenance()}, {"rounds", rounds}};
  for (const Chain& chain : chains()) {
    const json r = run(chain, n, rounds);
    fmt::print("{}\n", chain.name);
    for (const char* key : {"eager_of_triad", "interpreted_of_triad", "compiled_of_triad",
                            "interpreted_times_eager", "compiled_times_eager"}) {
      if (!r.contains(key)) continue;
      const auto q = r[key].get<std::vector<double>>();
      fmt::print("  {:24} {:.2f} ({:.2f} to {:.2f})\n", key, q[1], q[0], q[2]);
    }
    if (r.contains("no_kernel")) fmt::print("  no kernel: {}\n", r["no_kernel"].get<std::string>());
    std::fflush(stdout);
    out["chains"].push_back(r);
    file.keep(out);
  }
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_fused", [&] { return run(argc, argv); });
}
