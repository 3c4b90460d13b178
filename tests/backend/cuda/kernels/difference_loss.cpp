#include <support/difference_losses.hpp>
#include <support/few.hpp>
#include <support/fresh.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

TEST_CASE("losses of a difference and both gradients equal the definition" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DifferenceLoss& p : kDifferenceLosses) {
    for (const Shape& shape : {Shape{1}, Shape{33}, Shape{257}, Shape{5, 3, 7}, Shape{5000}}) {
      for (const DType dtype : kFloating) {
        for (const LossReduction reduction : kLossReductions) {
          if (test::left_out(4)) continue;
          const Layout layout = kLayouts[fresh.next() % 3];
          INFO("delta ", p.delta, ", ", shape.str(), ", ", text_of(dtype), ", reduction ",
               static_cast<int>(reduction), ", layout ", static_cast<int>(layout));
          const Shape result = reduction == LossReduction::none ? shape : Shape{};
          DeviceArray x = fresh.array(dtype, shape, -3, 3, layout),
                      t = fresh.array(dtype, shape, -2, 2, layout), grad = fresh.array(dtype, result, 0.5, 2),
                      loss(dtype, result), dx(dtype, shape, layout), dt(dtype, shape, layout),
                      alone(dtype, shape);
          kernels::difference_loss(p, loss.view(), x.view(), t.view(), reduction);
          kernels::difference_loss_grad(p, dx.view(), dt.view(), grad.view(), x.view(), t.view(), reduction);
          kernels::difference_loss_grad(p, {}, alone.view(), grad.view(), x.view(), t.view(), reduction);
          const DifferenceLosses want =
              difference_losses(p, x.values(), t.values(), grad.values(), reduction);
          check_close(loss.values(), want.loss, dtype, 40, 8);
          check_close(dx.values(), want.by_x, dtype, 20, 4);
          check_close(dt.values(), want.by_target, dtype, 20, 4);
          CHECK(alone.values() == dt.values());
        }
      }
    }
  }
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
