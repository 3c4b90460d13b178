// Prompts of groups: later users find the beginning of the first one, near misses are as announced, and
// nothing in a prompt is graded.
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <set>
#include <tinymlperf/benchmarks/language.hpp>
#include <tinymlperf/judge/scenarios/scenario_rules.hpp>
#include <tinymlperf/judge/scenarios/shared_prompts.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

struct Asked {
  Prompt prompt;
  char mark;
  std::string beginning() const { return prompt.text.substr(0, kSharedBytes); }
};

std::vector<Asked> asked(uint64_t seed, int count) {
  LanguageBenchmark lm;
  lm.draw(50, 77);
  SharedPrompts prompts(*lm.generation(), seed);
  std::vector<Asked> out;
  for (int i = 0; i < count; ++i) {
    Prompt p = prompts.next();
    out.push_back({std::move(p), prompts.mark()});
  }
  return out;
}

size_t differing(const std::string& a, const std::string& b) {
  size_t out = 0;
  for (size_t i = 0; i < a.size(); ++i) out += a[i] != b[i];
  return out;
}

}  // namespace

TEST_CASE(
    "later prompts begin like the first of their salt, and near misses differ in one place or in the salt") {
  std::map<std::string, std::string> first;  // beginning by salt
  std::map<char, int> kinds;
  int found_elsewhere = 0;
  for (const Asked& a : asked(5, 4000)) {
    ++kinds[a.mark];
    REQUIRE(a.prompt.salt.size() == 8);
    REQUIRE(a.prompt.tokens == kSharedGeneratedBytes);
    const int64_t own = std::ssize(a.prompt.text) - kSharedBytes;
    REQUIRE(own >= 1);
    REQUIRE(own <= kUserBytes);
    REQUIRE(std::ssize(a.prompt.text) + a.prompt.tokens <= kContextBytes);
    if (a.mark == PrefixMark::kFirst) {
      CHECK(first.try_emplace(a.prompt.salt, a.beginning()).second);
      continue;
    }
    if (a.mark == PrefixMark::kOtherSalt) {  // of a group that is open, or of nobody
      int elsewhere = 0;
      for (const auto& [salt, beginning] : first)
        elsewhere += beginning == a.beginning() && salt != a.prompt.salt;
      found_elsewhere += elsewhere > 0;
      CHECK((first.count(a.prompt.salt) == 0 || first[a.prompt.salt] != a.beginning()));
      continue;
    }
    REQUIRE(first.count(a.prompt.salt) == 1);
    const std::string& known = first[a.prompt.salt];
    if (a.mark == PrefixMark::kLater) CHECK(a.beginning() == known);
    if (a.mark == PrefixMark::kOtherStart) {
      CHECK(a.beginning()[0] != known[0]);
      CHECK(differing(a.beginning(), known) == 1);
    }
    if (a.mark == PrefixMark::kOtherEnd) {
      CHECK(a.beginning().back() != known.back());
      CHECK(differing(a.beginning(), known) == 1);
    }
  }
  CHECK(found_elsewhere >= kinds[PrefixMark::kOtherSalt]);
  CHECK(kinds.size() == 5);
  CHECK(kinds[PrefixMark::kFirst] > 300);  // one of ten, and one for each group that is open
  CHECK(kinds[PrefixMark::kLater] > 2000);
  for (const char miss : {PrefixMark::kOtherStart, PrefixMark::kOtherSalt, PrefixMark::kOtherEnd})
    CHECK(kinds[miss] > 200);
}

TEST_CASE(
    "what an honest contender keeps serves later prompts, and never a first one or a near miss at the "
    "start") {
  std::set<std::string> kept;
  std::map<char, std::array<int, 2>> found;  // by mark
  for (const Asked& a : asked(9, 20000)) {
    const bool is_new = kept.insert(a.prompt.salt + a.beginning()).second;
    ++found[a.mark][is_new ? 0 : 1];
  }
  for (const char cold : {PrefixMark::kFirst, PrefixMark::kOtherStart, PrefixMark::kOtherSalt}) {
    CHECK(found[cold][0] > 500);
    CHECK(found[cold][1] == 0);
  }
  CHECK(found[PrefixMark::kLater][0] == 0);
}

TEST_CASE("no prompt repeats within a group, lengths tell nothing of the kind, and the seed decides all") {
  std::map<std::string, std::set<std::string>> of_group;
  std::map<bool, std::vector<int64_t>> lengths;
  const std::vector<Asked> all = asked(6, 3000);
  for (const Asked& a : all) {
    if (a.mark != PrefixMark::kOtherSalt) CHECK(of_group[a.prompt.salt].insert(a.prompt.text).second);
    lengths[a.mark >= PrefixMark::kOtherStart].push_back(std::ssize(a.prompt.text));
  }
  const auto mean = [](const std::vector<int64_t>& v) {
    double sum = 0;
    for (const int64_t x : v) sum += static_cast<double>(x);
    return sum / static_cast<double>(v.size());
  };
  CHECK(mean(lengths[false]) == doctest::Approx(mean(lengths[true])).epsilon(0.02));
  const std::vector<Asked> again = asked(6, 3000), other = asked(7, 3000);
  int same = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].prompt.text == again[i].prompt.text);
    CHECK(all[i].prompt.salt == again[i].prompt.salt);
    same += all[i].prompt.text == other[i].prompt.text;
  }
  CHECK(same == 0);
}

TEST_CASE("no sample begins like a prompt, so that nothing that was kept of a sample serves one") {
  LanguageBenchmark lm;
  lm.draw(2000, 77);
  std::set<std::string> samples;
  for (int64_t i = 0; i < lm.size(); ++i) samples.insert(lm.generation()->beginning(i));
  SharedPrompts prompts(*lm.generation(), 3);
  for (int i = 0; i < 2000; ++i) CHECK(samples.count(prompts.next().text.substr(0, kPromptBytes)) == 0);
}

TEST_CASE("the scenario is for benchmarks of text and for the open division") {
  const auto lm = make_new<LanguageBenchmark>();
  const auto complaint = [&](Scenario s, const std::string& division) {
    return scenario_complaint(s, *lm, division);
  };
  CHECK(complaint(Scenario::shared_prefix, "open").empty());
  CHECK(complaint(Scenario::generation, "closed").empty());
  CHECK(complaint(Scenario::server, "closed").empty());
  CHECK(complaint(Scenario::shared_prefix, "closed").find("for the division open") != std::string::npos);
}
