#include <algorithm>
#include <support/few.hpp>
#include <support/fresh.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using tinytorch::backend::CrossEntropyParameters;
using tinytorch::backend::LossReduction;
using tinytorch::backend::PointwiseLoss;
using Values = std::vector<double>;

constexpr LossReduction kReductions[] = {LossReduction::mean, LossReduction::sum, LossReduction::none};

struct Expected {
  Values loss, lse, dx;
};

// grad: gradient of the loss, one number or one per row.
Expected cross_entropy_reference(const Values& x, const Values& target, const Values& grad, size_t V,
                                 const CrossEntropyParameters& p) {
  const size_t N = target.size();
  Expected e{Values(N), Values(N), Values(x.size())};
  const double s = p.label_smoothing, classes = static_cast<double>(V);
  double counted = 0, total = 0;
  for (const double t : target) counted += t != static_cast<double>(p.ignore_index);
  for (size_t n = 0; n < N; ++n) {
    const double* row = x.data() + n * V;
    const double largest = *std::max_element(row, row + V);
    double sum = 0, plain = 0;
    for (size_t j = 0; j < V; ++j) sum += std::exp(row[j] - largest), plain += row[j];
    e.lse[n] = largest + std::log(sum);
    if (target[n] == static_cast<double>(p.ignore_index)) continue;
    const auto t = static_cast<size_t>(target[n]);
    e.loss[n] = (1 - s) * (e.lse[n] - row[t]) + s * (e.lse[n] - plain / classes);
    total += e.loss[n];
    const double g = p.reduction == LossReduction::none   ? grad[n]
                     : p.reduction == LossReduction::mean ? grad[0] / counted
                                                          : grad[0];
    for (size_t j = 0; j < V; ++j) {
      e.dx[n * V + j] = g * (std::exp(row[j] - e.lse[n]) - (j == t ? 1 - s : 0) - s / classes);
    }
  }
  if (p.reduction == LossReduction::mean) e.loss = {total / counted};
  if (p.reduction == LossReduction::sum) e.loss = {total};
  return e;
}

struct Problem {
  int64_t N, V;
  DType dtype;
  Layout layout;
  CrossEntropyParameters parameters;
};

// Compares loss and gradient in two calls, and in one call that overwrites the logits.
void check_cross_entropy(Fresh& fresh, const Problem& c) {
  if (test::left_out(6)) return;
  const CrossEntropyParameters& p = c.parameters;
  const bool each = p.reduction == LossReduction::none;
  INFO(text_of(c.dtype), " [", c.N, ", ", c.V, "] layout ", static_cast<int>(c.layout), " reduction ",
       static_cast<int>(p.reduction), " smoothing ", p.label_smoothing, " ignored ", p.ignore_index);
  Values classes = fresh.whole(c.N, 0, static_cast<double>(c.V));
  for (size_t n = 1; n < classes.size(); n += 3) classes[n] = static_cast<double>(p.ignore_index);
  const Shape result = each ? Shape{c.N} : Shape{};
  DeviceArray logits = fresh.array(c.dtype, {c.N, c.V}, -6, 6, c.layout),
              target = DeviceArray::from(i64, {c.N}, classes, c.layout), loss(c.dtype, result),
              lse(wide_of(c.dtype), {c.N}), dx(c.dtype, {c.N, c.V}, c.layout),
              grad = fresh.array(c.dtype, result, 0.5, 2);
  const Values x = logits.values(), g = grad.values();
  const Expected e = cross_entropy_reference(x, classes, g, static_cast<size_t>(c.V), p);
  kernels::cross_entropy(loss.view(), lse.view(), logits.view(), target.view(), p);
  kernels::cross_entropy_grad(dx.view(), grad.view(), logits.view(), target.view(), lse.view(), p);
  const double size = p.reduction == LossReduction::sum ? 8 * static_cast<double>(c.N) : 8;
  check_close(loss.values(), e.loss, c.dtype, 32, size);
  check_close(lse.values(), e.lse, wide_of(c.dtype), 32, 8);
  check_close(dx.values(), e.dx, c.dtype, 32, 1);
  DeviceArray loss_too(c.dtype, result), lse_too(wide_of(c.dtype), {c.N});
  const double scale = 0.75;
  kernels::cross_entropy_with_grad(loss_too.view(), lse_too.view(), logits.view(), logits.view(),
                                   target.view(), p, scale);
  const Expected scaled =
      cross_entropy_reference(x, classes, Values(g.size(), scale), static_cast<size_t>(c.V), p);
  check_close(loss_too.values(), e.loss, c.dtype, 32, size);
  check_close(lse_too.values(), e.lse, wide_of(c.dtype), 32, 8);
  check_close(logits.values(), scaled.dx, c.dtype, 32, 1);
}

