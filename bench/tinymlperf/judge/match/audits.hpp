// Audits: tests that a contender fails if it cheats, decided from numbers alone.
//
//   A1 agreement     every timed answer is the same as the graded one
//   A2 same sample   a repeated sample is answered no faster: nothing is remembered between queries
//   A3 other seed    samples of another seed are answered no slower: nothing was prepared for the hidden set
//   A4 length        a continuation has as many tokens as were asked for, and the ones that were streamed
//   A5 fingerprint   an output is the same after all work has ended as when it was given
//   A6 floor         no time is below what the arithmetic and the bytes take at this machine's measured peak
//   A7 clock         the machine was not much slower in some turns than in others
//   A8 claims        the author promised no more than was measured
//   A9 convergence   a training needs no fewer epochs than the reference (training_match.hpp)
//   A10 host clock   the times of a GPU's events agree with the host's clock
//   A11 leap         a result of 10 times the best of its table is held, like one that fails A9
//   A12 replay       packed weights are the bytes that the judge gets from the baseline, and floats of the
//                    closed division are the baseline's (replay.hpp)
//   A13 repeated     within the timed turns, repeated samples are answered no faster than new ones
//   A14 text         generated text is likely by the baseline's scores (text_checks.hpp)
//   A15 invariance   a server's answers do not depend on the queries that wait beside them (beside.hpp)
//   A16 near misses  what is kept of a prompt serves no other prompt and no other salt
//
// A1 to A7 and A13 to A16 of models are decided by results/measured_audits.hpp.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tinymlperf/judge/results/measured_audits.hpp>
#include <tinymlperf/judge/results/run_document.hpp>
#include <tinytorch/benchmarking/clock.hpp>

namespace tinymlperf::judge {

// C1: findings of entries/static_rules.hpp in the source. They are reasons to look, not a verdict.
inline AuditResult source_audit(const std::vector<std::string>& reasons) {
  std::string detail;
  for (const std::string& reason : reasons) detail += (detail.empty() ? "look at " : "; ") + reason;
  return {"C1", "source", true, detail.empty() ? "nothing in it asks to be looked at" : detail};
}

// On a GPU an output stays where its kernel wrote it, and is read again after a later launch.
inline AuditResult fingerprint_audit(int64_t outputs, int64_t changed) {
  return {"A5", "output fingerprint", outputs > 0 && changed == 0,
          fmt::format("{} of {} outputs changed after they were given", changed, outputs)};
}

// Compares the times by the GPU's events, by the clock of the launching host, and by the judge's clock around
// both. Returns why they contradict each other; empty if they do not. Short times are mostly the way to the
// GPU.
inline std::string host_clock_complaint(double events, double host, double judge) {
  constexpr double kLong = 1e-3, kLaunch = 100e-6, kShare = 0.9;  // seconds; kLaunch: overhead of a launch
  if (!(events > 0 && events <= host && host <= judge))
    return fmt::format(
        "audit A10, host clock: {:.3g} s by the GPU's events, {:.3g} s by the host's clock, {:.3g} s by the "
        "judge's",
        events, host, judge);
  if (host > kLong && events < kShare * (host - kLaunch))
    return fmt::format(
        "audit A10, host clock: {:.3g} s by the GPU's events, but {:.3g} s by the host's clock", events,
        host);
  return "";
}
// Other work of the host may come between a launch and its end now and then, but not in every tenth call. A
// contender that hid work in fewer calls would gain nothing, since medians count.
inline AuditResult host_clock_audit(int64_t times, int64_t implausible) {
  return {"A10", "host clock", times > 0 && 10 * implausible <= times,
          fmt::format("{} of {} times by the GPU's events are not what the host's clock says", implausible,
                      times)};
}

// `ratio` is times the baseline. `best` is that of the best ranked in the table, at least the baseline's 1.
inline AuditResult leap_audit(double ratio, double best) {
  constexpr double kLeap = 10;
  return {"A11", "leap", ratio <= kLeap * best,
          fmt::format("{:.3g} times the baseline, the best of the table {:.3g}{}", ratio, best,
                      ratio <= kLeap * best ? "" : "; held until somebody has looked at it")};
}

// Peak rates of this machine, which no program exceeds. Other work during their measurement makes the machine
// look slower than it is, so before an answer is called too fast they are measured again, and the best of all
// measurements counts.
class RemeasuredPeaks {
 public:
  struct Rates {
    double flops_per_second = 0, bytes_per_second = 0;  // 0: not known
  };
  RemeasuredPeaks() = default;  // nothing is known, so nothing is too fast
  explicit RemeasuredPeaks(std::function<Rates()> measure)
      : measure_(std::move(measure)), best_(measure_()) {}

