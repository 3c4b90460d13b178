// Matches between real processes: honest contenders are graded and compared, a cheat is out with the reason.
#include <doctest/doctest.h>

#include <support/scene.hpp>
#include <tinymlperf/benchmarks/digits.hpp>
#include <tinymlperf/entries/plugin.hpp>
#include <tinymlperf/judge/match/match.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

// Sums up the ink of ten stripes: wrong, but always the same; takes so many microseconds a sample on top.
int stripes(const hostile::Arguments& args) {
  const std::string kind = args.at(0);
  const auto microseconds = static_cast<useconds_t>(std::stoi(args.at(1)));
  int64_t queries = 0;
  return serve([&, kind](const Query& query) -> Tensors {
    const auto pixels = query.inputs.at(0).values<float>();
    const size_t samples = pixels.size() / 784;
    std::vector<float> scores(10 * samples);
    for (size_t i = 0; i < pixels.size(); ++i) scores[i / 784 * 10 + i % 784 * 10 / 784] += pixels[i];
    ++queries;
    // Each sample was asked once by then, so each further answer is compared.
    if (kind == "changes its mind" && queries > 300)
      for (size_t i = 0; i < samples; ++i) scores[10 * i + static_cast<size_t>(queries % 10)] += 1e6f;
    if (kind == "too few") scores.resize(9);
    if (kind == "not a number") scores[3] = NAN;
    if (kind == "crashes" && queries > 5) hostile::crash();
    if (kind == "has 96 MiB" && queries == 5) {
      const std::vector<char> all(size_t{96} << 20, 1);
      scores[0] += static_cast<float>(all.back() - 1);
    }
    if (kind == "slow at first" && queries <= 30) usleep(5000);
    if (microseconds > 0) usleep(static_cast<useconds_t>(samples) * microseconds);
    return {make_tensor({static_cast<int64_t>(scores.size())}, scores)};
  });
}

[[gnu::constructor]] void start_as_child(int argc, char** argv) {
  hostile::maybe_perform(argc, argv, {{"stripes", stripes}});
}

const auto& machine() { return test::machines()[0].offers; }
constexpr RunClass kTiny{"tiny", 0.1, 10, 6, 256};

std::vector<Contender> play(const test::Scene& scene, Scenario scenario,
                            const std::vector<std::pair<std::string, std::string>>& who,
                            const Watcher& watcher = {}) {
  DigitsBenchmark benchmark, fresh;
  benchmark.draw(kTiny.hidden, 77);
  fresh.draw(kTiny.hidden, 78);
  std::vector<Contender> contenders;
  for (const auto& [kind, microseconds] : who) {
    contenders.push_back({});
    contenders.back().record.name = kind;
    contenders.back().session = std::make_unique<channel::Session>(
        scene.child({"stripes", kind, microseconds}), scene.policy, machine());
  }
  Match({benchmark, fresh}, scenario, kTiny, 5, {}, watcher)(contenders);
  return contenders;
}

}  // namespace

TEST_CASE("contenders are graded and compared: one that takes longer is behind, by about as much") {
  const test::Scene scene;
  for (const Scenario s : {Scenario::single_stream, Scenario::multi_stream, Scenario::offline}) {
    CAPTURE(name_of(s));
    const auto contenders = play(scene, s, {{"honest", "200"}, {"honest", "800"}});
    for (const Contender& c : contenders) {
      CHECK_MESSAGE(c.record.out.empty(), c.record.out);
      REQUIRE(c.record.quality);
      CHECK(c.record.quality->estimate == contenders[0].record.quality->estimate);
      CHECK(c.record.credit.size() == 256);
      CHECK(c.record.turns.size() == 12);
    }
    const auto ratio = times_the_baseline(s, contenders[1].record, contenders[0].record);
    REQUIRE(ratio);
    CHECK(ratio->estimate < 0.7);
    CHECK(ratio->low <= ratio->estimate);
    CHECK(times_the_baseline(s, contenders[0].record, contenders[1].record)->estimate ==
          doctest::Approx(1 / ratio->estimate));
  }
}

