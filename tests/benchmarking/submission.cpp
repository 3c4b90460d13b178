// Files of a submission: a result is read back exactly and throws with its place if invalid; a manifest is
// complete, valid JSON.
#include <tinytorch/benchmarking/submission.hpp>

#include <io/files.hpp>

namespace bm = tinytorch::benchmarking;
using bm::Quantity;
using files::refusal_of;

namespace {

bm::Turn turn(double scale) {
  bm::Turn t{6 * scale, 3, {}};
  for (int i = 3; i > 0; --i) t.latencies.push_back(scale * i / 10);
  return t;
}
bm::Result result(Quantity quantity = Quantity::p90_latency) {
  bm::Result r{"a \"machine\", 2 cores", 7, quantity, {{"lenet", {}}, {"mlp", {}}, {"none yet", {}}}};
  for (int i = 0; i < 14; ++i) {
    r.contenders[0].turns.push_back(turn(1 + 0.1 * (i % 3)));
    r.contenders[1].turns.push_back(turn(0.7 + 0.1 * (i % 2)));
  }
  return r;
}
// Replaces the first `old` in `text`.
std::string changed(std::string text, const std::string& old, const std::string& with) {
  REQUIRE(text.find(old) != std::string::npos);
  return text.replace(text.find(old), old.size(), with);
}
files::Refusal refused(const std::string& text) {
  return refusal_of([&] { (void)bm::read_result(text); });
}
bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a result is read back bit-identical") {
  for (const Quantity q : {Quantity::p90_latency, Quantity::throughput}) {
    const std::string text = bm::result_json(result(q));
    const bm::Result r = bm::read_result(text);
    CHECK(r.machine == "a \"machine\", 2 cores");
    CHECK(r.seed == 7);
    CHECK(r.quantity == q);
    CHECK(r.contenders.at(1).turns.at(3).latencies == result(q).contenders[1].turns[3].latencies);
    CHECK(r.contenders.at(2).turns.empty());
    CHECK(bm::result_json(r) == text);
  }
}

TEST_CASE("turns of servers and text generators are read back") {
  bm::Result r{"m", 0, Quantity::time_per_token, {{"lm", {{9, 2, {1, 3}, 0, {2, 3}, {0.5, 0.25}}}}}};
  const bm::Turn t = bm::read_result(bm::result_json(r)).contenders.at(0).turns.at(0);
  CHECK(t.tokens == std::vector<int64_t>{2, 3});
  CHECK(t.to_first == std::vector<double>{0.5, 0.25});
  r = {"m", 0, Quantity::rate, {{"server", {{9, 2, {1, 3}, 50}}}}};
  CHECK(bm::read_result(bm::result_json(r)).contenders.at(0).turns.at(0).rate == 50);
}

TEST_CASE("an invalid result throws with its place") {
  const std::string sound = bm::result_json(result());
  CHECK(refused(sound).code.empty());
  CHECK(refused(changed(sound, "tinytorch-result-1", "tinymlperf-run-1")).code == "TT-IO-04");
  const std::pair<const char*, const char*> wrong[] = {{R"("schema": "tinytorch-result-1",)", ""},
                                                       {R"("tinytorch-result-1")", "1"},
                                                       {R"("seed": 7)", R"("seed": -7)"},
                                                       {R"("seed": 7)", R"("seed": 7.5)"},
                                                       {R"("seed": 7,)", R"("seed": 7, "sead": 7,)"},
                                                       {"p90_latency", "p91_latency"},
                                                       {R"("seconds": )", R"("seconds": -)"},
                                                       {R"("samples": 3, )", ""},
                                                       {R"("samples": 3)", R"("samples": 0)"},
                                                       {R"("tokens": [])", R"("tokens": [1, 2])"},
                                                       {R"("value": )", R"("valve": )"},
                                                       {R"("low": )", R"("low": null, "high": )"}};
  for (const auto& change : wrong) {
    CAPTURE(change.second);
    CHECK(refused(changed(sound, change.first, change.second)).code == "TT-IO-03");
  }
  CHECK(holds(refused(changed(sound, R"("samples": 3)", R"("samples": "3")")).text,
              "contenders[0].turns[0].samples: an integer of at least 1"));
  CHECK(
      refused(
          R"({"schema": "tinytorch-result-1", "machine": "", "seed": 1, "quantity": "rate", "contenders": []})")
          .code == "TT-IO-03");
  CHECK(refused("[]").code == "TT-IO-03");
}

TEST_CASE("a number that does not follow from the samples throws and is named") {
  const std::string sound = bm::result_json(result());
  const auto forged = refused(changed(sound, R"("value": )", R"("value": 1)"));
  CHECK(forged.code == "TT-STAT-08");
  CHECK(holds(forged.text, "lenet: the value is claimed as"));
  CHECK(holds(refused(changed(sound, R"("times_the_baseline": null)",
                              R"("times_the_baseline": {"estimate": 9, "low": 8, "high": 10})"))
                  .text,
              "none yet: the ratio is claimed as 9.0"));
  CHECK(refused(changed(sound, R"("seconds": 6,)", R"("seconds": 7,)"))
            .code.empty());  // no number depends on it
  const std::string rates = bm::result_json(result(Quantity::throughput));
  CHECK(refused(changed(rates, R"("seconds": 6,)", R"("seconds": 60000,)")).code == "TT-STAT-08");
}

TEST_CASE("infinity throws, and -0 is written as 0") {
  CHECK(refusal_of([] { bm::detail::json_number(HUGE_VAL); }).code == "TT-STAT-01");
  CHECK(refusal_of([] { bm::detail::json_number(NAN); }).code == "TT-STAT-01");
  CHECK(bm::detail::json_number(-0.0) == "0");
}

TEST_CASE("records_of lists each file except the manifest, sorted by path") {
  const auto records = bm::records_of({{"b", "12"}, {"manifest.json", "{}"}, {"a/z", ""}, {"B", "1"}},
                                      [](std::string_view s) { return "digest of " + std::string(s); });
  REQUIRE(records.size() == 3);
  CHECK(records[0].path == "B");
  CHECK(records[1].path == "a/z");
  CHECK(records[2].path == "b");
  CHECK(records[2].bytes == 2);
  CHECK(records[2].sha256 == "digest of 12");
}

TEST_CASE("manifest_json writes all members") {
  bm::Manifest m;
  m.name = "mlp", m.author = "A \"B\" C", m.notes = "two\nlines", m.licence = "CC0-1.0";
  m.calibration = {3, 1}, m.passes = {"fold", "fuse"}, m.deterministic = false;
  m.files = {{"model.json", 2, "44"}, {"weights", 3, "55"}};
  m.claims = {{"accuracy", 0.1}};
  const std::string text = bm::manifest_json(m);
  const tinytorch::Json j = tinytorch::parse_json(tinytorch::as_bytes(text));
  REQUIRE(j.object());
  CHECK(j.object()->size() == 18);
  CHECK(*j.find("author")->string() == m.author);
  CHECK(*j.find("notes")->string() == m.notes);
  CHECK(j.find("quantizer")->find("calib_ids")->array()->at(0).integer() == 3);
  CHECK(j.find("files")->array()->at(1).find("bytes")->integer() == 3);
  CHECK(j.find("claims")->array()->at(0).find("value")->number()->real == 0.1);
  CHECK_FALSE(*j.find("deterministic")->boolean());
}