double loss_of(PointwiseLoss fn, double x, double t) {
  if (fn == PointwiseLoss::mse) return (x - t) * (x - t);
  return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x)));
}
double by_prediction(PointwiseLoss fn, double x, double t) {
  return fn == PointwiseLoss::mse ? 2 * (x - t) : 1 / (1 + std::exp(-x)) - t;
}
double by_target(PointwiseLoss fn, double x, double t) { return fn == PointwiseLoss::mse ? 2 * (t - x) : -x; }

void check_pointwise(Fresh& fresh, PointwiseLoss fn, const Shape& shape, DType t, LossReduction reduction,
                     Layout layout) {
  INFO(text_of(t), " of ", shape.str(), " loss ", static_cast<int>(fn), " reduction ",
       static_cast<int>(reduction), " layout ", static_cast<int>(layout));
  const bool each = reduction == LossReduction::none;
  const Shape result = each ? shape : Shape{};
  DeviceArray x = fresh.array(t, shape, -4, 4, layout), target = fresh.array(t, shape, 0, 1, layout),
              loss(t, result), grad = fresh.array(t, result, 0.5, 2), dx(t, shape, layout),
              dtarget(t, shape, layout), alone(t, shape);
  kernels::pointwise_loss(fn, loss.view(), x.view(), target.view(), reduction);
  kernels::pointwise_loss_grad(fn, dx.view(), dtarget.view(), grad.view(), x.view(), target.view(),
                               reduction);
  kernels::pointwise_loss_grad(fn, {}, alone.view(), grad.view(), x.view(), target.view(), reduction);
  const Values xs = x.values(), ts = target.values(), g = grad.values();
  Values losses, by_x, by_t;
  const double n = static_cast<double>(xs.size());
  for (size_t i = 0; i < xs.size(); ++i) {
    const double scale = each ? g[i] : (reduction == LossReduction::mean ? g[0] / n : g[0]);
    losses.push_back(loss_of(fn, xs[i], ts[i]));
    by_x.push_back(scale * by_prediction(fn, xs[i], ts[i]));
    by_t.push_back(scale * by_target(fn, xs[i], ts[i]));
  }
  double total = 0;
  for (const double l : losses) total += l;
  if (!each) losses = {reduction == LossReduction::mean ? total / n : total};
  check_close(loss.values(), losses, t, 16, 8);
  check_close(dx.values(), by_x, t, 16, 4);
  check_close(dtarget.values(), by_t, t, 16, 4);
  CHECK(alone.values() == dtarget.values());
}

}  // namespace

TEST_CASE("cross-entropy and its gradient equal the definition, in two calls and in one" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kFloating) {
    for (const int64_t V : {1, 3, 31, 33, 64, 257, 1000}) {
      if (few_cases() && t != f32 && V != 3 && V != 64 && V != 257) continue;
      for (const LossReduction reduction : kReductions) {
        for (const double smoothing : {0.0, 0.2}) {
          const Layout layout = kLayouts[fresh.next() % 3];
          check_cross_entropy(fresh, {few_cases() ? 2 : 4, V, t, layout, {-100, smoothing, reduction}});
        }
      }
      // Class 0 is ignored.
      check_cross_entropy(fresh, {3, V, t, Layout::dense, {0, 0.1, LossReduction::mean}});
    }
  }
  for (const int64_t N : {1, 31, 257}) {
    check_cross_entropy(fresh, {N, 8, f32, Layout::dense, {-100, 0.1, LossReduction::mean}});
  }
}

TEST_CASE("cross-entropy equals the definition for rows longer than a block and than shared memory" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const double smoothing : {0.0, 0.1}) {
    check_cross_entropy(fresh, {2, 8200, f32, Layout::dense, {-100, smoothing, LossReduction::mean}});
    check_cross_entropy(fresh, {2, 9001, bf16, Layout::dense, {-100, smoothing, LossReduction::mean}});
    check_cross_entropy(fresh, {1, 60004, f32, Layout::dense, {-100, smoothing, LossReduction::sum}});
  }
}

