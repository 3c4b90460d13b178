// gradcheck must accept correct derivatives and reject wrong ones: sign, factor, a missing element, a
// transpose.
#include <doctest/doctest.h>

#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

namespace {

// x^2 with a derivative chosen by the test.
struct Square final : tt::Primitive<Square> {
  static constexpr const char* kName = "test_square";
  std::function<Tensor(const Tensor& right)> change;
  explicit Square(std::function<Tensor(const Tensor&)> f) : change(std::move(f)) {}
  tt::Specs infer(const Tensors& in, tt::Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const Tensors& in, Tensors& out) const override { out[0].copy_(tt::square(in[0].detach())); }
  tt::Save saves() const override { return tt::Save::inputs; }
  Tensors vjp(const tt::Saved& s, const Tensors& g) const override {
    return {change(g[0] * s.inputs[0] * 2)};
  }
};

tt::GradcheckResult check(std::function<Tensor(const Tensor&)> change) {
  tt::Generator g(1);
  Tensor x = tt::randn({3, 3}, tt::f64, tt::default_device(), g);
  x.requires_grad_();
  return tt::gradcheck([&](const Tensors& in) { return tt::apply(Square(change), in); }, {x});
}

}  // namespace

TEST_CASE("a correct derivative passes") {
  const auto result = check([](const Tensor& g) { return g; });
  CHECK(result.passed);
  CHECK(result);
  CHECK(result.message.empty());
}

TEST_CASE("wrong derivatives fail") {
  CHECK_FALSE(check([](const Tensor& g) { return -g; }).passed);
  CHECK_FALSE(check([](const Tensor& g) { return g * 1.001; }).passed);
  CHECK_FALSE(check([](const Tensor& g) { return tt::zeros_like(g); }).passed);
  CHECK_FALSE(check([](const Tensor& g) { return g.t(); }).passed);
  CHECK_FALSE(check([](const Tensor& g) { return g + 1e-3; }).passed);
  CHECK_FALSE(check([](const Tensor& g) { return g * NAN; }).passed);
  const auto dropped = check([](const Tensor& g) {
    Tensor copy = g.clone();
    copy.slice(0, 2).slice(1, 2).fill_(0);
    return copy;
  });
  CHECK_FALSE(dropped.passed);
  CHECK(dropped.message.find("input 0, element 8: derivative gives 0.000000") == 0);
}

TEST_CASE("inputs that do not require grad are not changed, others are restored") {
  Tensor x = tt::from_data({1.0, 2.0}), w = tt::from_data({3.0, 4.0});
  x.requires_grad_();
  const auto result = tt::gradcheck([](const Tensors& in) { return in[0] * in[1]; }, {x, w});
  CHECK(result.passed);
  CHECK(x.to_vector<double>() == std::vector<double>{1, 2});
  CHECK(w.to_vector<double>() == std::vector<double>{3, 4});
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("f32 inputs are an error, because differences need f64") {
  Tensor x = tt::ones({2});
  x.requires_grad_();
  CHECK_THROWS_AS(tt::gradcheck([](const Tensors& in) { return in[0] * 2; }, {x}), tt::Error);
}