TEST_CASE("a slow contender is out when its budget is used up, and the others play on") {
  const test::Scene scene;
  RunClass short_of_time = kTiny;
  short_of_time.budget = 12;  // beside other load the audits of the honest one take seconds
  DigitsBenchmark benchmark, fresh;
  benchmark.draw(kTiny.hidden, 77);
  fresh.draw(kTiny.hidden, 78);
  std::vector<Contender> contenders(2);
  for (size_t i = 0; i < 2; ++i)
    contenders[i].session = std::make_unique<channel::Session>(
        scene.child({"stripes", "honest", i == 0 ? "0" : "500000"}), scene.policy, machine());
  const auto start = sandbox::Clock::now();
  Match({benchmark, fresh}, Scenario::single_stream, short_of_time, 5)(contenders);
  CHECK(sandbox::seconds_since(start) < 90);
  CHECK_MESSAGE(contenders[0].record.out.empty(), contenders[0].record.out);
  CHECK(contenders[1].record.out.find("its budget of 12 s of running time is used up") == 0);
}

TEST_CASE("the peak of memory is that of the contender, however large the judge is" *
          doctest::skip(test::kSanitized)) {
  const std::vector<char> judge(size_t{300} << 20, 1);
  const test::Scene scene;
  const auto contenders = play(scene, Scenario::single_stream, {{"honest", "0"}, {"has 96 MiB", "0"}});
  for (const Contender& c : contenders) CHECK_MESSAGE(c.record.out.empty(), c.record.out);
  const int64_t less = contenders[0].record.peak_bytes, more = contenders[1].record.peak_bytes;
  CHECK(less > 0);
  CHECK(less < int64_t{64} << 20);
  CHECK(more >= less + (int64_t{90} << 20));
  CHECK(more <= less + (int64_t{100} << 20));
  CHECK(judge.back() == 1);
}

TEST_CASE("a class with several processes starts fresh ones between blocks; what was answered stays") {
  const test::Scene scene;
  RunClass with_processes = kTiny;
  with_processes.processes = 3;
  DigitsBenchmark benchmark, fresh;
  benchmark.draw(kTiny.hidden, 77);
  fresh.draw(kTiny.hidden, 78);
  std::vector<Contender> contenders(2);
  std::array<int, 2> starts{};
  for (size_t i = 0; i < 2; ++i) {
    const std::string kind = i == 0 ? "honest" : "crashes";  // the latter before its first process ends
    contenders[i].start = [&, i, kind] {
      ++starts[i];
      return std::make_unique<channel::Session>(scene.child({"stripes", kind, "0"}), scene.policy, machine());
    };
    contenders[i].session = contenders[i].start();
  }
  Match({benchmark, fresh}, Scenario::single_stream, with_processes, 5)(contenders);
  CHECK(starts == std::array{3, 1});
  CHECK_MESSAGE(contenders[0].record.out.empty(), contenders[0].record.out);
  CHECK(contenders[0].record.credit.size() == 256);
  CHECK(contenders[0].record.turns.size() == 12);
  CHECK_FALSE(contenders[1].record.out.empty());
}

TEST_CASE("a block of several rounds has short turns of all contenders, where the scenario allows it") {
  const test::Scene scene;
  RunClass rounds{"tiny", 0.4, 30, 12, 256};
  rounds.rounds = 3, rounds.processes = 4;
  const auto played = [&](Scenario s) {
    DigitsBenchmark benchmark, fresh;
    benchmark.draw(rounds.hidden, 77), fresh.draw(rounds.hidden, 78);
    std::vector<Contender> contenders(2);
    std::vector<std::string> told;
    int starts = 0;
    for (Contender& c : contenders) {
      c.start = [&] {
        ++starts;
        return std::make_unique<channel::Session>(scene.child({"stripes", "honest", "100"}), scene.policy,
                                                  machine());
      };
      c.session = c.start();
    }
    Match({benchmark, fresh}, s, rounds, 5, {},
          [&](const Progress& now) { told.push_back(now.text()); })(contenders);
    CHECK(starts == 8);
    CHECK(told.size() == 14);  // twelve blocks and two audits
    return contenders;
  };
  for (const Contender& c : played(Scenario::single_stream)) {
    REQUIRE_MESSAGE(c.record.out.empty(), c.record.out);
    REQUIRE(c.record.turns.size() == 72);
    CHECK(c.record.credit.size() == 256);
    CHECK(c.record.evidence.first_time.size() == 72);
    for (const Turn& t : c.record.turns) CHECK(t.latencies.size() >= 10);
    CHECK(values_of(Scenario::single_stream, c.record).size() == 12);
  }
  for (const Contender& c : played(Scenario::offline)) {
    REQUIRE_MESSAGE(c.record.out.empty(), c.record.out);
    CHECK(c.record.turns.size() == 24);
  }
  DigitsBenchmark set;
  set.draw(10, 77);
  rounds.blocks = 6;
  CHECK_THROWS_WITH(Match({set, set}, Scenario::single_stream, rounds, 5),
                    doctest::Contains("needs 12 blocks"));
}

