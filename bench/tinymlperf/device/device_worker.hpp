// The process that answers queries with device code: `tinymlperf worker --device`. It alone holds the GPU's
// context, so a kernel that crashes or never ends affects no other process.
//
// Queries are those of entries/kernels.hpp. An answer has three tensors: the output, the times of the op (f64
// [3], Report in measured_op.hpp), and a text about what the op did wrong (u8, empty if nothing).
#pragma once

#include <tinymlperf/device/measured_op.hpp>
#include <tinymlperf/entries/kernels.hpp>

namespace tinymlperf::device {

inline std::unique_ptr<Program> program_named(const std::string& folder) {
#if TINYTORCH_WITH_CUDA
  if (folder == kLibraryName) return std::make_unique<LibraryProgram>();
#endif
  return std::make_unique<PlanProgram>(folder);
}

inline Tensors answer_on_device(const Program& program, OpRunner& run, const Tensors& query) {
  const auto letters = query.at(0).values<char>();
  const std::string op(letters.data(), letters.size());
  if (!program.has(op)) return {};
  const auto sides = query.at(1).values<int64_t>();
  const Shape shape(sides.begin(), sides.end());
  const DType result = output_dtype(query.at(2));
  const MeasuredOutput m = run(op, std::span(query).subspan(3), shape, result);
  const double report[] = {m.report.seconds, m.report.host_seconds, m.report.clock};
  return {Tensor{result, shape, m.bytes}, make_tensor<double>(DType::f64, {3}, report),
          make_tensor<char>(DType::u8, {static_cast<int64_t>(m.complaint.size())}, std::span(m.complaint))};
}

inline int serve_device_worker(const std::string& folder) {
  std::unique_ptr<Program> program;
  std::optional<OpRunner> run;
  return serve([&](const Query& query) { return answer_on_device(*program, *run, query.inputs); },
               [&](std::string_view) {
                 program = program_named(folder);
                 run.emplace(*program);
               });
}

}  // namespace tinymlperf::device
