// Tests of manifest.json: it is read as it was written, and each kind of wrong field is refused with its key.
#include <doctest/doctest.h>

#include <functional>
#include <support/bundles.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/bundle/manifest.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::bundle;
using tinytorch::benchmarking::manifest_json;

namespace {

Json sound() {
  Manifest m = test::manifest("mlp");
  m.team = "Robert'); DROP TABLE users;--";
  m.notes = "two\nlines, \xC3\xBC";
  m.quantizer = "minmax", m.quantizer_text = "scales of each channel", m.calibration = {0, 5, 7};
  m.weights = "i8";
  m.passes = {"fold", "fuse"};
  m.files = {{"model.json", 2, sha256("{}")}, {"src/train.cpp", 0, sha256("")}};
  m.claims = {{"accuracy", 0.97}, {"gain", -1.5}};
  m.deterministic = false;
  return Json::parse(manifest_json(m));
}

// The key at which the changed manifest is refused, or "accepted".
std::string where(const std::function<void(Json&)>& change) {
  Json j = sound();
  change(j);
  try {
    parse_manifest(j.dump());
  } catch (const Refusal& r) {
    CHECK(r.file == "manifest.json");
    return r.where;
  }
  return "accepted";
}

}  // namespace

TEST_CASE("sha256() matches a published test vector") {
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(is_sha256(sha256("")));
  CHECK_FALSE(is_sha256(std::string(64, 'G')));
}

TEST_CASE("a manifest is read as it was written") {
  const Json j = sound();
  CHECK(Json::parse(manifest_json(parse_manifest(j.dump()))) == j);
  const Manifest m = parse_manifest(j.dump());
  CHECK(m.team == "Robert'); DROP TABLE users;--");
  CHECK(m.calibration == std::vector<int64_t>{0, 5, 7});
  CHECK(m.files[1].path == "src/train.cpp");
}

TEST_CASE("wrong fields are refused with their key") {
  const std::string long_text(3000, 'x');
  CHECK(where([](Json&) {}) == "accepted");
  CHECK(test::holds(test::refusal([] { (void)parse_manifest(std::string(1000000, '[')); }),
                    "at most 64 levels"));
  CHECK(where([](Json& j) { j["extra"] = 1; }) == "");
  CHECK(where([](Json& j) { j["schema"] = 2; }) == "schema");
  CHECK(where([](Json& j) { j["name"] = "a b"; }) == "name");
  CHECK(where([](Json& j) { j["name"] = std::string(33, 'a'); }) == "name");
  CHECK(where([](Json& j) { j.erase("name"); }) == "name");
  CHECK(where([](Json& j) { j["author"] = ""; }) == "author");
  CHECK(where([](Json& j) { j["author"] = "two\nlines"; }) == "author");
  CHECK(where([](Json& j) { j["author"] = std::string("nul\0", 4); }) == "author");
  CHECK(where([&](Json& j) { j["team"] = long_text; }) == "team");
  CHECK(where([&](Json& j) { j["notes"] = long_text; }) == "notes");
  CHECK(where([](Json& j) { j["notes"] = "\x1b[31m"; }) == "notes");
  CHECK(where([](Json& j) { j["division"] = "shut"; }) == "division");
  CHECK(where([](Json& j) { j["tier"] = "T9"; }) == "tier");
  CHECK(where([](Json& j) { j["tier"] = 0; }) == "tier");
  CHECK(where([](Json& j) { j["benchmark"] = Json::array(); }) == "benchmark");
  CHECK(where([](Json& j) { j["benchmark"] = {"dig", "dig"}; }) == "benchmark");
  CHECK(where([](Json& j) { j["benchmark"] = {"../x"}; }) == "benchmark");
  CHECK(where([](Json& j) { j["benchmark"] = {1}; }) == "benchmark");
  CHECK(where([](Json& j) { j["scenario"] = "offline"; }) == "scenario");
  CHECK(where([](Json& j) { j["hw_class"] = "gpu()"; }) == "hw_class");
  CHECK(where([](Json& j) { j["hw_class"] = "gpu(H200)"; }) == "accepted");
  CHECK(where([](Json& j) { j["dtype"]["weights"] = "i5"; }) == "dtype.weights");
  CHECK(where([](Json& j) { j["dtype"]["more"] = 1; }) == "dtype");
  CHECK(where([](Json& j) { j["dtype"] = 1; }) == "dtype");
  CHECK(where([](Json& j) { j["quantizer"]["calib_ids"] = {-1}; }) == "quantizer.calib_ids");
  CHECK(where([](Json& j) { j["quantizer"]["calib_ids"] = Json(std::vector<int>(10001, 1)); }) ==
        "quantizer.calib_ids");
  CHECK(where([](Json& j) { j["passes"] = {"a", "a"}; }) == "passes");
  CHECK(where([](Json& j) { j["files"] = Json::array(); }) == "files");
  CHECK(where([](Json& j) { j["files"][0]["path"] = "../x"; }) == "files[0].path");
  CHECK(where([](Json& j) { j["files"][1]["path"] = "manifest.json"; }) == "files[1].path");
  CHECK(where([](Json& j) { j["files"][1]["bytes"] = -1; }) == "files[1].bytes");
  CHECK(where([](Json& j) { j["files"][1]["sha256"] = "00"; }) == "files[1].sha256");
  CHECK(where([](Json& j) { j["files"][1]["mode"] = 7; }) == "files[1]");
  CHECK(where([](Json& j) { j["claims"][0]["value"] = "much"; }) == "claims[0].value");
  CHECK(where([](Json& j) { j["claims"][0].erase("value"); }) == "claims[0].value");
  CHECK(where([](Json& j) { j["claims"][0]["value"] = 1e300; }) == "claims[0].value");
  CHECK(where([](Json& j) { j["deterministic"] = 1; }) == "deterministic");
  CHECK(where([](Json& j) { j.erase("licence"); }) == "licence");
  CHECK(where([](Json& j) { j = Json::array(); }) == "");
  CHECK_THROWS_AS(parse_manifest("{"), Refusal);
  CHECK_THROWS_AS(parse_manifest("\xff"), Refusal);
}