  // The least time of so much work. Measures again while it exceeds `taken` seconds. 0 flops: not known.
  double least_seconds(double flops, double bytes, double taken) {
    constexpr int kRepeats = 10;
    for (; measure_ && repeats_ < kRepeats && taken < least_seconds(flops, bytes); ++repeats_) {
      const Rates again = measure_();
      best_ = {std::max(best_.flops_per_second, again.flops_per_second),
               std::max(best_.bytes_per_second, again.bytes_per_second)};
    }
    return least_seconds(flops, bytes);
  }

 private:
  double least_seconds(double flops, double bytes) const {
    return std::max(best_.flops_per_second > 0 ? flops / best_.flops_per_second : 0,
                    best_.bytes_per_second > 0 ? bytes / best_.bytes_per_second : 0);
  }

  std::function<Rates()> measure_;
  Rates best_;
  int repeats_ = 0;
};

// flops and bytes are those of one sample.
inline double least_seconds_of(const std::vector<Turn>& turns, RemeasuredPeaks& machine, double flops,
                               double bytes) {
  return machine.least_seconds(flops, bytes, fastest_of(turns));
}
inline AuditResult floor_audit(const std::vector<Turn>& turns, RemeasuredPeaks& machine, double flops,
                               double bytes) {
  return floor_audit(turns, least_seconds_of(turns, machine, flops, bytes));
}

// Seconds of a fixed piece of arithmetic, about a tenth of a millisecond, the best of five: it shows the
// current clock rate. The compiler must not know its first number, from which all others follow.
inline double reference_seconds() {
  double best = std::numeric_limits<double>::infinity();
  volatile double number = 3;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const tinytorch::benchmarking::SteadyClock clock;
    const double start = clock();
    double x = number;
    for (int i = 0; i < 50000; ++i) x = x * 0.5 + 0.5;
    number = x + 2;
    best = std::min(best, clock() - start);
  }
  return best;
}

// A claim names the quality ("accuracy") or a scenario, and then promises its measure; other claims are not
// audited. A promise may be a tenth better than the measurement, since machines differ.
inline AuditResult claims_audit(const RunDocument& d, const ContenderRecord& c,
                                const std::vector<std::pair<std::string, double>>& claims) {
  AuditResult out{"A8", "claims", true, "nothing was promised of this"};
  const std::optional<double> value = value_of(d.scenario, c);
  for (const auto& [metric, promised] : claims) {
    double measured = 0;
    bool kept = true;
    if (metric == d.quality_metric && c.quality) {
      measured = c.quality->estimate, kept = promised <= c.quality->high;
    } else if (metric == name_of(d.scenario) && value) {
      measured = *value;
      kept =
          measure_of(d.scenario).higher_is_better ? promised <= 1.1 * measured : promised >= measured / 1.1;
    } else {
      continue;
    }
    out.detail = fmt::format("{}: {:g} was promised, {:.4g} was measured", metric, promised, measured);
    out.passed = kept;
    if (!kept) return out;
  }
  return out;
}

}  // namespace tinymlperf::judge
