// Losses that are composed of other ops: names, formulas and reductions are PyTorch's (torch.nn.functional).
//
// x and target have the same shape, and nothing is broadcast, because broadcasting hides mistakes
// (TT-SHAPE-02). All are differentiable in every floating-point argument. The losses of hot loops
// have kernels of their own: cross_entropy, mse_loss and bce_with_logits (loss.hpp), l1_loss, smooth_l1_loss
// and huber_loss (difference_loss.hpp).
#pragma once

#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

struct NllOptions {
  Tensor weight{};  // [C]: a factor of each class; undefined: 1
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;  // mean: divided by the weights of the samples that count
};
// log_probabilities [N, C, ...] or [C], target i64 [N, ...] or []. -weight[target] log_probability[target]
TT_API Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const NllOptions& options = {},
                       TT_LOC);

struct KlOptions {
  Reduction reduction =
      Reduction::mean;      // PyTorch's default: a mean over elements, which is no KL divergence
  bool batch_mean = false;  // the divergence itself: the sum divided by size(0)
  bool log_target = false;  // target has logarithms of probabilities
};
// x: logarithms of probabilities. target (log(target) - x), where 0 log 0 is 0.
TT_API Tensor kl_div(const Tensor& x, const Tensor& target, const KlOptions& options = {}, TT_LOC);

// -(target log p + (1 - target) log(1 - p)), with logarithms of at least -100. p must lie in [0, 1]
// (TT-RANGE-02; checked on the CPU). bce_with_logits is more accurate.
TT_API Tensor binary_cross_entropy(const Tensor& p, const Tensor& target,
                                   Reduction reduction = Reduction::mean, TT_LOC);
// PyTorch's name of bce_with_logits.
inline Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                               Reduction reduction = Reduction::mean, TT_LOC) {
  return bce_with_logits(x, target, reduction, loc);
}

struct BceOptions {
  Tensor weight{};      // a factor of each element; broadcasts
  Tensor pos_weight{};  // a factor of the loss of target 1, such as one for each class; broadcasts
  Reduction reduction = Reduction::mean;
};
TT_API Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                               const BceOptions& options, TT_LOC);

// x . y / (max(|x|, eps) max(|y|, eps)) along a dimension, which the result does not have.
TT_API Tensor cosine_similarity(const Tensor& x, const Tensor& y, int dim = 1, double eps = 1e-8, TT_LOC);
// x, y [N, C] or [C]; target [N] or []: 1 for pairs that belong together, -1 for others. 1 - cos, or
// max(0, cos - margin).
TT_API Tensor cosine_embedding_loss(const Tensor& x, const Tensor& y, const Tensor& target, double margin = 0,
                                    Reduction reduction = Reduction::mean, TT_LOC);

struct TripletOptions {
  double margin = 1, p = 2, eps = 1e-6;
  bool swap = false;  // the distance to the negative is the smaller one of those from anchor and positive
  Reduction reduction = Reduction::mean;
};
// max(0, d(anchor, positive) - d(anchor, negative) + margin); d: p-norm of the difference + eps along the
// last dimension. p > 0, TT-RANGE-08 otherwise.
TT_API Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                  const TripletOptions& options = {}, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <string>
#include <tinytorch/backend/cuda/device/fault.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

inline Tensor reduced(const Tensor& loss, Reduction reduction, Loc loc) {
  if (reduction == Reduction::none) return loss;
  return reduction == Reduction::mean ? mean(loss, {}, false, loc) : sum(loss, {}, false, loc);
}

// x and every other tensor: floating point, of one dtype and shape.
inline void require_pairs(const char* op, const Tensors& tensors, Loc loc) {
  for (const Tensor& t : tensors) require_defined(op, loc, t);
  require_same_dtype(op, tensors, loc);
  require_floating(op, tensors[0], loc);
  for (const Tensor& t : tensors) {
    if (t.shape() == tensors[0].shape()) continue;
    fail("TT-SHAPE-02",
         std::string(op) + ": the tensors must have the same shape: " + describe_operands(tensors) +
             "\n  hint: reshape or expand the smaller one",
         loc);
  }
}

inline void require_option(bool valid, const char* rule, Loc loc) {
  if (!valid) fail("TT-RANGE-08", rule, loc);
}

