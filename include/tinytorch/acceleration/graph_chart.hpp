// A graph as a picture: one row for each step that runs a kernel, in the order in which they run, with arcs
// from the step that makes a value to the steps that read it, and a bar of the bytes that live at the step.
//
//   page += graph_chart(graph, "Step");        // one <svg> element; svg::chart_style() is in the page once
//
// Views are not drawn: a step that reads a view reads the value that owns its memory. An arc is as wide as
// its span of rows is long, so long-lived values, which are those that cost memory, reach furthest.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <tinytorch/acceleration/graph.hpp>
#include <tinytorch/acceleration/liveness.hpp>
#include <tinytorch/benchmarking/svg.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

namespace acceleration {

// "%5 f32 [8, 16] = add(%3, %4)  Mlp/Linear", as OpGraph::str() writes it, with operands that own memory.
inline std::string step_label(const OpGraph& graph, const GraphStep& s) {
  std::string text;
  for (const int v : s.outputs) {
    const GraphValue& x = graph.value(v);
    text += fmt::format("{}%{} {} {}", text.empty() ? "" : ", ", v, name_of(x.dtype), x.shape.str());
  }
  text += fmt::format(" = {}(", s.op->name());
  for (size_t k = 0; k < s.inputs.size(); ++k)
    text += fmt::format("{}{}", k > 0 ? ", " : "",
                        s.inputs[k] < 0 ? "none" : "%" + std::to_string(graph.root(s.inputs[k])));
  text += ")";
  return s.module.empty() ? text : text + "  " + s.module;
}

}  // namespace acceleration

inline std::string graph_chart(const OpGraph& graph, const std::string& title = "Graph") {
  using namespace svg::detail;
  constexpr double kRow = 18, kTop = 44, kArcs = 150, kBars = 90, kWidth = 900;
  const std::vector<int64_t> live = liveness(graph).timeline();
  const auto largest = static_cast<double>(std::max<int64_t>(live.empty() ? 1 : peak(live), 1));
  std::vector<int> row(graph.steps.size(), -1);
  int rows = 0;
  for (size_t s = 0; s < graph.steps.size(); ++s)
    if (!graph.steps[s].is_view()) row[s] = rows++;
  const auto middle = [&](int r) { return kTop + kRow * (r + 0.5); };
  std::string arcs, labels;
  for (size_t s = 0; s < graph.steps.size(); ++s) {
    const GraphStep& step = graph.steps[s];
    if (row[s] < 0) continue;
    const double y = middle(row[s]);
    std::set<int> producers;
    for (const int v : step.inputs) {
      const int made = v < 0 ? -1 : graph.root_of(v).step;
      if (made >= 0 && made < static_cast<int>(s)) producers.insert(row[static_cast<size_t>(made)]);
    }
    for (const int from : producers) {
      if (from < 0) continue;
      const double reach = kArcs * static_cast<double>(row[s] - from) / static_cast<double>(rows);
      arcs += fmt::format(
          "<path d=\"M{0:.1f} {1:.1f} C{2:.1f} {1:.1f} {2:.1f} {3:.1f} {0:.1f} {3:.1f}\" class=\"line "
          "s{4}\"/>\n",
          kArcs, middle(from), kArcs - 12 - reach, y, step.backward ? 1 : 0);
    }
    const double width = std::max(kBars * static_cast<double>(live[s]) / largest, 0.5);
    labels += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"10\" class=\"{}\"><title>{} live bytes"
        "</title></rect>\n",
        kArcs + 8, y - 5, width, step.backward ? "frontmark" : "mark", live[s]);
    labels += text(kArcs + kBars + 16, y + 4, "start", acceleration::step_label(graph, step));
  }
  const std::string note = fmt::format("{} kernels, peak {:.3f} MB", rows, largest * 1e-6);
  return open(kWidth, kTop + kRow * rows + 12, title) + text(8, 36, "start", note, "soft") + arcs + labels +
         "</svg>\n";
}

}  // namespace tinytorch::inline TT_BUILD
