// The honest control of the audits A2, A3 and A13: a walk through a table as large as the memory that the
// contender has filled. It remembers nothing, so its repeated samples are faster by the machine's caches
// alone.
//
// A sample is a chain of dependent reads: each line of the table says where the next read is. The chain of a
// new sample takes as long as the contender needs for one, so all of this time is spent waiting for memory,
// and no honest program of this size gains more by caches. The gain is an upper bound, not an excuse
// (measured_audits.hpp): a contender within it is held for review.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <tinymlperf/judge/results/evidence.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/benchmarking/schedule.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tinymlperf::judge {

// The machine's memory. Tests replace it by a simulated cache with a clock of its own.
class MachineMemory {
 public:
  // A cache line has 64 bytes. 1 GiB is larger than every cache, and more would only take longer.
  explicit MachineMemory(int64_t bytes)
      : words_(static_cast<size_t>(std::clamp<int64_t>(bytes, int64_t{64} << 10, int64_t{1} << 30) / 8)) {
    uint64_t x = 1;
    for (uint64_t& word : words_) word = x = x * 6364136223846793005u + 1442695040888963407u;
  }
  uint64_t lines() const { return words_.size() / 8; }
  uint64_t read(uint64_t line) const { return words_[8 * line]; }
  double now() const { return tinytorch::benchmarking::SteadyClock()(); }

 private:
  std::vector<uint64_t> words_;
};

// The work that a contender was given: samples of the hidden set, samples of a query, and seconds of a new
// sample.
struct ControlledWork {
  int64_t bytes = 0;  // memory that it filled
  int64_t samples = 0, samples_per_query = 1;
  double seconds = 0;
};

template <class Memory>
class TableWalk {
 public:
  TableWalk(Memory& memory, const ControlledWork& work) : memory_(memory), work_(work) {
    // A shorter chain has a larger gain, so a contender loses nothing by this limit.
    constexpr double kLongest = 10.0 / (4 * kBlocks);
    const double each =
        std::min(work.seconds, kLongest / static_cast<double>(std::max<int64_t>(work.samples_per_query, 1)));
    steps_ = steps_within(each);
    const auto affordable = static_cast<int64_t>(2.0 / std::max(each, 1e-6));
    known_ = std::max<int64_t>(std::min(work.samples, affordable), work.samples_per_query);
  }

  // Times of new queries, of queries that repeat the one just before, and of queries on samples that were
  // asked among all others.
  CacheEffect operator()(uint64_t seed) {
    tinytorch::Generator random(seed);
    CacheEffect out{.bytes = work_.bytes};
    for (int64_t s = 0; s < known_; ++s) walk(static_cast<uint64_t>(s));
    std::vector<uint64_t> few(static_cast<size_t>(work_.samples_per_query)), query = few;
    std::iota(few.begin(), few.end(), uint64_t{0});
    for (const auto& block : tinytorch::benchmarking::random_blocks(3, kBlocks, seed))
      for (const size_t kind : block) {
        if (kind == 0)
          for (uint64_t& s : query) s = fresh_++;
        if (kind == 1) (void)seconds_of(few), query = few;
        if (kind == 2)
          for (uint64_t& s : query) s = random.below(static_cast<uint64_t>(known_));
        const std::array<std::vector<double>*, 3> times{&out.fresh, &out.again, &out.known};
        times[kind]->push_back(seconds_of(query));
      }
    return out;
  }

 private:
  static constexpr size_t kBlocks = 24;

  void walk(uint64_t sample) {
    uint64_t at = (sample + 1) * 0x9E3779B97F4A7C15u;
    for (int64_t i = 0; i < steps_; ++i) {
      at = (at ^ (at >> 29)) * 0xBF58476D1CE4E5B9u;
      at += memory_.read(((at >> 32) * memory_.lines()) >> 32);
    }
    end_ = end_ + at;
  }
  double seconds_of(const std::vector<uint64_t>& query) {
    const double start = memory_.now();
    for (const uint64_t s : query) walk(s);
    return std::max(memory_.now() - start, 1e-9);
  }
  int64_t steps_within(double seconds) {
    constexpr double kTrial = 20e-3;
    steps_ = 64;
    const double start = memory_.now();
    double took = 0;
    int64_t walked = 0;
    for (; took < kTrial; took = memory_.now() - start) walk(fresh_++), walked += steps_;
    return std::clamp<int64_t>(static_cast<int64_t>(seconds / took * static_cast<double>(walked)), 1,
                               int64_t{1} << 24);
  }

  Memory& memory_;
  ControlledWork work_;
  int64_t steps_ = 1, known_ = 1;
  uint64_t fresh_ = uint64_t{1} << 32;  // the next sample that was never walked
  volatile uint64_t end_ = 0;           // keeps the compiler from leaving a walk out
};

inline CacheEffect measure_cache_effect(const ControlledWork& work, uint64_t seed) {
  MachineMemory memory(work.bytes);
  return TableWalk(memory, work)(seed);
}

// Seconds of a new sample, by the turns of audit A3.
inline double seconds_of_new(const std::vector<Turn>& fresh) {
  std::vector<double> each;
  for (const Turn& t : fresh) each.push_back(t.seconds / static_cast<double>(t.samples));
  return tinytorch::statistics::median(each);
}

}  // namespace tinymlperf::judge