TT_API Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                               const BceOptions& options, Loc loc) {
  require_pairs("binary_cross_entropy_with_logits", {x, target}, loc);
  // (1 - t) x + (1 + (p - 1) t) log(1 + e^-x), for the factor p of target 1
  Tensor of_ones = softplus(neg(x, loc), 1, loc);
  if (const Tensor& p = options.pos_weight; p.defined()) {
    of_ones = mul(of_ones, add(mul(sub(p, Scalar(1), loc), target, loc), Scalar(1), loc), loc);
  }
  Tensor loss = add(mul(sub(Scalar(1), target, loc), x, loc), of_ones, loc);
  if (options.weight.defined()) loss = mul(loss, options.weight, loc);
  return reduced(loss, options.reduction, loc);
}

// Scores with the classes in the second (or only) dimension, as rows [N, C], and the shape without classes.
struct ClassRows {
  Tensor rows;
  Shape samples;
};
inline ClassRows class_rows(const char* op, const Tensor& scores, Loc loc) {
  require_defined(op, loc, scores);
  require_floating(op, scores, loc);
  const int rank = scores.rank();
  if (rank == 0) {
    fail("TT-SHAPE-04", std::string(op) + ": scores need a dimension of classes, got " + scores.describe(),
         loc);
  }
  const int classes = rank == 1 ? 0 : 1;
  Shape samples;
  Dims order;
  for (int d = 0; d < rank; ++d) {
    if (d == classes) continue;
    samples.push_back(scores.shape()[d]);
    order.push_back(d);
  }
  order.push_back(classes);
  const Shape rows{samples.numel(), scores.shape()[classes]};
  return {reshape(permute(scores, order, loc), rows, loc), samples};
}

inline void require_class_weight(const char* op, const Tensor& weight, int64_t C, const Tensor& like,
                                 Loc loc) {
  if (!weight.defined() || (weight.shape() == Shape{C} && weight.dtype() == like.dtype())) return;
  fail("TT-SHAPE-02",
       std::string(op) + ": weight must have one number for each of the " + std::to_string(C) +
           " classes, in the dtype of the scores, got " + weight.describe(),
       loc);
}

// Loss of each row [N] for rows of log-probabilities, and the row's weight, which is 0 if it is ignored.
struct RowLosses {
  Tensor loss, weight;
};
inline RowLosses nll_rows(const Tensor& rows, const Tensor& target, const Tensor& class_weight,
                          int64_t ignore_index, double smoothing, Loc loc) {
  const Tensor counts = ne(target, scalar_like(ignore_index, target, loc), loc);
  const Tensor known = where(counts, target, scalar_like(0, target, loc), loc);
  const Tensor none = scalar_like(0, rows, loc);
  const Tensor ones = scalar_like(1, rows, loc);
  const Tensor factor =
      class_weight.defined() ? index_select(class_weight, 0, known, loc) : expand(ones, known.shape(), loc);
  const Tensor weight = where(counts, factor, none, loc);
  const Tensor picked = reshape(gather(rows, 1, unsqueeze(known, 1, loc), loc), known.shape(), loc);
  Tensor loss = where(counts, -(picked * factor), none, loc);
  if (smoothing > 0) {
    const Tensor all = class_weight.defined() ? rows * class_weight : rows;
    const Tensor even = where(counts, -mean(all, {1}, false, loc), none, loc);
    loss = loss * (1 - smoothing) + even * smoothing;
  }
  return {loss, weight};
}

inline void require_smoothing(const char* op, double label_smoothing, Loc loc) {
  if (label_smoothing >= 0 && label_smoothing <= 1) return;
  fail("TT-RANGE-08",
       std::string(op) + ": label_smoothing must be from 0 to 1, got " + std::to_string(label_smoothing),
       loc);
}

// Checks of all losses with classes: smoothing is from 0 to 1, targets are in [0, V) or ignored.
inline void require_targets(const char* op, const Tensor& target, int64_t V,
                            const CrossEntropyOptions& options, Loc loc) {
  require_smoothing(op, options.label_smoothing, loc);
  const auto message = [op = std::string(op), V, ignored = options.ignore_index](int64_t value,
                                                                                 int64_t sample) {
    return op + ": target " + std::to_string(value) + " of sample " + std::to_string(sample) +
           " is outside [0, " + std::to_string(V) +
           ")\n  hint: classes are numbered from 0; give a sample that is to be ignored the target "
           "ignore_index (" +
           std::to_string(ignored) + ")";
  };
  if (target.device().is_cuda()) {
    if constexpr (backend::cuda::is_built()) {
      backend::cuda::check_range(target.view_of(), V, options.ignore_index, message, loc);
    }
    return;
  }
  const auto* const t = target.view_of().as<const int64_t>();
  for (int64_t n = 0; n < target.numel(); ++n) {
    const int64_t value = t[n * target.strides()[0]];
    if ((value >= 0 && value < V) || value == options.ignore_index) continue;
    fail("TT-RANGE-05", message(value, n), loc);
  }
}

