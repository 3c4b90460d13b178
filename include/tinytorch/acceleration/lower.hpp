// Lowering: from a captured graph to an executable, with a report of what was gained.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tinytorch/acceleration/agreement.hpp>
#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/acceleration/channels_last.hpp>
#include <tinytorch/acceleration/conv_epilogue.hpp>
#include <tinytorch/acceleration/executable.hpp>
#include <tinytorch/acceleration/recompute.hpp>
#include <tinytorch/acceleration/row_groups.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct CompileOptions {
  // Largest peak of intermediate values in bytes; 0: that of the captured order. For less than that, values
  // are computed a second time (recompute.hpp).
  int64_t memory_budget = 0;
  bool fuse = true;                                   // elementwise neighbours become one kernel
  Math math = Math::same_bits;                        // fast: reductions of rows are fused on a GPU, too
  bool channels_last = true;                          // with fuse: images may be stored so within the graph
  RegionKernels kernels = RegionKernels::background;  // of fused steps
  bool strict = false;                                // throw instead of running eagerly
  int most_variants = 8;
  // Plans that are kept for batch sizes that were not recorded (batch_sizes.hpp), the least recently used one
  // goes first; 0: each batch size is recorded as a variant of its own.
  int most_sizes = 8;
};

// Figures of one variant, which is the graph for one kind of arguments. Bytes are those of intermediate
// values and results.
struct VariantReport {
  std::string arguments;
  std::string rehearsed;  // if its batch size was not recorded: the recordings that it follows
  int64_t kernels = 0, kernels_captured = 0;
  double bytes_moved = 0, bytes_moved_captured = 0;
  int64_t peak_captured = 0, peak_fused = 0, planned = 0;
  int64_t calls = 0;
  int64_t recomputed = 0;                          // steps that run twice, for a lower peak
  double recomputed_flops = 0;                     // of them
  double flops = 0;                                // of the captured steps
  int64_t channels_last = 0;                       // steps whose result is stored channels-last instead
  double conversion_bytes_saved = 0;               // that conversions of layout read and wrote before
  int64_t memory_budget = 0;                       // of the options
  std::vector<int64_t> live_captured, live_fused;  // bytes at each step (peak_chart.hpp)
  std::vector<std::string> not_fused;              // reasons, with the two steps

  std::string str() const;
};

