// The document of a run: written, read back unchanged, recomputed, and refused if it is malformed.
#include <doctest/doctest.h>

#include <tinymlperf/judge/results/run_document.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

Turn turn(double latency) { return {4 * latency, 4, {latency, latency, latency, latency}, 0, {}, {}}; }

RunDocument run(Scenario s) {
  RunDocument d;
  d.benchmark = "dig", d.scenario = s, d.run_class = "smoke", d.hardware = "cpu-1t",
  d.date = "2026-01-31T12:00:00Z";
  d.seed = 0xffffffffffffffff, d.hidden_samples = 4, d.quality_metric = "accuracy", d.quality_floor = 0.8;
  d.machine = {{"cpu", "a \"fast\" one"}}, d.sandbox = Json::object();
  for (const double latency : {0.002, 0.001}) {
    ContenderRecord c;
    c.name = "entry", c.credit = "1101", c.quality = Interval{0.75, 0.5, 1};
    for (int i = 0; i < 12; ++i) c.turns.push_back(turn(latency * (1 + 0.01 * (i / 2))));
    for (Turn& t : c.turns) {
      if (s == Scenario::server) t.rate = 1 / t.latencies[0];
      if (generates(s)) t.tokens = {4, 4, 4, 4}, t.to_first = {1e-4, 1e-4, 1e-4, 1e-4};
    }
    c.audits.push_back({"A1", "agreement", true, "12 answers"});
    d.contenders.push_back(c);
  }
  d.contenders[1].out = "";
  return d;
}

}  // namespace

TEST_CASE("twice as fast is twice as good in every scenario, and the file says so") {
  for (const Scenario s : {Scenario::single_stream, Scenario::multi_stream, Scenario::offline,
                           Scenario::server, Scenario::generation, Scenario::shared_prefix}) {
    CAPTURE(name_of(s));
    const RunDocument d = run(s);
    const auto ratio = times_the_baseline(s, d.contenders[1], d.contenders[0]);
    REQUIRE(ratio);
    CHECK(ratio->estimate == doctest::Approx(2));
    const Json file = to_json(d);
    CHECK(file.at("contenders")[1].at("times_the_baseline").at("estimate").get<double>() ==
          doctest::Approx(2));
    CHECK(to_json(read_run_document(Json::parse(file.dump()))) == file);
    CHECK(scenario_named(name_of(s)) == s);
  }
}

TEST_CASE("the time to the first token is the median of the turns' medians, and a generation's alone") {
  RunDocument d = run(Scenario::generation);
  CHECK(time_to_first_token(d.contenders[0]) == 1e-4);
  d.contenders[0].turns = {d.contenders[0].turns.begin(), d.contenders[0].turns.begin() + 3};
  for (const double scale : {1.0, 2.0, 9.0})
    d.contenders[0].turns[scale == 1 ? 0 : scale == 2 ? 1 : 2].to_first = {scale, 4 * scale, 2 * scale};
  CHECK(time_to_first_token(d.contenders[0]) == 4);
  CHECK_FALSE(time_to_first_token(run(Scenario::single_stream).contenders[0]));
}

TEST_CASE("the file says which contenders' passes were compiled") {
  RunDocument d = run(Scenario::offline);
  d.contenders[1].compiled = true;
  const Json file = to_json(d);
  CHECK_FALSE(file.at("contenders")[0].contains("compiled"));
  CHECK(file.at("contenders")[1].at("compiled") == true);
  CHECK(read_run_document(file).contenders[1].compiled);
  CHECK(to_json(read_run_document(Json::parse(file.dump()))) == file);
  Json wrong = file;
  wrong["contenders"][1]["compiled"] = "yes";
  CHECK_THROWS_AS(read_run_document(wrong), std::invalid_argument);
}

TEST_CASE("a contender that is out has no ratio") {
  RunDocument d = run(Scenario::offline);
  d.contenders[1].out = "it crashed";
  CHECK_FALSE(times_the_baseline(d.scenario, d.contenders[1], d.contenders[0]));
  CHECK(to_json(d).at("contenders")[1].at("times_the_baseline").is_null());
}

