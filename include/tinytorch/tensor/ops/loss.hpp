// Losses: cross_entropy (log-softmax and negative log-likelihood in one pass), linear_cross_entropy (the same
// after a linear layer, without all logits in memory), mse_loss and bce_with_logits.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <limits>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/loss.hpp>
#include <tinytorch/backend/cpu/matmul.hpp>
#include <tinytorch/backend/cpu/reduce.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops/composed_losses.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/loss.hpp>

namespace tinytorch::inline TT_BUILD {

// cross_entropy in operations that can be differentiated again.
inline Tensor composed_cross_entropy(const Tensor& logits, const Tensor& target,
                                     const CrossEntropyOptions& o) {
  const Tensor log_p = log_softmax(logits, 1), kept = target != o.ignore_index;
  const Tensor at = where(kept, target, zeros_like(target));
  const Tensor hit = reshape(gather(log_p, 1, reshape(at.to(DType::i64), {-1, 1})), target.shape());
  const Tensor each = (hit * (1 - o.label_smoothing) + mean(log_p, {1}) * o.label_smoothing) * -1;
  const Tensor losses = where(kept, each, scalar_like(0, each));
  if (o.reduction == Reduction::none) return losses;
  return o.reduction == Reduction::sum ? sum(losses) : sum(losses) / sum(kept.to(losses.dtype()));
}

// logits [N, V], target [N] -> loss [] or [N], and lse [N] for the derivative
struct CrossEntropy final : Primitive<CrossEntropy> {
  static constexpr const char* kName = "cross_entropy";
  CrossEntropyOptions options;
  explicit CrossEntropy(CrossEntropyOptions o) : options(o) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    require_floating(kName, in[0], loc);
    require_rank(kName, in[0], 2, "logits [N, V]", loc);
    require_index(kName, in[1], loc);
    const int64_t N = in[0].shape()[0], V = in[0].shape()[1];
    if (!(in[1].shape() == Shape{N}) || V < 1) {
      fail("TT-SHAPE-02",
           "cross_entropy: sizes differ: " + describe_operands(in) +
               "\n  rule: logits [N, V] with V >= 1, target [N]"
               "\n  hint: flatten a sequence first: logits.reshape({-1, V}), target.reshape({-1})",
           loc);
    }
    require_targets(kName, in[1], V, options, loc);
    const bool each = options.reduction == Reduction::none;
    return {{each ? Shape{N} : Shape{}, in[0].dtype()}, {{N}, statistics_dtype(in[0].dtype())}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 13 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], cross_entropy(out[0].view_of(), out[1].view_of(), in[0].view_of(), in[1].view_of(),
                                    cross_entropy_parameters(options)));
  }
  Save saves() const override { return Save::inputs_and_extras; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return vjp::cross_entropy(g[0], s, options);
  }
  Tensors composed(const Tensors& in) const override {
    return {composed_cross_entropy(in[0], in[1], options)};
  }
};

// cross_entropy for training on a GPU: the gradient is computed in the same pass as the loss, so that the
// logits are read once. -> loss [], lse [N], dlogits [N, V] for an upstream gradient of 1
struct CrossEntropyTrain final : Primitive<CrossEntropyTrain> {
  static constexpr const char* kName = "cross_entropy";
  CrossEntropyOptions options;
  explicit CrossEntropyTrain(CrossEntropyOptions o) : options(o) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    Specs specs = CrossEntropy(options).infer(in, loc);
    specs.push_back({in[0].shape(), in[0].dtype()});
    return specs;
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 26 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    if constexpr (backend::cuda::is_built()) {
      backend::cuda::cross_entropy_with_grad(out[0].view_of(), out[1].view_of(), out[2].view_of(),
                                             in[0].view_of(), in[1].view_of(),
                                             cross_entropy_parameters(options), 1);
    }
  }
  Save saves() const override { return Save::extras; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const Tensor& dx = s.outputs[2];
    return {g[0].impl()->unit ? dx : mul(dx, g[0]), Tensor()};
  }
};

