#include <support/array.hpp>

#include <tinytorch/backend/cpu/bias_activation.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;
using tinytorch::backend::Activation;

TEST_CASE("bias_activation against plain loops, forward and backward") {
  for (DType dtype : kFloating) {
    Array x = Array::random(dtype, {6, 5}, 1, -3, 3, Layout::gaps), b = Array::random(dtype, {5}, 2, -1, 1),
          g = Array::random(dtype, {6, 5}, 3, -1, 1);
    Array y(dtype, {6, 5}), dx(dtype, {6, 5}), db(dtype, {5});
    kernels::bias_activation(Activation::silu, y.view(), x.view(), b.view());
    kernels::bias_activation_grad(Activation::silu, dx.view(), db.view(), g.view(), x.view(), b.view());
    const std::vector<double> xs = x.values(), bs = b.values(), gs = g.values();
    std::vector<double> want(30), want_dx(30), want_db(5, 0.0);
    for (size_t i = 0; i < 30; ++i) {
      const double z = xs[i] + bs[i % 5], sigmoid = 1 / (1 + std::exp(-z));
      want[i] = z * sigmoid;
      want_dx[i] = gs[i] * sigmoid * (1 + z * (1 - sigmoid));
      want_db[i % 5] += want_dx[i];
    }
    check_close(y.values(), want, dtype, 16);
    check_close(dx.values(), want_dx, dtype, 16);
    check_close(db.values(), want_db, dtype, 64);
  }
}

TEST_CASE("gradients of many rows equal the separate kernels bit by bit, with sums in double") {
  for (const int64_t C : {1, 3, 257, 40'000}) {
    const int64_t N = 100'000 / C + 1;
    CAPTURE(C);
    Array x = Array::random(f32, {N, C}, 1, -3, 3, Layout::gaps), b = Array::random(f32, {C}, 2, -1, 1),
          g = Array::random(f32, {N, C}, 3, -1, 1);
    for (const Activation fn :
         {Activation::none, Activation::relu, Activation::silu, Activation::gelu_tanh}) {
      Array dx(f32, {N, C}), alone(f32, {N, C}), db(f32, {C}), only(f32, {C}), want(f32, {N, C});
      kernels::bias_activation_grad(fn, dx.view(), db.view(), g.view(), x.view(), b.view());
      kernels::bias_activation_grad(fn, alone.view(), {}, g.view(), x.view(), b.view());
      kernels::bias_activation_grad(fn, {}, only.view(), g.view(), x.view(), b.view());
      kernels::binary(backend::BinaryFn::add, want.view(), x.view(), b.view());
      if (fn == Activation::none) kernels::copy(want.view(), g.view());
      if (fn != Activation::none)
        kernels::binary(backend::activation_grad_fn(fn), want.view(), g.view(), want.view());
      const std::vector<double> each = want.values();
      CHECK(dx.values() == each);
      CHECK(alone.values() == each);
      CHECK(only.values() == db.values());
      std::vector<double> sums(static_cast<size_t>(C)), sizes(sums.size());
      for (size_t i = 0; i < each.size(); ++i) {
        sums[i % sums.size()] += each[i];
        sizes[i % sums.size()] += std::abs(each[i]);
      }
      const std::vector<double> got = db.values();
      for (size_t i = 0; i < sums.size(); ++i) CHECK(std::abs(got[i] - sums[i]) <= 4e-6 * sizes[i]);
    }
  }
}

TEST_CASE("without rows the bias gradient is zero; a NaN reaches its column only") {
  Array none(f32, {0, 3}), b = Array::random(f32, {3}, 1, -1, 1), db = Array::random(f32, {3}, 2, -1, 1);
  kernels::bias_activation_grad(Activation::gelu, none.view(), db.view(), none.view(), none.view(), b.view());
  CHECK(db.values() == std::vector<double>{0, 0, 0});

  Array x = Array::random(f32, {20, 3}, 3, -1, 1), g = Array::random(f32, {20, 3}, 4, -1, 1),
        dx(f32, {20, 3});
  g.view().as<float>()[31] = std::numeric_limits<float>::quiet_NaN();
  kernels::bias_activation_grad(Activation::gelu, dx.view(), db.view(), g.view(), x.view(), b.view());
  CHECK(std::isfinite(db.values()[0]));
  CHECK(std::isnan(db.values()[1]));
  CHECK(std::isfinite(db.values()[2]));
}

TEST_CASE("row groups equal the separate kernels bit by bit") {
  for (const int64_t C : {3, 257, 40'000}) {
    const int64_t N = 100'000 / C + 1;
    CAPTURE(C);
    Array x = Array::random(f32, {N, C}, 1, -3, 3), b = Array::random(f32, {C}, 3, -1, 1), y(f32, {N, C}),
          want(f32, {N, C});
    kernels::bias_activation(Activation::gelu, y.view(), x.view(), b.view());
    kernels::binary(backend::BinaryFn::add, want.view(), x.view(), b.view());
    kernels::unary(backend::UnaryFn::gelu, want.view(), want.view());
    CHECK(y.values() == want.values());
  }
}
