#include <limits>
#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

using namespace course;
using backend::CrossEntropyParameters;
using backend::LossReduction;

namespace {

struct Case {
  int64_t N, V;
  DType dtype = f32;
  double smoothing = 0;
  LossReduction reduction = LossReduction::mean;
  Layout layout = Layout::contiguous;
  double center = 0;
  double grad = 1;
};
std::string text(const Case& c) {
  constexpr const char* kReductions[] = {"mean", "sum", "no reduction"};
  std::string s = "logits [" + std::to_string(c.N) + ", " + std::to_string(c.V) + "] " + name_of(c.dtype) +
                  ", " + name_of_layout(c.layout) + ", " + kReductions[static_cast<int>(c.reduction)];
  if (c.smoothing != 0) s += ", label smoothing " + shown(c.smoothing);
  if (c.center != 0) s += ", around " + shown(c.center);
  return s;
}

struct Answer {
  Numbers loss, lse, dx;
};
Answer reference(const Case& c, const Numbers& x, const std::vector<int64_t>& target, int64_t ignored) {
  Answer a;
  const auto V = static_cast<size_t>(c.V);
  double used = 0, total = 0;
  for (const int64_t t : target) used += t != ignored ? 1 : 0;
  const double divisor = c.reduction == LossReduction::mean ? used : 1;
  for (size_t n = 0; n < target.size(); ++n) {
    const double* row = x.data() + n * V;
    double largest = row[0], sum = 0, mean = 0;
    for (size_t j = 0; j < V; ++j) largest = std::max(largest, row[j]);
    for (size_t j = 0; j < V; ++j) sum += std::exp(row[j] - largest), mean += row[j] / static_cast<double>(V);
    const double lse = largest + std::log(sum), s = c.smoothing;
    const bool counts = target[n] != ignored;
    const size_t t = counts ? static_cast<size_t>(target[n]) : 0;
    const double loss = counts ? (1 - s) * (lse - row[t]) + s * (lse - mean) : 0;
    a.lse.push_back(lse);
    total += loss;
    if (c.reduction == LossReduction::none) a.loss.push_back(loss);
    for (size_t j = 0; j < V; ++j) {
      const double p = std::exp(row[j] - lse), hot = j == t ? 1 - s : 0;
      a.dx.push_back(counts ? c.grad * (p - hot - s / static_cast<double>(V)) / std::max(divisor, 1.0) : 0);
    }
  }
  if (c.reduction != LossReduction::none) a.loss = {total / divisor};
  return a;
}

Values targets(const std::vector<int64_t>& numbers) {
  return Values::of(i64, {static_cast<int64_t>(numbers.size())}, Numbers(numbers.begin(), numbers.end()))
      .on_device();
}
std::vector<int64_t> fresh_targets(const Case& c) {
  std::vector<int64_t> t;
  for (int64_t n = 0; n < c.N; ++n) t.push_back(static_cast<int64_t>(uniform(0, static_cast<double>(c.V))));
  return t;
}

enum Function { forward, grad, with_grad, in_place };
void check(Function f, const Case& c, std::vector<int64_t> target = {}, int64_t ignored = -100,
           std::optional<Values> given = {}) {
  if (target.empty()) target = fresh_targets(c);
  const Shape shape{c.N, c.V};
  Values x =
      given ? *given : Values::random(c.dtype, shape, c.layout, c.center - 4, c.center + 4).on_device();
  Values t = targets(target), dx = Values(c.dtype, shape, c.layout).on_device();
  const DType wide = c.dtype == f64 ? f64 : f32;
  Values lse = Values(wide, {c.N}).on_device();
  Values loss = Values(c.dtype, c.reduction == LossReduction::none ? Shape{c.N} : Shape{}).on_device();
  const Answer want = reference(c, x.numbers(), target, ignored);
  const CrossEntropyParameters p{ignored, c.smoothing, c.reduction};
  const Tolerance loss_close{.roundings = 32, .scale = 8};
  const std::string of = " of " + text(c);
  if (f == grad) {
    Values sums = Values::of(wide, {c.N}, want.lse).on_device();
    Values g = Values::of(c.dtype, loss.shape(), Numbers(static_cast<size_t>(loss.shape().numel()), c.grad))
                   .on_device();
    backend::cuda::cross_entropy_grad(dx.view(), g.view(), x.view(), t.view(), sums.view(), p);
    return expect_close("cross_entropy_grad" + of + ": dx", dx, want.dx,
                        {.roundings = 32 + std::abs(c.center), .scale = std::abs(c.grad)});
  }
  Values& to = f == in_place ? x : dx;
  const std::string name = f == forward ? "cross_entropy" : "cross_entropy_with_grad";
  if (f == forward) backend::cuda::cross_entropy(loss.view(), lse.view(), x.view(), t.view(), p);
  if (f != forward) {
    backend::cuda::cross_entropy_with_grad(loss.view(), lse.view(), to.view(), x.view(), t.view(), p, c.grad);
  }
  expect_close(name + of + ": loss", loss, want.loss, loss_close);
  expect_close(name + of + ": lse", lse, want.lse, {.roundings = 32, .scale = 8});
  if (f == forward) return;
  expect_close(name + of + (f == in_place ? ": dx, written over the logits" : ": dx"), to, want.dx,
               {.roundings = 32, .scale = std::abs(c.grad)});
}

}  // namespace

