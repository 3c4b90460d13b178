// Calls whose values and gradients are compared with golden cases {name, options, inputs, results,
// gradients}, which make_layer_ops.py and make_volume.py write. The loss of the gradients is the sum of
// results times cos(0), cos(1), ...
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <support/golden_file.hpp>
#include <support/values.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>

namespace golden {

inline tinytorch::Shape shape_of(const nlohmann::json& tensor) {
  tinytorch::Shape shape;
  for (const nlohmann::json& size : tensor["shape"]) shape.push_back(size.get<int64_t>());
  return shape;
}
inline tinytorch::Tensor tensor_of(const nlohmann::json& tensor, tinytorch::DType dtype) {
  return tinytorch::from_data(tensor["values"].get<std::vector<double>>())
      .reshape(shape_of(tensor))
      .to(dtype)
      .to(tinytorch::default_device());
}
inline void check_equal(const tinytorch::Tensor& got, const nlohmann::json& want, double tolerance) {
  REQUIRE(got.shape() == shape_of(want));
  check_values(got.detach().to_vector<double>(), want["values"], tolerance);
}
// Returns the same values with gaps in memory.
inline tinytorch::Tensor strided(const tinytorch::Tensor& x) {
  const int last = x.rank() - 1;
  return tinytorch::stack({x, x * 0 + 7}, x.rank()).select(last + 1, 0);
}

using Call =
    std::function<tinytorch::Tensors(const nlohmann::json& options, const tinytorch::Tensors& inputs)>;

// Runs every case called `name`, in f64, f32 and bf16, and with strided inputs.
inline int check_calls(const std::string& name, const Call& call, const std::string& file = "layer_ops") {
  int cases = 0;
  const nlohmann::json golden = read_golden(file);
  for (const nlohmann::json& c : golden["cases"]) {
    if (c["name"] != name) continue;
    ++cases;
    for (const tinytorch::DType dtype : {tinytorch::f64, tinytorch::f32, tinytorch::bf16}) {
      INFO(name, " ", c["options"].dump(), " ", tinytorch::name_of(dtype));
      tinytorch::Tensors inputs, gaps;
      for (const nlohmann::json& tensor : c["inputs"]) {
        inputs.push_back(tensor_of(tensor, dtype).requires_grad_());
        gaps.push_back(strided(inputs.back().detach()));
      }
      const tinytorch::Tensors results = call(c["options"], inputs), again = call(c["options"], gaps);
      REQUIRE(results.size() == c["results"].size());
      const double tolerance = dtype == tinytorch::f64 ? 1e-8 : (dtype == tinytorch::f32 ? 2e-5 : 0.2);
      tinytorch::Tensor loss = tinytorch::zeros({}, dtype);
      for (size_t i = 0; i < results.size(); ++i) {
        CHECK(results[i].dtype() == dtype);
        check_equal(results[i], c["results"][i], tolerance);
        check_equal(again[i], c["results"][i], tolerance);
        std::vector<double> upstream(static_cast<size_t>(results[i].numel()));
        for (size_t k = 0; k < upstream.size(); ++k) upstream[k] = std::cos(static_cast<double>(k));
        loss =
            loss +
            tinytorch::sum(
                results[i] *
                tinytorch::from_data(upstream).reshape(results[i].shape()).to(dtype).to(results[i].device()));
      }
      loss.backward();
      if (dtype == tinytorch::bf16) continue;
      for (size_t i = 0; i < inputs.size(); ++i) {
        INFO("gradient ", i);
        check_equal(inputs[i].grad(), c["gradients"][i], dtype == tinytorch::f64 ? 1e-8 : 1e-4);
      }
    }
  }
  return cases;
}

}  // namespace golden
