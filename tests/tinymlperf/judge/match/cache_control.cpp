// The control's walk on a simulated cache with a clock of its own, so no result depends on the machine.
#include <tinymlperf/judge/match/cache_control.hpp>

#include <doctest/doctest.h>

#include <list>
#include <stdexcept>
#include <support/audited_run.hpp>
#include <tinymlperf/judge/results/verify_run.hpp>
#include <unordered_map>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

// Memory behind a cache of `room` lines that forgets the line that was not used for the longest time. A line
// that it does not hold takes `miss` seconds, and another one a 25th of it.
class SimulatedMemory {
 public:
  SimulatedMemory(uint64_t lines, size_t room, double miss = 100e-9)
      : lines_(lines), room_(room), miss_(miss) {}
  uint64_t lines() const { return lines_; }
  double now() const { return now_; }
  uint64_t read(uint64_t line) {
    if (line >= lines_) throw std::out_of_range("a read beyond the table");
    const auto found = places_.find(line);
    now_ += found == places_.end() ? miss_ : miss_ / 25;
    if (found != places_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second);
    } else {
      recent_.push_front(line), places_[line] = recent_.begin();
      if (recent_.size() > room_) places_.erase(recent_.back()), recent_.pop_back();
    }
    return line * 0x9E3779B97F4A7C15u;
  }

 private:
  uint64_t lines_;
  size_t room_;
  double miss_, now_ = 0;
  std::list<uint64_t> recent_;
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> places_;
};

CacheEffect effect_of(uint64_t lines, size_t room, const ControlledWork& work) {
  SimulatedMemory memory(lines, room);
  return TableWalk(memory, work)(7);
}
constexpr ControlledWork kWork{.bytes = 1 << 20, .samples = 200, .samples_per_query = 1, .seconds = 20e-6};

}  // namespace

TEST_CASE("a table that the cache holds is walked equally fast for new and repeated samples") {
  const CacheEffect e = effect_of(500, 1000, kWork);
  CHECK(e.bytes == 1 << 20);
  REQUIRE(e.fresh.size() == 24);
  REQUIRE(e.again.size() == 24);
  REQUIRE(e.known.size() == 24);
  CHECK(cache_gain(e, e.again).ratio < 1.02);
  CHECK(cache_gain(e, e.known).ratio < 1.02);
}

TEST_CASE("a table larger than the cache: the sample just before is found there, all others are not") {
  const CacheEffect e = effect_of(1 << 20, 1000, kWork);
  CHECK(cache_gain(e, e.again).ratio == doctest::Approx(25).epsilon(0.05));  // 100 ns to 4 ns
  CHECK(cache_gain(e, e.known).ratio < 1.3);  // some of 200 samples came just before
  CHECK(tinytorch::statistics::median(e.fresh) == doctest::Approx(20e-6).epsilon(0.1));
}