TEST_CASE("3.22 the loss of each row, and their mean") {
  check(forward, {.N = 1, .V = 3, .reduction = LossReduction::none}, {2});
  for (const int64_t V : {1, 2, 31, 255, 256, 257, 600}) check(forward, {.N = 3, .V = V});
  check(forward, {.N = 5, .V = 7, .reduction = LossReduction::sum});
  check(forward, {.N = 300, .V = 2});
}

TEST_CASE("3.22 large logits neither overflow nor lose precision") {
  check(forward, {.N = 3, .V = 40, .center = 1000});
  check(forward, {.N = 3, .V = 40, .center = -1000});
  Numbers far(20, 9990.0);  // large logits with a small loss
  far[3] = 10000.0;
  check(forward, {.N = 1, .V = 20, .reduction = LossReduction::sum}, {3}, -100,
        Values::of(f32, {1, 20}, far).on_device());
}

TEST_CASE("3.22 loss and gradient in one pass") {
  check(with_grad, {.N = 1, .V = 3}, {1});
  for (const int64_t V : {2, 33, 256, 257, 600}) check(with_grad, {.N = 3, .V = V, .grad = -2.5});
  check(with_grad, {.N = 4, .V = 9, .reduction = LossReduction::sum});
  check(with_grad, {.N = 4, .V = 9, .reduction = LossReduction::none, .grad = 3});
}

TEST_CASE("3.22 the gradient may be written over the logits") {
  for (int64_t k = 0; k < 3; ++k) check(in_place, {.N = 3, .V = 300 + k});
}

TEST_CASE("3.22 rows with an ignored target add nothing") {
  for (const Function f : {forward, with_grad, grad}) check(f, {.N = 4, .V = 5}, {1, -1, 4, -1}, -1);
  Values x = Values::of(f32, {2, 3}, {1, 2, 3, NAN, 0, 1}).on_device();
  Values t = targets({0, -7}), dx = Values(f32, {2, 3}).on_device(), loss = Values(f32, {}).on_device();
  Values lse = Values(f32, {2}).on_device();
  backend::cuda::cross_entropy_with_grad(loss.view(), lse.view(), dx.view(), x.view(), t.view(), {-7, 0});
  const double sum = std::exp(-2.0) + std::exp(-1.0) + 1;
  expect_close("cross_entropy_with_grad with a NaN in an ignored row: dx", dx,
               {std::exp(-2.0) / sum - 1, std::exp(-1.0) / sum, 1 / sum, 0, 0, 0}, {.roundings = 32});
}

TEST_CASE("3.22 label smoothing") {
  for (const Function f : {forward, with_grad, grad}) check(f, {.N = 3, .V = 41, .smoothing = 0.1});
}

TEST_CASE("3.22 the gradient from the lse of the forward pass") {
  check(grad, {.N = 1, .V = 3}, {1});
  for (const int64_t V : {2, 256, 257, 600}) check(grad, {.N = 3, .V = V, .grad = -2.5});
  check(grad, {.N = 4, .V = 9, .reduction = LossReduction::none, .grad = 3});
}

TEST_CASE("3.22 any dtype and layout") {
  for (const DType t : {f64, bf16, f16}) {
    for (const Function f : {forward, with_grad, grad}) check(f, {.N = 3, .V = 70, .dtype = t});
  }
  for (const Layout l : kLayouts) {
    for (const Function f : {forward, with_grad, grad}) check(f, {.N = 3, .V = 17, .layout = l});
  }
}
