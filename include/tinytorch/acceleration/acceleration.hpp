// Umbrella header of acceleration/: a function is captured once as a graph, fused, planned and replayed.
//
//   compiled.hpp           compile(f): a callable with guards, and its report
//   compile_step.hpp       compile_step(): a training step as one graph; compiled_training.hpp for a Trainer
//   compile_page.hpp       the report as a page; graph_chart.hpp and peak_chart.hpp are its pictures
//
//   capture.hpp            a function becomes an OpGraph (graph.hpp), with its derivative
//   (capture_gradient.hpp) fusion.hpp, row_groups.hpp, conv_epilogue.hpp   which steps become one
//   channels_last.hpp, accumulate.hpp, recompute.hpp   layouts, sums in place, memory for time
//   liveness.hpp, plan.hpp the timeline of live bytes, and an offset for each block of memory
//   lower.hpp              a graph becomes an Executable (executable.hpp)
//   kernel_builder.hpp     text becomes a kernel: by the host's compiler or by NVRTC, with a cache on disk
//
// It includes every header of the folder. A program that only compiles functions needs compiled.hpp alone.
#pragma once

#include <tinytorch/acceleration/accumulate.hpp>
#include <tinytorch/acceleration/agreement.hpp>
#include <tinytorch/acceleration/batch_sizes.hpp>
#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/acceleration/capture_gradient.hpp>
#include <tinytorch/acceleration/channels_last.hpp>
#include <tinytorch/acceleration/compile_page.hpp>
#include <tinytorch/acceleration/compile_step.hpp>
#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/acceleration/compiled_call.hpp>
#include <tinytorch/acceleration/compiled_pointwise.hpp>
#include <tinytorch/acceleration/compiled_training.hpp>
#include <tinytorch/acceleration/constant_copy.hpp>
#include <tinytorch/acceleration/conv_epilogue.hpp>
#include <tinytorch/acceleration/device_kernels.hpp>
#include <tinytorch/acceleration/device_pointwise.hpp>
#include <tinytorch/acceleration/device_rows.hpp>
#include <tinytorch/acceleration/emit_cpu.hpp>
#include <tinytorch/acceleration/emit_cuda.hpp>
#include <tinytorch/acceleration/emit_cuda_rows.hpp>
#include <tinytorch/acceleration/executable.hpp>
#include <tinytorch/acceleration/fusion.hpp>
#include <tinytorch/acceleration/graph.hpp>
#include <tinytorch/acceleration/graph_chart.hpp>
#include <tinytorch/acceleration/guard.hpp>
#include <tinytorch/acceleration/host_compiler.hpp>
#include <tinytorch/acceleration/kernel_builder.hpp>
#include <tinytorch/acceleration/kernel_cache.hpp>
#include <tinytorch/acceleration/kernel_check.hpp>
#include <tinytorch/acceleration/kernel_support.hpp>
#include <tinytorch/acceleration/liveness.hpp>
#include <tinytorch/acceleration/lower.hpp>
#include <tinytorch/acceleration/nvrtc.hpp>
#include <tinytorch/acceleration/peak_chart.hpp>
#include <tinytorch/acceleration/plan.hpp>
#include <tinytorch/acceleration/prelude.hpp>
#include <tinytorch/acceleration/prelude_shim.hpp>
#include <tinytorch/acceleration/recompute.hpp>
#include <tinytorch/acceleration/region.hpp>
#include <tinytorch/acceleration/rehearsal.hpp>
#include <tinytorch/acceleration/row_groups.hpp>
#include <tinytorch/acceleration/row_program.hpp>
#include <tinytorch/acceleration/signature.hpp>
#include <tinytorch/acceleration/step_groups.hpp>
#include <tinytorch/acceleration/undo.hpp>
