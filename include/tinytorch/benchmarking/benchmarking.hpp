// Umbrella header of benchmarking/: how to measure, and what follows from the numbers.
//
//   measure.hpp      times contenders in turns; open_loop.hpp loads a server
//   statistics.hpp   intervals, tests and summaries of samples, a header for each
//   ranking.hpp      shared ranks and the Pareto front; block_ranking.hpp and turns.hpp those of a
//   leaderboard submission.hpp   files of a measurement from whose samples all numbers can be recomputed
//   document.hpp     tables and pages; svg.hpp and loss_curve.hpp charts
//
// It includes every header of the folder. A program that includes only the headers it needs compiles faster.
#pragma once

#include <tinytorch/benchmarking/block_ranking.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/benchmarking/distributions.hpp>
#include <tinytorch/benchmarking/document.hpp>
#include <tinytorch/benchmarking/hypothesis.hpp>
#include <tinytorch/benchmarking/loss_curve.hpp>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/benchmarking/open_loop.hpp>
#include <tinytorch/benchmarking/paired_auc.hpp>
#include <tinytorch/benchmarking/paired_ratio.hpp>
#include <tinytorch/benchmarking/peak.hpp>
#include <tinytorch/benchmarking/percentile_bound.hpp>
#include <tinytorch/benchmarking/ranking.hpp>
#include <tinytorch/benchmarking/rounds.hpp>
#include <tinytorch/benchmarking/samples.hpp>
#include <tinytorch/benchmarking/schedule.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <tinytorch/benchmarking/steady_state.hpp>
#include <tinytorch/benchmarking/submission.hpp>
#include <tinytorch/benchmarking/svg.hpp>
#include <tinytorch/benchmarking/turns.hpp>
