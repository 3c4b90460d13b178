// Products with sparse weights on a GPU against the same products with dense weights of the same dtype, and
// against a copy of as many bytes.
//
//   bench_sparse_cuda --json out.json
//   bench_sparse_cuda --only gemv24          cases whose name contains the text
//
// Each call has its own weights; those of products with few rows of x are together several times the size of
// the L2 cache. The calls of a sample are one CUDA graph, and the contenders take turns. Dense weights are
// random, without zeros: products of zeros draw less power and run faster. bench/peers/sparse_torch.py
// measures cuSPARSELt with the same sizes.
//
// Products with blocks ("bsr64" and so on) have two dense contenders: linear(), which calls cuBLASLt, and the
// product of the library's own tensor-core kernel (gemm_pipelined). Their share of the limit is dense time
// times density / sparse time: 1 if a block costs as much as its part of the dense product. Each result is
// compared with the dense product of the same matrix before it is timed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <captured_calls.hpp>
#include <common/gpu_results.hpp>
#include <common/guarded.hpp>
#include <common/results_file.hpp>
#include <gemm_race.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <tinytorch/backend/cuda/kernels/ladder/steps.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/pruning/bitmap.hpp>
#include <tinytorch/pruning/gaps.hpp>
#include <tinytorch/pruning/int4_strips.hpp>
#include <tinytorch/pruning/magnitude.hpp>
#include <tinytorch/pruning/sparse_weight.hpp>

using nlohmann::json;
namespace tt = tinytorch;
namespace cuda = tt::backend::cuda;

