#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/linear_reference.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using tinytorch::backend::Activation;
using Values = std::vector<double>;

constexpr Activation kActivations[] = {Activation::none, Activation::relu, Activation::silu, Activation::gelu,
                                       Activation::gelu_tanh};
void check_bias(Fresh& fresh, Activation fn, const Shape& shape, DType t, Layout layout) {
  if (test::left_out(2)) return;
  INFO(text_of(t), " of ", shape.str(), " activation ", static_cast<int>(fn), " layout ",
       static_cast<int>(layout));
  const int64_t C = shape.back();
  DeviceArray x = fresh.array(t, shape, -3, 3, layout), b = fresh.array(t, {C}, -1, 1, layout),
              dy = fresh.array(t, shape, -1, 1, layout), y(t, shape, layout), dx(t, shape, layout),
              db(t, {C}), alone(t, shape), db_alone(t, {C}, layout);
  kernels::bias_activation(fn, y.view(), x.view(), b.view());
  kernels::bias_activation_grad(fn, dx.view(), db.view(), dy.view(), x.view(), b.view());
  kernels::bias_activation_grad(fn, alone.view(), {}, dy.view(), x.view(), b.view());
  kernels::bias_activation_grad(fn, {}, db_alone.view(), dy.view(), x.view(), b.view());
  const Values xs = x.values(), bs = b.values(), slopes = dy.values();
  Values out, by_x, by_b(bs.size());
  for (size_t i = 0; i < xs.size(); ++i) {
    const size_t c = i % bs.size();
    out.push_back(activation_value(fn, xs[i] + bs[c]));
    by_x.push_back(slopes[i] * activation_slope(fn, xs[i] + bs[c]));
    by_b[c] += by_x.back();
  }
  const double rows = static_cast<double>(xs.size() / bs.size());
  check_close(y.values(), out, t, 24, 2);
  check_close(dx.values(), by_x, t, 24, 2);
  check_close(db.values(), by_b, t, 24 + rows, 2);
  check_close(alone.values(), by_x, t, 24, 2);
  check_close(db_alone.values(), by_b, t, 24 + rows, 2);
}

}  // namespace

TEST_CASE("bias_activation and its two gradients equal the definition, together and separately" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const Activation fn : kActivations) {
    for (const DType t : kFloating) {
      for (const int64_t C : {1, 3, 31, 33, 64, 257}) {
        check_bias(fresh, fn, {3, C}, t, kLayouts[fresh.next() % 3]);
      }
      check_bias(fresh, fn, {70, 40}, t, Layout::dense);
      check_bias(fresh, fn, {2, 5, 24}, t, kLayouts[fresh.next() % 3]);
    }
  }
  check_bias(fresh, Activation::gelu, {1000, 8}, f32, Layout::dense);
  check_bias(fresh, Activation::silu, {2, 1000}, bf16, Layout::gaps);
}

TEST_CASE(
    "every activation propagates NaN to its element alone, and an empty batch gives a zero gradient of the "
    "bias" *
    needs_devices()) {
  for (const Activation fn : kActivations) {
    DeviceArray x = DeviceArray::from(f32, {2, 3}, {1, kNan, 2, -1, 0, 1}),
                b = DeviceArray::from(f32, {3}, {0, 0, 0}), y(f32, {2, 3});
    kernels::bias_activation(fn, y.view(), x.view(), b.view());
    const Values got = y.values();
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::isnan(got[i]) == (i == 1));
  }
  DeviceArray none(f32, {0, 3}), b = DeviceArray::from(f32, {3}, {1, 2, 3}),
                                 db = DeviceArray::from(f32, {3}, {7, 7, 7});
  kernels::bias_activation(Activation::relu, none.view(), none.view(), b.view());
  kernels::bias_activation_grad(Activation::relu, none.view(), db.view(), none.view(), none.view(), b.view());
  CHECK(db.values() == Values(3, 0));
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