// Classes of any dimensions as one row per sample [N]. The values are not checked here.
inline Tensor class_targets(const char* op, const Tensor& target, const Shape& samples, int64_t C, Loc loc) {
  require_defined(op, loc, target);
  require_index(op, target, loc);
  if (!(target.shape() == samples) || C < 1) {
    fail("TT-SHAPE-02",
         std::string(op) + ": sizes differ: target " + target.describe() + ", samples " + samples.str() +
             "\n  rule: scores [N, C, ...] with C >= 1, target [N, ...]; or scores [C], target []"
             "\n  hint: scores of a sequence [B, T, C] become rows first: scores.reshape({-1, C}), "
             "target.reshape({-1})",
         loc);
  }
  return reshape(target, {target.numel()}, loc);
}

inline Tensor reduced_rows(const RowLosses& rows, const Shape& samples, Reduction reduction, Loc loc) {
  if (reduction == Reduction::none) return reshape(rows.loss, samples, loc);
  const Tensor total = sum(rows.loss, {}, false, loc);
  return reduction == Reduction::sum ? total : div(total, sum(rows.weight, {}, false, loc), loc);
}

TT_API Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const NllOptions& options,
                       Loc loc) {
  const ClassRows scores = class_rows("nll_loss", log_probabilities, loc);
  const int64_t C = scores.rows.size(1);
  const Tensor flat = class_targets("nll_loss", target, scores.samples, C, loc);
  require_targets("nll_loss", flat, C, {.ignore_index = options.ignore_index}, loc);
  require_class_weight("nll_loss", options.weight, C, log_probabilities, loc);
  return reduced_rows(nll_rows(scores.rows, flat, options.weight, options.ignore_index, 0, loc),
                      scores.samples, options.reduction, loc);
}

// cross_entropy with class weights, or with probabilities as targets, of any dimensions.
inline Tensor weighted_cross_entropy(const Tensor& logits, const Tensor& target,
                                     const CrossEntropyOptions& options, Loc loc) {
  constexpr const char* kName = "cross_entropy";
  const ClassRows scores = class_rows(kName, logits, loc);
  const int64_t C = scores.rows.size(1);
  require_class_weight(kName, options.weight, C, logits, loc);
  if (!is_floating(target.dtype()) || !(target.shape() == logits.shape())) {
    const Tensor flat = class_targets(kName, target, scores.samples, C, loc);
    require_targets(kName, flat, C, options, loc);
    return reduced_rows(nll_rows(log_softmax(scores.rows, 1, loc), flat, options.weight, options.ignore_index,
                                 options.label_smoothing, loc),
                        scores.samples, options.reduction, loc);
  }
  require_pairs(kName, {logits, target}, loc);
  require_smoothing(kName, options.label_smoothing, loc);
  const double smoothing = options.label_smoothing;
  Tensor shares = class_rows(kName, target, loc).rows;
  if (smoothing > 0) shares = shares * (1 - smoothing) + smoothing / static_cast<double>(C);
  if (options.weight.defined()) shares = shares * options.weight;
  const Tensor loss = -sum(log_softmax(scores.rows, 1, loc) * shares, {1}, false, loc);
  return reduced(reshape(loss, scores.samples, loc), options.reduction, loc);
}

TT_API Tensor kl_div(const Tensor& x, const Tensor& target, const KlOptions& options, Loc loc) {
  require_pairs("kl_div", {x, target}, loc);
  Tensor loss;
  if (options.log_target) {
    loss = exp(target, loc) * (target - x);
  } else {
    // The logarithm is taken of 1 where target is 0, so that neither the value nor the gradient is NaN.
    const Tensor safe = where(target == 0, scalar_like(1, target, loc), target, loc);
    loss = target * (log(safe, loc) - x);
  }
  if (!options.batch_mean) return reduced(loss, options.reduction, loc);
  if (x.rank() == 0) return loss;
  return sum(loss, {}, false, loc) / static_cast<double>(x.size(0));
}

