// Edits of a result: every published number follows from the samples, and an edit of any value or byte is
// found. The edits are kinds, each made at many random places.
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <support/audited_run.hpp>
#include <tinymlperf/commands/verify.hpp>
#include <tinytorch/core/random.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

// The file's complaint after an edit, when its editor has also computed the chain anew.
std::string resealed(const Json& file, const std::function<void(Json&)>& edit, const std::string& seal = "") {
  Json copy = file;
  edit(copy);
  copy[kChain] = chain_of(copy);
  return tinymlperf::detail::file_complaint(copy.dump(1) + "\n", copy, seal);
}

bool says(const std::string& complaint, const std::string& part) {
  return complaint.find(part) != std::string::npos;
}

// Every value of a document that is no object and no array.
std::vector<Json*> leaves(Json& document) {
  std::vector<Json*> all{&document}, out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i]->is_structured()) out.push_back(all[i]);
    if (all[i]->is_structured())
      for (Json& inside : *all[i]) all.push_back(&inside);
  }
  return out;
}

void alter(Json& leaf) {
  if (leaf.is_string())
    leaf = leaf.get<std::string>() + "1";
  else if (leaf.is_boolean())
    leaf = !leaf.get<bool>();
  else if (leaf.is_number_float())
    leaf = std::nextafter(leaf.get<double>(), 1e300);
  else if (leaf.is_number())
    leaf = leaf.get<int64_t>() + 1;
  else
    leaf = 1;
}

}  // namespace

TEST_CASE("a run as its judge writes it is verified, in every scenario of turns") {
  for (const Scenario s : {Scenario::single_stream, Scenario::multi_stream, Scenario::offline,
                           Scenario::server, Scenario::generation, Scenario::shared_prefix}) {
    CAPTURE(name_of(s));
    const Json file = to_json(test::audited_run(s));
    CHECK(tinymlperf::detail::file_complaint(file.dump(1) + "\n", file, "") == "");
    CHECK(tinymlperf::detail::file_complaint(file.dump(1) + "\n", file, seal_of(file)) == "");
    CHECK(to_json(read_run_document(Json::parse(file.dump()))) == file);
  }
}

TEST_CASE("a change of any value by its smallest step is found") {
  const Json file = to_json(test::audited_run(Scenario::single_stream));
  tinytorch::Generator random(33);
  Json copy = file;
  const size_t count = leaves(copy).size();
  for (int trial = 0; trial < 150; ++trial) {
    Json edited = file;
    alter(*leaves(edited)[random.below(count)]);
    std::string found;
    try {
      found = tinymlperf::detail::file_complaint(edited.dump(1) + "\n", edited, "");
    } catch (const std::exception& e) {
      found = e.what();  // it is no longer a run
    }
    CHECK(found != "");
  }
}

TEST_CASE("a change of any byte of the file is found") {
  const std::string text = to_json(test::audited_run(Scenario::offline)).dump(1) + "\n";
  tinytorch::Generator random(34);
  for (int trial = 0; trial < 150; ++trial) {
    std::string edited = text;
    const size_t at = random.below(text.size());
    const int kind = static_cast<int>(random.below(3));
    if (kind == 0)
      edited[at] = static_cast<char>(edited[at] ^ (1 << random.below(7)));
    else if (kind == 1)
      edited.insert(at, 1, ' ');
    else
      edited.erase(at, 1);
    std::string found;
    try {
      found =
          tinymlperf::detail::file_complaint(edited, tinymlperf::detail::parse_json(edited, "run.json"), "");
    } catch (const std::exception& e) {
      found = e.what();
    }
    CHECK_MESSAGE(found != "", "byte " << at << ", kind " << kind);
  }
  // A second key of the same name: readers differ in which of the two they show.
  std::string twice = text;
  twice.replace(twice.find("\"credit\""), 0, "\"credit\": \"0\",\n   ");
  CHECK(says(tinymlperf::detail::file_complaint(twice, Json::parse(twice), ""), "its bytes are not those"));
}

