#include <support/array.hpp>

#include <tinytorch/backend/cpu/loss.hpp>

using namespace test;
using backend::LossReduction;
using backend::PointwiseLoss;
namespace kernels = tinytorch::backend::cpu;

namespace {

const LossReduction kReductions[] = {LossReduction::mean, LossReduction::sum, LossReduction::none};

// Loss of each sample and its gradient with respect to each logit.
struct Sample {
  double loss;
  std::vector<double> grad;
};
Sample reference(const double* x, int64_t V, int64_t t, double s) {
  double top = -INFINITY, sum = 0, mean = 0;
  for (int64_t j = 0; j < V; ++j) top = std::max(top, x[j]);
  for (int64_t j = 0; j < V; ++j) sum += std::exp(x[j] - top), mean += x[j] / static_cast<double>(V);
  const double lse = top + std::log(sum);
  Sample out{(1 - s) * (lse - x[t]) + s * (lse - mean), {}};
  for (int64_t j = 0; j < V; ++j) {
    out.grad.push_back(std::exp(x[j] - lse) - (j == t ? 1 - s : 0.0) - s / static_cast<double>(V));
  }
  return out;
}

}  // namespace

TEST_CASE("cross_entropy and its gradient equal the definition") {
  const int64_t sizes[][2] = {{1, 1}, {1, 2}, {5, 3}, {7, 10}, {4, 513}, {3, 1025}, {33, 17}};
  for (const auto& [N, V] : sizes) {
    for (DType dtype : kFloating) {
      for (double smoothing : {0.0, 0.1}) {
        for (LossReduction reduction : kReductions) {
          const DType wide = dtype == f64 ? f64 : f32;
          Array x = Array::random(dtype, {N, V}, 1, -5, 5, Layout::gaps), dx(dtype, {N, V});
          std::vector<double> t(static_cast<size_t>(N));
          for (int64_t n = 0; n < N; ++n)
            t[static_cast<size_t>(n)] = n % 3 == 1 ? -7 : static_cast<double>(n * 5 % V);
          Array target = Array::from(i64, {N}, t, Layout::gaps);
          const Shape shape = reduction == LossReduction::none ? Shape{N} : Shape{};
          Array loss(dtype, shape), lse(wide, {N}), grad = Array::random(dtype, shape, 2);
          const tinytorch::backend::CrossEntropyParameters p{-7, smoothing, reduction};
          kernels::cross_entropy(loss.view(), lse.view(), x.view(), target.view(), p);
          kernels::cross_entropy_grad(dx.view(), grad.view(), x.view(), target.view(), lse.view(), p);
          std::vector<double> want, want_dx;
          double total = 0, count = 0;
          for (int64_t n = 0; n < N; ++n) count += n % 3 == 1 ? 0 : 1;
          const std::vector<double> in = x.values(), g = grad.values();
          for (int64_t n = 0; n < N; ++n) {
            const auto i = static_cast<size_t>(n);
            const bool ignored = n % 3 == 1;
            const Sample s =
                reference(&in[i * static_cast<size_t>(V)], V, ignored ? 0 : n * 5 % V, smoothing);
            want.push_back(ignored ? 0 : s.loss);
            total += want.back();
            const double weight =
                g[reduction == LossReduction::none ? i : 0] / (reduction == LossReduction::mean ? count : 1);
            for (double d : s.grad) want_dx.push_back(ignored ? 0 : weight * d);
          }
          if (reduction != LossReduction::none)
            want = {reduction == LossReduction::mean ? total / count : total};
          check_close(loss.values(), want, dtype, 40);
          check_close(dx.values(), want_dx, dtype, 40);
          if (reduction == LossReduction::none) continue;
          // Loss and gradient in one call, with dx in place of the logits.
          Array loss_too(dtype, shape), lse_too(wide, {N});
          kernels::cross_entropy_with_grad(loss_too.view(), lse_too.view(), x.view(), x.view(), target.view(),
                                           p, g[0]);
          check_close(loss_too.values(), want, dtype, 40);
          check_close(lse_too.values(), lse.values(), wide, 8);
          check_close(x.values(), want_dx, dtype, 40);
        }
      }
    }
  }
}