TEST_CASE(
    "cross-entropy equals the definition for unaligned rows and vocabularies larger than shared memory" *
    needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kFloating) {
    for (const auto& [N, V] :
         {std::pair<int64_t, int64_t>{150, 1}, {150, 2}, {133, 3}, {141, 4}, {9, 7}, {7, 255}, {3, 1025}}) {
      check_cross_entropy(fresh, {N, V, t, Layout::offset, {-100, 0.1, LossReduction::mean}});
    }
  }
  check_cross_entropy(fresh,
                      // Two blocks add the losses.
                      {9001, 2, f32, Layout::dense, {1, 0.1, LossReduction::mean}});
  if (kEmulated) return;
  for (const DType t : {f32, bf16, f16}) {
    for (const double smoothing : {0.0, 0.1}) {
      for (const auto& [N, V] :
           {std::pair<int64_t, int64_t>{300, 50257}, {300, 128256}, {3, 151936}, {5, 262147}, {12345, 101}}) {
        check_cross_entropy(fresh, {N, V, t, Layout::dense, {-100, smoothing, LossReduction::mean}});
      }
      check_cross_entropy(fresh, {7, 50257, t, Layout::offset, {-100, smoothing, LossReduction::sum}});
    }
  }
}

TEST_CASE("cross-entropy gives NaN and a zero gradient if all targets are ignored, and propagates NaN" *
          needs_devices()) {
  DeviceArray logits = DeviceArray::from(f32, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), lse(f32, {2}), loss(f32, {});
  DeviceArray target = DeviceArray::from(i64, {2}, {-100, -100}), dx(f32, {2, 4});
  kernels::cross_entropy_with_grad(loss.view(), lse.view(), dx.view(), logits.view(), target.view(), {});
  CHECK(std::isnan(loss.values()[0]));
  CHECK(dx.values() == Values(8, 0));
  DeviceArray broken = DeviceArray::from(f32, {2, 4}, {1, 2, 3, 4, 5, kNan, 7, 8}), each(f32, {2});
  DeviceArray classes = DeviceArray::from(i64, {2}, {1, 2});
  kernels::cross_entropy(each.view(), lse.view(), broken.view(), classes.view(),
                         {.reduction = LossReduction::none});
  CHECK(each.values()[0] == doctest::Approx(2.4401897));
  CHECK(std::isnan(each.values()[1]));
}

TEST_CASE("a large common offset of the logits does not change the cross-entropy" * needs_devices()) {
  for (const int64_t V : {8, 33}) {
    DeviceArray logits = DeviceArray::from(f32, {1, V}, Values(static_cast<size_t>(V), 30000)), lse(f32, {1}),
                loss(f32, {}), target = DeviceArray::from(i64, {1}, {3});
    kernels::cross_entropy(loss.view(), lse.view(), logits.view(), target.view(), {});
    CHECK(loss.values()[0] == doctest::Approx(std::log(static_cast<double>(V))).epsilon(1e-6));
    kernels::cross_entropy_with_grad(loss.view(), lse.view(), logits.view(), logits.view(), target.view(),
                                     {});
    CHECK(loss.values()[0] == doctest::Approx(std::log(static_cast<double>(V))).epsilon(1e-6));
  }
}

TEST_CASE("pointwise losses and their gradients equal the definition" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const PointwiseLoss fn : {PointwiseLoss::mse, PointwiseLoss::bce_with_logits}) {
    for (const DType t : kFloating) {
      for (const LossReduction reduction : kReductions) {
        for (const int64_t n : {1, 3, 31, 33, 257, 1000}) {
          check_pointwise(fresh, fn, {n}, t, reduction, kLayouts[fresh.next() % 3]);
        }
        for (const Layout layout : kLayouts) check_pointwise(fresh, fn, {5, 3, 7}, t, reduction, layout);
      }
    }
  }
  DeviceArray x = DeviceArray::from(f32, {2}, {-200, 200}), target = DeviceArray::from(f32, {2}, {0, 1}),
              l(f32, {2});
  kernels::pointwise_loss(PointwiseLoss::bce_with_logits, l.view(), x.view(), target.view(),
                          LossReduction::none);
  CHECK(l.values() == Values{0, 0});
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
