#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

using namespace course;
using backend::Activation;

namespace {

constexpr Activation kActivations[] = {Activation::none, Activation::relu, Activation::silu, Activation::gelu,
                                       Activation::gelu_tanh};
const char* name_of_activation(Activation fn) {
  constexpr const char* kNames[] = {"no activation", "relu", "silu", "gelu", "gelu_tanh"};
  return kNames[static_cast<int>(fn)];
}

double f(Activation fn, double x) {
  switch (fn) {
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default:
      return x;
  }
}
// The derivative by differences, so that the reference shares no formula with the function under test. For
// relu the derivative is written out, because differences are wrong near 0.
double slope(Activation fn, double x) {
  if (fn == Activation::relu) return x > 0 ? 1 : 0;
  constexpr double kStep = 1e-5;
  return (f(fn, x + kStep) - f(fn, x - kStep)) / (2 * kStep);
}

struct Case {
  Activation fn;
  DType dtype;
  Shape shape;
  Layout layout = Layout::contiguous;
};
std::string text(const char* what, const Case& c) {
  return std::string(what) + " of " + c.shape.str() + " " + name_of(c.dtype) + ", " +
         name_of_layout(c.layout) + ", " + name_of_activation(c.fn);
}

void check_forward(const Case& c) {
  Values x = Values::random(c.dtype, c.shape, c.layout, -3, 3).on_device();
  Values b = Values::random(c.dtype, {c.shape.back()}, c.layout, -1, 1).on_device();
  Values y = Values(c.dtype, c.shape, c.layout).on_device();
  const Numbers xs = x.numbers(), bs = b.numbers();
  Numbers want(xs.size());
  for (size_t i = 0; i < want.size(); ++i) want[i] = f(c.fn, xs[i] + bs[i % bs.size()]);
  backend::cuda::bias_activation(c.fn, y.view(), x.view(), b.view());
  expect_close(text("bias_activation", c), y, want, {.roundings = 24});
}

enum Wanted { both, only_dx, only_dbias, in_place };
void check_backward(const Case& c, Wanted wanted = both) {
  Values x = Values::random(c.dtype, c.shape, c.layout, -3, 3).on_device();
  Values b = Values::random(c.dtype, {c.shape.back()}, c.layout, -1, 1).on_device();
  Values dy = Values::random(c.dtype, c.shape, c.layout).on_device();
  Values dx = Values(c.dtype, c.shape, c.layout).on_device();
  Values db = Values(c.dtype, {c.shape.back()}, c.layout).on_device();
  const Numbers xs = x.numbers(), bs = b.numbers(), gs = dy.numbers();
  Numbers by_x(xs.size()), by_b(bs.size());
  for (size_t i = 0; i < xs.size(); ++i) {
    by_x[i] = gs[i] * slope(c.fn, xs[i] + bs[i % bs.size()]);
    by_b[i % bs.size()] += by_x[i];
  }
  const double rows = static_cast<double>(xs.size() / bs.size());
  Values& to_x = wanted == in_place ? dy : dx;
  backend::cuda::bias_activation_grad(c.fn, wanted == only_dbias ? View{} : to_x.view(),
                                      wanted == only_dx ? View{} : db.view(), dy.view(), x.view(), b.view());
  const char* how = wanted == only_dx      ? "bias_activation_grad without dbias"
                    : wanted == only_dbias ? "bias_activation_grad without dx"
                    : wanted == in_place   ? "bias_activation_grad with dx in the memory of dy"
                                           : "bias_activation_grad";
  const double roundings = c.dtype == f64 ? 1e6 : 24;  // in f64, the error of the difference
  if (wanted != only_dbias) expect_close(text(how, c) + ": dx", to_x, by_x, {.roundings = roundings});
  if (wanted != only_dx) {
    expect_close(text(how, c) + ": dbias", db, by_b, {.roundings = roundings + 2 * rows});
  }
}

}  // namespace

TEST_CASE("3.20 a bias is added to every row, then the activation") {
  check_forward({Activation::none, f32, {2, 3}});
  for (const Activation fn : kActivations) check_forward({fn, f32, {5, 7}});
  for (const int64_t columns : {1, 31, 255, 256, 257}) check_forward({Activation::gelu, f32, {3, columns}});
}

TEST_CASE("3.20 any dtype, any layout, any rank") {
  for (const DType t : {f32, f64, bf16, f16}) check_forward({Activation::gelu, t, {9, 30}});
  for (const Layout l : kLayouts) check_forward({Activation::gelu_tanh, f32, {2, 5, 9}, l});
  check_forward({Activation::relu, f32, {0, 4}});
}

TEST_CASE("3.20 dx, the gradient of the input") {
  check_backward({Activation::none, f32, {2, 3}}, only_dx);
  for (const Activation fn : kActivations) check_backward({fn, f32, {5, 7}}, only_dx);
  check_backward({Activation::gelu, f32, {67, 33}}, only_dx);
}

TEST_CASE("3.20 dbias, the sum over all rows") {
  for (const int64_t rows : {1, 7, 8, 9, 63, 64, 65, 200}) check_backward({Activation::gelu, f32, {rows, 5}});
  for (const int64_t columns : {1, 31, 32, 33, 65}) check_backward({Activation::silu, f32, {10, columns}});
  check_backward({Activation::gelu, f32, {20, 5}}, only_dbias);
}

TEST_CASE("3.20 both gradients in any dtype and layout, and in place") {
  for (const DType t : {f64, bf16, f16}) check_backward({Activation::gelu, t, {30, 9}});
  for (const Layout l : kLayouts) check_backward({Activation::gelu_tanh, f32, {2, 5, 9}, l});
  check_backward({Activation::gelu, f32, {70, 33}}, in_place);
}

TEST_CASE("3.20 with 0 rows the gradient of the bias is zero") {
  Values none = Values(f32, {0, 3}).on_device(), b = Values::random(f32, {3}).on_device();
  Values db = Values(f32, {3}).on_device();
  backend::cuda::bias_activation_grad(Activation::gelu, none.view(), db.view(), none.view(), none.view(),
                                      b.view());
  expect_close("bias_activation_grad of [0, 3]: dbias", db, Numbers(3, 0.0));
}
