// Models of vision/ with the state of make_vision.py, compared with its logits, running statistics and
// gradients.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <support/golden_file.hpp>
#include <support/hashed.hpp>
#include <support/values.hpp>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>

namespace vision_golden {

inline tinytorch::Shape shape_of(const nlohmann::json& sizes) {
  tinytorch::Shape shape;
  for (const nlohmann::json& size : sizes) shape.push_back(size.get<int64_t>());
  return shape;
}
inline tinytorch::Tensor images(const nlohmann::json& c, tinytorch::DType dtype) {
  const tinytorch::Shape shape = shape_of(c["input"]);
  return tinytorch::from_data(hashed(1000, shape.numel()), shape).to(dtype).to(tinytorch::default_device());
}

// The state of fill() in make_vision.py, which json keeps in the order of the names.
inline tinytorch::TensorMap state_of(const nlohmann::json& c, tinytorch::DType dtype = tinytorch::f64) {
  const auto ends_with = [](const std::string& name, const std::string& end) {
    return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
  };
  tinytorch::TensorMap state;
  uint64_t key = 0;
  for (const auto& [name, sizes] : c["state"].items()) {
    const tinytorch::Shape shape = shape_of(sizes);
    std::vector<double> values = hashed(key++, shape.numel());
    const bool factor = ends_with(name, "running_var") || (ends_with(name, "weight") && shape.size() == 1);
    const bool matrix = !factor && ends_with(name, "weight");
    const double inputs = static_cast<double>(shape.numel()) / (shape.size() > 0 ? double(shape[0]) : 1.0);
    for (double& v : values) v = factor ? 1 + 0.5 * v : v * (matrix ? std::sqrt(6 / inputs) : 0.3);
    const tinytorch::Tensor t = tinytorch::from_data(values, shape).to(dtype);
    state.emplace(name, ends_with(name, "num_batches_tracked") ? tinytorch::zeros({}, tinytorch::i64) : t);
  }
  return state;
}

// The sum of squares and the product with hashed numbers agree with PyTorch's.
inline void check_gradient(const std::string& name, const tinytorch::Tensor& gradient,
                           const nlohmann::json& want) {
  INFO(name);
  REQUIRE(gradient.defined());
  const std::vector<double> g = gradient.contiguous().to_vector<double>(),
                            factors = hashed(7, static_cast<int64_t>(g.size()));
  double squares = 0, product = 0;
  for (size_t i = 0; i < g.size(); ++i) squares += g[i] * g[i], product += g[i] * factors[i];
  const double scale = 1 + std::sqrt(want[0].get<double>());
  CHECK(std::abs(squares - want[0].get<double>()) < 1e-8 * scale * scale);
  CHECK(std::abs(product - want[1].get<double>()) < 1e-8 * scale);
}

// The whole state has the names and shapes of case c.
inline void check_names(tinytorch::Module& net, const nlohmann::json& c) {
  CHECK(net.parameter_count() == c["parameters"].get<int64_t>());
  const tinytorch::StateDict own = net.state_dict();
  REQUIRE(own.size() == c["state"].size());
  for (const auto& [name, sizes] : c["state"].items()) {
    INFO(name);
    REQUIRE(own.count(name) == 1);
    CHECK(own.at(name).shape() == shape_of(sizes));
  }
}

// Logits in f32 of a model of a published size. The golden data have the first of them.
inline void check_published_logits(tinytorch::Module& net, const nlohmann::json& c) {
  const tinytorch::NoGrad no_grad;
  net.load_state_dict(state_of(c, tinytorch::f32));
  net.eval();
  const std::vector<double> got = net(images(c, tinytorch::f32)).to_vector<double>();
  const std::vector<double> want = c["eval"];
  REQUIRE(got.size() == 1000);
  double largest = 0;
  for (const double v : want) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("logit ", i);
    CHECK(std::abs(got[i] - want[i]) <= 1e-4 * largest);
  }
}

// Names, logits in both modes, running statistics and gradients of a model with the options of case c.
inline void check_model(tinytorch::Module& net, const nlohmann::json& c) {
  check_names(net, c);
  // A file of the state loads by name; its values are rounded to f32 unless the model has f64.
  net.to(tinytorch::f64);
  const std::vector<std::byte> file = tinytorch::to_safetensors(state_of(c));
  net.load_state_dict(tinytorch::parse_safetensors(file));
  net.eval();
  check_values(net(images(c, tinytorch::f64)).detach().to_vector<double>(), c["eval"], 1e-8);
  net.train();
  const tinytorch::Tensor x = images(c, tinytorch::f64).requires_grad_(), y = net(x);
  check_values(y.detach().to_vector<double>(), c["train"], 1e-8);
  std::vector<double> weights;
  for (int64_t i = 0; i < y.numel(); ++i) weights.push_back(std::cos(static_cast<double>(i)));
  sum(y * tinytorch::from_data(weights, y.shape()).to(y.device())).backward();
  check_gradient("input", x.grad(), c["gradients"]["input"]);
  for (const tinytorch::NamedTensor& p : net.named_parameters())
    check_gradient(p.name, p.tensor.grad(), c["gradients"][p.name]);
  for (const tinytorch::NamedTensor& b : net.named_buffers()) {
    INFO(b.name);
    const double got = sum(b.tensor.to(tinytorch::f64)).item<double>();
    CHECK(std::abs(got - c["buffers"][b.name][0].get<double>()) < 1e-8 * (1 + std::abs(got)));
  }
  // In f32 the logits differ by rounding alone.
  net.to(tinytorch::f32);
  net.load_state_dict(state_of(c));
  net.eval();
  check_values(net(images(c, tinytorch::f32)).detach().to_vector<double>(), c["eval"], 1e-3);
}

}  // namespace vision_golden
