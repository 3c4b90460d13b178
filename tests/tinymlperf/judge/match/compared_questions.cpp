#include <tinymlperf/judge/match/compared_questions.hpp>

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <stdexcept>
#include <support/steps_benchmark.hpp>

using namespace tinymlperf::judge;

namespace {

// Records the questions of a match; each turn takes a second more than the one before.
struct Asked {
  test::StepsBenchmark main, fresh;
  std::map<const Benchmark*, std::vector<std::vector<int64_t>>> samples;  // of each query
  int64_t answers = 0, turns = 0, next = 0;
  Evidence evidence;

  Asked(int64_t size, int64_t fresh_size) { main.draw(size, 5), fresh.draw(fresh_size, 6); }
  void compare(Scenario form, int64_t samples_per_query, uint64_t look = 1, int64_t fails_after = -1) {
    const Questions questions{main, samples_per_query,
                              [&](int64_t k) {
                                std::vector<int64_t> out;
                                for (int64_t i = 0; i < k; ++i) out.push_back(next++ % main.size());
                                return out;
                              },
                              [&](int64_t, const Answer&) { ++answers; }};
    compare_questions(questions, fresh, form, {.match = 9, .look = look}, evidence,
                      [&](const Questions& q, int64_t queries) {
                        if (turns == fails_after) throw std::runtime_error("a contender failed");
                        Turn turn;
                        for (int64_t i = 0; i < queries; ++i) {
                          samples[&q.set].push_back(q.next(q.samples_per_query));
                          for (const int64_t s : samples[&q.set].back()) q.answered(s, Answer{1});
                          turn.samples += q.samples_per_query;
                        }
                        turn.seconds = static_cast<double>(++turns);
                        return turn;
                      });
  }
};

}  // namespace

TEST_CASE("each comparison has two turns of a kind in every block, with equally many samples") {
  for (const Scenario form : {Scenario::single_stream, Scenario::multi_stream, Scenario::offline}) {
    Asked a(480, 480);
    const int64_t each = form == Scenario::multi_stream ? 8 : 1;
    a.compare(form, form == Scenario::offline ? 480 : each);
    for (const auto* turns : {&a.evidence.known, &a.evidence.same, &a.evidence.fresh}) {
      CHECK(turns->size() == 2 * kAuditBlocks);
      // Offline a turn is one query with its share of the set; elsewhere an untimed query is left out.
      for (const Turn& t : *turns) CHECK(t.samples == (form == Scenario::offline ? 20 : each == 1 ? 19 : 8));
    }
    CHECK(a.turns == 6 * static_cast<int64_t>(kAuditBlocks));
  }
}

TEST_CASE("no fresh sample comes twice, one known sample is repeated, and only known ones are graded") {
  Asked a(240, 480);
  a.compare(Scenario::single_stream, 1);
  std::set<int64_t> fresh;
  for (const auto& query : a.samples[&a.fresh]) fresh.insert(query.begin(), query.end());
  CHECK(fresh.size() == a.samples[&a.fresh].size());
  CHECK(a.answers == static_cast<int64_t>(a.samples[&a.main].size()));
  std::map<int64_t, int64_t> times;
  for (const auto& query : a.samples[&a.main]) ++times[query.at(0)];
  const int64_t repeated = 2 * kAuditBlocks * 9;  // ten samples of a turn, one of which is not timed
  CHECK(std::ranges::count_if(times, [&](const auto& t) { return t.second >= repeated; }) == 1);
}

TEST_CASE("further comparisons are pooled in another order, and one that fails leaves nothing") {
  Asked a(48, 48);
  a.compare(Scenario::multi_stream, 8);
  const std::vector<Turn> first = a.evidence.known;
  CHECK_THROWS_AS(a.compare(Scenario::multi_stream, 8, 2, a.turns + 5), std::runtime_error);
  CHECK(a.evidence.known.size() == first.size());
  a.turns = 0;
  a.compare(Scenario::multi_stream, 8, 2);
  REQUIRE(a.evidence.known.size() == 2 * first.size());
  bool same_order = true;
  for (size_t i = 0; i < first.size(); ++i)
    same_order = same_order && a.evidence.known[first.size() + i].seconds == first[i].seconds;
  CHECK_FALSE(same_order);
}

TEST_CASE("the sample that is repeated has more work than most, and several are all different") {
  struct Uneven : test::StepsBenchmark {
    double work(int64_t sample) const override { return static_cast<double>(sample); }
  };
  Uneven set;
  set.draw(100, 5);
  CHECK(usual_samples(set, 1, 3) == std::vector<int64_t>{90});
  const std::vector<int64_t> eight = usual_samples(set, 8, 3);
  CHECK(std::set<int64_t>(eight.begin(), eight.end()).size() == 8);
  set.draw(1, 5);
  CHECK(usual_samples(set, 1, 3) == std::vector<int64_t>{0});
}
