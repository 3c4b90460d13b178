"""Writes statistics.json: sample sets and their statistics by SciPy and NumPy.

Run with numpy and scipy installed:  python3 tests/golden/make_statistics.py
Bootstrap bounds come from SciPy's percentile method with many resamples. The C++ test compares them within the Monte Carlo
error, and all other values within rounding errors.
"""

import json
import pathlib

import numpy as np
import scipy
from scipy import special, stats

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


ALTERNATIVES = ["two-sided", "less", "greater"]


def distribution_tails():
    return {
        "normal": [[z, float(stats.norm.sf(z))] for z in (-8, -1.5, 0, 0.3, 1.96, 5, 20)],
        "student_t": [[t, df, float(stats.t.sf(t, df))] for t in (-30, -2.5, -0.1, 0, 0.4, 1.7, 4, 60)
                      for df in (1, 2.5, 9, 37.3, 4000)],
        "binomial": [[k, n, p, float(stats.binom.cdf(k, n, p))]
                     for n, ks in ((1, (-1, 0, 1)), (7, (0, 3, 6)), (662, (1, 5, 9, 661)), (100_000, (900, 1000, 1100)))
                     for k in ks for p in (0.0, 0.01, 0.5, 0.999, 1.0)],
        "beta": [[x, a, b, float(special.betainc(a, b, x))] for x in (1e-9, 0.02, 0.5, 0.97)
                 for a, b in ((0.5, 0.5), (1, 3), (40, 2.5), (300, 5000))],
    }


def percentile_ranks():
    """Ranks of certified bounds and confidence intervals of percentiles, by a search over all ranks. The t-th largest of n
    samples is an upper bound (99 %) if at most 1 % of runs have fewer than t samples above the percentile."""
    bounds, intervals = [], []
    for percent in (0, 10, 50, 90, 95, 99, 99.9):
        for n in (1, 2, 10, 11, 63, 64, 129, 130, 661, 662, 6635, 6636, 20_000):
            good = np.flatnonzero(stats.binom.cdf(np.arange(n), n, 1 - percent / 100) <= 0.01)
            bounds.append([percent, n, int(good[-1] + 1) if len(good) and good[-1] >= 1 else None])
            low = np.flatnonzero(stats.binom.cdf(np.arange(n), n, percent / 100) <= 0.025)
            high = np.flatnonzero(stats.binom.sf(np.arange(n), n, percent / 100) <= 0.025)
            # high[0] = u - 1 for the smallest u with P(X >= u) <= 0.025
            both = len(low) and len(high)
            intervals.append([percent, n, int(low[-1] + 1) if both else None, int(high[0] + 1) if both else None])
    return {"bounds": bounds, "intervals": intervals}


def signed_rank_by_enumeration(d, alternative):
    """Wilcoxon's signed-rank test with midranks. The p-value is the share of all 2^n choices of signs with a statistic at
    least as extreme."""
    d = d[d != 0]
    ranks = stats.rankdata(np.abs(d))
    signs = (np.arange(2 ** len(d))[:, None] >> np.arange(len(d))) & 1
    sums, seen = signs @ ranks, float(ranks[d > 0].sum())
    less, greater = float(np.mean(sums <= seen)), float(np.mean(sums >= seen))
    return seen, {"less": less, "greater": greater, "two-sided": min(1.0, 2 * min(less, greater))}[alternative]


def hypothesis_tests(rng):
    whitney, signed, welch, kendall = [], [], [], []
    pairs = [(rng.lognormal(0, 0.4, n), rng.lognormal(shift, 0.5, m))
             for n, m, shift in ((1, 1, 0), (3, 3, 2), (4, 9, 0.5), (20, 17, 0.3), (60, 90, 0.3), (120, 150, -0.1))]
    pairs.append((np.round(rng.normal(5, 2, 30)), np.round(rng.normal(6, 2, 25))))
    pairs.append((np.array([1.0, 2, 2, 3]), np.array([2.0, 4, 4])))
    for a, b in pairs:
        for alternative in ALTERNATIVES:
            exact = len(a) * len(b) <= 10_000 and len(np.unique(np.r_[a, b])) == len(a) + len(b)
            r = stats.mannwhitneyu(a, b, alternative=alternative, method="exact" if exact else "asymptotic")
            whitney.append({"a": a.tolist(), "b": b.tolist(), "alternative": alternative,
                            "statistic": float(r.statistic), "p": float(r.pvalue)})
            if min(len(a), len(b)) >= 2:
                r = stats.ttest_ind(a, b, equal_var=False, alternative=alternative)
                welch.append({"a": a.tolist(), "b": b.tolist(), "alternative": alternative,
                              "statistic": float(r.statistic), "p": float(r.pvalue)})
    tied = [np.array([1.0, -1, 2, 2, -3, 0, 4, 4, 4, -1]), np.round(rng.normal(0.5, 2, 14)), np.array([0.5]),
            np.round(rng.normal(0.2, 3, 320))]
    for d in [rng.normal(0.3, 1, n) for n in (2, 7, 12, 45, 300)] + tied:
        for alternative in ALTERNATIVES:
            if len(d) <= 14:
                statistic, p = signed_rank_by_enumeration(d, alternative)
            else:
                large = len(d) > 200
                less = stats.wilcoxon(d, alternative="greater", method="asymptotic" if large else "exact",
                                      correction=large)
                statistic = float(less.statistic)  # sum of the ranks of positive differences
                p = float(stats.wilcoxon(d, alternative=alternative, method="asymptotic" if large else "exact",
                                         correction=large).pvalue)
            signed.append({"differences": d.tolist(), "alternative": alternative, "statistic": statistic, "p": p})
    for n in (2, 5, 11, 50):
        series = rng.normal(0, 1, n) + 0.02 * np.arange(n)
        for alternative in ALTERNATIVES:
            r = stats.kendalltau(np.arange(n), series, alternative=alternative, method="exact")
            kendall.append({"series": series.tolist(), "alternative": alternative,
                            "statistic": round(float(r.statistic) * n * (n - 1) / 2), "p": float(r.pvalue)})
    return {"mann_whitney": whitney, "signed_rank": signed, "welch": welch, "mann_kendall": kendall}


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
        "tails": distribution_tails(),
        "ranks": percentile_ranks(),
        "tests": hypothesis_tests(np.random.default_rng(20240712)),
    }
    path = pathlib.Path(__file__).with_name("statistics.json")
    temporary = path.with_suffix(".json.tmp")
    temporary.write_text(json.dumps(golden, indent=1) + "\n")
    temporary.replace(path)


if __name__ == "__main__":
    main()
