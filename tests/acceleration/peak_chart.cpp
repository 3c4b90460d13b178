// The chart of live bytes: one element of SVG with a line for each order, also for a report without steps.
#include <doctest/doctest.h>

#include <string>
#include <tinytorch/acceleration/peak_chart.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("a chart has the captured order, the fused one and the plan") {
  tt::VariantReport report;
  report.live_captured = {1'000'000, 7'000'000, 2'000'000};
  report.live_fused = {1'000'000, 3'000'000};
  report.planned = 3'200'000;
  const std::string chart = tt::peak_chart(report, "Step");
  CHECK(chart.starts_with("<svg"));
  CHECK(chart.find("</svg>") != std::string::npos);
  for (const char* text : {"Step", "captured", "fused", "planned", "MB"})
    CHECK(chart.find(text) != std::string::npos);
  CHECK(tt::peak_chart({}).find("</svg>") != std::string::npos);
  report.planned = 6'400'000;
  CHECK(tt::peak_chart(report, "Step") != chart);
}
