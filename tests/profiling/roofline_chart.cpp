// roofline_chart: the roof is at the peaks, each row with work has a point, and labels are escaped.
#include <doctest/doctest.h>

#include <tinytorch/profiling/roofline_chart.hpp>

using namespace tinytorch::profiling;

namespace {

const MachinePeaks kMachine{100e9, 20e9, 1e-6, "a machine"};

ProfileRow row(const std::string& name, double seconds, tinytorch::Cost cost) {
  ProfileRow r;
  r.name = name;
  r.calls = 1;
  r.seconds = seconds;
  r.cost = cost;
  return r;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++n;
  return n;
}

}  // namespace

TEST_CASE("roofline_chart has one circle for each row with FLOPs and time") {
  const ProfileTable table{row("matmul", 2, {150e9, 1e9}), row("copy", 1, {0, 1e9}),
                           row("a<b", 0.5, {1e9, 1e9}), row("never", 0, {1e9, 1e9})};
  const std::string chart = roofline_chart("Ops", table, kMachine);
  CHECK(count(chart, "<circle") == 2);
  CHECK(count(chart, "a&lt;b") == 2);
  CHECK(count(chart, "a<b") == 0);
  CHECK(count(chart, "75 % of the limit") == 1);
  CHECK(count(chart, "100 GFLOP/s, 20 GB/s") == 1);
  CHECK(count(chart, "nan") == 0);
  CHECK(count(roofline_chart("Ops", table, kMachine, 1), "<circle") == 1);
}

TEST_CASE("roofline_chart of a table without work has a roof and no points") {
  const std::string chart = roofline_chart("Nothing", {}, kMachine);
  CHECK(count(chart, "<circle") == 0);
  CHECK(count(chart, "<polyline") == 1);
  CHECK(chart.ends_with("</svg>\n"));
}
