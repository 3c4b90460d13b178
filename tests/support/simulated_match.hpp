// Matches without processes: the latencies of two contenders on a simulated machine, in the order in which a
// match asks, ranked by the judge's own functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <support/noise.hpp>
#include <tinymlperf/judge/match/contender_process.hpp>
#include <tinymlperf/judge/match/run_class.hpp>
#include <tinymlperf/judge/results/match_ranks.hpp>
#include <tinytorch/benchmarking/schedule.hpp>
#include <tinytorch/core/random.hpp>
#include <utility>
#include <vector>

namespace test {

// Factors on the time of work, as other programs and the clock rate of a shared machine cause them. Times are
// in seconds. Values near these were seen on a virtual machine with two cores beside a compiler.
//
//   drift     an autoregressive walk of the logarithm: 3 % (standard deviation), forgotten after 20 s
//   bursts    another program takes the core for 0.1 s on average and leaves it for 0.3 s, in spells of
//             10 s on average, between which the machine is quiet; work takes 1.5 times as long meanwhile
//   tails     noise of 2 % with Student's t of 2 degrees of freedom: infinite variance
class MachineNoise {
 public:
  explicit MachineNoise(tinytorch::Generator& random) : random_(random) {
    drift_ = kDrift * normal_number(random_);
    is_spell_ = random_.uniform() < 0.5;
  }
  // The factor on work that begins now, and the time that passes meanwhile.
  double operator()(double seconds) {
    pass(seconds);
    const double tails = std::clamp(0.02 * heavy_number(random_), -0.1, 3.0);
    return std::exp(drift_ + tails) * (is_burst_ ? 1.5 : 1.0);
  }
  void pass(double seconds) {
    const double kept = std::exp(-seconds / 20);
    drift_ = kept * drift_ + kDrift * std::sqrt(1 - kept * kept) * normal_number(random_);
    if (ends(seconds, 10)) is_spell_ = !is_spell_;
    if (ends(seconds, is_burst_ ? 0.1 : 0.3)) is_burst_ = !is_burst_ && is_spell_;
  }

 private:
  static constexpr double kDrift = 0.03;
  bool ends(double seconds, double mean) { return random_.uniform() < 1 - std::exp(-seconds / mean); }

  tinytorch::Generator& random_;
  double drift_ = 0;
  bool is_spell_ = false, is_burst_ = false;
};

// Factors that were measured one after another on a real machine, each of work of `slice` seconds, replayed
// from a random place.
class RecordedNoise {
 public:
  RecordedNoise(const std::vector<double>& factors, double slice, tinytorch::Generator& random)
      : factors_(factors), slice_(slice), at_(random.uniform(0.0, static_cast<double>(factors.size()))) {}
  double operator()(double seconds) {
    double sum = 0, left = seconds / slice_;  // work in slices
    const double all = left;
    while (left > 0) {
      const double part = std::min(left, std::floor(at_) + 1 - at_);
      sum += part * factors_[static_cast<size_t>(at_) % factors_.size()];
      left -= part, at_ += std::max(part, 1e-9);
    }
    return sum / all;
  }
  void pass(double seconds) { at_ += seconds / slice_; }

 private:
  const std::vector<double>& factors_;
  double slice_, at_;
};

struct SimulatedPair {
  double seconds = 5e-3;  // of a query of the first
  double ratio = 1;       // the second takes so many times as long
};

// The record of a match of two in the scenario single_stream.
template <class Noise>
tinymlperf::judge::RunDocument simulated_match(const tinymlperf::judge::RunClass& c,
                                               const SimulatedPair& pair, Noise& noise,
                                               tinytorch::Generator& random) {
  using namespace tinymlperf::judge;
  constexpr double kPlacement = 0.01;  // of the pages of a process, for as long as it lives
  RunDocument d;
  d.run_class = c.name, d.quality_floor = 0.5;
  d.contenders.resize(2);
  for (ContenderRecord& r : d.contenders) r.quality = Interval{0.9, 0.9, 0.9};
  double placement[2] = {kPlacement * normal_number(random), kPlacement * normal_number(random)};
  size_t number = 0;
  const size_t rounds = rounds_of(c, d.scenario), turns = 2 * c.blocks * rounds;
  const auto least = std::max<int64_t>(c.queries / static_cast<int64_t>(rounds), rounds > 1 ? 3 : 1);
  for (const auto& round :
       tinytorch::benchmarking::mirrored_blocks(2, c.blocks * rounds, random.below(UINT64_MAX))) {
    const size_t block = number / rounds;
    if (number++ % rounds == 0 && is_fresh_process_due(block, c.blocks, c.processes))
      for (double& p : placement) p = kPlacement * normal_number(random), noise.pass(1);
    for (const size_t who : round) {
      Turn turn;
      const double work = pair.seconds * (who == 1 ? pair.ratio : 1.0) * std::exp(placement[who]);
      const double length = c.seconds / static_cast<double>(turns);
      noise.pass((rounds > 1 ? 1 : 3) * work);  // queries that fill the caches
      while (turn.seconds < length || static_cast<int64_t>(turn.latencies.size()) < least) {
        turn.latencies.push_back(work * noise(work));
        turn.seconds += turn.latencies.back(), ++turn.samples;
      }
      // Half of the timed queries are new samples at most; the rest of the turn's share is not timed.
      const double untimed =
          static_cast<double>(c.hidden) / static_cast<double>(turns) - static_cast<double>(turn.samples) / 2;
      noise.pass(std::max(untimed, 0.0) * work);
      d.contenders[who].turns.push_back(std::move(turn));
    }
  }
  return d;
}

// Counts over many matches: in how many two entries had different ranks, and the right order.
struct Separation {
  int64_t matches = 0, apart = 0, in_order = 0;
  double share() const { return static_cast<double>(apart) / static_cast<double>(matches); }
  double power() const { return static_cast<double>(in_order) / static_cast<double>(matches); }
};

// `noise(random)` makes the noise of one match.
template <class MakeNoise>
Separation separation(const tinymlperf::judge::RunClass& c, const SimulatedPair& pair, int64_t matches,
                      uint64_t seed, MakeNoise&& noise) {
  tinytorch::Generator random(seed);
  Separation out;
  for (; out.matches < matches; ++out.matches) {
    auto machine = noise(random);
    const auto ranks = tinymlperf::judge::match_ranks(simulated_match(c, pair, machine, random));
    out.apart += ranks[0] != ranks[1];
    out.in_order += ranks[0].value() < ranks[1].value();
  }
  return out;
}

}  // namespace test
