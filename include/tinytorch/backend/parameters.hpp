// Names and numbers that kernels take besides tensors; the same for every backend.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend {

enum class ReduceFn : uint8_t { sum, sum_square, prod, max, min, any, all };
enum class Distribution : uint8_t { uniform, normal, bernoulli };
enum class LossReduction : uint8_t { mean, sum, none };
enum class PointwiseLoss : uint8_t { mse, bce_with_logits };

// Activations that are fused into what precedes them.
enum class Activation : uint8_t { none, relu, silu, gelu, gelu_tanh };

// Of residual_norm: dropout with probability p (0: none) by the words from first_block of stream `seed` on.
struct ResidualNorm {
  double eps = 1e-5;
  double p = 0;
  uint64_t seed = 0, first_block = 0;
};

// Numbers from `first` to below `last`; none where last <= first.
struct IndexRange {
  int64_t first, last;
};

// Of attention. Queries are the last T of S positions: query t stands at position t + S - T.
struct AttentionParameters {
  double scale = 1;     // of q k^T
  bool causal = false;  // keys up to the query's own position
  int64_t window = 0;   // > 0: only keys less than `window` positions away
  // [B], where the operands are: keys of batch b from lengths[b] on are not seen. Null: all are.
  const int64_t* lengths = nullptr;
  // Dropout of probabilities: p (0: none), by the words from first_block of stream `seed` on. Four
  // neighbouring keys of a query share a block; the block's numbers count queries [B, H, T], then keys.
  double p = 0;
  uint64_t seed = 0, first_block = 0;

  // The keys that query t of batch b sees, and the queries that see key s. Both ends grow with t and s.
  constexpr IndexRange keys_of(int64_t t, int64_t T, int64_t S, int64_t b) const {
    const int64_t position = t + S - T;
    IndexRange range{0, S};
    if (window > 0 && position - window + 1 > 0) range.first = position - window + 1;
    const int64_t reach = causal ? 1 : window;
    if (reach > 0 && position + reach < S) range.last = position + reach;
    if (lengths && lengths[b] < range.last) range.last = lengths[b];
    return range;
  }
  constexpr IndexRange queries_of(int64_t s, int64_t T, int64_t S, int64_t b) const {
    if (lengths && s >= lengths[b]) return {T, T};
    const int64_t own = s + T - S;  // the query at the key's position
    IndexRange range{0, T};
    const int64_t reach = causal ? 1 : window;
    if (reach > 0 && own - reach + 1 > 0) range.first = own - reach + 1;
    if (window > 0 && own + window < T) range.last = own + window;
    return range;
  }
  static constexpr uint64_t dropout_blocks(int64_t queries, int64_t S) {
    return static_cast<uint64_t>(queries) * static_cast<uint64_t>((S + 3) / 4);
  }
  constexpr uint64_t dropout_block(int64_t query, int64_t key, int64_t S) const {
    return first_block + dropout_blocks(query, S) + static_cast<uint64_t>(key / 4);
  }
  // A word below the limit drops its key.
  constexpr uint32_t dropout_limit() const { return p < 1 ? static_cast<uint32_t>(p * 0x1p32) : 0xffffffffu; }
  constexpr double dropout_scale() const { return p < 1 ? 1 / (1 - p) : 0; }
};

struct CrossEntropyParameters {
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  LossReduction reduction = LossReduction::mean;
};

// What batch_norm_grad fills; any may be without data. dmean, dvar: of given statistics only.
struct BatchNormGrads {
  View dx, dweight, dbias, dmean, dvar;
};

struct SgdStep {
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;  // g += weight_decay p
  bool nesterov = false;
};
struct AdamStep {
  double lr = 0;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  // AdamW: the parameter shrinks by lr weight_decay, the gradient stays as it is
  int64_t step = 1;        // counts from 1; corrects the moments' bias towards their start at zero
};

// One parameter of a step over many. All views are contiguous and of one size, but for `step`.
struct OptimizerSlot {
  View parameter;           // f32 or f64, updated
  View gradient;            // of the parameter's dtype or of 16 bits, only read
  View state[2];            // of the parameter's dtype, updated. SGD: velocity or no data; Adam: m and v
  View rounded;             // no data, or the parameter in 16 bits: written beside it
  View step;                // i64, one element: updates so far, to which a step adds one
  double weight_decay = 0;  // SgdStep and AdamStep: theirs is not used
};
// What a step over many reads from memory of its device, so that replays of a captured CUDA graph see
// changes: an f64 view of three elements.
enum StepScalar : int {
  kLearningRate,
  kGradientFactor,  // of all gradients; NaN: do nothing at all. Read by steps that are told to clip
  kGradientNorm,
  kStepScalarCount
};

}  // namespace tinytorch::inline TT_BUILD::backend
