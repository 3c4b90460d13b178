#include <support/array.hpp>
#include <support/difference_losses.hpp>

#include <tinytorch/backend/cpu/difference_loss.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("losses of a difference and both gradients equal the definition") {
  for (const DifferenceLoss& p : kDifferenceLosses) {
    for (const Shape& shape :
         {Shape{1}, Shape{3, 5}, Shape{511}, Shape{513}, Shape{5, 7, 97}, Shape{40000}}) {
      for (const DType dtype : kFloating) {
        for (const LossReduction reduction : kLossReductions) {
          INFO("delta ", p.delta, ", ", shape.str(), ", reduction ", static_cast<int>(reduction));
          const Shape result = reduction == LossReduction::none ? shape : Shape{};
          Array x = Array::random(dtype, shape, 1, -3, 3, Layout::gaps),
                t = Array::random(dtype, shape, 2, -2, 2, Layout::gaps),
                grad = Array::random(dtype, result, 3);
          Array loss(dtype, result), dx(dtype, shape), dt(dtype, shape), alone(dtype, shape);
          kernels::difference_loss(p, loss.view(), x.view(), t.view(), reduction);
          kernels::difference_loss_grad(p, dx.view(), dt.view(), grad.view(), x.view(), t.view(), reduction);
          kernels::difference_loss_grad(p, {}, alone.view(), grad.view(), x.view(), t.view(), reduction);
          const DifferenceLosses want =
              difference_losses(p, x.values(), t.values(), grad.values(), reduction);
          if (dtype != f16 || want.loss[0] < 60000) check_close(loss.values(), want.loss, dtype, 40);
          check_close(dx.values(), want.by_x, dtype, 20);
          check_close(dt.values(), want.by_target, dtype, 20);
          CHECK(alone.values() == dt.values());
        }
      }
    }
  }
}

TEST_CASE("NaN stays in losses of a difference and in their gradients; a difference of 0 has no gradient") {
  for (const DifferenceLoss& p : kDifferenceLosses) {
    Array x = Array::from(f32, {3}, {NAN, 2, INFINITY}), t = Array::from(f32, {3}, {1, 2, 1}),
          one = Array::from(f32, {3}, {1, 1, 1});
    Array loss(f32, {3}), dx(f32, {3});
    kernels::difference_loss(p, loss.view(), x.view(), t.view(), LossReduction::none);
    kernels::difference_loss_grad(p, dx.view(), {}, one.view(), x.view(), t.view(), LossReduction::none);
    CHECK(std::isnan(loss.values()[0]));
    CHECK(std::isnan(dx.values()[0]));
    CHECK(loss.values()[1] == 0);
    CHECK(dx.values()[1] == 0);
    CHECK(std::isinf(loss.values()[2]));
    CHECK(dx.values()[2] == (p.delta > 0 ? p.delta * p.factor : 1));
  }
}
