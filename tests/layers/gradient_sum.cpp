#include <tinytorch/layers/gradient_sum.hpp>

#include <doctest/doctest.h>

#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("sums of bf16 gradients are exact in f32, and optimizers accept them") {
  tt::Tensor p = tt::ones({2}).to(tt::bf16).requires_grad_();
  tt::GradientSum sum({p});
  double naive = 0;
  for (int i = 0; i < 9; ++i) {  // 256, then eight times 1: less than half of bf16's spacing there
    const double g = i == 0 ? 256 : 1;
    (p * g).sum().backward();
    CHECK(p.grad().dtype() == tt::bf16);
    sum.add();
    CHECK(!p.grad().defined());
    naive = tt::full({}, naive + g).to(tt::bf16).item<double>();
  }
  CHECK(naive == 256);
  sum.give();
  CHECK(p.grad().dtype() == tt::f32);
  CHECK(p.grad().to_vector() == std::vector<float>{264, 264});
  tt::SGD optimizer({{"p", p}}, {.lr = 1.0 / 64});
  optimizer.step();
  CHECK(p.to_vector<double>() == std::vector<double>{1 - 264.0 / 64, 1 - 264.0 / 64});

  sum.clear();
  CHECK(!p.grad().defined());
  p.sum().backward();
  sum.add();
  sum.give();
  CHECK(p.grad().to_vector() == std::vector<float>{1, 1});
}

TEST_CASE("sums of f32 and f64 are bit-identical to backward's; unused parameters have no gradient") {
  for (const tt::DType dtype : {tt::f32, tt::f64}) {
    tt::Generator g(3);
    const auto leaf = [&] {
      return tt::rand({5}, tt::f32, tt::default_device(), g).to(dtype).requires_grad_();
    };
    tt::Tensor a = leaf(), unused = leaf();
    tt::Tensor b = a.detach().clone().requires_grad_();
    tt::GradientSum sum({a, unused});
    for (const double factor : {0.1, 0.7, 0.3}) {
      tt::exp(a * factor).sum().backward();
      sum.add();
      tt::exp(b * factor).sum().backward();
    }
    sum.give();
    CHECK(a.grad().dtype() == dtype);
    CHECK(a.grad().to_vector<double>() == b.grad().to_vector<double>());
    CHECK(!unused.grad().defined());
  }
}