TEST_CASE("a process that is slow at first is warm before its first turn") {
  const test::Scene scene;
  DigitsBenchmark benchmark, fresh;
  benchmark.draw(kTiny.hidden, 77);
  fresh.draw(kTiny.hidden, 78);
  std::vector<Contender> contenders(1);
  contenders[0].session = std::make_unique<channel::Session>(scene.child({"stripes", "slow at first", "100"}),
                                                             scene.policy, machine());
  RunClass longer = kTiny;
  longer.seconds = 2;
  Match({benchmark, fresh}, Scenario::single_stream, longer, 5)(contenders);
  REQUIRE_MESSAGE(contenders[0].record.out.empty(), contenders[0].record.out);
  CHECK(tinytorch::statistics::median(contenders[0].record.turns.front().latencies) < 4e-3);
}

TEST_CASE("processes are shared out evenly over the blocks") {
  const auto fresh_at = [](size_t blocks, size_t processes) {
    std::vector<size_t> out;
    for (size_t b = 0; b < blocks; ++b)
      if (is_fresh_process_due(b, blocks, processes)) out.push_back(b);
    return out;
  };
  CHECK(fresh_at(12, 1).empty());
  CHECK(fresh_at(6, 3) == std::vector<size_t>{2, 4});
  CHECK(fresh_at(12, 5).size() == 4);
  CHECK(fresh_at(4, 4) == std::vector<size_t>{1, 2, 3});
  CHECK(fresh_at(3, 10) == std::vector<size_t>{1, 2});  // no more than one for each block
}

TEST_CASE("a watcher is called for every block and for each contender's audits, and may end the match") {
  const test::Scene scene;
  std::vector<std::string> told;
  std::vector<double> shares;
  const auto contenders =
      play(scene, Scenario::multi_stream, {{"honest", "0"}, {"honest", "50"}}, [&](const Progress& now) {
        told.push_back(now.text());
        shares.push_back(now.share());
      });
  std::vector<std::string> expected;
  for (int block = 1; block <= 6; ++block)
    expected.push_back("multi_stream: block " + std::to_string(block) + " of 6");
  expected.insert(expected.end(), 2, "multi_stream: audits of honest");
  CHECK(told == expected);
  for (size_t i = 0; i < shares.size(); ++i) CHECK(shares[i] == doctest::Approx(static_cast<double>(i) / 8));
  for (const Contender& c : contenders) CHECK_MESSAGE(c.record.out.empty(), c.record.out);
  CHECK_THROWS_WITH(play(scene, Scenario::multi_stream, {{"honest", "0"}},
                         [](const Progress& now) {
                           if (now.block == 2) throw std::runtime_error("enough");
                         }),
                    "enough");
}

TEST_CASE(
    "a contender that answers differently when timed, answers too little, or crashes is out; the others go "
    "on") {
  const test::Scene scene;
  const auto contenders = play(scene, Scenario::single_stream,
                               {{"honest", "0"},
                                {"changes its mind", "0"},
                                {"too few", "0"},
                                {"crashes", "0"},
                                {"not a number", "0"}});
  CHECK(contenders[0].record.out.empty());
  CHECK(contenders[0].record.turns.size() == 12);
  CHECK(contenders[1].record.out.find("was answered differently before") != std::string::npos);
  CHECK(contenders[2].record.out.find("1 x 10 values") != std::string::npos);
  CHECK_FALSE(contenders[2].record.quality);
  CHECK_FALSE(contenders[3].record.out.empty());
  CHECK(contenders[4].record.out.find("not finite") != std::string::npos);
  CHECK_FALSE(times_the_baseline(Scenario::single_stream, contenders[1].record, contenders[0].record));
}
