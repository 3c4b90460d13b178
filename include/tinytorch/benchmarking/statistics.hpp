// Statistics of measurements, one header per idea.
//
// Plain double arithmetic on finite samples; functions throw TT-STAT-01 on an empty or non-finite input. What
// is random draws from Philox: a result is a pure function of (samples, options).
#pragma once

// Tails of the normal, t and binomial distributions.
#include <tinytorch/benchmarking/distributions.hpp>
// One set of samples: percentiles, mean, median, spread, outlier labels.
#include <tinytorch/benchmarking/samples.hpp>
// What percentile can be vouched for after n samples, and with which bound.
#include <tinytorch/benchmarking/percentile_bound.hpp>
// Intervals of any statistic by resampling samples, processes or pairs; intervals of a share.
#include <tinytorch/benchmarking/bootstrap.hpp>
// Could chance alone have made this difference? Mann-Whitney, signed ranks, Welch.
#include <tinytorch/benchmarking/hypothesis.hpp>
// How many times faster, from blocks in which both took turns; new records.
#include <tinytorch/benchmarking/paired_ratio.hpp>
// Areas under the ROC curve of two that scored the same samples.
#include <tinytorch/benchmarking/paired_auc.hpp>
// Shared ranks, Pareto front, hypervolume.
#include <tinytorch/benchmarking/ranking.hpp>
//
#include <tinytorch/benchmarking/block_ranking.hpp>
// Has a series of timings settled, or does it still drift?
#include <tinytorch/benchmarking/steady_state.hpp>
