// A run of either kind, of models or of kernels.
//
// Both have a class, hardware, date, seed, machine, sandbox, and contenders with a name, a bundle, a tier and
// audits, by the same names, so that std::visit reads those. Fields that only models have get a fixed value
// for kernels.
#pragma once

#include <string>
#include <tinymlperf/benchmarks/task.hpp>
#include <tinymlperf/judge/results/kernel_run.hpp>
#include <tinymlperf/judge/results/run_document.hpp>
#include <variant>

namespace tinymlperf::judge {

using AnyRun = std::variant<RunDocument, kernels::KernelRun>;

// The measured benchmark.
struct Measured {
  std::string benchmark, scenario, division;
  int64_t hidden_samples = 0;
  std::string quality_metric;
  double quality_floor = 0;
};
inline Measured measured_by(const RunDocument& d) {
  return {d.benchmark, name_of(d.scenario), d.division, d.hidden_samples, d.quality_metric, d.quality_floor};
}
// Kernels are asked one by one.
inline Measured measured_by(const kernels::KernelRun&) {
  return {kKernelBenchmark, name_of(Scenario::single_stream), kKernelDivision, 0, "right answers", 0};
}
inline Measured measured_by(const AnyRun& run) {
  return std::visit([](const auto& d) { return measured_by(d); }, run);
}

inline Json to_json(const AnyRun& run) {
  return std::visit([](const auto& d) { return to_json(d); }, run);
}

inline bool is_kernel_run(const Json& document) {
  return document.is_object() && document.value("schema", Json()) == kernels::kSchema;
}

// Throws std::invalid_argument if the document is neither.
inline AnyRun read_any_run(const Json& document) {
  if (is_kernel_run(document)) return kernels::read_kernel_run(document);
  return read_run_document(document);
}

}  // namespace tinymlperf::judge
