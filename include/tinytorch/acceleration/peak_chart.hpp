// The live bytes of a compiled function over its steps, as a chart: in the captured order, after fusion and
// recomputation, and the memory that was planned.
//
//   page += peak_chart(step.reports()[0]);     // one <svg> element
#pragma once

#include <string>
#include <tinytorch/acceleration/lower.hpp>
#include <tinytorch/benchmarking/svg.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

inline std::string peak_chart(const VariantReport& report, const std::string& title = "Live bytes") {
  const auto series = [](const char* label, const std::vector<int64_t>& live) {
    svg::Series s{label, {}, {}};
    for (size_t k = 0; k < live.size(); ++k) {
      s.x.push_back(100 * static_cast<double>(k) / static_cast<double>(live.size()));
      s.y.push_back(static_cast<double>(live[k]) * 1e-6);
    }
    return s;
  };
  const double planned = static_cast<double>(report.planned) * 1e-6;
  return svg::line_chart(title, {.title = "share of the steps (%)"}, {.title = "MB", .low = 0},
                         {series("captured", report.live_captured),
                          series("fused", report.live_fused),
                          {"planned", {0, 100}, {planned, planned}}});
}

}  // namespace tinytorch::inline TT_BUILD
