// Low rank: a weight W [N, K] as a product A B of A [N, r] and B [r, K], which is fewer numbers and less work
// if r < N K / (N + K).
//
//   LowRank f = low_rank(weight, 32);                         // least error of the weight
//   LowRank f = low_rank(weight, 32, inputs);                 // least error of the outputs on these inputs
//   factorize(linear, rank_of_budget(N, K, 0.5), &inputs);    // the layer computes with half of the numbers
//
// The truncated singular value decomposition minimizes the error of W. What counts is the error of the
// outputs X W^T, whose square is |E L|^2 for the Cholesky factor X^T X = L L^T. So W L is truncated, and L is
// taken out again ("whitening"). Source: Wang et al., "SVD-LLM", 2024.
#pragma once

#include <tinytorch/layers/linear.hpp>
#include <tinytorch/pruning/svd.hpp>
#include <tinytorch/quantization/cholesky.hpp>
#include <tinytorch/quantization/input_statistics.hpp>

namespace tinytorch::inline TT_BUILD {

struct LowRank {
  Tensor A, B;  // [N, r] and [r, K], f64 on the CPU
  Tensor s;     // f64: all singular values of W, or of W L
};

// The rank from which on a product of factors has no fewer numbers than [N, K]: N K / (N + K), rounded up.
inline int64_t break_even_rank(int64_t N, int64_t K) { return N + K == 0 ? 0 : ceil_div(N * K, N + K); }

// The largest rank whose factors have at most the share `budget` of the numbers of [N, K], at least 1.
inline int64_t rank_of_budget(int64_t N, int64_t K, double budget) {
  const double numbers = budget * static_cast<double>(N) * static_cast<double>(K);
  return std::max<int64_t>(1,
                           static_cast<int64_t>(numbers / static_cast<double>(std::max<int64_t>(1, N + K))));
}
// The least rank that keeps the share `energy` of the sum of squares of s f64 [R], largest first.
inline int64_t rank_of_energy(const Tensor& s, double energy) {
  const std::vector<double> values = s.to_vector<double>();
  double all = 0, kept = 0;
  for (const double x : values) all += x * x;
  int64_t rank = 0;
  while (rank < static_cast<int64_t>(values.size()) && kept < energy * all)
    kept += values[static_cast<size_t>(rank)] * values[static_cast<size_t>(rank)], ++rank;
  return std::max<int64_t>(1, rank);
}

// Throws TT-PRUNE-07 unless 1 <= rank < break_even_rank(N, K).
inline void require_rank(const char* op, const Tensor& w, int64_t rank, Loc loc) {
  require_defined(op, loc, w);
  if (w.rank() != 2)
    fail("TT-SHAPE-02", std::string(op) + ": needs a matrix [N, K], got " + w.describe(), loc);
  const int64_t limit = break_even_rank(w.size(0), w.size(1));
  if (rank >= 1 && rank < limit) return;
  fail("TT-PRUNE-07",
       std::string(op) + ": rank " + std::to_string(rank) + " of " + w.describe() + "\n  rule: from 1 to " +
           std::to_string(limit - 1) +
           ", below N K / (N + K), or the factors have more numbers than the weight",
       loc);
}

namespace pruning {
// sqrt(s) goes to both sides.
inline LowRank truncated(const Svd& d, int64_t rank) {
  const Tensor root = sqrt(d.s.slice(0, 0, rank));
  return {d.U.slice(1, 0, rank).contiguous() * root,
          (d.V.slice(1, 0, rank).contiguous() * root).t().contiguous(), d.s};
}
}  // namespace pruning

// weight [N, K] -> the factors of the given rank with the least |W - A B|.
inline LowRank low_rank(const Tensor& weight, int64_t rank, TT_LOC) {
  const NoGrad no_grad;
  require_rank("low_rank", weight, rank, loc);
  return pruning::truncated(svd(weight, loc), rank);
}
// The factors with the least error of the outputs for the observed inputs. `damping` is added to the diagonal
// of X^T X, as a multiple of its mean, so that inputs that never occurred have a factor.
inline LowRank low_rank(const Tensor& weight, int64_t rank, const InputStatistics& inputs,
                        double damping = 1e-6, TT_LOC) {
  const NoGrad no_grad;
  require_rank("low_rank", weight, rank, loc);
  require_statistics("low_rank", weight, inputs, loc);
  const int64_t K = inputs.features();
  const Tensor gram = inputs.gram();
  double mean = 0;
  for (int64_t j = 0; j < K; ++j) mean += gram.data<double>()[j * K + j] / static_cast<double>(K);
  for (int64_t j = 0; j < K; ++j) gram.data<double>()[j * K + j] += mean > 0 ? damping * mean : 1;
  const Tensor L = cholesky(gram, loc), w = weight.detach().to(cpu, loc).to(DType::f64, loc);
  LowRank f = pruning::truncated(svd(matmul(w, L), loc), rank);
  f.B = matmul(f.B, inverse_of_lower(L));
  return f;
}

// y = (x B^T) A^T + bias: two products with r features between them. Parameters "up" [N, r], "down" [r, K]
// and "bias", which may be trained.
class FactorizedLinear : public Module {
 public:
  FactorizedLinear(const Tensor& A, const Tensor& B, const Tensor& given_bias) {
    up = add_parameter("up", A.detach()), down = add_parameter("down", B.detach());
    if (given_bias.defined()) bias = add_parameter("bias", given_bias.detach());
  }
  Tensor forward(const Tensor& x) override { return linear(linear(x, down), up, bias); }
  int64_t rank() const { return down.size(0); }

  Tensor up, down, bias;
};

// Puts factors in the place of a layer's weight, which it forgets: those with the least error of the outputs
// if inputs are given, else of the weight.
inline std::shared_ptr<FactorizedLinear> factorize(Linear& layer, int64_t rank,
                                                   const InputStatistics* inputs = nullptr, TT_LOC) {
  const NoGrad no_grad;
  const LowRank f =
      inputs ? low_rank(layer.weight, rank, *inputs, 1e-6, loc) : low_rank(layer.weight, rank, loc);
  const auto like = [&](const Tensor& t) {
    return t.to(layer.weight.dtype(), loc).to(layer.weight.device(), loc);
  };
  auto factors = std::make_shared<FactorizedLinear>(like(f.A), like(f.B), layer.bias);
  layer.replace(factors);
  layer.forget_own_tensors();
  layer.weight = Tensor(), layer.bias = Tensor();
  return factors;
}

}  // namespace tinytorch::inline TT_BUILD
