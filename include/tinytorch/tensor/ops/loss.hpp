// Losses: cross_entropy (log-softmax and negative log-likelihood in one pass), the same behind a matrix
// product without its logits in memory, mse_loss, bce_with_logits.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <limits>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/loss.hpp>
#include <tinytorch/backend/cpu/matmul.hpp>
#include <tinytorch/backend/cpu/reduce.hpp>
#include <tinytorch/backend/cuda/device/fault.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/loss.hpp>

namespace tinytorch::inline TT_BUILD {

// Of both cross entropies: smoothing from 0 to 1, targets in [0, V) or ignored.
inline void require_targets(const char* op, const Tensor& target, int64_t V,
                            const CrossEntropyOptions& options, Loc loc) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    fail("TT-RANGE-08",
         std::string(op) + ": label_smoothing must be from 0 to 1, got " +
             std::to_string(options.label_smoothing),
         loc);
  }
  const auto message = [op = std::string(op), V, ignored = options.ignore_index](int64_t value,
                                                                                 int64_t sample) {
    return op + ": target " + std::to_string(value) + " of sample " + std::to_string(sample) +
           " is outside [0, " + std::to_string(V) +
           ")\n  hint: classes count from 0; to leave a sample out give it ignore_index (" +
           std::to_string(ignored) + ")";
  };
  if (target.device().is_cuda()) {
    if constexpr (backend::cuda::is_built()) {
      backend::cuda::check_range(target.view_of(), V, options.ignore_index, message, loc);
    }
    return;
  }
  const int64_t* t = target.data<int64_t>();
  for (int64_t n = 0; n < target.numel(); ++n) {
    const int64_t value = t[n * target.strides()[0]];
    if ((value >= 0 && value < V) || value == options.ignore_index) continue;
    fail("TT-RANGE-05", message(value, n), loc);
  }
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
  Save saves() const override { return Save::both; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return vjp::cross_entropy(g[0], s, options);
  }
};

// The same for training on a GPU: the gradient is made in the visit that makes the loss, so the logits are
// read once. -> loss [], lse [N], dlogits [N, V] for a gradient of 1
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
  Save saves() const override { return Save::outputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const Tensor& dx = s.outputs[2];
    return {g[0].impl()->unit ? dx : mul(dx, g[0]), Tensor()};
  }
};

