// Chains of elementwise operations on a GPU: one by one, interpreted in one kernel, and compiled by NVRTC,
// against copies of as many bytes.
//
//     bench_fused_cuda --json out.json
//     bench_fused_cuda --elements 16777216 --rounds 15
// A sample is a CUDA graph of some calls with operands of their own; the contenders take turns. The share of
// a copy is the time of copies that read and write as many bytes, divided by the time of the chain.
// bench/peers/fused_torch.py measures torch.compile with the same chains.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <captured_calls.hpp>
#include <common/gpu_results.hpp>
#include <common/guarded.hpp>
#include <common/results_file.hpp>
#include <gemm_race.hpp>
#include <nlohmann/json.hpp>
#include <tinytorch/acceleration/device_pointwise.hpp>
#include <tinytorch/tinytorch.hpp>

using nlohmann::json;
namespace tt = tinytorch;
namespace cuda = tt::backend::cuda;
using namespace tinytorch::backend;

namespace {

using Kind = PointwiseStep::Kind;

struct Chain {
  const char* name;
  PointwiseProgram program;
  std::vector<tt::DType> dtypes;
  // The shapes of the inputs: the whole one, a row of it, or a single number.
  enum class Size { whole, row, one };
  std::vector<Size> sizes;
  std::function<tt::Tensor(const tt::Tensors&)> eager;
};

PointwiseStep binary(tt::DType d, BinaryFn fn, int a, int b) {
  return {Kind::binary, static_cast<uint8_t>(fn), d, {a, b, -1}, {}};
}
PointwiseStep unary(tt::DType d, UnaryFn fn, int a) {
  return {Kind::unary, static_cast<uint8_t>(fn), d, {a, -1, -1}, {}};
}

std::vector<Chain> chains(tt::DType d) {
  using enum Chain::Size;
  return {{"relu((a + b) a - b) c + a",
           {tt::f32,
            {d, d, d},
            {binary(d, BinaryFn::add, 0, 1), binary(d, BinaryFn::mul, 3, 0), binary(d, BinaryFn::sub, 4, 1),
             unary(d, UnaryFn::relu, 5), binary(d, BinaryFn::mul, 6, 2), binary(d, BinaryFn::add, 7, 0)},
            {8}},
           {d, d, d},
           {whole, whole, one},
           [](const tt::Tensors& x) { return tt::relu((x[0] + x[1]) * x[0] - x[1]) * x[2] + x[0]; }},
          {"gelu_tanh(x + bias) mask + residual",
           {tt::f32,
            {d, d, tt::boolean, d},
            {binary(d, BinaryFn::add, 0, 1),
             unary(d, UnaryFn::gelu_tanh, 4),
             {Kind::convert, 0, d, {2, -1, -1}, {}},
             binary(d, BinaryFn::mul, 5, 6),
             binary(d, BinaryFn::add, 7, 3)},
            {8}},
           {d, d, tt::boolean, d},
           {whole, row, whole, whole},
           [d](const tt::Tensors& x) { return tt::gelu_tanh(x[0] + x[1]) * x[2].to(d) + x[3]; }}};
}

constexpr int64_t kColumns = 4096;

struct Operands {
  tt::Tensors in;
  tt::Tensor out, from;  // from: half of the bytes that the chain moves
};

Operands operands_of(const Chain& chain, tt::DType d, int64_t n) {
  Operands o;
  double bytes = 0;
  for (size_t k = 0; k < chain.sizes.size(); ++k) {
    const Chain::Size size = chain.sizes[k];
    const tt::Shape shape = size == Chain::Size::whole ? tt::Shape{n / kColumns, kColumns}
                            : size == Chain::Size::row ? tt::Shape{kColumns}
                                                       : tt::Shape{};
    const tt::Tensor x = tt::randn(shape, tt::f32, tt::cuda);
    o.in.push_back(chain.dtypes[k] == tt::boolean ? tt::gt(x, 0) : x.to(chain.dtypes[k]));
    if (size == Chain::Size::whole)
      bytes += static_cast<double>(n) * static_cast<double>(tt::size_of(chain.dtypes[k]));
  }
  bytes += static_cast<double>(n) * static_cast<double>(tt::size_of(d));
  o.out = tt::empty({n / kColumns, kColumns}, d, tt::cuda);
  o.from = tt::zeros({static_cast<int64_t>(bytes / 2)}, tt::u8, tt::cuda);
  return o;
}

json run_chain(const Chain& chain, tt::DType d, int64_t n, int64_t rounds) {
  auto kernel = std::make_shared<tt::acceleration::DevicePointwise>(chain.program, false);
  std::vector<std::function<tt::Tensor()>> eager, interpreted, compiled, copies;
  const auto views = [](const Operands& o) {
    std::vector<View> in;
    for (const tt::Tensor& t : o.in) in.push_back(t.view_of());
    return in;
  };
  // Together the operands are several times the size of the L2 cache.
  const int64_t sets = std::max<int64_t>(2, (int64_t{1} << 28) / n);
  for (int64_t i = 0; i < sets; ++i) {
    const Operands o = operands_of(chain, d, n);
    eager.push_back([o, &chain] { return chain.eager(o.in); });
    interpreted.push_back([o, &chain, views] {
      const View out[] = {o.out.view_of()};
      cuda::pointwise(chain.program, out, views(o));
      return o.out;
    });
    compiled.push_back([o, kernel, views] {
      const View out[] = {o.out.view_of()};
      if (!kernel->run(out, views(o)))
        throw std::runtime_error("the chain has no kernel: " + kernel->problem());
      return o.out;
    });
    copies.push_back([o] { return o.from.clone(); });
  }
  for (const auto& form : {interpreted[0], compiled[0]}) {
    const tt::Tensor expected = eager[0](), got = form();
    const double apart = tt::max(tt::abs(got.to(tt::f32) - expected.to(tt::f32))).item<double>();
    if (!(apart == 0)) throw std::runtime_error("the forms of a chain have different bits");
  }
  bench::Captured forms[] = {bench::Captured(copies), bench::Captured(eager), bench::Captured(interpreted),
                             bench::Captured(compiled)};
  std::vector<double> times[4];
  for (int64_t r = 0; r < rounds + 2; ++r) {
    for (size_t k = 0; k < 4; ++k) {
      const double t = forms[k].seconds();
      if (r >= 2) times[k].push_back(t);
    }
  }
  return {{"chain", chain.name},
          {"dtype", tt::name_of(d)},
          {"elements", n},
          {"seconds", tt::statistics::median(times[3])},
          {"copy_seconds", tt::statistics::median(times[0])},
          {"eager_of_copy", bench::quartiles(times[0], times[1])},
          {"interpreted_of_copy", bench::quartiles(times[0], times[2])},
          {"compiled_of_copy", bench::quartiles(times[0], times[3])},
          {"compiled_times_eager", bench::quartiles(times[1], times[3])}};
}

int run(int argc, char** argv) {
  CLI::App app{"Fused elementwise chains on a GPU against copies and single operations"};
  int64_t n = int64_t{1} << 26, rounds = 15;
  std::string path;
  app.add_option("--elements", n, "elements of each tensor, a multiple of 4096")
      ->check(CLI::Range(4096, 1 << 30));
  app.add_option("--rounds", rounds, "rounds")->check(CLI::Range(1, 1000));
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  bench::require_gpu("bench_fused measures the CPU");
  n = n / kColumns * kColumns;
  const bench::ResultsFile file(path);
  json out = bench::gpu_results(rounds);
  tt::manual_seed(1);
  for (const tt::DType d : {tt::f32, tt::bf16}) {
    for (const Chain& chain : chains(d)) {
      const json r = run_chain(chain, d, n, rounds);
      fmt::print("{} {}: {:.1f} us\n", r["chain"].get<std::string>(), tt::name_of(d),
                 r["seconds"].get<double>() * 1e6);
      for (const char* key :
           {"eager_of_copy", "interpreted_of_copy", "compiled_of_copy", "compiled_times_eager"}) {
        const auto q = r[key].get<std::vector<double>>();
        fmt::print("  {:24} {:.2f} ({:.2f} to {:.2f})\n", key, q[1], q[0], q[2]);
      }
      std::fflush(stdout);
      out["chains"].push_back(r);
      file.keep(out);
    }
  }
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_fused_cuda", [&] { return run(argc, argv); });
}
