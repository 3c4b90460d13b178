// Statistics of measurements; each header has one topic.
//
// Plain double arithmetic on finite samples; functions throw TT-STAT-01 on empty or non-finite input. Random
// numbers come from Philox, so a result is a pure function of (samples, options).
#pragma once

// Tails of the normal, t and binomial distributions.
#include <tinytorch/benchmarking/distributions.hpp>
// One set of samples: percentiles, mean, median, spread, outlier labels.
#include <tinytorch/benchmarking/samples.hpp>
// Upper bounds and intervals of percentiles, and the number of samples that they need.
#include <tinytorch/benchmarking/percentile_bound.hpp>
// Intervals of any statistic by resampling samples, processes or pairs; intervals of a proportion.
#include <tinytorch/benchmarking/bootstrap.hpp>
// Hypothesis tests: Mann-Whitney, signed ranks, Welch.
#include <tinytorch/benchmarking/hypothesis.hpp>
// Speedups from blocks in which both took turns; new records.
#include <tinytorch/benchmarking/paired_ratio.hpp>
// Comparison of two areas under the ROC curve of the same samples.
#include <tinytorch/benchmarking/paired_auc.hpp>
// Shared ranks, Pareto front, hypervolume.
#include <tinytorch/benchmarking/ranking.hpp>
// Ranks of contenders of the same blocks.
#include <tinytorch/benchmarking/block_ranking.hpp>
// Tests if a series of timings has settled or still drifts.
#include <tinytorch/benchmarking/steady_state.hpp>