// features [N, C], weight [V, C], target [N] -> loss [], the sum; features' gradient [N, C] and weight's [V,
// C] for a gradient of 1, where they are wanted. Rows go through in chunks: logits = x W^T, then in their
// place dlogits = softmax - onehot, then dx = dlogits W and dW += dlogits^T x. Both stay in the type that
// products add up in, so that neither many chunks nor the loss's gradient, multiplied later, round them
// twice.
struct LinearCrossEntropy final : Primitive<LinearCrossEntropy> {
  static constexpr const char* kName = "linear_cross_entropy";
  CrossEntropyOptions options;
  int64_t rows;                 // of a chunk at most; 0: by memory
  bool of_features, of_weight;  // gradients that are wanted
  DType dtype;                  // of features and weight
  LinearCrossEntropy(CrossEntropyOptions o, int64_t r, bool x, bool w, DType t)
      : options(o), rows(r), of_features(x), of_weight(w), dtype(t) {
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
    return {{{}, wide}, {of_features ? x : Shape{0}, wide}, {of_weight ? weight : Shape{0}, wide}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    const double logits = static_cast<double>(in[0].shape()[0]) * static_cast<double>(in[1].shape()[0]);
    const double product = 2 * logits * static_cast<double>(in[1].shape()[1]);
    return (1 + of_features + of_weight) * product + (of_features || of_weight ? 26 : 13) * logits;
  }
  void run(const Tensors& in, Tensors& out) const override {
    const int64_t N = in[0].shape()[0], V = in[1].shape()[0], each = rows_at_once(N, V, in[0].device());
    const int64_t chunks = (N + each - 1) / each;
    const auto scratch = [&](const Shape& shape, DType t) { return empty(shape, t, in[0].device()); };
    const Tensor logits = scratch({each, V}, dtype), lse = scratch({each}, out[0].dtype());
    const Tensor losses = scratch({chunks}, out[0].dtype());
    for (int64_t c = 0; c < chunks; ++c) {
      const int64_t first = c * each, count = std::min(each, N - first);
      backend::View loss = part(losses, c, 1);
      loss.shape = {}, loss.strides = {};
      run_chunk(in, out, first, count, loss, part(lse, 0, count), part(logits, 0, count));
    }
    const bool all[] = {true};
    TT_KERNEL(out[0], reduce(backend::ReduceFn::sum, out[0].view_of(), losses.view_of(), all));
    if (chunks == 0 && of_weight) TT_KERNEL(out[2], fill(out[2].view_of(), 0.0));
  }
  Save saves() const override { return Save::outputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const auto gradient = [&](bool wanted, size_t k) {
      if (!wanted) return Tensor();
      const Tensor& of_one = s.outputs[k + 1];
      return (g[0].impl()->unit ? of_one : mul(of_one, g[0])).to(dtype);
    };
    return {gradient(of_features, 0), gradient(of_weight, 1), Tensor()};
  }

 private:
  // Chunks of nearly equal size, a multiple of what a matrix product cuts rows into.
  int64_t rows_at_once(int64_t N, int64_t V, Device device) const {
    if (rows > 0) return std::min(rows, std::max<int64_t>(N, 1));
    constexpr int64_t kTile = 128;
    const int64_t budget = device.is_cpu() ? int64_t{128} << 20 : int64_t{1} << 30;  // bytes
    const int64_t most = std::max<int64_t>(kTile, budget / (V * static_cast<int64_t>(size_of(dtype))));
    const int64_t chunks = std::max<int64_t>(1, (N + most - 1) / most), even = (N + chunks - 1) / chunks;
    return chunks == 1 ? std::max<int64_t>(N, 1) : (even + kTile - 1) / kTile * kTile;
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
    if (!of_features && !of_weight) {
      TT_KERNEL(in[0], cross_entropy(loss, lse, logits, target, parameters));
      return;
    }
    TT_KERNEL(in[0], cross_entropy_with_grad(loss, lse, logits, logits, target, parameters));
    if (of_features) TT_KERNEL(in[0], matmul(part(out[1], first, count), logits, weight));
    if (of_weight) TT_KERNEL(in[0], matmul(out[2].view_of(), backend::transposed(logits), x, first > 0));
  }
};

// mse_loss and bce_with_logits: x and target of one shape -> loss [] or of that shape
struct ElementLoss final : Primitive<ElementLoss> {
  static constexpr const char* kName = "pointwise_loss";
  PointwiseLoss fn;
  Reduction reduction;
  ElementLoss(PointwiseLoss f, Reduction r) : fn(f), reduction(r) {}

  const char* name() const override { return fn == PointwiseLoss::mse ? "mse_loss" : "bce_with_logits"; }
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(name(), in, loc);
    require_floating(name(), in[0], loc);
    if (!(in[0].shape() == in[1].shape())) {  // broadcasting here has hidden too many mistakes
      fail("TT-SHAPE-02",
           std::string(name()) + ": x and target must have one shape: " + describe_operands(in) +
               "\n  hint: reshape or expand the smaller one",
           loc);
    }
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
};

TT_API Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyOptions options,
                            Loc loc) {
  const bool trains = grad_enabled() && tracks_grad(logits);
  if (trains && logits.device().is_cuda() && options.reduction != Reduction::none) {
    return apply(CrossEntropyTrain(options), {logits, target}, loc);
  }
  return apply(CrossEntropy(options), {logits, target}, loc);
}
TT_API Tensor linear_cross_entropy(const Tensor& features, const Tensor& weight, const Tensor& target,
                                   CrossEntropyOptions options, int64_t rows, Loc loc) {
  require_defined("linear_cross_entropy", loc, features, weight, target);
  if (options.reduction == Reduction::none) {
    fail("TT-RANGE-07",
         "linear_cross_entropy: gives the mean or the sum, because the gradients are made with it"
         "\n  hint: cross_entropy(linear(features, weight), target, options) has one loss a row",
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
  // Where no target counts the mean is NaN and its gradient zero, as cross_entropy's.
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
