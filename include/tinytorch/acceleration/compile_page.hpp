// compile_page(): the report of a compiled function or step as one HTML page without scripts: its text, the
// live bytes of each variant over its steps, captured and planned, and the graphs that run.
//
//   auto step = tt::compile_step(net, optimizer, loss);
//   step(x, target);
//   std::ofstream("step.html") << tt::compile_page(step, "GPT-2");
#pragma once

#include <string>
#include <tinytorch/acceleration/graph_chart.hpp>
#include <tinytorch/acceleration/peak_chart.hpp>

namespace tinytorch::inline TT_BUILD {

// F is the type of the function that compile() or compile_step() returns.
template <class F>
std::string compile_page(const F& f, const std::string& title = "Compiled function") {
  std::string page = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>" +
                     svg::escape(title) +
                     "</title><style>body{font:14px system-ui,sans-serif;max-width:960px;margin:auto}\n" +
                     svg::chart_style() + "</style></head><body>\n<h1>" + svg::escape(title) +
                     "</h1>\n<pre>" + svg::escape(f.report()) + "</pre>\n";
  for (const VariantReport& r : f.reports()) page += peak_chart(r, "Live bytes: " + r.arguments);
  int number = 0;
  for (const OpGraph* graph : f.graphs()) page += graph_chart(*graph, "Graph " + std::to_string(++number));
  return page + "</body></html>\n";
}

}  // namespace tinytorch::inline TT_BUILD