TEST_CASE("a cache that holds every known sample gains for these, too") {
  const CacheEffect e = effect_of(1 << 24, 200'000, kWork);
  CHECK(cache_gain(e, e.known).ratio == doctest::Approx(25).epsilon(0.05));
}

TEST_CASE("queries of several samples take as many times as long") {
  ControlledWork eight = kWork;
  eight.samples_per_query = 8;
  const CacheEffect e = effect_of(1 << 20, 1000, eight);
  CHECK(tinytorch::statistics::median(e.fresh) == doctest::Approx(160e-6).epsilon(0.1));
  CHECK(cache_gain(e, e.again).ratio < 1.02);  // 8 x 200 lines do not fit
  CHECK(effect_of(1 << 20, 10'000, eight).again[5] == doctest::Approx(8 * 200 * 4e-9).epsilon(0.1));
}

TEST_CASE("a contender that is slow or was hardly asked is controlled within seconds") {
  for (const int64_t each : {int64_t{1}, int64_t{400}}) {
    SimulatedMemory memory(5000, 1000, 100e-6);
    CacheEffect e =
        TableWalk(memory, {.bytes = 0, .samples = 1, .samples_per_query = each, .seconds = 30})(1);
    CHECK(memory.now() < 120);  // of simulated time
    CHECK(std::ranges::all_of(e.again, [](double x) { return x > 0; }));
  }
}

TEST_CASE("the machine's memory is at least 64 KiB and at most 1 GiB, and its reads depend on the line") {
  CHECK(MachineMemory(0).lines() == 1024);
  CHECK(MachineMemory(-5).lines() == 1024);
  CHECK(MachineMemory(1 << 20).lines() == (1 << 20) / 64);
  const MachineMemory memory(1 << 20);
  CHECK(memory.read(0) != memory.read(1));
  CHECK(memory.read(memory.lines() - 1) != memory.read(1));
  const CacheEffect e = measure_cache_effect(kWork, 3);
  CHECK(e.fresh.size() == 24);
  CHECK(e.known.size() == 24);
}

namespace {

// Turns of queries that take `seconds`, with 3 % of noise.
std::vector<Turn> turns_of(double seconds, uint64_t seed) {
  tinytorch::Generator random(seed);
  std::vector<Turn> out(24);
  for (Turn& t : out)
    for (int q = 0; q < 30; ++q) {
      t.latencies.push_back(seconds * random.uniform(0.97, 1.03));
      t.seconds += t.latencies.back(), ++t.samples;
    }
  return out;
}

CacheEffect made_up_effect(double again, double known) {
  tinytorch::Generator random(9);
  CacheEffect e{.bytes = 256 << 20};
  for (int i = 0; i < 24; ++i) {
    const auto noisy = [&](double x) { return x * random.uniform(0.98, 1.02); };
    e.fresh.push_back(noisy(250e-6)), e.again.push_back(noisy(250e-6 / again));
    e.known.push_back(noisy(250e-6 / known));
  }
  return e;
}

}  // namespace

TEST_CASE("a gain that caches explain is held for review, and a larger one puts its contender out") {
  constexpr Scenario kForm = Scenario::single_stream;
  const auto slow = turns_of(250e-6, 1), quick = turns_of(250e-6 / 5, 2), equal = turns_of(250e-6, 3);
  CHECK(accuses(same_sample_audit(kForm, slow, quick)));  // as before, without a control
  const AuditResult held = same_sample_audit(kForm, slow, quick, made_up_effect(6, 1));
  CHECK_FALSE(held.passed);
  CHECK_FALSE(accuses(held));
  CHECK_FALSE(is_decided(held));
  CHECK(held.detail.find("walk through 256 MiB 6.") != std::string::npos);
  CHECK(accuses(same_sample_audit(kForm, slow, quick, made_up_effect(3, 9))));  // only `again` counts here
  // The answers to samples among all others are compared with the control's `known`.
  CHECK(accuses(other_seed_audit(kForm, quick, slow, made_up_effect(9, 1))));
  CHECK_FALSE(accuses(other_seed_audit(kForm, quick, slow, made_up_effect(1, 6))));
  // A control of any size excuses nothing that needs no excuse, and condemns nobody.
  CHECK(same_sample_audit(kForm, slow, equal, made_up_effect(9, 9)).passed);
  CHECK(same_sample_audit(kForm, slow, equal, made_up_effect(0.5, 0.5)).passed);
  CHECK(accuses(same_sample_audit(kForm, slow, quick, made_up_effect(0.2, 0.2))));
}

TEST_CASE("remembered answers within the timed turns: held if caches explain them, and else out") {
  std::vector<Turn> turns = turns_of(250e-6, 4);
  std::vector<std::string> marks;
  for (Turn& t : turns) {
    std::string& of = marks.emplace_back();
    for (size_t q = 0; q < t.latencies.size(); ++q) {
      of += q % 3 == 0 ? '1' : '0';
      if (of.back() == '0') t.latencies[q] /= 4;
    }
  }
  CHECK(accuses(repeated_audit(turns, marks)));
  CHECK(accuses(repeated_audit(turns, marks, made_up_effect(9, 2))));
  const AuditResult held = repeated_audit(turns, marks, made_up_effect(9, 5));
  CHECK_FALSE(held.passed);
  CHECK_FALSE(is_decided(held));
}

TEST_CASE("the control is kept in the run's file, and audits that do not follow from it are found") {
  RunDocument d = test::audited_run(Scenario::single_stream);
  ContenderRecord& c = d.contenders[1];
  for (Turn& t : c.evidence.same)
    for (double& x : t.latencies) x /= 4;
  c.evidence.caches = made_up_effect(6, 1);
  c.audits = measured_audits(d.scenario, c.turns, c.evidence, std::nullopt);
  const Json file = to_json(d);
  CHECK(tinymlperf::run_complaint(file) == "");
  CHECK(to_json(read_run_document(file)) == file);
  const auto edited = [&](auto&& edit) {
    Json copy = file;
    edit(copy["contenders"][1]["evidence"]);
    copy[kChain] = chain_of(copy);
    return tinymlperf::run_complaint(copy);
  };
  CHECK(edited([](Json& e) { e.erase("caches"); }).find("audit A2") != std::string::npos);
  CHECK(edited([](Json& e) { e["caches"]["bytes"] = 1 << 20; }).find("audit A2") != std::string::npos);
  for (const char* kind : {"fresh", "again", "known"}) {
    CHECK_THROWS_WITH(edited([&](Json& e) { e["caches"][kind].erase(0); }),
                      doctest::Contains("as many positive times"));
    CHECK_THROWS_WITH(edited([&](Json& e) { e["caches"][kind][3] = 0; }),
                      doctest::Contains("as many positive times"));
  }
}
