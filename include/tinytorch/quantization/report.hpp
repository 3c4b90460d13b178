// The report of quantize() for each layer. text() is for a terminal and json() for programs; html_report()
// makes a page (quantization/report_page.hpp).
#pragma once

#include <cstdio>
#include <string>
#include <tinytorch/core/shape.hpp>
#include <tinytorch/layers/json_lines.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// The measured fields are NaN unless the configuration asks for them (QuantizationConfig::measure).
struct QuantizedLayer {
  std::string path, format;  // format is empty if the layer was kept
  std::string why{};         // why it was kept
  Shape shape;
  int64_t bytes_before = 0, bytes = 0;
  double sqnr = 0;       // dB, of the weight against the numbers with which the layer computes
  double clipped = 0;    // share of weights beyond the values of their block
  std::string inputs{};  // "scaled", "rotated": work in each call; "folded": the layer before has the scales
  double output_error = std::nan("");    // of the model if only this layer is quantized: |y - y0|^2 / |y0|^2
  double divergence = std::nan("");      // KL of the softmax of its outputs in that case, nats a row
  double seconds_before = std::nan("");  // of a call with the last batch: the float layer
  double seconds = std::nan("");         // and the packed one
};

struct QuantizationReport {
  std::vector<QuantizedLayer> layers;
  std::string method = "nearest";
  int64_t bytes_before = 0, bytes = 0;  // of all parameters and buffers of the model
  // The error and divergence of the model with all its layers quantized; NaN unless they were measured.
  double output_error = std::nan(""), divergence = std::nan("");

  bool measured() const { return !std::isnan(output_error); }
  // Bits of a number in the packed layers, biases excluded.
  double bits_per_weight() const {
    double bits = 0, numbers = 0;
    for (const QuantizedLayer& l : layers) {
      if (l.format.empty()) continue;
      bits += 8.0 * static_cast<double>(l.bytes), numbers += static_cast<double>(l.shape.numel());
    }
    return numbers > 0 ? bits / numbers : 0;
  }
  std::string text() const {
    std::string out =
        "layer                                    format  shape            SQNR dB  clipped       bytes";
    out += measured() ? "  output error   KL nats    float us   packed us\n" : "\n";
    char line[240];
    for (const QuantizedLayer& l : layers) {
      std::snprintf(line, sizeof line, "%-40s %-7s %-16s %7.1f %7.2f%% %11lld", l.path.c_str(),
                    l.format.empty() ? "kept" : l.format.c_str(), l.shape.str().c_str(), l.sqnr,
                    100 * l.clipped, static_cast<long long>(l.bytes));
      out += line;
      if (measured() && l.format.empty()) out += std::string(48, ' ');
      if (measured() && !l.format.empty()) {
        std::snprintf(line, sizeof line, " %13.2e %9.2e %11.1f %11.1f", l.output_error, l.divergence,
                      1e6 * l.seconds_before, 1e6 * l.seconds);
        out += line;
      }
      for (const std::string& note : {l.inputs, l.why})
        if (!note.empty()) out += " " + note;
      out += "\n";
    }
    return out + "method " + method + "\n" + summary() + "\n";
  }
  // "model: 1234 bytes, 0.250 of the 4936 before; ...".
  std::string summary() const {
    char line[240];
    std::snprintf(line, sizeof line, "model: %lld bytes, %.3f of the %lld before; %.2f bits a packed number",
                  static_cast<long long>(bytes),
                  static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, bytes_before)),
                  static_cast<long long>(bytes_before), bits_per_weight());
    std::string out = line;
    if (!measured()) return out;
    std::snprintf(line, sizeof line, "; output error %.2e, KL %.2e nats", output_error, divergence);
    return out + line;
  }
  // One object; numbers that were not measured are null.
  std::string json() const {
    std::string rows;
    for (const QuantizedLayer& l : layers) {
      JsonObject row;
      row.add("path", l.path).add("format", l.format).add("why", l.why).add("shape", l.shape.str());
      row.add("bytes_before", l.bytes_before).add("bytes", l.bytes).add("sqnr_db", l.sqnr);
      row.add("clipped", l.clipped).add("inputs", l.inputs).add("output_error", l.output_error);
      row.add("divergence", l.divergence).add("seconds_before", l.seconds_before).add("seconds", l.seconds);
      rows += (rows.empty() ? "" : ", ") + row.str();
    }
    JsonObject whole;
    whole.add("method", method).add("bytes_before", bytes_before).add("bytes", bytes);
    whole.add("bits_per_weight", bits_per_weight()).add("output_error", output_error);
    std::string out = whole.add("divergence", divergence).str();
    out.insert(out.rfind('}'), ", \"layers\": [" + rows + "]");
    return out;
  }
};

}  // namespace tinytorch::inline TT_BUILD
