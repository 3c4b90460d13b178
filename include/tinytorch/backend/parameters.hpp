// Parameters of kernels besides tensors; the same on every backend.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend {

enum class ReduceFn : uint8_t { sum, sum_square, prod, max, min, any, all };
enum class Distribution : uint8_t { uniform, normal, bernoulli };
enum class LossReduction : uint8_t { mean, sum, none };
enum class PointwiseLoss : uint8_t { mse, bce_with_logits };

// Activations that can be fused into the preceding operation.
enum class Activation : uint8_t { none, relu, silu, gelu, gelu_tanh };

// Parameters of residual_norm. Dropout with probability p (0: no dropout) uses the random words of stream
// `seed` from block first_block on.
struct ResidualNorm {
  double eps = 1e-5;
  double p = 0;
  uint64_t seed = 0, first_block = 0;
};

// The integers in [first, last); empty if last <= first.
struct IndexRange {
  int64_t first, last;
};

// Parameters of attention. Queries are the last T of S positions: query t has position t + S - T.
struct AttentionParameters {
  double scale = 1;     // factor of q k^T
  bool causal = false;  // a query sees keys up to its own position
  int64_t window = 0;   // > 0: a query sees keys less than `window` positions away
  // [B], on the device of the operands: keys from lengths[b] on are hidden in batch b. Null: no key is
  // hidden.
  const int64_t* lengths = nullptr;
  // Dropout of probabilities: p (0: no dropout), with the random words of stream `seed` from block
  // first_block on. Four consecutive keys of a query share a block; blocks are numbered by query [B, H, T],
  // then by key.
  double p = 0;
  uint64_t seed = 0, first_block = 0;

  // The keys that query t of batch b sees, and the queries that see key s. Both bounds are non-decreasing in
  // t and s.
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
    const int64_t own = s + T - S;  // the query at the position of key s
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
  // A key whose word is below the limit is dropped.
  constexpr uint32_t dropout_limit() const { return p < 1 ? static_cast<uint32_t>(p * 0x1p32) : 0xffffffffu; }
  constexpr double dropout_scale() const { return p < 1 ? 1 / (1 - p) : 0; }
};

struct CrossEntropyParameters {
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  LossReduction reduction = LossReduction::mean;
};

// Results of batch_norm_grad; each may be without data. dmean and dvar are the gradients of given statistics,
// not of those of the batch.
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
  bool decoupled = false;  // AdamW: p -= lr weight_decay p, and g is unchanged
  int64_t step = 1;        // counts from 1; for the bias correction of the moments
};

// RMSprop: the divisor is the root of a running mean of squared gradients.
struct RmsPropStep {
  double lr = 0;
  double alpha = 0.99, eps = 1e-8;
  double momentum = 0;    // above 0: the steps are accumulated, as in SGD
  bool centered = false;  // the divisor is the standard deviation of gradients instead
};
// Adagrad: the divisor is the root of the sum of all squared gradients.
struct AdagradStep {
  double lr = 0;
  double lr_decay = 0;  // the rate is lr / (1 + (t - 1) lr_decay) at step t
  double eps = 1e-10;
};
// Lion: every element moves by the rate, in the direction of the sign of a running mean.
struct LionStep {
  double lr = 0;
  double beta1 = 0.9, beta2 = 0.99;
};

// One parameter of a step over many. All views are contiguous and of one size, except `step`.
struct OptimizerSlot {
  View parameter;           // f32 or f64, updated
  View gradient;            // has the parameter's dtype or 16-bit floats; only read
  View state[3];            // have the parameter's dtype; updated. SGD: velocity or no data; Adam: m and v
  View rounded;             // without data, or the parameter in 16 bits, written too
  View step;                // i64, one element: number of updates, which a step increments
  double weight_decay = 0;  // replaces weight_decay of the step
};
// Indices into the scalars of a step over many, an f64 view of three elements in device memory, so that
// replays of a captured CUDA graph read current values.
enum StepScalar : int {
  kLearningRate,    // replaces lr of the step
  kGradientFactor,  // factor of all gradients, read if clip; NaN: the step changes nothing
  kGradientNorm,
  kStepScalarCount
};

}  // namespace tinytorch::inline TT_BUILD::backend
