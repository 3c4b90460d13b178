// Umbrella header of profiling/: where the time and the memory of a program go, and what the machine allows.
//
//   profiler.hpp   records every op of a thread; report.hpp and trace.hpp show the profile
//   memory.hpp     the memory that each part holds, over time and at the peak
//   cost.hpp       FLOPs and bytes without timing; summary.hpp for each module of a model
//   peaks.hpp      the machine's throughput and bandwidth; roofline.hpp the limit that follows from them
//   timer.hpp      the time of one call; change.hpp, ablation.hpp and amdahl.hpp what a change is worth
//
// It includes every header of the folder. A program that includes only the headers it needs compiles faster.
#pragma once

#include <tinytorch/profiling/ablation.hpp>
#include <tinytorch/profiling/amdahl.hpp>
#include <tinytorch/profiling/change.hpp>
#include <tinytorch/profiling/cost.hpp>
#include <tinytorch/profiling/device_spans.hpp>
#include <tinytorch/profiling/memory.hpp>
#include <tinytorch/profiling/occupancy.hpp>
#include <tinytorch/profiling/peaks.hpp>
#include <tinytorch/profiling/profile.hpp>
#include <tinytorch/profiling/profiler.hpp>
#include <tinytorch/profiling/report.hpp>
#include <tinytorch/profiling/roofline.hpp>
#include <tinytorch/profiling/roofline_chart.hpp>
#include <tinytorch/profiling/summary.hpp>
#include <tinytorch/profiling/timer.hpp>
#include <tinytorch/profiling/trace.hpp>
#include <tinytorch/profiling/transformer_formulas.hpp>
