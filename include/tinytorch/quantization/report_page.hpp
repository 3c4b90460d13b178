// The report of quantize() as one self-contained HTML page.
//
//   const QuantizationReport r = quantize(model, {.format = "Q4_0", .calibration = batches, .measure =
//   true}); save_html_report(r, "quantized.html");
#pragma once

#include <tinytorch/benchmarking/document.hpp>
#include <tinytorch/io/file.hpp>
#include <tinytorch/quantization/report.hpp>

namespace tinytorch::inline TT_BUILD {

namespace quantization {

inline document::Rows table_of(const QuantizationReport& r) {
  document::Row head{"layer", "format", "shape", "SQNR dB", "clipped", "bytes", "of before"};
  if (r.measured()) head.insert(head.end(), {"output error", "KL, nats", "float", "packed"});
  head.push_back("note");
  document::Rows rows{head};
  for (const QuantizedLayer& l : r.layers) {
    const bool kept = l.format.empty();
    const double before = static_cast<double>(std::max<int64_t>(1, l.bytes_before));
    document::Row row{l.path,
                      kept ? "kept" : l.format,
                      l.shape.str(),
                      kept ? "" : fmt::format("{:.1f}", l.sqnr),
                      kept ? "" : fmt::format("{:.2f} %", 100 * l.clipped),
                      document::show_bytes(l.bytes),
                      fmt::format("{:.3f}", static_cast<double>(l.bytes) / before)};
    if (r.measured() && kept) row.insert(row.end(), 4, "");
    if (r.measured() && !kept) {
      row.insert(row.end(), {fmt::format("{:.2e}", l.output_error), fmt::format("{:.2e}", l.divergence),
                             document::show_seconds(l.seconds_before), document::show_seconds(l.seconds)});
    }
    row.push_back(l.inputs.empty() || l.why.empty() ? l.inputs + l.why : l.inputs + "; " + l.why);
    rows.push_back(std::move(row));
  }
  return rows;
}

// Layers by sensitivity, the largest first.
inline std::string sensitivity_chart(const QuantizationReport& r, size_t most = 24) {
  std::vector<svg::Bar> bars;
  for (const QuantizedLayer& l : r.layers)
    if (!l.format.empty()) bars.push_back({l.path, l.divergence, 0, 0, l.format});
  std::stable_sort(bars.begin(), bars.end(), [](const auto& a, const auto& b) { return a.value > b.value; });
  if (bars.size() > most) bars.resize(most);
  return svg::bar_chart("Sensitivity: KL if only this layer is quantized", {.title = "nats a row", .low = 0},
                        bars);
}

}  // namespace quantization

inline std::string html_report(const QuantizationReport& r, const std::string& title = "Quantization") {
  std::string body = document::html_list({"Method: " + r.method + ".", r.summary() + "."});
  const bool packed = std::any_of(r.layers.begin(), r.layers.end(),
                                  [](const QuantizedLayer& l) { return !l.format.empty(); });
  if (r.measured() && packed) body += "<figure>" + quantization::sensitivity_chart(r) + "</figure>\n";
  return document::html_page(title, body + document::html_table(quantization::table_of(r)), 3);
}
inline void save_html_report(const QuantizationReport& r, const std::string& path, TT_LOC) {
  write_file(path, html_report(r), loc);
}

}  // namespace tinytorch::inline TT_BUILD