namespace {

using Calls = std::vector<std::function<tt::Tensor()>>;

struct Case {
  const char* name;
  int64_t M, N, K;
  double density = 0.5;  // share of the stored numbers or blocks, unless it is 2:4
};

// Operands of one case: products with the sparse weights, with dense ones, and copies of as many bytes as the
// sparse weights have; for blocks, also dense products by the library's own kernel.
struct Contenders {
  Calls sparse, dense, copies, own;
  int64_t bytes = 0;  // of a sparse weight
  double density = 1;
};

tt::Tensor random_weight(int64_t N, int64_t K) { return tt::randn({N, K}, tt::f32, tt::cuda).to(tt::bf16); }

// Sets of operands: enough that weights that are read once per product do not stay in the L2 cache.
int64_t sets_of(int64_t bytes, int64_t M) {
  return M > 256 ? 2 : std::max<int64_t>(2, (int64_t{256} << 20) / bytes);
}

void add_dense_and_copy(Contenders& all, const tt::Tensor& x, const tt::Tensor& w) {
  all.dense.push_back([x, w] { return tt::linear(x, w); });
  const tt::Tensor from = tt::zeros({all.bytes / 2}, tt::u8, tt::cuda);
  all.copies.push_back([from] { return from.clone(); });
}

// Both results are rounded to 16 bits once, each by at most 1/256 of the largest number.
void require_same(const Case& c, const tt::Tensor& y, const tt::Tensor& expected) {
  const auto largest = [](const tt::Tensor& t) { return tt::max(tt::abs(t)).item<double>(); };
  const double size = largest(expected.to(tt::f32));
  const double error = largest(y.to(tt::f32) - expected.to(tt::f32));
  if (error <= size / 100 && size > 0) return;
  throw std::runtime_error(
      fmt::format("{} {} x {} x {}: the result differs by {} from the dense product, whose "
                  "largest number is {}; nothing was timed",
                  c.name, c.M, c.N, c.K, error, size));
}

Contenders two_of_four(const Case& c) {
  Contenders all;
  const bool int4 = std::string(c.name) == "gemv24_int4";
  const tt::Tensor x = random_weight(c.M, c.K);
  using tt::backend::Int4Strips24, tt::backend::Strips24;
  all.bytes = int4 ? Int4Strips24::shape(c.N, c.K).numel() + Int4Strips24::scales_shape(c.N, c.K).numel() * 2
                   : Strips24::shape(c.N, c.K).numel();
  for (int64_t i = 0; i < sets_of(all.bytes, c.M); ++i) {
    const tt::Tensor w = random_weight(c.N, c.K);
    const tt::TwoFourMatrix two = tt::compress_two_four(w);
    if (int4) {
      all.sparse.push_back([x, s = tt::to_int4_strips(two)] { return tt::linear(x, s); });
    } else {
      const tt::StripsMatrix strips = tt::to_strips(two);
      if (i == 0) require_same(c, tt::linear(x, strips), tt::linear(x, strips.dense()));
      all.sparse.push_back([x, strips] { return tt::linear(x, strips); });
    }
    add_dense_and_copy(all, x, w);
  }
  return all;
}

// A weight of f16 with the given share of numbers, as a bitmap or as gaps. A few rows are made on the CPU and
// repeated.
template <class Matrix>
Matrix repeated(const Matrix& some, const tt::Tensor& codes, int64_t repeats, int64_t K) {
  std::vector<tt::Tensor> values, all_codes, offsets{tt::zeros({1}, tt::i64)};
  for (int64_t r = 0; r < repeats; ++r) {
    values.push_back(some.values()), all_codes.push_back(codes);
    offsets.push_back(tt::slice(some.offsets(), 0, 1, some.rows() + 1) + r * some.values().numel());
  }
  return Matrix(tt::cat(values, 0), tt::cat(all_codes, 0), tt::cat(offsets, 0), K).to(tt::cuda);
}
Contenders unstructured(const Case& c, bool gaps) {
  Contenders all;
  const tt::Tensor x = tt::randn({c.M, c.K}, tt::f32, tt::cuda).to(tt::f16);
  for (int64_t i = 0; i == 0 || i < sets_of(all.bytes, c.M); ++i) {
    constexpr int64_t kRows = 256;
    const tt::Tensor kept = tt::lt(tt::rand({kRows, c.K}, tt::f32, tt::cpu), c.density);
    const tt::Tensor some = (tt::randn({kRows, c.K}, tt::f32, tt::cpu) * kept.to(tt::f32)).to(tt::f16);
    const tt::Tensor out = tt::zeros({c.M, c.N}, tt::f16, tt::cuda);
    if (gaps) {
      const tt::GapMatrix g = tt::to_gaps(some), w = repeated(g, g.gaps(), c.N / kRows, c.K);
      all.bytes = w.bytes();
      if (i == 0)
        cuda::spmv_gaps(out.view_of(), x.view_of(), w.view()), require_same(c, out, tt::linear(x, w.dense()));
      all.sparse.push_back([x, w, out] {
        cuda::spmv_gaps(out.view_of(), x.view_of(), w.view());
        return out;
      });
    } else {
      const tt::BitmapMatrix g = tt::to_bitmap(some), w = repeated(g, g.bits(), c.N / kRows, c.K);
      all.bytes = w.bytes();
      if (i == 0)
        cuda::spmv_bitmap(out.view_of(), x.view_of(), w.view()),
            require_same(c, out, tt::linear(x, w.dense()));
      all.sparse.push_back([x, w, out] {
        cuda::spmv_bitmap(out.view_of(), x.view_of(), w.view());
        return out;
      });
    }
    add_dense_and_copy(all, x, tt::randn({c.N, c.K}, tt::f32, tt::cuda).to(tt::f16));
  }
  return all;
}

// Random blocks on the device. The share `density` of all places has one.
tt::BsrMatrix random_blocks(int64_t N, int64_t K, int64_t block, double density) {
  const tt::Tensor kept = tt::random_mask({N / block, K / block}, 1 - density).to(tt::cpu);
  std::vector<int32_t> columns;
  std::vector<int64_t> starts{0};
  for (int64_t r = 0; r < kept.size(0); ++r) {
    for (int64_t k = 0; k < kept.size(1); ++k)
      if (kept.data<bool>()[r * kept.size(1) + k]) columns.push_back(static_cast<int32_t>(k));
    starts.push_back(std::ssize(columns));
  }
  const auto blocks = std::ssize(columns);
  const tt::Tensor values = tt::randn({blocks, block, block}, tt::f32, tt::cuda).to(tt::bf16);
  return {values, tt::from_data(columns, {blocks}, tt::cpu).to(tt::cuda),
          tt::from_data(starts, {std::ssize(starts)}, tt::cpu).to(tt::cuda), N, K};
}

Contenders blocks(const Case& c, int64_t block) {
  Contenders all;
  const tt::Tensor x = random_weight(c.M, c.K);
  for (int64_t i = 0; i == 0 || i < sets_of(all.bytes, c.M); ++i) {
    const tt::BsrMatrix w = random_blocks(c.N, c.K, block, c.density);
    all.bytes = w.bytes();
    all.density = static_cast<double>(w.stored()) / static_cast<double>(c.N * c.K);
    const tt::SparseWeight s(w);
    if (i == 0) require_same(c, tt::sparse_linear(x, s), tt::linear(x, w.dense()));
    all.sparse.push_back([x, s] { return tt::sparse_linear(x, s); });
    add_dense_and_copy(all, x, random_weight(c.N, c.K));
    const tt::Tensor transposed = random_weight(c.K, c.N);
    all.own.push_back([x, transposed] {
      const tt::Tensor out = tt::empty({x.size(0), transposed.size(1)}, tt::bf16, tt::cuda);
      cuda::gemm_pipelined(out.view_of(), x.view_of(), transposed.view_of());
      return out;
    });
  }
  return all;
}

Contenders contenders(const Case& c) {
  const std::string name = c.name;
  if (name.starts_with("bsr")) return blocks(c, std::stoll(name.substr(3)));
  if (name.ends_with("bitmap") || name.ends_with("gaps")) return unstructured(c, name.ends_with("gaps"));
  return two_of_four(c);
}

// Adds dense time * density / sparse time, for both dense products, and prints them.
void add_shares_of_limit(json& row, double density, const std::vector<double>& sparse,
                         const std::vector<double>& dense, const std::vector<double>& own) {
  const auto share = [&](const std::vector<double>& times) {
    std::vector<double> quartiles = bench::quartiles(times, sparse);
    for (double& q : quartiles) q *= density;
    return quartiles;
  };
  const std::vector<double> of_own = share(own), of_blas = share(dense);
  row["density"] = density;
  row["own_dense_seconds"] = tt::statistics::median(own);
  row["of_limit"] = of_own[1], row["of_limit_quartiles"] = of_own;
  row["of_limit_of_linear"] = of_blas[1], row["of_limit_of_linear_quartiles"] = of_blas;
  fmt::print(
      "            density {:.3f}: {:.2f} ({:.2f}-{:.2f}) of own dense time x density, {:.2f} of linear's\n",
      density, of_own[1], of_own[0], of_own[2], of_blas[1]);
}

json run_case(const Case& c, int64_t rounds) {
  const Contenders operands = contenders(c);
  bench::Captured sparse(operands.sparse), dense(operands.dense), copy(operands.copies);
  std::optional<bench::Captured> own;
  if (!operands.own.empty()) own.emplace(operands.own);
  std::vector<double> a, b, read, o;
  for (int64_t r = 0; r < rounds + 2; ++r) {
    const double t[] = {sparse.seconds(), dense.seconds(), copy.seconds(), own ? own->seconds() : 0};
    if (r >= 2) a.push_back(t[0]), b.push_back(t[1]), read.push_back(t[2]), o.push_back(t[3]);
  }
  const std::vector<double> speedups = bench::quartiles(b, a), shares = bench::quartiles(read, a);
  const double seconds = tt::statistics::median(a), dense_seconds = tt::statistics::median(b);
  const double flops = 2.0 * static_cast<double>(c.M) * static_cast<double>(c.N) * static_cast<double>(c.K);
  fmt::print(
      "{:11} {:5} x {:6} x {:6}: {:9.1f} us ({:6.1f} dense TFLOP/s, {:.2f} of copy), dense {:9.1f} us "
      "({:6.1f} "
      "TFLOP/s): {:.2f} times ({:.2f}-{:.2f})\n",
      c.name, c.M, c.N, c.K, seconds * 1e6, flops / seconds * 1e-12, shares[1], dense_seconds * 1e6,
      flops / dense_seconds * 1e-12, speedups[1], speedups[0], speedups[2]);
  json row = {{"name", c.name},
              {"shape", {c.M, c.N, c.K}},
              {"bytes", operands.bytes},
              {"seconds", seconds},
              {"dense_seconds", dense_seconds},
              {"of_dense", speedups[1]},
              {"of_dense_quartiles", speedups},
              {"share_of_copy", shares[1]},
              {"share_quartiles", shares},
              {"stored", c.density},
              {"dense_tflop_per_s", flops / seconds * 1e-12}};
  if (own) add_shares_of_limit(row, operands.density, a, b, o);
  return row;
}

int run(int argc, char** argv) {
  CLI::App app{"Products with sparse weights on a GPU"};
  int64_t rounds = 21;
  std::string path, only;
  app.add_option("--rounds", rounds, "rounds of each case")->check(CLI::Range(1, 1000));
  app.add_option("--only", only, "only cases whose name contains this");
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  bench::require_gpu("bench_gemv measures the CPU");
  const bench::ResultsFile file(path);
  json out = bench::gpu_results(rounds);
  tt::manual_seed(1);
  for (const Case& c : {Case{"gemm24", 4096, 4096, 4096},
                        {"gemm24", 8192, 8192, 8192},
                        {"gemm24", 4096, 11008, 4096},
                        {"gemm24", 2048, 8192, 8192},
                        {"gemm24", 512, 8192, 8192},
                        {"gemm24", 128, 8192, 8192},
                        {"gemm24", 64, 8192, 8192},
                        {"gemv24", 1, 16384, 8192},
                        {"gemv24", 1, 8192, 8192},
                        {"gemv24", 1, 4096, 4096},
                        {"gemv24", 4, 16384, 8192},
                        {"gemv24", 8, 16384, 8192},
                        {"gemv24", 16, 16384, 8192},
                        {"gemv24", 32, 16384, 8192},
                        {"gemv24_int4", 1, 16384, 8192},
                        {"gemv24_int4", 1, 32768, 16384},
                        {"gemv24_int4", 8, 16384, 8192},
                        {"spmv_bitmap", 1, 16384, 8192, 0.5},
                        {"spmv_bitmap", 1, 16384, 8192, 0.2},
                        {"spmv_gaps", 1, 16384, 8192, 0.5},
                        {"spmv_gaps", 1, 16384, 8192, 0.2},
                        {"spmv_gaps", 1, 16384, 8192, 0.1},
                        {"spmv_gaps", 1, 4096, 4096, 0.5},
                        {"spmv_gaps", 1, 11008, 4096, 0.5},
                        {"spmv_gaps", 1, 1024, 16384, 0.2},
                        {"bsr64", 1024, 4096, 4096, 0.5},
                        {"bsr64", 4096, 4096, 4096, 0.5},
                        {"bsr64", 4096, 4096, 4096, 0.25},
                        {"bsr64", 4096, 8192, 8192, 0.5},
                        {"bsr64", 4096, 8192, 8192, 0.25},
                        {"bsr64", 4096, 8192, 8192, 0.1},
                        {"bsr64", 64, 8192, 8192, 0.5},
                        {"bsr32", 4096, 8192, 8192, 0.25},
                        {"bsr16", 4096, 8192, 8192, 0.25}}) {
    if (std::string(c.name).find(only) == std::string::npos) continue;
    out["cases"].push_back(run_case(c, rounds));
    file.keep(out);
  }
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_sparse_cuda", [&] { return run(argc, argv); });
}
