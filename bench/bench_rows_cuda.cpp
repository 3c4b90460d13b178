// Functions of rows on a GPU: softmax, layer norm and cross entropy written as plain operations, one by one
// and compiled to one generated kernel (Math::fast, acceleration/emit_cuda_rows.hpp), against the library's
// own kernels and copies of as many bytes.
//
//     bench_rows_cuda --json out.json
//     bench_rows_cuda --only softmax --rounds 15
// A sample is a CUDA graph of some calls with operands of their own; the contenders take turns. Results are
// compared with those of the own kernel. bench/peers/rows_torch.py measures torch.compile with the same
// functions.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <captured_calls.hpp>
#include <common/gpu_results.hpp>
#include <common/guarded.hpp>
#include <common/results_file.hpp>
#include <gemm_race.hpp>
#include <nlohmann/json.hpp>
#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/tinytorch.hpp>

using nlohmann::json;
namespace tt = tinytorch;
namespace cuda = tt::backend::cuda;
using tt::Tensor;
using tt::Tensors;

namespace {

struct RowFunction {
  const char* name;
  tt::TensorFunction plain, own;
  bool keeps_rows;  // the result has all elements, else one number for each row
};

std::vector<RowFunction> functions() {
  const auto softmax = [](const Tensors& x) {
    const Tensor e = tt::exp(x[0] - tt::max(x[0], {-1}, true));
    return Tensors{e / tt::sum(e, {-1}, true)};
  };
  const auto norm = [](const Tensors& x) {
    const Tensor d = x[0] - tt::mean(x[0], {-1}, true), v = tt::mean(d * d, {-1}, true);
    return Tensors{d * tt::rsqrt(v + 1e-5) * x[1] + x[2]};
  };
  const auto loss = [](const Tensors& x) {
    const Tensor m = tt::max(x[0], {-1}, true);
    const Tensor lse = tt::log(tt::sum(tt::exp(x[0] - m), {-1}, true)) + m;
    return Tensors{lse - tt::gather(x[0], 1, x[3])};
  };
  return {
      {"softmax", softmax, [](const Tensors& x) { return Tensors{tt::softmax(x[0], -1)}; }, true},
      {"layer norm", norm, [](const Tensors& x) { return Tensors{tt::layer_norm(x[0], x[1], x[2])}; }, true},
      {"cross entropy", loss,
       [](const Tensors& x) {
         return Tensors{tt::cross_entropy(x[0], x[3].reshape({-1}), {.reduction = tt::Reduction::none})};
       },
       false}};
}

double apart(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(tt::f32).reshape({-1}), y = b.to(tt::f32).reshape({-1});
  return tt::max(tt::abs(x - y)).item<double>() / std::max(1e-30, tt::max(tt::abs(y)).item<double>());
}

json run_function(const RowFunction& f, tt::DType d, int64_t rows, int64_t n, int64_t rounds) {
  const tt::NoGrad no_grad;
  auto compiled =
      tt::compile(f.plain, {.math = tt::Math::fast, .kernels = tt::RegionKernels::compiled, .strict = true});
  std::vector<std::function<Tensor()>> calls[4];
  // Together the operands are several times the size of the L2 cache.
  const int64_t sets = std::max<int64_t>(2, (int64_t{1} << 28) / (rows * n));
  for (int64_t i = 0; i < sets; ++i) {
    const Tensors in{tt::randn({rows, n}, tt::f32, tt::cuda).to(d), tt::randn({n}, tt::f32, tt::cuda).to(d),
                     tt::randn({n}, tt::f32, tt::cuda).to(d),
                     tt::randint(0, n, {rows, 1}, tt::i64, tt::cuda)};
    const int64_t bytes = rows * n * static_cast<int64_t>(tt::size_of(d)) * (f.keeps_rows ? 2 : 1);
    const Tensor from = tt::zeros({bytes / 2}, tt::u8, tt::cuda);
    calls[0].push_back([from] { return from.clone(); });
    calls[1].push_back([in, &f] { return f.plain(in)[0]; });
    calls[2].push_back([in, &f] { return f.own(in)[0]; });
    calls[3].push_back([in, &compiled] { return compiled(in)[0]; });
  }
  for (int k = 0; k < 8; ++k) calls[3][0]();  // its second looks, and the trial of the kernel
  const double error = apart(calls[3][0](), calls[2][0]());
  if (!(error < (d == tt::f32 ? 1e-4 : 3e-2)))
    throw std::runtime_error(fmt::format("{}: the compiled result is {:.2g} apart", f.name, error));
  std::vector<double> times[4];
  {
    bench::Captured forms[] = {bench::Captured(calls[0]), bench::Captured(calls[1]),
                               bench::Captured(calls[2]), bench::Captured(calls[3])};
    for (int64_t r = 0; r < rounds + 2; ++r) {
      for (size_t k = 0; k < 4; ++k) {
        const double t = forms[k].seconds();
        if (r >= 2) times[k].push_back(t);
      }
    }
  }
  return {{"function", f.name},
          {"dtype", tt::name_of(d)},
          {"shape", {rows, n}},
          {"kernels", compiled.reports()[0].kernels},
          {"seconds", tt::statistics::median(times[3])},
          {"own_seconds", tt::statistics::median(times[2])},
          {"apart", error},
          {"of_copy", bench::quartiles(times[0], times[3])},
          {"own_of_copy", bench::quartiles(times[0], times[2])},
          {"of_own", bench::quartiles(times[2], times[3])},
          {"times_eager", bench::quartiles(times[1], times[3])}};
}

int run(int argc, char** argv) {
  CLI::App app{"Generated kernels of rows on a GPU against the library's own"};
  int64_t rounds = 11;
  std::string path, only;
  app.add_option("--only", only, "only functions whose name contains this");
  app.add_option("--rounds", rounds, "rounds")->check(CLI::Range(1, 1000));
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  bench::require_gpu("it measures kernels of a GPU");
  const bench::ResultsFile file(path);
  json out = bench::gpu_results(rounds);
  tt::manual_seed(1);
  const std::pair<int64_t, int64_t> shapes[] = {{65536, 128}, {16384, 768}, {16384, 1024},
                                                {8191, 1023}, {4096, 8192}, {4096, 50257}};
  for (const RowFunction& f : functions()) {
    if (std::string(f.name).find(only) == std::string::npos) continue;
    for (const tt::DType d : {tt::f32, tt::bf16}) {
      for (const auto& [rows, n] : shapes) {
        const json r = run_function(f, d, rows, n, rounds);
        const auto middle = [&](const char* key) { return r[key].get<std::vector<double>>()[1]; };
        fmt::print(
            "{:14} {:4} {:6} x {:6}: {:8.1f} us, {:.2f} of the own kernel's speed, {:.2f} of a copy's, "
            "{:.2f} times eager's\n",
            f.name, tt::name_of(d), rows, n, r["seconds"].get<double>() * 1e6, middle("of_own"),
            middle("of_copy"), middle("times_eager"));
        std::fflush(stdout);
        out["rows"].push_back(r);
        file.keep(out);
      }
    }
  }
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_rows_cuda", [&] { return run(argc, argv); });
}
