// int8 and bf16 GEMM against this library's f32 GEMM and against oneDNN, in interleaved rounds.
//
//     bench_gemm_narrow     square matrices and GPT-2's layers, NN and NT; u8 * s8, s8 * s8, bf16 * bf16
//     bench_gemm_narrow --rounds 15 --json out.json --onednn libdnnl.so.2
// Ratios are medians over the rounds (gemm_race.hpp) of the other time / the time of the narrow product:
// above 1, the narrow product is faster. "bf16_instruction" in the result says if the processor has an
// instruction for bf16 dot products; without one the operands are widened to f32.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <gemm_race.hpp>
#include <map>
#include <peers/onednn.hpp>
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/backend/cpu/gemm/amx.hpp>
#include <tinytorch/backend/cpu/gemm/int8.hpp>
#include <tinytorch/core/simd_dot.hpp>
#include <tinytorch/tinytorch.hpp>

using nlohmann::json;
namespace tt = tinytorch;
namespace cpu = tt::backend::cpu;

namespace {

template <class A>
struct Kind;  // for the type of A: the names of the case, and the types of B and C
template <>
struct Kind<uint8_t> {
  using B = int8_t;
  using C = int32_t;
  static constexpr auto kName = "u8*s8", kGroup = "";
};
template <>
struct Kind<int8_t> : Kind<uint8_t> {
  static constexpr auto kName = "s8*s8";
};
template <>
struct Kind<tt::BFloat16> {
  using B = tt::BFloat16;
  using C = float;
  static constexpr auto kName = "bf16", kGroup = " bf16";
};

// Integers have 7 bits, because without VNNI oneDNN adds pairs of products in 16 bits and larger values
// saturate.
template <class T>
tt::Tensor any_values(const tt::Shape& shape) {
  if constexpr (!std::is_integral_v<T>) return tt::randn(shape).to(tt::dtype_of<T>);
  return tt::randint(std::is_signed_v<T> ? -64 : 0, std::is_signed_v<T> ? 64 : 128, shape)
      .to(tt::dtype_of<T>);
}

// The contenders are the narrow product, f32 and oneDNN, in this order.
template <class A>
json run(const bench::Product& p, const bench::OneDnn& onednn, int64_t rounds, double seconds) {
  using B = typename Kind<A>::B;
  using C = typename Kind<A>::C;
  const tt::Tensor a = any_values<A>({p.M, p.K});
  const tt::Tensor b = any_values<B>({p.b_transposed ? p.N : p.K, p.b_transposed ? p.K : p.N});
  const tt::Tensor right = p.b_transposed ? tt::transpose(b, 0, 1) : b;
  const tt::Tensor c = tt::zeros({p.M, p.N}, tt::dtype_of<C>),
                   theirs = tt::zeros({p.M, p.N}, tt::dtype_of<C>);
  const tt::Tensor x = tt::randn({p.M, p.K}), z = tt::zeros({p.M, p.N});
  const tt::Tensor y = p.b_transposed ? tt::transpose(tt::randn({p.N, p.K}), 0, 1) : tt::randn({p.K, p.N});
  const auto ours = [&] {
    if constexpr (std::is_integral_v<A>)
      cpu::gemm_int8(c.view_of(), a.view_of(), right.view_of());
    else
      cpu::gemm(c.view_of(), a.view_of(), right.view_of());
  };
  std::vector<bench::Contender> contenders = {
      {"narrow", ours}, {"f32", [&] { cpu::gemm(z.view_of(), x.view_of(), y.view_of()); }}};
  const bool has_peer = std::is_integral_v<A> || onednn.has_bf16();
  if (has_peer)
    contenders.push_back(
        {"onednn",
         [&] { onednn.gemm(p.b_transposed, p.M, p.N, p.K, a.data<A>(), b.data<B>(), theirs.data<C>()); }});
  const auto taken = bench::race(contenders, rounds, seconds);
  if (has_peer) {
    contenders[2].work();  // times can be compared only if the results agree
    const double difference = tt::max(tt::abs(c.to(tt::f64) - theirs.to(tt::f64))).item<double>();
    if (!(difference <= (std::is_integral_v<A> ? 0 : 1e-5 * static_cast<double>(p.K))))
      throw std::runtime_error("the products of this library and of oneDNN differ");
  }
  json out = {{"group", p.group + Kind<A>::kGroup},
              {"types", Kind<A>::kName},
              {"layout", p.layout()},
              {"M", p.M},
              {"N", p.N},
              {"K", p.K},
              {"gop_per_s", p.flops() / tt::statistics::median(taken[0]) * 1e-9},
              {"times_f32", bench::quartiles(taken[1], taken[0])[1]},
              {"quartiles_f32", bench::quartiles(taken[1], taken[0])}};
  if (has_peer) out["quartiles_onednn"] = bench::quartiles(taken[2], taken[0]);
  if (has_peer) out["times_onednn"] = out["quartiles_onednn"][1];
  return out;
}

std::vector<bench::Product> all_products() {
  std::vector<bench::Product> out;
  for (const bool transposed : {false, true}) {
    for (const int64_t n : {256, 512, 1024, 2048}) out.push_back({"square", n, n, n, false, transposed});
    for (const auto& [N, K] : {std::pair{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}})
      out.push_back({"gpt2", 256, N, K, false, transposed});
  }
  return out;
}

int run(int argc, char** argv) {
  CLI::App app{"int8 and bf16 GEMM against f32 and oneDNN"};
  int64_t rounds = 11;
  double seconds = 5e-3;
  std::string path, library = "libdnnl.so.2";
  app.add_option("--rounds", rounds, "rounds per shape")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", seconds, "seconds of each contender in a round")->check(CLI::Range(1e-4, 10.0));
  app.add_option("--onednn", library, "the shared library: a name for the dynamic linker, or a path");
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  const bench::ResultsFile file(path);
  const bench::OneDnn onednn(library);
  fmt::print("{:12} {:>5} {:>3} {:>6} {:>6} {:>6} {:>8} {:>6} {:>8}\n", "group", "", "", "M", "N", "K",
             "GOP/s", "x f32", "x oneDNN");
  json out = {{"machine", bench::provenance()},
              {"rounds", rounds},
              {"bf16_instruction", tt::kFastDot2 || cpu::has_amx()}};
  std::map<std::string, std::vector<json>> groups;
  for (const bench::Product& p : all_products()) {
    for (const json& r : {run<uint8_t>(p, onednn, rounds, seconds), run<int8_t>(p, onednn, rounds, seconds),
                          run<tt::BFloat16>(p, onednn, rounds, seconds)}) {
      fmt::print(
          "{:12} {:5} {:>3} {:>6} {:>6} {:>6} {:>8.1f} {:>6.2f} {:>8}\n", r["group"].get<std::string>(),
          r["types"].get<std::string>(), p.layout(), p.M, p.N, p.K, r["gop_per_s"].get<double>(),
          r["times_f32"].get<double>(),
          r.contains("times_onednn") ? fmt::format("{:.2f}", r["times_onednn"].get<double>()) : "none");
      std::fflush(stdout);
      groups[r["group"]].push_back(r);
      file.keep(groups);
    }
  }
  for (const auto& [group, rows] : groups) {
    out["groups"][group]["rows"] = rows;
    fmt::print("{:12}", group);
    for (const char* key : {"times_f32", "times_onednn"}) {
      if (!rows[0].contains(key)) continue;
      const json summary = bench::summarize(rows, key);
      out["groups"][group][key] = summary;
      fmt::print(" {} {:.2f}, worst {:.2f};", key, summary["geometric_mean"].get<double>(),
                 summary["worst"].get<double>());
    }
    fmt::print("\n");
  }
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_gemm_narrow", [&] { return run(argc, argv); });
}
