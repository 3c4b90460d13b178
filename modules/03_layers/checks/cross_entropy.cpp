#include <support/check.hpp>
#include <tinytorch/backend/cpu/loss.hpp>

using namespace course;
using backend::CrossEntropyParameters;
using backend::LossReduction;
namespace cpu = tinytorch::backend::cpu;

namespace {

struct Reference {
  Numbers losses, lse, dx;
  double loss;
};
// Cross-entropy by the definition, in double. grad has one value, or for reduction none one per row.
Reference reference(const Numbers& x, const Numbers& targets, int64_t V, const CrossEntropyParameters& p,
                    const Numbers& grad) {
  Reference r{{}, {}, Numbers(x.size()), 0};
  double counted = 0;
  for (double t : targets) counted += t != static_cast<double>(p.ignore_index);
  const double share = p.reduction == LossReduction::mean ? 1 / counted : 1;
  for (size_t n = 0; n < targets.size(); ++n) {
    const double* row = x.data() + n * static_cast<size_t>(V);
    double largest = row[0], sum = 0, mean = 0;
    for (int64_t j = 0; j < V; ++j) largest = std::max(largest, row[j]);
    for (int64_t j = 0; j < V; ++j)
      sum += std::exp(row[j] - largest), mean += row[j] / static_cast<double>(V);
    const double lse = largest + std::log(sum), s = p.label_smoothing;
    r.lse.push_back(lse);
    const bool counts = targets[n] != static_cast<double>(p.ignore_index);
    const double at_target = counts ? row[static_cast<int64_t>(targets[n])] : 0;
    r.losses.push_back(counts ? (1 - s) * (lse - at_target) + s * (lse - mean) : 0);
    r.loss += r.losses.back() * share;
    for (int64_t j = 0; counts && j < V; ++j) {
      const double wanted = s / static_cast<double>(V) + (static_cast<double>(j) == targets[n] ? 1 - s : 0);
      r.dx[n * static_cast<size_t>(V) + static_cast<size_t>(j)] =
          share * grad[p.reduction == LossReduction::none ? n : 0] * (std::exp(row[j] - lse) - wanted);
    }
  }
  return r;
}
Numbers random_targets(int64_t N, int64_t V) {
  Numbers t;
  for (int64_t n = 0; n < N; ++n) t.push_back(std::floor(uniform(0, static_cast<double>(V))));
  return t;
}
std::string call(const char* name, const Shape& shape, const CrossEntropyParameters& p) {
  constexpr const char* kNames[] = {"mean", "sum", "none"};
  std::string text =
      std::string(name) + " of " + shape.str() + ", reduction " + kNames[static_cast<int>(p.reduction)];
  if (p.label_smoothing > 0) text += ", smoothing " + shown(p.label_smoothing);
  return text;
}

// Checks all three functions on one input.
void check(DType dtype, const Shape& shape, Numbers targets, CrossEntropyParameters p,
           Layout layout = Layout::contiguous, double low = -3, double high = 3) {
  const bool none = p.reduction == LossReduction::none;
  const Shape result = none ? Shape{shape[0]} : Shape{};
  const DType wide = dtype == f64 ? f64 : f32;
  Values x = Values::random(dtype, shape, layout, low, high),
         t = Values::of(i64, {shape[0]}, targets, Layout::gaps);
  Values loss(dtype, result), lse(wide, {shape[0]}), grad = Values::random(dtype, result),
                                                     dx(dtype, shape, layout);
  const Reference want = reference(x.numbers(), targets, shape[1], p, grad.numbers());
  const double size = std::max(std::abs(low), std::abs(high));
  cpu::cross_entropy(loss.view(), lse.view(), x.view(), t.view(), p);
  const Numbers whole{want.loss};
  expect_close(call("cross_entropy", shape, p), loss, none ? want.losses : whole,
               {.roundings = 16, .scale = 4});
  expect_close(call("lse in cross_entropy", shape, p), lse, want.lse, {.roundings = 16, .scale = 1 + size});
  cpu::cross_entropy_grad(dx.view(), grad.view(), x.view(), t.view(), lse.view(), p);
  expect_close(call("cross_entropy_grad", shape, p), dx, want.dx, {.roundings = 16, .scale = 1 + size});
  if (none) return;
  Values both(dtype, shape), loss2(dtype, result);
  cpu::cross_entropy_with_grad(loss2.view(), lse.view(), both.view(), x.view(), t.view(), p,
                               grad.numbers()[0]);
  expect_close(call("loss of cross_entropy_with_grad", shape, p), loss2, whole,
               {.roundings = 16, .scale = 4});
  expect_close(call("dx of cross_entropy_with_grad", shape, p), both, want.dx,
               {.roundings = 16, .scale = 1 + size});
}

}  // namespace