TEST_CASE("an editor who computes the chain anew is found by the samples") {
  const Json file = to_json(test::audited_run(Scenario::single_stream));
  const auto found = [&](const std::function<void(Json&)>& edit) {
    return resealed(file, [&](Json& j) { edit(j["contenders"][1]); });
  };
  // Credit and quality.
  CHECK(says(found([](Json& c) { c["credit"] = std::string(400, '1'); }), "quality is"));
  CHECK(says(found([](Json& c) { c["quality"]["low"] = 0.99; }), "quality is"));
  CHECK(says(found([](Json& c) { c["quality"] = nullptr; }), "quality is missing"));
  CHECK(says(found([](Json& c) { c["credit"] = ""; }), "its quality has no samples"));
  CHECK(says(found([](Json& c) { c["credit"] = c["credit"].get<std::string>() + "2"; }), "0 or 1"));
  // Audits that are removed, passed, doubled, or stripped of their evidence.
  CHECK(says(found([](Json& c) { c["audits"].erase(1); }), "audit A2 is missing"));
  CHECK(says(found([](Json& c) { c["audits"] = Json::array(); }), "audit A1 is missing"));
  CHECK(says(found([](Json& c) { c["audits"][1]["detail"] = "fine"; }), "audit A2 is \"fine\""));
  CHECK(says(found([](Json& c) { c.erase("evidence"); }), "does not follow from any evidence"));
  CHECK(
      says(found([](Json& c) { c.erase("evidence"), c["audits"] = Json::array(); }), "without the evidence"));
  CHECK(says(found([](Json& c) { c["audits"].push_back(c["audits"][0]); }), "does not follow"));
  // Latencies and what follows from them.
  CHECK(says(found([](Json& c) {
               for (Json& t : c["turns"])
                 for (Json& x : t["latencies"]) x = x.get<double>() / 2;
             }),
             "certified is"));
  CHECK(says(found([](Json& c) { c["times_the_baseline"]["low"] = 3; }), "times_the_baseline is"));
  CHECK(says(found([](Json& c) { c["evidence"]["least_seconds"] = 1.0; }), "audit A6"));
  CHECK(says(found([](Json& c) { c["evidence"]["compared"] = 0; }), "audit A1"));
}

TEST_CASE("the bits of generated text cannot be edited or left out") {
  const Json file = to_json(test::audited_run(Scenario::generation));
  CHECK(resealed(file, [](Json&) {}) == "");
  const auto found = [&](const std::function<void(Json&)>& edit) {
    return resealed(file, [&](Json& j) { edit(j["contenders"][1]); });
  };
  CHECK(says(found([](Json& c) { c["evidence"]["text_bits"][7] = 0.25; }), "audit A14"));
  CHECK(says(found([](Json& c) { c["evidence"]["text_bits"] = Json::array(); }), "audit A14"));
  CHECK_THROWS_WITH(found([](Json& c) { c["evidence"]["text_bits"][7] = -1.0; }),
                    doctest::Contains("bits of a text are numbers from 0 on"));
  CHECK_THROWS_WITH(found([](Json& c) { c["evidence"].erase("text_bits"); }), doctest::Contains("text_bits"));
  CHECK(says(found([](Json& c) { c["audits"].erase(c["audits"].size() - 1); }), "audit A14 is missing"));
}

TEST_CASE(
    "a server that was never asked alone takes part nowhere, and near misses cannot be edited or left out") {
  const Json server = to_json(test::audited_run(Scenario::server));
  const auto of_server = [&](const std::function<void(Json&)>& edit) {
    return resealed(server, [&](Json& j) { edit(j["contenders"][1]); });
  };
  CHECK(of_server([](Json&) {}) == "");
  CHECK(says(of_server([](Json& c) { c["evidence"]["beside"] = 81; }), "audit A15"));
  CHECK(says(of_server([](Json& c) { c["audits"].erase(c["audits"].size() - 1); }), "audit A15 is missing"));
  CHECK(says(of_server([](Json& c) { c["evidence"].erase("beside"); }), "audit A15 does not follow"));
  CHECK(says(
      of_server([](Json& c) { c["evidence"].erase("beside"), c["audits"].erase(c["audits"].size() - 1); }),
      "without the evidence of audit A15"));
  CHECK_THROWS_WITH(of_server([](Json& c) { c["evidence"]["beside"] = -1; }),
                    doctest::Contains("impossible"));

  const Json shared = to_json(test::audited_run(Scenario::shared_prefix));
  const auto of_shared = [&](const std::function<void(Json&)>& edit) {
    return resealed(shared, [&](Json& j) { edit(j["contenders"][1]); });
  };
  CHECK(of_shared([](Json&) {}) == "");
  CHECK(says(of_shared([](Json& c) { c["evidence"]["prefixes"].erase(3); }), "audit A16"));
  CHECK(says(of_shared([](Json& c) { c["evidence"]["prefixes"][0] = "0213"; }), "audit A16"));
  CHECK(says(of_shared([](Json& c) { c["audits"].erase(c["audits"].size() - 1); }), "audit A16 is missing"));
  CHECK(says(of_shared([](Json& c) { c["evidence"].erase("prefixes"); }), "audit A16"));
  CHECK_THROWS_WITH(of_shared([](Json& c) { c["evidence"]["prefixes"][0] = "x"; }),
                    doctest::Contains("unknown mark"));
  CHECK_THROWS_WITH(of_shared([](Json& c) { c["turns"][0]["to_first"][0] = -1.0; }),
                    doctest::Contains("positive times"));
}