TEST_CASE("cross_entropy with every target ignored, masked logits and huge logits") {
  Array x = Array::from(f32, {2, 3}, {1e4, 0, -1e4, 5, -INFINITY, 5});
  Array none = Array::from(i64, {2}, {-100, -100}), target = Array::from(i64, {2}, {1, 0});
  Array loss(f32, {}), each(f32, {2}), lse(f32, {2}), dx(f32, {2, 3}), one = Array::from(f32, {}, {1});
  kernels::cross_entropy(loss.view(), lse.view(), x.view(), none.view(), {});
  CHECK(std::isnan(loss.values()[0]));
  kernels::cross_entropy_grad(dx.view(), one.view(), x.view(), none.view(), lse.view(), {});
  CHECK(dx.values() == std::vector<double>(6, 0.0));
  kernels::cross_entropy_with_grad(loss.view(), lse.view(), dx.view(), x.view(), none.view(), {});
  CHECK(std::isnan(loss.values()[0]));
  CHECK(dx.values() == std::vector<double>(6, 0.0));
  kernels::cross_entropy_with_grad(each.view(), lse.view(), dx.view(), x.view(), target.view(),
                                   {-100, 0, LossReduction::none});
  CHECK(each.values()[0] == 1e4);
  kernels::cross_entropy(each.view(), lse.view(), x.view(), target.view(), {-100, 0, LossReduction::none});
  CHECK(each.values()[0] == 1e4);
  CHECK(each.values()[1] == doctest::Approx(std::log(2.0)));
  kernels::cross_entropy_grad(dx.view(), one.view(), x.view(), target.view(), lse.view(),
                              {-100, 0, LossReduction::sum});
  check_close(dx.values(), {1, -1, 0, -0.5, 0, 0.5}, f32, 4);
}

TEST_CASE("mse and bce_with_logits and both gradients equal the definition") {
  for (PointwiseLoss fn : {PointwiseLoss::mse, PointwiseLoss::bce_with_logits}) {
    const bool mse = fn == PointwiseLoss::mse;
    for (const Shape& shape :
         {Shape{1}, Shape{3, 5}, Shape{511}, Shape{513}, Shape{5, 7, 97}, Shape{40000}}) {
      for (DType dtype : kFloating) {
        for (LossReduction reduction : kReductions) {
          Array x = Array::random(dtype, shape, 1, -6, 6, Layout::gaps);
          Array t = Array::random(dtype, shape, 2, 0, 1, Layout::gaps);
          const bool none = reduction == LossReduction::none;
          Array loss(dtype, none ? shape : Shape{}), grad = Array::random(dtype, loss.shape(), 3);
          Array dx(dtype, shape), dt(dtype, shape);
          kernels::pointwise_loss(fn, loss.view(), x.view(), t.view(), reduction);
          kernels::pointwise_loss_grad(fn, dx.view(), dt.view(), grad.view(), x.view(), t.view(), reduction);
          const std::vector<double> in = x.values(), goal = t.values(), g = grad.values();
          std::vector<double> want, want_dx, want_dt;
          double total = 0;
          const auto n = static_cast<double>(in.size());
          for (size_t i = 0; i < in.size(); ++i) {
            const double a = in[i], b = goal[i];
            want.push_back(
                mse ? (a - b) * (a - b)
                    : -(b * -std::log1p(std::exp(-a)) + (1 - b) * (-a - std::log1p(std::exp(-a)))));
            total += want.back();
            const double weight = g[none ? i : 0] / (reduction == LossReduction::mean ? n : 1);
            want_dx.push_back(weight * (mse ? 2 * (a - b) : 1 / (1 + std::exp(-a)) - b));
            want_dt.push_back(weight * (mse ? 2 * (b - a) : -a));
          }
          if (!none) want = {reduction == LossReduction::mean ? total / n : total};
          if (dtype != f16 || none || total < 60000) check_close(loss.values(), want, dtype, 40);
          check_close(dx.values(), want_dx, dtype, 20);
          check_close(dt.values(), want_dt, dtype, 20);
        }
      }
    }
  }
}

TEST_CASE("bce_with_logits is accurate for small and large values") {
  Array x = Array::from(f32, {5}, {20, -20, 200, -200, 0}), t = Array::from(f32, {5}, {1, 0, 0, 1, 0.5});
  Array loss(f32, {5});
  kernels::pointwise_loss(PointwiseLoss::bce_with_logits, loss.view(), x.view(), t.view(),
                          LossReduction::none);
  const std::vector<double> got = loss.values();
  CHECK(got[0] == doctest::Approx(2.0611536e-9));
  CHECK(got[1] == doctest::Approx(2.0611536e-9));
  CHECK(got[2] == 200);
  CHECK(got[3] == 200);
  CHECK(got[4] == doctest::Approx(0.6931472));
}

TEST_CASE("a vocabulary of a million, with and without smoothing, is accurate to a few epsilons") {
  constexpr int64_t V = 1'000'003;
  Array x = Array::random(f32, {1, V}, 1, 0, 1), lse(f32, {1}), loss(f32, {}), dx(f32, {1, V});
  Array target = Array::from(i64, {1}, {7.0});
  for (const double smoothing : {0.0, 0.5}) {
    const backend::CrossEntropyParameters p{.label_smoothing = smoothing};
    const double want = reference(x.values().data(), V, 7, smoothing).loss;
    for (const bool with_grad : {false, true}) {
      if (with_grad)
        kernels::cross_entropy_with_grad(loss.view(), lse.view(), dx.view(), x.view(), target.view(), p);
      if (!with_grad) kernels::cross_entropy(loss.view(), lse.view(), x.view(), target.view(), p);
      CHECK(std::abs(loss.values()[0] - want) <= 3e-7 * want);
    }
  }
}
