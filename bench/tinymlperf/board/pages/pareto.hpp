// Quality against latency: who is on the front, where nobody is better in quality, latency and memory together.
#pragma once

#include <string>
#include <tinymlperf/board/pages/table.hpp>

namespace tinymlperf::board {

namespace detail {

// The first scenario that measures a latency; else the first.
inline size_t latency_scenario(const Table& table) {
  for (size_t i = 0; i < table.scenarios.size(); ++i)
    if (table.scenarios[i].second.find("latency") != std::string::npos) return i;
  return 0;
}

inline const Cell* cell_of(const Row& row, const std::string& scenario) {
  for (const Cell& c : row.cells)
    if (c.scenario == scenario) return &c;
  return nullptr;
}

}  // namespace detail

inline std::string pareto_page(const Site& site, const Table& table) {
  std::string body = table_head(site, table, "pareto"), rows;
  std::vector<svg::Point> points;
  if (!table.scenarios.empty()) {
    const auto& [scenario, measure] = table.scenarios[detail::latency_scenario(table)];
    for (const Row& r : table.rows) {
      const Cell* c = detail::cell_of(r, scenario);
      if (!c || !r.quality) continue;
      points.push_back({clean(r.name, 24), c->value, r.quality->estimate, r.on_front});
      if (r.on_front)
        rows += "<tr><th scope=\"row\" class=\"entry\">" + link(site.submission(r.submission), name(r.name)) +
                "</th>" +
                cell(show_quality(*r.quality, table.quality_metric), "number", r.quality->estimate) +
                cell(show_value(c->value, measure), "number", c->value) +
                cell(show_size(r.peak_bytes), "number", static_cast<double>(r.peak_bytes)) + "</tr>\n";
    }
    std::vector<double> latencies;
    for (const svg::Point& point : points) latencies.push_back(point.x);
    const AxisUnit unit = axis_unit(latencies, measure);
    for (svg::Point& point : points) point.x *= unit.factor;
    if (!points.empty())
      body += "<figure class=\"chart\">" +
              svg::scatter_chart("Quality against latency, the front joined",
                                 {.title = unit.title + ", logarithmic", .scale = svg::Scale::kLog},
                                 {.title = clean(table.quality_metric, 40)}, points) +
              "<figcaption>A point is a submission. Those on the front are joined: no other is better in "
              "quality, latency and memory "
              "together.</figcaption></figure>\n";
    if (!rows.empty())
      body += open_table("front", "Submissions on the front",
                         {{"Submission", "", true},
                          {text(table.quality_metric, 40), "number", true},
                          {text(measure, 60), "number", true},
                          {"Memory", "number", true}}) +
              rows + close_table();
  }
  if (points.empty()) body += "<p>No submission has both a quality and a latency yet.</p>\n";
  return page(site, Here::elsewhere, table_plain_title(table.key) + ": quality against latency", body);
}

}  // namespace tinymlperf::board