TEST_CASE("near misses of either kind that are fast fail, and later prompts and other ends may be fast") {
  RunDocument d = test::audited_run(Scenario::shared_prefix);
  ContenderRecord& c = d.contenders[1];
  const auto with_fast = [&](const std::string& kinds) {
    std::vector<Turn> turns = c.turns;
    for (size_t t = 0; t < turns.size(); ++t)
      for (size_t q = 0; q < turns[t].to_first.size(); ++q)
        if (kinds.find(c.evidence.prefixes[t][q]) != std::string::npos) turns[t].to_first[q] /= 1.6;
    return near_miss_audit(turns, c.evidence);
  };
  CHECK_MESSAGE(with_fast("").passed, with_fast("").detail);
  CHECK(with_fast("14").passed);
  CHECK(accuses(with_fast("2")));
  CHECK(says(with_fast("2").detail, "another first byte"));
  CHECK(accuses(with_fast("3")));
  CHECK(says(with_fast("3").detail, "another salt"));
  CHECK(accuses(with_fast("23")));
  CHECK_FALSE(accuses(with_fast("0")));
  Evidence none = c.evidence;
  for (std::string& marks : none.prefixes) marks.assign(marks.size(), PrefixMark::kLater);
  CHECK_FALSE(is_decided(near_miss_audit(c.turns, none)));
  CHECK(was_made(invariance_audit(1)));
  CHECK_FALSE(was_made(invariance_audit(0)));
}

TEST_CASE("generated text that is too unlikely fails; below the least quality it is not looked at") {
  const std::vector<double> bits{0.5, 1.5, 1.0};
  CHECK(text_audit(bits, -1.0).passed);
  CHECK(accuses(text_audit(bits, -0.99)));
  CHECK(accuses(text_audit({}, -1.0)));
  ContenderRecord good, poor, unknown, foreign;
  good.quality = Interval{-0.9, -1, -0.8}, poor.quality = Interval{-1.1, -1.2, -1};
  foreign = good, foreign.tier = "T2";
  CHECK(text_floor(-1.0, good, good) == -1.0);
  CHECK(text_floor(-1.0, foreign, good) == -1.0);
  for (const auto& floor :
       {text_floor(-1.0, poor, good), text_floor(-1.0, good, poor), text_floor(-1.0, good, unknown),
        text_floor(-1.0, unknown, good), text_floor(-1.0, good, foreign)})
    CHECK_FALSE(floor.has_value());
}

TEST_CASE("a contender that failed an audit cannot be put in again") {
  RunDocument d = test::audited_run(Scenario::single_stream);
  ContenderRecord& c = d.contenders[1];
  for (Turn& t : c.evidence.same)
    for (double& x : t.latencies) t.seconds -= x / 2, x /= 2;
  c.audits = measured_audits(d.scenario, c.turns, c.evidence, {});
  c.out = "audit A2, same sample: " + c.audits[1].detail;
  const Json file = to_json(d);
  CHECK(tinymlperf::detail::file_complaint(file.dump(1) + "\n", file, "") == "");
  CHECK(says(resealed(file, [](Json& j) { j["contenders"][1]["out"] = ""; }), "times_the_baseline is"));
  RunDocument cleared = d;
  cleared.contenders[1].out = "";
  const Json again = to_json(cleared);
  CHECK(says(tinymlperf::detail::file_complaint(again.dump(1) + "\n", again, ""), "and it is not out"));
  cleared.contenders[1].audits[1].passed = true;
  const Json passed = to_json(cleared);
  CHECK(says(tinymlperf::detail::file_complaint(passed.dump(1) + "\n", passed, ""), "the evidence says"));
}

TEST_CASE("an edit that agrees with itself everywhere is found by a seal that was noted before") {
  RunDocument d = test::audited_run(Scenario::single_stream);
  const std::string seal = seal_of(to_json(d));
  ContenderRecord& c = d.contenders[1];
  for (Turn& t : c.turns) {
    t.seconds /= 2;
    for (double& x : t.latencies) x /= 2;
  }
  c.audits = measured_audits(d.scenario, c.turns, c.evidence, {});
  const Json file = to_json(d);
  CHECK(tinymlperf::detail::file_complaint(file.dump(1) + "\n", file, "") == "");
  CHECK(says(tinymlperf::detail::file_complaint(file.dump(1) + "\n", file, seal), "its seal is"));
}