// features [N, C], weight [V, C], target [N] -> the summed loss [] and, if needed, the gradients of features
// [N, C] and weight [V, C] for an upstream gradient of 1. Rows are processed in chunks: logits = x W^T, then
// dlogits = softmax - onehot in the same memory, then dx = dlogits W and dW += dlogits^T x. Both gradients
// have the accumulate type of matrix products, so that they are rounded only once: after all chunks have been
// added and the upstream gradient has been multiplied. The last result is the memory of a chunk's logits, and
// nothing reads it later; as a result, it has a place in the memory plan of a captured graph.
struct LinearCrossEntropy final : Primitive<LinearCrossEntropy> {
  static constexpr const char* kName = "linear_cross_entropy";
  CrossEntropyOptions options;
  int64_t rows;                       // largest number of rows of a chunk; 0: determined by the memory budget
  bool wants_features, wants_weight;  // true if the gradient is needed
  DType dtype;                        // dtype of features and weight
  LinearCrossEntropy(CrossEntropyOptions o, int64_t r, bool x, bool w, DType t)
      : options(o), rows(r), wants_features(x), wants_weight(w), dtype(t) {
    options.reduction = Reduction::sum;
  }

  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, {in[0], in[1]}, loc);
    require_floating(kName, in[0], loc);
    require_rank(kName, in[1], 2, "a weight [V, C]", loc);
    require_index(kName, in[2], loc);
    const Shape &x = in[0].shape(), &weight = in[1].shape();
    if (x[1] != weight[1] || !(in[2].shape() == Shape{x[0]}) || weight[0] < 1 || rows < 0) {
      fail("TT-SHAPE-02",
           "linear_cross_entropy: sizes differ: " + describe_operands(in) +
               "\n  rule: features [..., C], weight [V, C] with V >= 1, target [...], rows >= 0",
           loc);
    }
    require_targets(kName, in[2], weight[0], options, loc);
    const DType wide = statistics_dtype(dtype);
    const int64_t each = rows_at_once(x[0], weight[0], in[0].device());
    return {{{}, wide},
            {wants_features ? x : Shape{0}, wide},
            {wants_weight ? weight : Shape{0}, wide},
            {{each, weight[0]}, dtype}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    const double logits = static_cast<double>(in[0].shape()[0]) * static_cast<double>(in[1].shape()[0]);
    const double product = 2 * logits * static_cast<double>(in[1].shape()[1]);
    return (1 + wants_features + wants_weight) * product +
           (wants_features || wants_weight ? 26 : 13) * logits;
  }
  void run(const Tensors& in, Tensors& out) const override {
    const int64_t N = in[0].shape()[0], V = in[1].shape()[0], each = rows_at_once(N, V, in[0].device());
    const int64_t chunks = ceil_div(N, each);
    const auto scratch = [&](const Shape& shape, DType t) { return empty(shape, t, in[0].device()); };
    const Tensor &logits = out[3], lse = scratch({each}, out[0].dtype());
    const Tensor losses = scratch({chunks}, out[0].dtype());
    for (int64_t c = 0; c < chunks; ++c) {
      const int64_t first = c * each, count = std::min(each, N - first);
      backend::View loss = part(losses, c, 1);
      loss.shape = {}, loss.strides = {};
      run_chunk(in, out, first, count, loss, part(lse, 0, count), part(logits, 0, count));
    }
    const bool all[] = {true};
    TT_KERNEL(out[0], reduce(backend::ReduceFn::sum, out[0].view_of(), losses.view_of(), all));
    if (chunks == 0 && wants_weight) TT_KERNEL(out[2], fill(out[2].view_of(), 0.0));
  }
  Save saves() const override { return Save::extras; }
  bool saves_output(size_t k) const override { return k == 1 || k == 2; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const auto gradient = [&](bool wanted, size_t k) {
      if (!wanted) return Tensor();
      const Tensor& for_unit = s.outputs[k + 1];
      return (g[0].impl()->unit ? for_unit : mul(for_unit, g[0])).to(dtype);
    };
    return {gradient(wants_features, 0), gradient(wants_weight, 1), Tensor()};
  }

 private:
  // Rows of a chunk. Chunks have nearly equal sizes, which are multiples of a matrix product's block of rows.
  int64_t rows_at_once(int64_t N, int64_t V, Device device) const {
    if (rows > 0) return std::min(rows, std::max<int64_t>(N, 1));
    constexpr int64_t kTile = 128;
    const int64_t budget = device.is_cpu() ? int64_t{128} << 20 : int64_t{1} << 30;  // bytes
    const int64_t most = std::max<int64_t>(kTile, budget / (V * static_cast<int64_t>(size_of(dtype))));
    const int64_t chunks = std::max<int64_t>(1, ceil_div(N, most)), even = ceil_div(N, chunks);
    return chunks == 1 ? std::max<int64_t>(N, 1) : ceil_div(even, kTile) * kTile;
  }
  // Rows [first, first + count) of t.
  static backend::View part(const Tensor& t, int64_t first, int64_t count) {
    backend::View v = t.view_of();
    v.data = v.as<char>() + first * v.strides[0] * static_cast<int64_t>(size_of(v.dtype));
    v.shape[0] = count;
    return v;
  }
  void run_chunk(const Tensors& in, const Tensors& out, int64_t first, int64_t count,
                 const backend::View& loss, const backend::View& lse, const backend::View& logits) const {
    const backend::View x = part(in[0], first, count), weight = in[1].view_of();
    const backend::View target = part(in[2], first, count);
    const backend::CrossEntropyParameters parameters = cross_entropy_parameters(options);
    TT_KERNEL(in[0], linear(logits, x, weight, {}));
    if (!wants_features && !wants_weight) {
      TT_KERNEL(in[0], cross_entropy(loss, lse, logits, target, parameters));
      return;
    }
    TT_KERNEL(in[0], cross_entropy_with_grad(loss, lse, logits, logits, target, parameters));
    if (wants_features) TT_KERNEL(in[0], matmul(part(out[1], first, count), logits, weight));
    if (wants_weight) TT_KERNEL(in[0], matmul(out[2].view_of(), backend::transposed(logits), x, first > 0));
  }
};

