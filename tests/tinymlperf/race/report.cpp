// Tests of race.json, of the table and of the page, with a synthetic race.
#include <doctest/doctest.h>

#include <sstream>
#include <support/made_up_race.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/race/report.hpp>

using namespace tinymlperf;
using test::holds;

namespace {

const std::string kNasty = "<script>alert(1)</script>";

Race race() {
  Race r;
  r.baseline = "lenet";
  r.floor = 0.875;
  r.training_seed = 1, r.validation_seed = 0xffffffffffffffff;
  r.training_samples = 8000;
  r.validation_samples = 1500;
  r.machine = {.cpu = "CPU & co",
               .system = "Linux",
               .compiler = "g++",
               .flags = "-O3",
               .library = "0",
               .date = "today",
               .cores = 2,
               .threads = 2,
               .memory_bytes = int64_t{1} << 30};
  r.matches = test::made_up_matches({{.name = "lenet", .single = 2e-4, .batch = 0.03, .accuracy = 0.985},
                                     {.name = "mlp", .single = 5e-5, .batch = 0.004, .accuracy = 0.965},
                                     {.name = "linear", .single = 5e-6, .batch = 0.001, .accuracy = 0.8}});
  for (const auto& c : r.matches.offline.contenders) r.entries.push_back({c.name, "A & B", kNasty, 61706});
  r.notes = {"A note & more."};
  r.refused = {{"entries/bad", "model.json: expected " + kNasty + ", found \"x\""}};
  r.training = {{"lenet", {1, 2}, {0.5, 0.25}, {0.9, 0.95}, 1.5}};
  r.results = score_race(r.matches, r.floor);
  return r;
}

}  // namespace

TEST_CASE("race.json keeps raw samples, seeds beyond 2^53 and results") {
  const Race before = race();
  const Json document = Json::parse(to_json(before).dump());
  CHECK(document.at("seeds").at("validation").get<uint64_t>() == 0xffffffffffffffff);
  CHECK(document.at("matches")[0].at("seed").get<uint64_t>() == 0xfffffffffffffffe);
  CHECK(document.at("results")[0].at("name") == "mlp");
  CHECK(document.at("results")[2].at("rank").is_null());
  CHECK(document.at("training")[0].at("validation_accuracy")[1] == 0.95);
  const Race after = race_from_json(document);
  REQUIRE(after.entries.size() == 3);
  for (size_t i = 0; i < 3; ++i)
    for (size_t t = 0; t < 16; ++t)
      CHECK(after.matches.single_stream.contenders[i].turns[t].latencies ==
            before.matches.single_stream.contenders[i].turns[t].latencies);
  CHECK(verify_race(document) == "");
}

TEST_CASE("verify_race() finds a changed result and a changed sample") {
  Json document = to_json(race());
  document["results"][0]["score"]["estimate"] =
      document["results"][0]["score"]["estimate"].get<double>() * 1.001;
  CHECK(holds(verify_race(document), "result 1 is claimed"));
  document = to_json(race());
  for (Json& turn : document["matches"][0]["contenders"][1]["turns"])
    for (Json& x : turn["latencies"]) x = x.get<double>() / 2;
  CHECK(holds(verify_race(document), "the samples say"));
  document = to_json(race());
  for (Json& match : document["matches"])
    std::swap(match["contenders"][1]["name"], match["contenders"][2]["name"]);
  CHECK_THROWS_AS(verify_race(document), std::invalid_argument);
  document = to_json(race());
  document["results"].erase(0);
  CHECK(holds(verify_race(document), "one result per entry"));
  document["schema"] = "other";
  CHECK_THROWS_AS(verify_race(document), std::invalid_argument);
  CHECK_THROWS_AS(verify_race(Json::parse("{}")), std::invalid_argument);
  CHECK_THROWS_AS(verify_race(Json::parse("[]")), std::invalid_argument);
}

TEST_CASE("the table lists the best first, unranked entries last, then the conditions and the refusals") {
  const std::string text = text_table(race());
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  REQUIRE(lines.size() >= 9);
  CHECK(holds(lines[2], "mlp"));
  CHECK(holds(lines[3], "lenet"));
  CHECK(holds(lines[3], "100.0 [100.0, 100.0]"));
  CHECK(holds(lines[4], "   -  linear"));
  CHECK(lines[0].find("entry") == lines[2].find("mlp"));
  CHECK(lines[0].find("entry") == lines[4].find("linear"));
  for (const char* wanted :
       {"1000 + 1000 hidden samples", "trained on 8000", "seed 18446744073709551615", "87.5 %",
        "better than lenet", "8 blocks", "refused  entries/bad: model.json", "A note & more."})
    CHECK(holds(text, wanted));
}

TEST_CASE("the page is complete and self-contained, and escapes all texts from entries") {
  const std::string page = html_page(race());
  CHECK_FALSE(holds(page, "<script"));
  CHECK(holds(page, "&lt;script&gt;alert(1)"));
  CHECK(holds(page, "CPU &amp; co"));
  CHECK(holds(page, "A note &amp; more."));
  for (const char* loads : {"src=", "href=", "url(", "@import", "<link", "<img"})
    CHECK_FALSE(holds(page, loads));
  for (const char* wanted :
       {"1000 + 1000 hidden samples", "87.5 %", "better than lenet", "Score with 95 % interval",
        "Pareto front", "Validation accuracy", "Refused entries", "not affiliated", "prefers-color-scheme"})
    CHECK(holds(page, wanted));
  size_t charts = 0;
  for (size_t at = 0; (at = page.find("<svg", at)) != std::string::npos; ++at) ++charts;
  CHECK(charts == 4);
}

TEST_CASE("a race without training and without refused entries has a page, too") {
  Race r = race();
  r.training.clear();
  r.refused.clear();
  const std::string page = html_page(r);
  CHECK(holds(page, "No model was trained"));
  r.training_samples = 0;
  CHECK(holds(text_table(r), "no model was trained in this race"));
  CHECK_FALSE(holds(page, "Refused entries"));
}

TEST_CASE("bytes, seconds and ranks are formatted for reading") {
  CHECK(show_bytes(1023) == "1023 B");
  CHECK(show_bytes(1536) == "1.5 KiB");
  CHECK(show_bytes(3 << 20) == "3.0 MiB");
  CHECK(show_seconds(12.34e-6) == "12.3 us");
  CHECK(show_seconds(1.234e-3) == "1.23 ms");
  CHECK(show_seconds(2) == "2.00 s");
  std::vector<Result> shared(3);
  shared[0].rank = shared[1].rank = 1;
  CHECK(show_rank(shared[0], shared) == "1=");
  CHECK(show_rank(shared[2], shared) == "-");
}