TEST_CASE("bits of each sample are kept, and quality is minus their mean") {
  RunDocument d = run(Scenario::offline);
  for (ContenderRecord& c : d.contenders) {
    c.credit.clear(), c.minus_bits = {-1.5, 0, -2.25, -0.25};
    c.quality = Interval{-1, -2, 0};
  }
  d.text = {{"file", "mine.txt"}, {"bytes", 1000}, {"held_out", 600}};
  const Json file = to_json(d);
  CHECK(to_json(read_run_document(Json::parse(file.dump()))) == file);
  CHECK(read_run_document(file).contenders[1].minus_bits == d.contenders[1].minus_bits);
  CHECK_FALSE(to_json(run(Scenario::offline)).contains("text"));
  const auto refused = [&](auto&& change) {
    Json bad = file;
    change(bad["contenders"][1]);
    CHECK_THROWS_AS(read_run_document(bad), std::invalid_argument);
  };
  refused([](Json& c) { c["minus_bits"][0] = 1.5; });
  refused([](Json& c) { c["minus_bits"][0] = -1.4; });
  refused([](Json& c) { c["minus_bits"] = Json::array(); });
  refused([](Json& c) { c["quality"] = nullptr; });
}

TEST_CASE("wins of each sample are kept, and quality is their share") {
  RunDocument d = run(Scenario::offline);
  for (ContenderRecord& c : d.contenders) {
    c.credit.clear(), c.wins = {{6, 8}, {8, 6}};
    c.quality = Interval{0.875, 0.5, 1};
  }
  const Json file = to_json(d);
  CHECK(to_json(read_run_document(Json::parse(file.dump()))) == file);
  CHECK(read_run_document(file).contenders[1].wins == d.contenders[1].wins);
  CHECK_FALSE(to_json(run(Scenario::offline)).at("contenders")[0].contains("wins"));
  const auto refused = [&](auto&& change) {
    Json bad = file;
    change(bad["contenders"][1]);
    CHECK_THROWS_AS(read_run_document(bad), std::invalid_argument);
  };
  refused([](Json& c) { c["wins"]["positives"][0] = 7; });                               // the sums differ
  refused([](Json& c) { c["wins"] = {{"positives", {7, 8}}, {"negatives", {8, 7}}}; });  // another quality
  refused([](Json& c) {
    c["wins"] = {{"positives", {5, 9}}, {"negatives", {8, 6}}};
  });  // more than there are pairs
  refused([](Json& c) { c["wins"]["positives"] = {14}; });
  refused([](Json& c) { c["wins"] = {{"positives", Json::array()}, {"negatives", Json::array()}}; });
  refused([](Json& c) { c["wins"].erase("negatives"); });
  refused([](Json& c) { c["quality"] = nullptr; });
}

TEST_CASE("a file that is no run is refused with the expected schema") {
  const Json good = to_json(run(Scenario::single_stream));
  const auto refused = [&](auto&& change) {
    Json bad = good;
    change(bad);
    CHECK_THROWS_AS(read_run_document(bad), std::invalid_argument);
  };
  refused([](Json& j) { j["schema"] = "tinymlperf-run-0"; });
  refused([](Json& j) { j.erase("seed"); });
  refused([](Json& j) { j["scenario"] = "train"; });
  refused([](Json& j) { j["contenders"] = Json::array(); });
  refused([](Json& j) { j["contenders"][0]["turns"][0]["latencies"] = Json::array(); });
  refused([](Json& j) { j["contenders"][0]["turns"][0]["latencies"][0] = -1; });
  refused([](Json& j) { j["contenders"][0]["turns"][0]["seconds"] = "fast"; });
  refused([](Json& j) { j["contenders"][0]["turns"][0]["tokens"] = {1}; });
  // Whole numbers are whole, and not beyond what holds them.
  for (const Json& number : {Json(1e308), Json(-1e308), Json(1.5), Json(true), Json(uint64_t{1} << 63)}) {
    CAPTURE(number.dump());
    refused([&](Json& j) { j["hidden_samples"] = number; });
    refused([&](Json& j) { j["contenders"][1]["peak_bytes"] = number; });
    refused([&](Json& j) { j["contenders"][1]["turns"][0]["samples"] = number; });
    refused([&](Json& j) { j["contenders"][1]["turns"][0]["tokens"] = Json::array({1, 1, 1, number}); });
    if (number != Json(uint64_t{1} << 63)) refused([&](Json& j) { j["seed"] = number; });
  }
  refused([](Json& j) { j["seed"] = -1; });
  refused([](Json& j) { j["contenders"][1]["credit"] = std::string(1000001, '1'); });
  CHECK_THROWS_AS(scenario_named("nothing"), std::invalid_argument);
}