TT_API Tensor binary_cross_entropy(const Tensor& p, const Tensor& target, Reduction reduction, Loc loc) {
  require_pairs("binary_cross_entropy", {p, target}, loc);
  const Tensor given = p.detach();
  if (given.device().is_cpu() && given.numel() > 0 &&
      (min(given).item<double>() < 0 || max(given).item<double>() > 1)) {
    fail(
        "TT-RANGE-02",
        "binary_cross_entropy: probabilities must be from 0 to 1\n  hint: bce_with_logits() takes numbers of "
        "any size, and is more accurate than sigmoid() followed by this",
        loc);
  }
  const Tensor rest = 1 - given, lowest = scalar_like(-100, p, loc);
  const Tensor one = maximum(log(given, loc), lowest, loc), zero = maximum(log(rest, loc), lowest, loc);
  // The derivative is that of the loss without the bound of the logarithms, which would be 0 where p is 0
  // or 1. The second term is 0 and has this derivative.
  const Tensor smallest = scalar_like(p.dtype() == DType::f16 ? 1e-7 : 1e-12, p, loc);
  const Tensor slope = ((given - target) / maximum(given * rest, smallest, loc)).detach();
  const Tensor loss = -(target * one + (1 - target) * zero) + slope * (p - given);
  return reduced(loss, reduction, loc);
}

TT_API Tensor cosine_similarity(const Tensor& x, const Tensor& y, int dim, double eps, Loc loc) {
  require_pairs("cosine_similarity", {x, y}, loc);
  const DType wide = statistics_dtype(x.dtype());  // eps^2 is below the range of f16
  const Tensor a = x.to(wide, loc), b = y.to(wide, loc);
  const auto norm = [&](const Tensor& t) {
    return sqrt(maximum(sum(square(t, loc), {dim}, false, loc), scalar_like(eps * eps, t, loc), loc), loc);
  };
  return (sum(mul(a, b, loc), {dim}, false, loc) / (norm(a) * norm(b))).to(x.dtype(), loc);
}

TT_API Tensor cosine_embedding_loss(const Tensor& x, const Tensor& y, const Tensor& target, double margin,
                                    Reduction reduction, Loc loc) {
  constexpr const char* kName = "cosine_embedding_loss";
  require_pairs(kName, {x, y}, loc);
  require_defined(kName, loc, target);
  if (x.rank() < 1 || x.rank() > 2 || !(target.shape() == (x.rank() == 1 ? Shape{} : Shape{x.size(0)}))) {
    fail("TT-SHAPE-02",
         std::string(kName) + ": sizes differ: " + describe_operands({x, y, target}) +
             "\n  rule: x and y [N, C], target [N]; or x and y [C], target []",
         loc);
  }
  const DType wide = statistics_dtype(x.dtype());  // 1e-12 is below the range of f16
  const Tensor a = x.to(wide, loc), b = y.to(wide, loc);
  const auto squares = [&](const Tensor& t) { return sum(square(t, loc), {-1}, false, loc) + 1e-12; };
  const Tensor cosine =
      (sum(mul(a, b, loc), {-1}, false, loc) / sqrt(squares(a) * squares(b), loc)).to(x.dtype(), loc);
  const Tensor none = scalar_like(0, cosine, loc);
  const Tensor apart = maximum(cosine - margin, none, loc);
  const Tensor loss = where(target == 1, 1 - cosine, where(target == -1, apart, none, loc), loc);
  return reduced(loss, reduction, loc);
}

TT_API Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                  const TripletOptions& options, Loc loc) {
  require_option(options.p > 0, "triplet_margin_loss: p must be above 0", loc);
  require_pairs("triplet_margin_loss", {anchor, positive, negative}, loc);
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    const Tensor d = a - b + options.eps;
    if (options.p == 2) return sqrt(sum(square(d, loc), {-1}, false, loc), loc);
    const Tensor size = abs(d, loc);
    if (options.p == 1) return sum(size, {-1}, false, loc);
    const Tensor powers = pow(size, scalar_like(options.p, size, loc), loc);
    return pow(sum(powers, {-1}, false, loc), scalar_like(1 / options.p, size, loc), loc);
  };
  Tensor far = distance(anchor, negative);
  if (options.swap) far = minimum(far, distance(positive, negative), loc);
  const Tensor loss = distance(anchor, positive) - far + options.margin;
  return reduced(maximum(loss, scalar_like(0, loss, loc), loc), options.reduction, loc);
}

}  // namespace tinytorch::inline TT_BUILD

#include <tinytorch/tensor/ops/elementwise.hpp>
#include <tinytorch/tensor/ops/index.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>
#include <tinytorch/tensor/ops/shape.hpp>
#include <tinytorch/tensor/ops/softmax.hpp>
#endif