// Fuses and plans `graph`, and adds what was gained to `report`. The first `results` results keep their
// layout, the others are plain memory, or resident (Executable).
inline std::unique_ptr<Executable> lower(OpGraph graph, const CompileOptions& options, VariantReport& report,
                                         int results = INT_MAX, bool resident = false) {
  report.kernels_captured += graph.kernels();
  report.bytes_moved_captured += graph.bytes_moved();
  report.flops += graph.flops();
  report.memory_budget = options.memory_budget;
  remove_dead_steps(graph);
  const std::vector<int64_t> live = liveness(graph).timeline();
  report.live_captured.insert(report.live_captured.end(), live.begin(), live.end());
  report.peak_captured = std::max(report.peak_captured, peak(live));
  if (options.fuse) {
    const auto report_refused = [&](const std::vector<NotFused>& refused) {
      for (const NotFused& n : refused)
        report.not_fused.push_back(n.producer + " and " + n.consumer + ": " + n.reason);
    };
    accumulate_embeddings(graph), remove_dead_steps(graph);
    report_refused(fuse_conv_epilogues(graph, options.memory_budget));
    if (options.channels_last) {
      const ChannelsLastReport layouts = use_channels_last(graph, options.memory_budget);
      report.channels_last += layouts.steps, report.conversion_bytes_saved += layouts.before - layouts.after;
    }
    Fused fused = fuse(std::move(graph), {options.memory_budget, 64, options.kernels});
    report_refused(fused.refused);
    graph = std::move(fused.graph);
    // A kernel of a GPU adds the elements of rows in another order.
    if (options.math == Math::fast || device_of(graph).is_cpu())
      fuse_rows(graph, {options.memory_budget, options.kernels});
  }
  if (options.memory_budget > 0) {  // after fusion, which lowers peaks without computing anything twice
    const Recomputed again = recompute(graph, options.memory_budget);
    report.recomputed += again.steps, report.recomputed_flops += again.flops;
  }
  const std::vector<int64_t> fused_live = liveness(graph).timeline();
  report.live_fused.insert(report.live_fused.end(), fused_live.begin(), fused_live.end());
  report.peak_fused = std::max(report.peak_fused, peak(fused_live));
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

// The guard of aliasing. A graph may read an argument after it wrote a tensor of the program, which the
// function did before, so the two must not share memory. Throws if they do.
inline void require_apart(const std::vector<WrittenTensor>& written, const Tensors& arguments, Loc loc) {
  for (size_t k = 0; k < arguments.size(); ++k) {
    for (const WrittenTensor& w : written) {
      if (arguments[k].storage() != w.place.storage()) continue;
      fail("TT-COMPILE-04",
           "compile: argument " + std::to_string(k) + ", " + arguments[k].describe() +
               ", is in the memory of a tensor that the function writes in place\n  hint: pass a clone()",
           loc);
    }
  }
}

// Describes the first result of a replay that differs from the function's own; nullopt if all agree. The
// operations were compared before, so the difference is a setting of an operation, such as an axis, a stride
// or a probability.
inline std::optional<std::string> first_other_result(const Tensors& want, const Tensors& got, Math math,
                                                     double least_scale = 0) {
  for (size_t k = 0; k < want.size(); ++k) {
    if (agree(want[k], got[k], math, least_scale)) continue;
    return "the operations are those of the capture, but result " + std::to_string(k) +
           " is another one: a setting of an operation has changed, such as an axis or a probability";
  }
  return std::nullopt;
}
// A replay on trial, of a call that was already made: it begins with the elements of written tensors before
// that call. At the end of the C++ scope, the tensors are as after the call, or as before it.
class ReplayTrial {
 public:
  enum class Leave : uint8_t { before, after };
  ReplayTrial(const std::vector<WrittenTensor>& written, Leave leave) : before_(written), leave_(leave) {
    for (const WrittenTensor& w : written) after_.push_back({w.place, w.place.detach().clone()});
    restore(before_);
  }
  ~ReplayTrial() { restore(leave_ == Leave::before ? before_ : after_); }
  ReplayTrial(const ReplayTrial&) = delete;
  ReplayTrial& operator=(const ReplayTrial&) = delete;

  // The tensors after the call, and as they are now.
  Tensors wanted() const {
    Tensors all;
    for (const WrittenTensor& w : after_) all.push_back(w.before);
    return all;
  }
  Tensors found() const {
    Tensors all;
    for (const WrittenTensor& w : before_) all.push_back(w.place);
    return all;
  }

 private:
  std::vector<WrittenTensor> before_, after_;
  Leave leave_;
};

// Throws unless result k of a replay has the bits of the function's own result, or is close to it if `math`
// allows.
inline void require_same(const Tensor& want, const Tensor& got, size_t k, Math math, Loc loc) {
  if (agree(want, got, math)) return;
  fail("TT-COMPILE-06",
       "compile: result " + std::to_string(k) + " of the replay differs from the captured run\n  hint: " +
           (math == Math::fast ? "set math = Math::same_bits; sums in another order may differ by much here"
                               : "set fuse = false, and report this; an operation may not be deterministic"),
       loc);
}
inline std::string VariantReport::str() const {
  const auto mb = [](double bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f MB", bytes * 1e-6);
    return std::string(text);
  };
  std::string text =
      arguments + ": " + std::to_string(calls) + " calls\n" +
      (rehearsed.empty() ? "" : "  rehearsed without kernels, after the recordings of " + rehearsed + "\n") +
      "  kernels " + std::to_string(kernels_captured) + " -> " + std::to_string(kernels) + ", bytes moved " +
      mb(bytes_moved_captured) + " -> " + mb(bytes_moved) + "\n  peak: captured " +
      mb(static_cast<double>(peak_captured)) + ", fused " + mb(static_cast<double>(peak_fused)) +
      ", planned " + mb(static_cast<double>(planned)) + "\n";
  if (memory_budget > 0) {
    const bool met = peak_fused <= memory_budget;
    text += "  budget " + mb(static_cast<double>(memory_budget)) + (met ? "" : ", which was not reached") +
            ": " + std::to_string(recomputed) + " steps run twice, for " +
            std::to_string(static_cast<int>(100 * recomputed_flops / std::max(flops, 1.0) + 0.5)) +
            " % more FLOPs\n";
  }
  if (channels_last > 0)
    text += "  channels-last results: " + std::to_string(channels_last) + " steps, " +
            mb(conversion_bytes_saved) + " less for conversions\n";
  for (const std::string& reason : not_fused) text += "  not fused: " + reason + "\n";
  return text;
}

}  // namespace tinytorch::inline TT_BUILD
