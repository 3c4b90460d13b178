// Compares functions with the cases of golden/everyday.json, which make_everyday.py writes: the values for
// every floating dtype, with and without gaps in memory, and the gradients of the sum of results times
// cos(0), cos(1), ...
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <support/golden_calls.hpp>
#include <vector>

namespace everyday {

// index: positions (i64), or undefined.
using Calls =
    std::map<std::string,
             std::function<tinytorch::Tensor(const tinytorch::Tensors& in, const tinytorch::Tensor& index)>>;

inline void check_case(const nlohmann::json& c, const Calls::mapped_type& call, tinytorch::DType dtype) {
  namespace tt = tinytorch;
  tt::Tensors inputs, gaps;
  for (const nlohmann::json& tensor : c["inputs"]) {
    inputs.push_back(golden::tensor_of(tensor, dtype));
    gaps.push_back(golden::strided(inputs.back()));
    if (!c["gradients"].empty()) inputs.back().requires_grad_();
  }
  const tt::Tensor index = c["index"].is_null() ? tt::Tensor() : golden::tensor_of(c["index"], tt::i64);
  const bool exact = dtype == tt::f64 || (dtype == tt::bf16 && c["gradients"].empty());
  const double tolerance = exact ? 1e-8 : dtype == tt::f32 ? 2e-4 : 0.3;
  const tt::Tensor y = call(inputs, index);
  golden::check_equal(y, c["result"], tolerance);
  golden::check_equal(call(gaps, index), c["result"], tolerance);
  if (c["gradients"].empty()) return;
  CHECK(y.dtype() == dtype);
  if (dtype == tt::bf16) return;  // its steps and ties are other ones
  std::vector<double> upstream(static_cast<size_t>(y.numel()));
  for (size_t k = 0; k < upstream.size(); ++k) upstream[k] = std::cos(static_cast<double>(k));
  tt::sum(y * tt::from_data(upstream).reshape(y.shape()).to(dtype).to(y.device())).backward();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const tt::Tensor grad = inputs[i].grad().defined() ? inputs[i].grad() : tt::zeros_like(inputs[i]);
    golden::check_equal(grad, c["gradients"][i], dtype == tt::f64 ? 1e-8 : 1e-3);
  }
}

// Every call has a case. `coarse`: also in bf16, for functions whose values do not jump.
inline void check(const Calls& calls, bool coarse) {
  std::set<std::string> seen;
  const nlohmann::json golden = read_golden("everyday");
  for (const nlohmann::json& c : golden["cases"]) {
    const auto name = c["name"].get<std::string>();
    const auto found = calls.find(name);
    if (found == calls.end()) continue;
    seen.insert(name);
    const bool jumps = name == "trunc" || name == "frac" || name == "tan" || name == "addcdiv" ||
                       name == "sinh" || name == "cosh" || name == "hardshrink" || name == "threshold";
    for (const tinytorch::DType dtype : {tinytorch::f64, tinytorch::f32, tinytorch::bf16}) {
      if (dtype == tinytorch::bf16 && (!coarse || jumps)) continue;
      INFO(name, " ", std::string(tinytorch::name_of(dtype)));
      check_case(c, found->second, dtype);
    }
  }
  CHECK(seen.size() == calls.size());
}

}  // namespace everyday
