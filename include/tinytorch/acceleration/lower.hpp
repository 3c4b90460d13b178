// Lowering: from a captured graph to an executable, with a report of what was gained.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <tinytorch/acceleration/executable.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct CompileOptions {
  int64_t memory_budget = 0;  // largest peak of intermediate values in bytes; 0: that of the captured order
  bool fuse = true;           // elementwise neighbours become one kernel
  RegionKernels kernels = RegionKernels::background;  // of fused steps
  bool strict = false;                                // throw instead of running eagerly
  int most_variants = 8;
};

// What was made of one kind of arguments, in numbers. Bytes are those of intermediate values and results.
struct VariantReport {
  std::string arguments;
  int64_t kernels = 0, kernels_captured = 0;
  double bytes_moved = 0, bytes_moved_captured = 0;
  int64_t peak_captured = 0, peak_fused = 0, planned = 0;
  int64_t calls = 0;
  std::vector<std::string> not_fused;  // reasons, with the two steps

  std::string str() const;
};

// Fuses and plans `graph`, and adds what was gained to `report`. The first `results` results keep their
// layout, the others are plain memory, or resident (Executable).
inline std::unique_ptr<Executable> lower(OpGraph graph, const CompileOptions& options, VariantReport& report,
                                         int results = INT_MAX, bool resident = false) {
  report.kernels_captured += graph.kernels();
  report.bytes_moved_captured += graph.bytes_moved();
  if (options.fuse) {
    Fused fused = fuse(std::move(graph), {options.memory_budget, 64, options.kernels});
    report.peak_captured = std::max(report.peak_captured, fused.peak_before);
    report.peak_fused = std::max(report.peak_fused, fused.peak_after);
    for (const NotFused& n : fused.refused) {
      report.not_fused.push_back(n.producer + " and " + n.consumer + ": " + n.reason);
    }
    graph = std::move(fused.graph);
  } else {
    report.peak_captured = report.peak_fused = std::max(report.peak_captured, liveness(graph).peak());
  }
  report.kernels += graph.kernels();
  report.bytes_moved += graph.bytes_moved();
  int64_t result_bytes = 0;
  std::vector<bool> counted(graph.values.size(), false);
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    if (resident && k >= static_cast<size_t>(results)) break;
    const auto root = static_cast<size_t>(graph.root(graph.outputs[k]));
    if (!counted[root] && graph.values[root].kind == ValueKind::computed)
      result_bytes += bytes_of(graph.values[root]);
    counted[root] = true;
  }
  auto out = std::make_unique<Executable>(std::move(graph), results, resident);
  report.planned = std::max(report.planned, out->arena_bytes() + result_bytes);
  return out;
}

// The reports of the variants of a compiled function, with the calls so far.
template <class Variant>
std::vector<VariantReport> reports_of(const std::vector<Variant>& variants) {
  std::vector<VariantReport> all;
  for (const Variant& v : variants) {
    all.push_back(v.report);
    all.back().calls = v.calls;
  }
  return all;
}
// Their text, and why the function runs eagerly, if it does.
inline std::string report_text(const std::vector<VariantReport>& reports, const std::string& eager_reason) {
  std::string text;
  for (const VariantReport& r : reports) text += r.str();
  if (!eager_reason.empty()) text += "runs eagerly: " + eager_reason + "\n";
  return text.empty() ? "not called yet\n" : text;
}

// The arguments in the layouts of the captured ones.
inline Tensors laid_out_as_captured(const OpGraph& captured, const Tensors& arguments) {
  Tensors out;
  for (size_t k = 0; k < arguments.size(); ++k) {
    const GraphValue& x = captured.value(captured.inputs[k]);
    out.push_back(arguments[k].strides() == x.strides ? arguments[k] : arguments[k].contiguous());
  }
  return out;
}

// Throws unless result k of a replay has the bits of the function's own result.
inline void require_same(const Tensor& want, const Tensor& got, size_t k, Loc loc) {
  const Tensor a = want.detach().to(cpu).contiguous(), b = got.detach().to(cpu).contiguous();
  if (a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0) return;
  fail("TT-COMPILE-06",
       "compile: result " + std::to_string(k) +
           " of the replay differs from the captured run\n  hint: set "
           "fuse = false, and report this; an operation may not be deterministic",
       loc);
}
inline std::string VariantReport::str() const {
  const auto mb = [](double bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f MB", bytes * 1e-6);
    return std::string(text);
  };
  std::string text =
      arguments + ": " + std::to_string(calls) + " calls\n  kernels " + std::to_string(kernels_captured) +
      " -> " + std::to_string(kernels) + ", bytes moved " + mb(bytes_moved_captured) + " -> " +
      mb(bytes_moved) + "\n  peak: captured " + mb(static_cast<double>(peak_captured)) + ", fused " +
      mb(static_cast<double>(peak_fused)) + ", planned " + mb(static_cast<double>(planned)) + "\n";
  for (const std::string& reason : not_fused) text += "  not fused: " + reason + "\n";
  return text;
}

}  // namespace tinytorch::inline TT_BUILD