// mse_loss and bce_with_logits: x and target of the same shape -> loss [], or of that shape for
// Reduction::none
struct ElementLoss final : Primitive<ElementLoss> {
  static constexpr const char* kName = "pointwise_loss";
  PointwiseLoss fn;
  Reduction reduction;
  ElementLoss(PointwiseLoss f, Reduction r) : fn(f), reduction(r) {}

  const char* name() const override { return fn == PointwiseLoss::mse ? "mse_loss" : "bce_with_logits"; }
  Specs infer(const Tensors& in, Loc loc) const override {
    require_pairs(name(), in, loc);
    return {{reduction == Reduction::none ? in[0].shape() : Shape{}, in[0].dtype()}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return (fn == PointwiseLoss::mse ? 3 : 26) * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], pointwise_loss(fn, out[0].view_of(), in[0].view_of(), in[1].view_of(),
                                     loss_reduction(reduction)));
  }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return vjp::pointwise_loss(g[0], s, fn, reduction);
  }
  Tensors composed(const Tensors& in) const override {
    const Tensor &x = in[0], &target = in[1];
    const Tensor each = fn == PointwiseLoss::mse ? square(x - target) : softplus(x) - x * target;
    return {reduced(each, reduction, Loc::current())};
  }
};

TT_API Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyOptions options,
                            Loc loc) {
  constexpr const char* kName = "cross_entropy";
  require_defined(kName, loc, logits, target);
  const bool soft = is_floating(target.dtype()) && target.shape() == logits.shape();
  if (soft || options.weight.defined()) {
    return weighted_cross_entropy(logits, target, options, loc);
  }
  if (logits.rank() != 2) {
    const ClassRows scores = class_rows(kName, logits, loc);
    const Tensor flat = class_targets(kName, target, scores.samples, scores.rows.size(1), loc);
    const Tensor loss = cross_entropy(scores.rows, flat, options, loc);
    return options.reduction == Reduction::none ? reshape(loss, scores.samples, loc) : loss;
  }
  const bool trains = grad_enabled() && tracks_grad(logits);
  if (trains && logits.device().is_cuda() && options.reduction != Reduction::none) {
    return apply(CrossEntropyTrain(options), {logits, target}, loc);
  }
  return apply(CrossEntropy(options), {logits, target}, loc);
}
TT_API Tensor linear_cross_entropy(const Tensor& features, const Tensor& weight, const Tensor& target,
                                   CrossEntropyOptions options, int64_t rows, Loc loc) {
  require_defined("linear_cross_entropy", loc, features, weight, target);
  if (options.weight.defined()) {
    fail("TT-RANGE-07",
         "linear_cross_entropy: class weights are not built for this loss\n  hint: "
         "cross_entropy(linear(features, weight), target, options) takes them",
         loc);
  }
  if (options.reduction == Reduction::none) {
    fail("TT-RANGE-07",
         "linear_cross_entropy: the reduction must be mean or sum, because the gradients are computed with "
         "the loss"
         "\n  hint: cross_entropy(linear(features, weight), target, options) gives one loss per row",
         loc);
  }
  if (features.rank() == 0) {
    fail("TT-SHAPE-04", "linear_cross_entropy: features need at least rank 1, got " + features.describe(),
         loc);
  }
  Shape leading = features.shape();
  leading.pop_back();
  if (!(target.shape() == leading)) {
    fail("TT-SHAPE-02",
         "linear_cross_entropy: sizes differ: " + describe_operands({features, weight, target}) +
             "\n  rule: features [..., C], weight [V, C], target [...]",
         loc);
  }
  const Tensor x = reshape(features, {leading.numel(), features.shape().back()}, loc);
  const Tensor classes = reshape(target, {leading.numel()}, loc);
  const bool trains = grad_enabled();
  const LinearCrossEntropy op(options, rows, trains && tracks_grad(features), trains && tracks_grad(weight),
                              features.dtype());
  const Tensor total = apply(op, {x, weight, classes}, loc);
  if (options.reduction == Reduction::sum) return total;
  // If all targets are ignored, the mean is NaN and its gradient is zero, as in cross_entropy.
  const Tensor count =
      sum(ne(classes, scalar_like(options.ignore_index, classes, loc), loc).to(total.dtype(), loc), {}, false,
          loc);
  const Tensor mean_of_some = div(total, maximum(count, scalar_like(1, count, loc), loc), loc);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return where(gt(count, scalar_like(0, count, loc), loc), mean_of_some, scalar_like(nan, total, loc), loc);
}
TT_API Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction, Loc loc) {
  return apply(ElementLoss(PointwiseLoss::mse, reduction), {x, target}, loc);
}
TT_API Tensor bce_with_logits(const Tensor& x, const Tensor& target, Reduction reduction, Loc loc) {
  return apply(ElementLoss(PointwiseLoss::bce_with_logits, reduction), {x, target}, loc);
}

}  // namespace tinytorch::inline TT_BUILD

#include <tinytorch/tensor/ops/matmul.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>
#include <tinytorch/tensor/ops/shape.hpp>
#endif
