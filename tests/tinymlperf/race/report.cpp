// A made-up race is written as JSON, text and HTML and read back.
#include <doctest/doctest.h>

#include <sstream>
#include <support/refusals.hpp>
#include <tinymlperf/race/report.hpp>

using namespace tinymlperf;
using test::holds;

namespace {

Measurement entry(const std::string& name, double single, double batch, int64_t correct) {
  Measurement m;
  m.name = name;
  tinytorch::Generator random(name.size());
  for (int b = 0; b < 6; ++b) {
    Block block;
    for (int i = 0; i < 16; ++i) block.single.push_back(single * random.uniform(0.9, 1.1));
    for (int i = 0; i < 3; ++i) block.batch.push_back(batch * random.uniform(0.9, 1.1));
    m.blocks.push_back(block);
  }
  m.correct = correct;
  m.tested = 2000;
  m.parameters = 61706;
  m.multiply_adds = 400000;
  m.file_bytes = 247000;
  m.peak_bytes_single = 300000;
  m.peak_bytes_batch = 9000000;
  return m;
}

const std::string kNasty = "<script>alert(1)</script>";

Race race() {
  Race r;
  r.rules.baseline = "lenet";
  r.rules.floor = 0.875;
  r.rules.draws = 500;
  r.rules.seed = 0xfedcba9876543210;
  r.seeds = {1, 2, 0xffffffffffffffff, 4};
  r.training_samples = 8000;
  r.validation_samples = 1500;
  r.hidden_samples = 2000;
  r.machine = {.cpu = "CPU & co",
               .system = "Linux",
               .compiler = "g++",
               .flags = "-O3",
               .library = "0",
               .date = "today",
               .cores = 2,
               .threads = 2,
               .memory_bytes = int64_t{1} << 30};
  r.measurements = {entry("lenet", 2e-4, 0.03, 1970), entry("mlp", 5e-5, 0.004, 1930),
                    entry("linear", 5e-6, 0.001, 1600)};
  for (const auto& m : r.measurements) r.entries.push_back({m.name, "A & B", kNasty});
  r.notes = {"A note & more."};
  r.refused = {{"entries/bad", "model.json: expected " + kNasty + ", found \"x\""}};
  r.training = {{"lenet", {1, 2}, {0.5, 0.25}, {0.9, 0.95}, 1.5}};
  r.results = score_race(r.measurements, r.rules);
  return r;
}

}  // namespace

TEST_CASE("race.json: raw samples, seeds beyond 2^53 and results survive writing and reading") {
  const Race before = race();
  const Json document = Json::parse(to_json(before).dump());
  CHECK(document.at("seeds").at("hidden").get<uint64_t>() == 0xffffffffffffffff);
  CHECK(document.at("results")[0].at("name") == "mlp");
  CHECK(document.at("results")[2].at("rank").is_null());
  CHECK(document.at("training")[0].at("validation_accuracy")[1] == 0.95);
  const Race after = race_from_json(document);
  REQUIRE(after.measurements.size() == 3);
  for (size_t i = 0; i < 3; ++i)
    for (size_t b = 0; b < 6; ++b) {
      CHECK(after.measurements[i].blocks[b].single == before.measurements[i].blocks[b].single);
      CHECK(after.measurements[i].blocks[b].batch == before.measurements[i].blocks[b].batch);
    }
  CHECK(after.rules.seed == before.rules.seed);
  CHECK(verify_race(document) == "");
}

TEST_CASE("a changed claim or a changed sample is found") {
  Json document = to_json(race());
  document["results"][0]["score"]["estimate"] =
      document["results"][0]["score"]["estimate"].get<double>() * 1.001;
  CHECK(holds(verify_race(document), "result 1 is claimed"));
  document = to_json(race());
  for (Json& block : document["entries"][1]["blocks"])
    for (Json& x : block["single_seconds"]) x = x.get<double>() / 2;
  CHECK(holds(verify_race(document), "claimed"));
  document = to_json(race());
  document["results"].erase(0);
  CHECK(holds(verify_race(document), "one result per entry"));
  document["schema"] = "other";
  CHECK_THROWS_AS(verify_race(document), std::invalid_argument);
  CHECK_THROWS_AS(verify_race(Json::parse("{}")), std::invalid_argument);
  CHECK_THROWS_AS(verify_race(Json::parse("[]")), std::invalid_argument);
}

TEST_CASE(
    "the table: best first, unranked last with a dash, columns aligned, conditions and refusals below") {
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
       {"2000 hidden samples", "trained on 8000", "seed 18446744073709551615", "87.5 %", "baseline lenet",
        "6 blocks", "refused  entries/bad: model.json", "A note & more."})
    CHECK(holds(text, wanted));
}

TEST_CASE("the page: complete, self-contained, nothing from an entry is live") {
  const std::string page = html_page(race());
  CHECK_FALSE(holds(page, "<script"));
  CHECK(holds(page, "&lt;script&gt;alert(1)"));
  CHECK(holds(page, "CPU &amp; co"));
  CHECK(holds(page, "A note &amp; more."));
  for (const char* loads : {"src=", "href=", "url(", "@import", "<link", "<img"})
    CHECK_FALSE(holds(page, loads));
  for (const char* wanted :
       {"2000 hidden samples", "87.5 %", "baseline lenet", "Score with 95 % interval", "Pareto front",
        "Validation accuracy", "Refused entries", "not affiliated", "prefers-color-scheme"})
    CHECK(holds(page, wanted));
  size_t charts = 0;
  for (size_t at = 0; (at = page.find("<svg", at)) != std::string::npos; ++at) ++charts;
  CHECK(charts == 4);
}

TEST_CASE("a race in which nothing was trained and nothing refused still makes a page") {
  Race r = race();
  r.training.clear();
  r.refused.clear();
  const std::string page = html_page(r);
  CHECK(holds(page, "No model was trained"));
  r.training_samples = 0;
  CHECK(holds(text_table(r), "no model was trained in this race"));
  CHECK_FALSE(holds(page, "Refused entries"));
}

TEST_CASE("numbers as text") {
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
