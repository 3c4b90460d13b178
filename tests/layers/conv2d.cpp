#include <tinytorch/layers/conv2d.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;

TEST_CASE("Conv2d matches plain loops, with stride, padding and groups") {
  tt::Generator g(1);
  const int64_t H = 5, W = 6, stride = 2, padding = 1;
  tt::Conv2d layer(4, 6, 3, {.stride = stride, .padding = padding, .groups = 2}, true, g);
  const tt::Tensor x = tt::randn({2, 4, H, W}, tt::f32, tt::default_device(), g);
  const auto in = x.to_vector<double>(), w = layer.weight.to_vector<double>(),
             b = layer.bias.to_vector<double>();
  const int64_t out_h = 3, out_w = 3;
  std::vector<double> expected;
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t o = 0; o < 6; ++o) {
      for (int64_t i = 0; i < out_h * out_w; ++i) {
        double sum = b[static_cast<size_t>(o)];
        for (int64_t c = 0; c < 2; ++c) {
          for (int64_t k = 0; k < 9; ++k) {
            const int64_t y = i / out_w * stride - padding + k / 3, xx = i % out_w * stride - padding + k % 3;
            if (y < 0 || y >= H || xx < 0 || xx >= W) continue;
            const int64_t channel = o / 3 * 2 + c;
            sum += in[static_cast<size_t>(((n * 4 + channel) * H + y) * W + xx)] *
                   w[static_cast<size_t>((o * 2 + c) * 9 + k)];
          }
        }
        expected.push_back(sum);
      }
    }
  }
  const tt::Tensor y = layer(x);
  CHECK(y.shape() == tt::Shape{2, 6, out_h, out_w});
  check_values(y.to_vector<double>(), expected, 1e-5);
  tt::sum(tt::square(y)).backward();
  for (const tt::Tensor& p : layer.parameters()) CHECK(tt::sum(tt::abs(p.grad())).item() > 0);
}

TEST_CASE("Conv2d initializes uniformly within 1/sqrt(fan_in); groups must divide the channels") {
  tt::Conv2d layer(8, 64, 5);
  double largest = 0;
  for (double v : layer.weight.to_vector<double>()) largest = std::max(largest, std::abs(v));
  CHECK(largest <= 1 / std::sqrt(200.0) * 1.000001);
  CHECK(largest > 0.99 / std::sqrt(200.0));
  CHECK(message_of([] { tt::Conv2d bad(3, 4, 1, {.groups = 2}); }).rfind("TT-NN-12", 0) == 0);
  CHECK(tt::Conv2d(1, 1, 3, {}, false).named_parameters().size() == 1);
}

TEST_CASE("Conv2d with a non-square filter, and its fan_in") {
  tt::Generator g(1);
  tt::Conv2d layer(1, 2, {3, 1}, {}, true, g);
  CHECK(layer.weight.shape() == tt::Shape{2, 1, 3, 1});
  for (const double w : layer.weight.to_vector<double>()) CHECK(std::abs(w) <= 1 / std::sqrt(3.0));
  const tt::Tensor x = tt::randn({1, 1, 5, 2}, tt::f32, tt::default_device(), g);
  const auto in = x.to_vector<double>(), w = layer.weight.to_vector<double>(),
             b = layer.bias.to_vector<double>();
  std::vector<double> expected;
  for (size_t o = 0; o < 2; ++o)
    for (size_t row = 0; row < 3; ++row)
      for (size_t column = 0; column < 2; ++column) {
        double sum = b[o];
        for (size_t k = 0; k < 3; ++k) sum += in[(row + k) * 2 + column] * w[o * 3 + k];
        expected.push_back(sum);
      }
  const tt::Tensor y = layer(x);
  CHECK(y.shape() == tt::Shape{1, 2, 3, 2});
  check_values(y.to_vector<double>(), expected, 1e-5);
}
