// Steps of an optimizer against the golden trajectories of tests/golden/layers.json.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <support/golden_file.hpp>
#include <support/values.hpp>
#include <tinytorch/layers/optimizer.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>

namespace test {

// Takes ten steps of the optimizer that make(parameters, case) returns as a pointer, in f64 and f32, for each
// case of golden[list] that has one of `kinds` (all cases if there are no kinds). Returns the number of
// cases.
template <class Make>
int check_trajectories(const char* list, const std::vector<std::string>& kinds, double f64_tolerance,
                       double f32_tolerance, Make&& make) {
  namespace tt = tinytorch;
  const nlohmann::json golden = read_golden("layers");
  int cases = 0;
  for (const nlohmann::json& c : golden[list]) {
    if (!kinds.empty() && std::ranges::find(kinds, c["kind"].get<std::string>()) == kinds.end()) continue;
    ++cases;
    for (const tt::DType dtype : {tt::f64, tt::f32}) {
      nlohmann::json options = c;
      options.erase("values");
      INFO("case ", options.dump(), " ", tt::name_of(dtype));
      tt::Tensor p = tt::from_data(golden["start"].get<std::vector<double>>()).to(dtype);
      p.requires_grad_();
      const std::unique_ptr<tt::Optimizer> optimizer = make(tt::NamedTensors{{"p", p}}, c);
      for (size_t step = 0; step < 10; ++step) {
        p.set_grad(tt::from_data(golden["gradients"][step].get<std::vector<double>>()).to(dtype));
        optimizer->step();
        check_values(p.to_vector<double>(), c["values"][step],
                     dtype == tt::f64 ? f64_tolerance : f32_tolerance);
      }
    }
  }
  return cases;
}

}  // namespace test
