#include <support/check.hpp>
#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/layers/linear.hpp>

using namespace course;

namespace {

Numbers numbers(const Tensor& t) { return t.to_vector<double>(); }
// y [rows, N] = x [rows, K] W^T + b
Numbers product(const Numbers& x, const Numbers& weight, const Numbers& bias, size_t K) {
  const size_t N = weight.size() / K;
  Numbers y(x.size() / K * N);
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = bias.empty() ? 0 : bias[i % N];
    for (size_t k = 0; k < K; ++k) y[i] += x[i / N * K + k] * weight[i % N * K + k];
  }
  return y;
}
Tensor random(const Shape& shape) {
  return Tensor(from_data(Values::random(f64, shape).numbers(), shape)).to(f32);
}

void check_forward(const std::string& what, Linear& layer, const Tensor& x) {
  const Tensor y = layer.forward(x);
  Shape shape = x.shape();
  shape.back() = layer.weight.size(0);
  const std::string call = what + ", x " + x.shape().str() + ", weight " + layer.weight.shape().str();
  expect_equal("shape of forward: " + call, y.shape(), shape);
  const Numbers bias = layer.bias.defined() ? numbers(layer.bias) : Numbers{};
  expect_close("forward: " + call, numbers(y),
               product(numbers(x), numbers(layer.weight), bias, static_cast<size_t>(x.size(-1))), shape,
               {.dtype = y.dtype(), .roundings = 16, .scale = 2});
}

}  // namespace

TEST_CASE("3.2 the parameters of a layer of 3 inputs and 5 outputs") {
  Generator g(1);
  const Linear layer(3, 5, true, g);
  const NamedTensors all = layer.named_parameters();
  expect_equal("number of named_parameters() of Linear(3, 5)", all.size(), size_t{2});
  expect_equal("name of the first parameter", all[0].name, std::string("weight"));
  expect_equal("name of the second parameter", all[1].name, std::string("bias"));
  expect_equal("shape of the weight: [out, in]", layer.weight.shape(), Shape{5, 3});
  expect_equal("shape of the bias: [out]", layer.bias.shape(), Shape{5});
  expect("the weight requires a gradient", layer.weight.requires_grad());
}

TEST_CASE("3.2 without a bias") {
  Generator g(1);
  Linear layer(3, 5, false, g);
  expect_equal("number of named_parameters() of Linear(3, 5, false)", layer.named_parameters().size(),
               size_t{1});
  expect("the bias is undefined", !layer.bias.defined());
  check_forward("Linear without bias", layer, random({2, 3}));
}

TEST_CASE("3.2 weights start uniform on [-1/sqrt(K), 1/sqrt(K)]") {
  Generator g(seed());
  const Linear layer(64, 100, true, g);
  for (const Tensor& t : {layer.weight, layer.bias}) {
    double largest = 0, square = 0, mean = 0;
    const Numbers values = numbers(t);
    const auto n = static_cast<double>(values.size());
    for (const double v : values)
      largest = std::max(largest, std::abs(v)), square += v * v / n, mean += v / n;
    const std::string what = (t.rank() == 2 ? "weight" : "bias") + std::string(" of Linear(64, 100): ");
    expect(what + "no value is beyond 1/8, got " + shown(largest), largest <= 0.125 * (1 + 1e-6));
    expect(what + "values near 1/8 occur; the largest is " + shown(largest),
           largest > (t.rank() == 2 ? 0.12 : 0.09));
    const double variance = 0.125 * 0.125 / 3, slack = t.rank() == 2 ? 0.06 : 0.5;
    expect(what + "variance about a^2 / 3 = " + shown(variance) + ", got " + shown(square),
           std::abs(square / variance - 1) < slack);
    expect(what + "mean about 0, got " + shown(mean), std::abs(mean) < 5 * std::sqrt(variance / n));
  }
}

TEST_CASE("3.2 one input: weights start uniform on [-1, 1]") {
  Generator g(seed());
  const Linear layer(1, 100, true, g);
  double largest = 0;
  for (const double v : numbers(layer.weight)) largest = std::max(largest, std::abs(v));
  expect("weight of Linear(1, 100): values near 1 occur, none is larger; the largest is " + shown(largest),
         largest > 0.9 && largest <= 1 + 1e-6);
}

TEST_CASE("3.2 weights depend on the generator only, whose state advances") {
  Generator a(5), b(5), c(6);
  const Linear first(7, 3, true, a), same(7, 3, true, b), other(7, 3, true, c), next(7, 3, true, a);
  expect_close("weights of two layers from generators of one seed", numbers(first.weight),
               numbers(same.weight), {3, 7}, {.roundings = 0});
  expect("another seed gives other weights", numbers(first.weight) != numbers(other.weight));
  expect("a second layer from the same generator has other weights",
         numbers(first.weight) != numbers(next.weight));
}

TEST_CASE("3.2 y = x W^T + b over the last dimension") {
  Generator g(2);
  Linear layer(3, 5, true, g);
  check_forward("Linear", layer, random({2, 3}));
  check_forward("Linear", layer, random({2, 4, 3}));
  check_forward("Linear", layer, random({3}));
  check_forward("Linear, x transposed", layer, random({3, 4}).t());
  Linear narrow(1, 1, true, g);
  check_forward("Linear", narrow, random({7, 1}));
  layer.to(f64);
  check_forward("Linear in f64", layer, random({2, 3}).to(f64));
}

TEST_CASE("3.2 weight, bias and input get their gradients") {
  Generator g(3);
  Linear layer(3, 2, true, g);
  Tensor x = random({4, 3});
  x.requires_grad_();
  const Tensor dy = random({4, 2});
  backward(sum(layer.forward(x) * dy));
  const Numbers xs = numbers(x), gs = numbers(dy), ws = numbers(layer.weight);
  Numbers dw(6), db(2), dx(12);
  for (size_t r = 0; r < 4; ++r) {
    for (size_t n = 0; n < 2; ++n) {
      db[n] += gs[r * 2 + n];
      for (size_t k = 0; k < 3; ++k)
        dw[n * 3 + k] += gs[r * 2 + n] * xs[r * 3 + k], dx[r * 3 + k] += gs[r * 2 + n] * ws[n * 3 + k];
    }
  }
  const auto check = [](const char* what, const Tensor& t, const Numbers& want) {
    expect(std::string(what) + " has a gradient", t.grad().defined(), "it is not part of the graph");
    expect_close(std::string("gradient of ") + what, numbers(t.grad()), want, t.shape(),
                 {.roundings = 16, .scale = 2});
  };
  check("the weight", layer.weight, dw);
  check("the bias", layer.bias, db);
  check("the input", x, dx);
}
