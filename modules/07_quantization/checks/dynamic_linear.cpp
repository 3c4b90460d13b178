#include <support/check.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/quantization/int8_linear.hpp>

#include "planted_layer.hpp"

using namespace course;

namespace {

Tensor of_numbers(const Numbers& x, const Shape& shape) { return from_data(x, shape).to(f32); }
Tensor random_tensor(const Shape& shape, double size = 1) {
  return of_numbers(normal(static_cast<size_t>(shape.numel()), size), shape);
}

// The names of the operations that f runs, without views and conversions.
template <class F>
std::vector<std::string> operations_of(F&& f) {
  struct Names : OpObserver {
    std::vector<std::string> names;
    void after(const PrimitiveBase& op, const Tensors&, const Tensors&, Cost) override {
      names.emplace_back(op.name());
    }
  } observer;
  const Observing observing(observer);
  f();
  return observer.names;
}

bool same_bits(const Tensor& a, const Tensor& b) { return a.to_vector<double>() == b.to_vector<double>(); }

}  // namespace

TEST_CASE("7.6 the weight becomes codes, with a scale for each output") {
  const DynamicLinear layer(of_numbers({1, -2, 0.5, 127, 0, -63.5}, {2, 3}));
  expect_equal("dtype of the weight", std::string(name_of(layer.weight.dtype())), std::string("i8"));
  expect_equal("codes of [[1, -2, 0.5], [127, 0, -63.5]]", layer.weight.to_vector<double>(),
               Numbers{64, -127, 32, 127, 0, -64});
  expect_close("their scales: the largest magnitude of a row / 127", layer.weight_scale.to_vector<double>(),
               {2.0 / 127, 1}, {2}, {});
  expect_equal("shape of the scales", layer.weight_scale.shape(), Shape{2});
  const StateDict state = layer.state_dict();
  for (const char* const name : {"weight", "weight_scale"})
    expect(std::string(name) + " is a buffer, so that it is saved with the model and moves with it",
           state.contains(name));
  expect_equal("a layer without a bias saves 2 tensors; number", std::ssize(state), std::ptrdiff_t{2});
  expect_equal("numbers that are trained", layer.parameter_count(), int64_t{0});
}

TEST_CASE("7.6 a layer of codes has a quarter of the memory, and no floats beside them") {
  const Tensor bias = random_tensor({256});
  auto weight = std::make_optional(random_tensor({256, 200}));
  const size_t before = HostAllocator::instance().stats().current - 4 * 256 * 200;
  const DynamicLinear layer(*weight, bias);
  weight.reset();
  const auto held = static_cast<int64_t>(HostAllocator::instance().stats().current - before);
  const int64_t formula = 256 * 200 + 4 * 256;
  expect(
      "bytes that the layer holds besides the bias, which it shares: 256 * 200 codes and 256 scales of 4 "
      "bytes are " +
          shown(formula) + "; got " + shown(held),
      held <= formula * 102 / 100);
}

TEST_CASE("7.6 exact sums: integers with scales of 1") {
  DynamicLinear layer(of_numbers({127, -3, 5, 2, 127, 0}, {2, 3}), of_numbers({0.5, -0.25}, {2}));
  const Tensor y = layer(of_numbers({127, 10, -20, -127, 0, 1, 1, 2, 127}, {3, 3}));
  expect_equal("x [[127, 10, -20], [-127, 0, 1], [1, 2, 127]], w [[127, -3, 5], [2, 127, 0]], with a bias",
               y.to_vector<double>(),
               Numbers{127 * 127 - 30 - 100 + 0.5, 254 + 1270 - 0.25, -127 * 127 + 5 + 0.5, -254 - 0.25,
                       127 - 6 + 635 + 0.5, 2 + 254 - 0.25});
}

TEST_CASE("7.6 a product of integers, and none of floats") {
  DynamicLinear layer(random_tensor({6, 20}), random_tensor({6}));
  const Tensor x = random_tensor({4, 20});
  const std::vector<std::string> names = operations_of([&] { (void)layer(x); });
  const auto count = [&](const char* name) {
    return static_cast<int64_t>(std::count(names.begin(), names.end(), std::string(name)));
  };
  const std::string all = "operations: " + shown(names);
  expect_equal(all + "; products of codes (linear_int8)", count("linear_int8"), int64_t{1});
  expect_equal(all + "; quantizations of the inputs (quantize_rows)", count("quantize_rows"), int64_t{1});
  for (const char* const name : {"linear", "matmul", "linear_activation"})
    expect_equal(all + "; products of floats (" + name + ")", count(name), int64_t{0});
  const auto codes = static_cast<int64_t>(layer.weight.numel());
  struct Largest : OpObserver {
    int64_t floats = 0;
    void after(const PrimitiveBase&, const Tensors&, const Tensors& out, Cost) override {
      for (const Tensor& t : out)
        if (t.defined() && is_floating(t.dtype())) floats = std::max(floats, t.numel());
    }
  } largest;
  {
    const Observing observing(largest);
    (void)layer(x.slice(0, 0, 1));
  }
  expect("no tensor of floats is as large as the weight of " + shown(codes) + " codes; the largest has " +
             shown(largest.floats),
         largest.floats < codes);
}