TEST_CASE("3.4 the loss of one row") {
  Values x = Values::of(f32, {1, 3}, {0, std::log(2.0), std::log(5.0)}), t = Values::of(i64, {1}, {1});
  Values loss(f32, {}), lse(f32, {1});
  cpu::cross_entropy(loss.view(), lse.view(), x.view(), t.view(), {});
  expect_close("cross_entropy of [0, log 2, log 5], target 1: -log(2 / 8)", loss, {std::log(4.0)});
  expect_close("the lse of this row, log(1 + 2 + 5)", lse, {std::log(8.0)});
}

TEST_CASE("3.4 the mean over rows, and its gradient") {
  for (const DType dtype : {f32, f64}) check(dtype, {7, 5}, random_targets(7, 5), {});
}

TEST_CASE("3.4 large logits") {
  check(f32, {3, 5}, random_targets(3, 5), {}, Layout::contiguous, -1e3, 1e3);
  Values x = Values::of(f32, {1, 2}, {1e6, 1e6 - 1}), t = Values::of(i64, {1}, {1}), loss(f32, {}),
         lse(f32, {1});
  cpu::cross_entropy(loss.view(), lse.view(), x.view(), t.view(), {});
  expect_close("cross_entropy of [1000000, 999999], target 1: 1 + log(1 + 1 / e), as for [1, 0]", loss,
               {1 + std::log(1 + std::exp(-1.0))});
}

TEST_CASE("3.4 a masked logit of -inf adds nothing to the loss") {
  Values x = Values::of(f32, {1, 3}, {1, -HUGE_VAL, 1}), t = Values::of(i64, {1}, {0}), loss(f32, {}),
         lse(f32, {1});
  Values dx(f32, {1, 3});
  cpu::cross_entropy_with_grad(loss.view(), lse.view(), dx.view(), x.view(), t.view(), {});
  expect_close("cross_entropy of [1, -inf, 1], target 0", loss, {std::log(2.0)});
  expect_close("the gradient of [1, -inf, 1], target 0", dx, {-0.5, 0, 0.5});
}

TEST_CASE("3.4 the sum, and a loss for each row") {
  for (const LossReduction reduction : {LossReduction::sum, LossReduction::none}) {
    check(f32, {5, 11}, random_targets(5, 11), {.reduction = reduction});
  }
}

TEST_CASE("3.4 ignored rows add nothing and do not count") {
  Numbers targets = random_targets(6, 4);
  targets[0] = targets[4] = -100;
  for (const LossReduction reduction : {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
    check(f32, {6, 4}, targets, {.reduction = reduction});
  }
  for (double& t : targets) t = t < 0 ? 2 : (t == 2 ? 1 : t);
  check(f64, {6, 4}, targets, {.ignore_index = 2});
  Values x = Values::random(f32, {2, 3}), t = Values::of(i64, {2}, {-100, -100}),
         grad = Values::of(f32, {}, {1});
  Values dx(f32, {2, 3}), lse = Values::of(f32, {2}, {1, 1});
  cpu::cross_entropy_grad(dx.view(), grad.view(), x.view(), t.view(), lse.view(), {});
  expect_close("cross_entropy_grad where every target is ignored", dx, Numbers(6, 0.0));
}

TEST_CASE("3.4 label smoothing gives every class a part of the target") {
  for (const double s : {0.1, 1.0}) {
    check(f64, {4, 7}, random_targets(4, 7), {.label_smoothing = s});
    check(f32, {4, 7}, random_targets(4, 7), {.label_smoothing = s, .reduction = LossReduction::none});
  }
}

TEST_CASE("3.4 any layout and dtype") {
  for (const DType dtype : {f32, f64, bf16, f16}) {
    for (const Layout layout : kLayouts)
      check(dtype, {3, 5}, random_targets(3, 5), {.label_smoothing = 0.1}, layout);
  }
  check(f32, {1, 1}, {0}, {});
}

TEST_CASE("3.4 the gradient may be written over the logits") {
  Values x = Values::random(f32, {3, 5}), t = Values::of(i64, {3}, {4, 0, 2}), loss(f32, {}), lse(f32, {3});
  const Reference want = reference(x.numbers(), {4, 0, 2}, 5, {}, {1});
  cpu::cross_entropy_with_grad(loss.view(), lse.view(), x.view(), x.view(), t.view(), {});
  expect_close("dx of cross_entropy_with_grad of [3, 5], written over the logits", x, want.dx,
               {.roundings = 16});
}
