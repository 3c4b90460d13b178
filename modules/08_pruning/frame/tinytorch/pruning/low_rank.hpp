// Low rank: a weight W [N, K] as a product A B of A [N, r] and B [r, K], which is fewer numbers and less work
// if r < N K / (N + K).
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.10. It is cut
// from the library's header by modules/frames.py.
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

inline int64_t break_even_rank(int64_t N, int64_t K);                // task 8.10
inline int64_t rank_of_budget(int64_t N, int64_t K, double budget);  // task 8.10
inline int64_t rank_of_energy(const Tensor& s, double energy);       // task 8.10

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
inline LowRank truncated(const Svd& d, int64_t rank);  // task 8.10
}  // namespace pruning

inline LowRank low_rank(const Tensor& weight, int64_t rank, TT_LOC);  // task 8.10
inline LowRank low_rank(const Tensor& weight, int64_t rank, const InputStatistics& inputs,
                        double damping = 1e-6, TT_LOC);  // task 8.10

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

// Task 8.10.
inline std::shared_ptr<FactorizedLinear> factorize(Linear& layer, int64_t rank,
                                                   const InputStatistics* inputs = nullptr, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/pruning/low_rank.hpp>