TEST_CASE("7.6 a scale for each token: 37.3 dB on an ordinary layer, 30.3 dB with four outliers") {
  const NoGrad no_grad;
  for (const bool outliers : {false, true}) {
    double total = 0, per_tensor = 0;
    for (int i = 0; i < 2; ++i) {
      const PlantedLayer p(outliers, 64, 48, 256);
      const auto M = static_cast<int64_t>(p.M), N = static_cast<int64_t>(p.N), K = static_cast<int64_t>(p.K);
      DynamicLinear layer(of_numbers(p.w, {N, K}));
      total += decibels(p.y, layer(of_numbers(p.x, {M, K})).to_vector<double>()) / 2;
      per_tensor += p.with(rounded(p.x, p.M * p.K, 127), rounded(p.w, p.K, 127)) / 2;
    }
    expect(std::string(outliers ? "four channels 30 times as large" : "ordinary channels") +
               ": at least 1.5 dB more than the " + shown(per_tensor) +
               " dB with one scale for all tokens; got " + shown(total),
           total >= per_tensor + 1.5);
    const double golden = outliers ? 30.3 : 37.3;
    expect("and within 2.5 dB of " + shown(golden) + "; got " + shown(total),
           std::abs(total - golden) <= 2.5);
  }
}

TEST_CASE("7.6 a token's result has the same bits alone and in a batch, whatever the others are") {
  const NoGrad no_grad;
  DynamicLinear layer(random_tensor({7, 33}), random_tensor({7}));
  Numbers x = normal(5 * 33);
  for (size_t k = 0; k < 33; ++k) x[2 * 33 + k] *= 1000;
  const Tensor batch = of_numbers(x, {5, 33}), y = layer(batch);
  for (int64_t m = 0; m < 5; ++m)
    expect(
        "row " + shown(m) + " of a batch of 5 in which row 2 is 1000 times as large, and the same row alone",
        same_bits(y.slice(0, m, m + 1), layer(batch.slice(0, m, m + 1))));
}

TEST_CASE("7.6 the bias is neither rounded nor scaled") {
  const NoGrad no_grad;
  const Tensor bias = of_numbers({1e-4, 3.14159, -1000.125}, {3});
  DynamicLinear layer(random_tensor({3, 8}), bias);
  expect("an input of zeros gives the bias, to the bit", same_bits(layer(zeros({1, 8})).reshape({3}), bias));
}

TEST_CASE("7.6 more dimensions, other dtypes, and no rows") {
  const NoGrad no_grad;
  const Tensor w = random_tensor({6, 10}), x = random_tensor({2, 3, 10});
  DynamicLinear layer(w);
  const Tensor y = layer(x);
  expect_equal("shape of [2, 3, 10] through 10 -> 6", y.shape(), Shape{2, 3, 6});
  expect("the same bits as its 6 rows", same_bits(y.reshape({6, 6}), layer(x.reshape({6, 10}))));
  expect_equal("shape of one token [10]", layer(x.reshape({60}).slice(0, 0, 10)).shape(), Shape{6});
  expect_equal("shape of no rows [0, 10]", layer(tinytorch::empty({0, 10})).shape(), Shape{0, 6});
  for (const DType dtype : {bf16, f16}) {
    const Tensor z = layer(x.to(dtype));
    expect_equal("dtype of the result", std::string(name_of(z.dtype())), std::string(name_of(dtype)));
    const Tensor wide = layer(x.to(dtype).to(f32));
    expect_close(std::string("result of x in ") + name_of(dtype), z.to_vector<double>(),
                 wide.to_vector<double>(), z.shape(), {.dtype = dtype, .roundings = 2, .scale = 4});
  }
}

TEST_CASE("7.6 a token that is not finite gives NaN, and no other does") {
  const NoGrad no_grad;
  DynamicLinear layer(random_tensor({4, 9}));
  for (const double bad : {NAN, INFINITY}) {
    Numbers x = normal(3 * 9);
    x[9 + 4] = bad;
    const Numbers y = layer(of_numbers(x, {3, 9})).to_vector<double>();
    for (size_t i = 0; i < y.size(); ++i)
      expect("the middle one of three tokens has " + shown(bad) + ": result [" +
                 shown(static_cast<int64_t>(i) / 4) + ", " + shown(static_cast<int64_t>(i) % 4) + "] is " +
                 shown(y[i]),
             std::isnan(y[i]) == (i / 4 == 1));
  }
}

TEST_CASE("7.6 shapes that do not fit, and weights without a scale, are refused") {
  DynamicLinear layer(random_tensor({4, 9}));
  expect_throws("TT-SHAPE-02", "x with 8 features for a layer of 9", [&] {
    (void)layer(random_tensor({2, 8}));
  });
  expect_throws("TT-SHAPE-02", "a weight of one dimension", [&] { DynamicLinear(random_tensor({4})); });
  expect_throws("TT-CALIB-01", "a weight with NaN", [&] { DynamicLinear(of_numbers({1, NAN}, {1, 2})); });
}
