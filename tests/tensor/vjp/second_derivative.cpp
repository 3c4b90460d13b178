// Second derivatives of elementwise functions against differences of their first derivatives.
#include <doctest/doctest.h>

#include <cmath>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

namespace {

// A function of one operand, of an awkward size and not contiguous.
void check_unary(const char* name, const std::function<Tensor(const Tensor&)>& f, double low = -1.5,
                 double high = 1.5) {
  tt::Generator g(7);
  Tensor x = tt::uniform(low, high, {3, 5}, tt::f64, tt::default_device(), g);
  x.requires_grad_();
  const auto result = tt::gradgradcheck([&](const Tensors& in) { return f(in[0].t()); }, {x});
  CHECK_MESSAGE(result.passed, name, ": ", result.message);
}

}  // namespace

TEST_CASE("second derivatives of elementwise functions") {
  check_unary("neg", [](const Tensor& x) { return -x; });
  check_unary(
      "abs", [](const Tensor& x) { return tt::abs(x); }, 0.2, 1);
  check_unary("square", [](const Tensor& x) { return tt::square(x); });
  check_unary("clamp", [](const Tensor& x) { return tt::clamp(x, -9, 9) * x; });
  check_unary(
      "floor", [](const Tensor& x) { return tt::floor(x) * x * x; }, 0.1, 0.9);
  check_unary(
      "sign", [](const Tensor& x) { return tt::sign(x) * x * x; }, 0.1, 0.9);
  check_unary("exp", [](const Tensor& x) { return tt::exp(x); });
  check_unary(
      "log", [](const Tensor& x) { return tt::log(x); }, 0.5, 2);
  check_unary(
      "log1p", [](const Tensor& x) { return tt::log1p(x); }, -0.4, 2);
  check_unary("expm1", [](const Tensor& x) { return tt::expm1(x); });
  check_unary(
      "sqrt", [](const Tensor& x) { return tt::sqrt(x); }, 0.5, 2);
  check_unary(
      "rsqrt", [](const Tensor& x) { return tt::rsqrt(x); }, 0.5, 2);
  check_unary(
      "reciprocal", [](const Tensor& x) { return tt::reciprocal(x); }, 0.5, 2);
  check_unary("sin", [](const Tensor& x) { return tt::sin(x); });
  check_unary("cos", [](const Tensor& x) { return tt::cos(x); });
  check_unary("tanh", [](const Tensor& x) { return tt::tanh(x); });
  check_unary("sigmoid", [](const Tensor& x) { return tt::sigmoid(x); });
  check_unary("erf", [](const Tensor& x) { return tt::erf(x); });
  check_unary(
      "relu", [](const Tensor& x) { return tt::relu(x) * x; }, 0.2, 1);
  check_unary(
      "leaky_relu", [](const Tensor& x) { return tt::leaky_relu(x, 0.3) * x; }, -1, -0.2);
  check_unary("silu", [](const Tensor& x) { return tt::silu(x); });
  check_unary("gelu", [](const Tensor& x) { return tt::gelu(x); });
  check_unary("gelu_tanh", [](const Tensor& x) { return tt::gelu_tanh(x); });
  check_unary("softplus", [](const Tensor& x) { return tt::softplus(x, 1.7); });
  check_unary(
      "elu", [](const Tensor& x) { return tt::elu(x, 0.7); }, -2, -0.1);
  check_unary(
      "elu", [](const Tensor& x) { return tt::elu(x, 0.7) * x; }, 0.1, 2);
  check_unary(
      "hardswish", [](const Tensor& x) { return tt::hardswish(x); }, -2.5, 2.5);
  check_unary("mish", [](const Tensor& x) { return tt::mish(x); });
}

TEST_CASE("second derivatives in f32 and 16 bits have the values of f64") {
  using Function = Tensor (*)(const Tensor&);
  const Function functions[] = {
      [](const Tensor& x) { return tt::tanh(x); },      [](const Tensor& x) { return tt::sigmoid(x); },
      [](const Tensor& x) { return tt::silu(x); },      [](const Tensor& x) { return tt::gelu(x); },
      [](const Tensor& x) { return tt::gelu_tanh(x); }, [](const Tensor& x) { return tt::softplus(x); },
      [](const Tensor& x) { return tt::elu(x); },       [](const Tensor& x) { return tt::hardswish(x); },
      [](const Tensor& x) { return tt::mish(x); },
  };
  const std::vector<double> points = {-2, -0.75, 0.5, 1.25};  // exact in every dtype
  for (const Function f : functions) {
    const auto second = [&](tt::DType t) {
      Tensor x = tt::from_data(points).to(t).requires_grad_();
      const Tensor g = tt::grad(tt::sum(f(x)), x, {.create_graph = true})[0];
      const Tensor h = tt::grad(tt::sum(g), x)[0];
      CHECK(h.dtype() == t);
      return h.to_vector<double>();
    };
    const std::vector<double> exact = second(tt::f64);
    for (const auto& [t, error] : {std::pair{tt::f32, 1e-5}, {tt::f16, 2e-2}, {tt::bf16, 1e-1}}) {
      const std::vector<double> got = second(t);
      for (size_t i = 0; i < exact.size(); ++i) CHECK(std::abs(got[i] - exact[i]) <= error);
    }
  }
}
