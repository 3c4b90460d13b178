"""Writes statistics.json: sample sets and what SciPy and NumPy say about them.

Run with numpy and scipy installed:  python3 tests/golden/make_statistics.py
Bootstrap bounds come from SciPy's percentile method with many resamples; the C++ test compares them within
the Monte Carlo error, everything else to rounding.
"""

import json
import pathlib

import numpy as np
import scipy
from scipy import stats

PERCENTS = [0, 1, 5, 25, 50, 75, 90, 95, 99, 99.9, 100]
QUANTILES = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1]


def nearest_rank(samples, percent):
    return float(np.percentile(samples, percent, method="inverted_cdf"))


def describe(samples):
    q1, q3 = np.percentile(samples, [25, 75])
    return {
        "samples": [float(x) for x in samples],
        "percentiles": [[p, nearest_rank(samples, p)] for p in PERCENTS],
        "quantiles": [[q, float(np.quantile(samples, q))] for q in QUANTILES],
        "median": float(np.median(samples)),
        "mean": float(np.mean(samples)),
        "geometric_mean": float(stats.gmean(samples)),
        "median_absolute_deviation": float(stats.median_abs_deviation(samples)),
        "fences": [float(q1 - 3 * (q3 - q1)), float(q1 - 1.5 * (q3 - q1)),
                   float(q3 + 1.5 * (q3 - q1)), float(q3 + 3 * (q3 - q1))],
    }


def interval(data, statistic, seed):
    result = stats.bootstrap(data, statistic, n_resamples=100_000, method="percentile", batch=2000,
                             vectorized=True, rng=np.random.default_rng(seed))
    return [float(result.confidence_interval.low), float(result.confidence_interval.high)]


def bootstrap_cases(rng):
    a = rng.lognormal(0.0, 0.5, 31)
    b = rng.lognormal(0.4, 0.3, 40)
    ratio = lambda x, y, axis=-1: np.median(x, axis=axis) / np.median(y, axis=axis)
    return {
        "a": a.tolist(),
        "b": b.tolist(),
        "mean": interval((a,), np.mean, 1),
        "median": interval((a,), np.median, 2),
        "ratio_of_medians": interval((a, b), ratio, 3),
    }


def proportion(hits, trials):
    p = hits / trials
    wilson = stats.binomtest(hits, trials).proportion_ci(0.95, method="wilson")
    return {
        "hits": hits,
        "trials": trials,
        "bootstrap": [float(stats.binom.ppf(q, trials, p)) / trials for q in (0.025, 0.975)],
        "wilson": [float(wilson.low), float(wilson.high)],
    }


def main():
    rng = np.random.default_rng(20240711)
    sets = [rng.lognormal(0.0, 0.7, n) for n in (1, 2, 3, 4, 10, 11, 100, 101)]
    sets.append(np.array([3.0, 3.0, 3.0, 3.0, 7.0]))
    golden = {
        "scipy": scipy.__version__,
        "numpy": np.__version__,
        "sets": [describe(s) for s in sets],
        "bootstrap": bootstrap_cases(rng),
        "proportions": [proportion(*c) for c in [(1, 2), (3, 10), (95, 100), (1, 400), (1940, 2000), (9987, 10000)]],
    }
    path = pathlib.Path(__file__).with_name("statistics.json")
    temporary = path.with_suffix(".json.tmp")
    temporary.write_text(json.dumps(golden, indent=1) + "\n")
    temporary.replace(path)


if __name__ == "__main__":
    main()
