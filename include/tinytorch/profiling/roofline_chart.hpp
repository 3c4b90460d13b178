// An SVG chart of the roofline: the machine's peaks, and a point for each row of a profile's table.
#pragma once

#include <algorithm>
#include <string>
#include <tinytorch/benchmarking/svg.hpp>
#include <tinytorch/profiling/roofline.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::profiling {

// Both axes are logarithmic: FLOP per byte, and GFLOP/s. A point on the roofline runs at the machine's limit.
// The area of a point is its share of the time. The chart omits rows without FLOPs or time, and rows after
// the first `most`.
inline std::string roofline_chart(const std::string& title, const ProfileTable& table, const MachinePeaks& c,
                                  size_t most = 12) {
  using namespace svg;
  using namespace svg::detail;
  std::vector<const ProfileRow*> rows;
  double total = 0;
  for (const ProfileRow& row : table) {
    total += row.seconds;
    if (row.intensity() > 0 && row.seconds > 0 && rows.size() < most) rows.push_back(&row);
  }
  const double width = 760, height = 440;
  const Box plot{64, 56, width - 24, height - 48};
  std::vector<double> xs{c.ridge() / 64, c.ridge() * 16}, ys{c.flops_per_second / 1e9};
  for (const ProfileRow* row : rows)
    xs.push_back(row->intensity()), ys.push_back(row->flops_per_second() / 1e9);
  const Axis x_axis{"intensity (FLOP per byte)", Scale::kLog}, y_axis{"GFLOP/s", Scale::kLog};
  const Mapping x = fit(x_axis, xs, plot.left, plot.right, 0.03);
  ys.push_back(attainable(x.low, c) / 1e9);
  const Mapping y = fit(y_axis, ys, plot.bottom, plot.top, 0.05);
  std::string out = open(width, height, title) + frame(plot, x, y, x_axis, y_axis);

  std::vector<Box> taken;
  const double roof = y(c.flops_per_second / 1e9), ridge = x(c.ridge());
  const double foot = y(attainable(x.low, c) / 1e9);
  out += fmt::format("<polyline points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\" class=\"front\"/>\n",
                     plot.left, foot, ridge, roof, plot.right, roof);
  block_line(plot.left, foot, ridge, roof, taken);
  block_line(ridge, roof, plot.right, roof, taken);
  out += text(plot.right - 4, roof - 6, "end",
              fmt::format("{:.4g} GFLOP/s, {:.4g} GB/s", c.flops_per_second / 1e9, c.bytes_per_second / 1e9),
              "soft");
  for (const ProfileRow* row : rows) {
    const double px = x(row->intensity()), py = y(row->flops_per_second() / 1e9);
    const double radius = std::clamp(24 * std::sqrt(row->seconds / total), 3.0, 24.0);
    taken.push_back({px - radius, py - radius, px + radius, py + radius});
    out += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" class=\"mark\" fill-opacity=\"0.7\"><title>{}{}: "
        "{} "
        "FLOP/byte, {} GFLOP/s, {:.1f} % of the time, {:.0f} % of the limit</title></circle>\n",
        px, py, radius, escape(row->name), row->backward ? " (backward)" : "", number(row->intensity()),
        number(row->flops_per_second() / 1e9), 100 * row->seconds / total, 100 * share_of_limit(*row, c));
  }
  for (const ProfileRow* row : rows) {
    out += place_label(x(row->intensity()), y(row->flops_per_second() / 1e9),
                       row->name + (row->backward ? " (backward)" : ""), plot, taken);
  }
  return out + "</svg>\n";
}

}  // namespace tinytorch::inline TT_BUILD::profiling
