// A whole race without training: small entries on disk, good and broken ones, and the files that the race
// writes.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <support/few.hpp>
#include <support/linear_entry.hpp>
#include <support/refusals.hpp>
#include <support/sanitized.hpp>
#include <support/start_as_worker.hpp>
#include <tinymlperf/commands/race.hpp>
#include <tinymlperf/commands/verify.hpp>
#include <tinymlperf/support/temporary_folder.hpp>

namespace fs = std::filesystem;
using namespace tinymlperf;
using test::holds;
using test::linear_spec;
using test::put_entry;

namespace {

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

RaceOptions options(const TemporaryFolder& f) {
  RaceOptions o;
  o.out = f.path() / "out";
  o.entries = {f.path() / "entries"};
  o.baseline = "base";
  o.floor = 0;
  o.quick = o.no_train = true;
  o.seed = 77;
  return o;
}

// The reason recorded for the entry in that folder.
std::string reason_for(const Json& race, const std::string& folder) {
  for (const Json& r : race.at("refused"))
    if (fs::path(r.at("path").get<std::string>()).filename() == folder) return r.at("reason");
  return "not refused";
}

}  // namespace

TEST_CASE("an entry survives being saved and loaded: the same answers, and a byte count of the real file") {
  const TemporaryFolder f;
  tt::Generator random(5);
  const EntrySpec spec = linear_spec("kept");
  const auto layers = build_layers(spec, random);
  save_entry(f.path() / "kept", spec, layers->state_dict());
  const Entry entry = load_entry(f.path() / "kept");
  CHECK(entry.file_bytes == static_cast<int64_t>(fs::file_size(f.path() / "kept" / "weights.safetensors")));
  CHECK(entry.file_bytes > 7850 * 4);
  const tt::Tensor x = tt::digits(3, 9).images;
  CHECK(entry.network.forward(x).to_vector<float>() == layers->forward(x).to_vector<float>());
}

TEST_CASE("good entries are raced, every broken one is refused with its own reason" *
          doctest::skip(test::kSanitized)) {
  const TemporaryFolder f;
  const fs::path in = f.path() / "entries";
  put_entry(in / "a_base", "base", 1);
  put_entry(in / "b_other", "other", 2);
  for (const char* name :
       {"bad_json", "bad_layer", "bad_shape", "extra", "missing", "truncated", "absurd", "empty_weights"})
    put_entry(in / name, name, 3);
  put_entry(in / "z_twin", "base", 4);
  const std::string weights = read(in / "extra" / "weights.safetensors");
  write(in / "bad_json" / "model.json", "{\"schema\": 1,");
  write(in / "bad_layer" / "model.json", R"({"schema": 1, "name": "l", "input": [1, 28, 28], "classes": 10,
                                             "layers": [{"type": "attention"}]})");
  write(in / "bad_shape" / "model.json",
        R"({"schema": 1, "name": "s", "input": [1, 28, 28], "classes": 10, "layers":
        [{"type": "flatten"}, {"type": "linear", "in": 784, "out": 20}, {"type": "linear", "in": 20, "out": 10}]})");
  tt::Generator random(6);
  tt::StateDict state = build_layers(linear_spec("extra"), random)->state_dict();
  state["backdoor"] = tt::zeros({3});
  save_entry(in / "extra", linear_spec("extra"), state);
  fs::remove(in / "missing" / "weights.safetensors");
  write(in / "truncated" / "weights.safetensors", weights.substr(0, weights.size() - 100));
  write(in / "absurd" / "weights.safetensors", std::string(8, '\xff') + weights.substr(8));
  write(in / "empty_weights" / "weights.safetensors", "");

  REQUIRE(run_race(options(f)) == kPass);
  const Json race = Json::parse(read(f.path() / "out" / "race.json"));
  REQUIRE(race.at("results").size() == 2);
  CHECK(race.at("refused").size() == 9);
  CHECK(holds(reason_for(race, "bad_json"), "model.json: expected JSON"));
  CHECK(holds(reason_for(race, "bad_layer"), "layers[0].type: expected linear, conv2d"));
  CHECK(holds(reason_for(race, "bad_shape"), "1.weight: expected shape [20, 784], found shape [10, 784]"));
  CHECK(holds(reason_for(race, "extra"), "an extra tensor \"backdoor\""));
  CHECK(holds(reason_for(race, "missing"), "expected a folder with model.json and weights.safetensors"));
  for (const char* name : {"truncated", "absurd", "empty_weights"}) {
    CAPTURE(name);
    const std::string reason = reason_for(race, name);
    CHECK(holds(reason, "weights.safetensors"));
    CHECK(holds(reason, "expected"));
    CHECK(holds(reason, "found"));
  }
  CHECK(holds(reason_for(race, "z_twin"), "a name that no earlier entry has"));
}

TEST_CASE("the files a race writes: scores that verify, the seed, the page, nothing temporary" *
          doctest::skip(test::kSanitized) * test::takes_minutes()) {
  const TemporaryFolder f;
  put_entry(f.path() / "entries" / "base", "base", 1);
  put_entry(f.path() / "entries" / "other", "other", 2);
  REQUIRE(run_race(options(f)) == kPass);
  const Json race = Json::parse(read(f.path() / "out" / "race.json"));
  REQUIRE(race.at("matches").size() == 2);
  CHECK(race.at("matches")[0].at("scenario") == "single_stream");
  CHECK(race.at("matches")[1].at("scenario") == "offline");
  CHECK(race.at("matches")[0].at("seed") == 77);
  CHECK(race.at("matches")[1].at("seed") != 77);  // another hidden set
  CHECK(race.at("machine").at("threads").get<int64_t>() >= 1);
  for (const Json& match : race.at("matches"))
    for (const Json& c : match.at("contenders")) {
      CHECK(c.at("turns").size() == 12);
      CHECK(c.at("credit").get<std::string>().size() == 256);
      // Untrained on ten classes: near one in ten, and certainly not everything.
      CHECK(c.at("quality").at("estimate") < 0.5);
      // Weights, a picture and ten scores, however the system counts its pages.
      CHECK(c.at("peak_bytes") >= 7850 * 4);
      CHECK(c.at("peak_bytes") < 7850 * 4 + 4 * 784 * 4 + 4096);
    }
  for (const Json& entry : race.at("entries")) CHECK(entry.at("parameters") == 7850);
  CHECK(holds(read(f.path() / "out" / "race.html"), "256 + 256 hidden samples, seeds 77 and"));
  for (const auto& file : fs::recursive_directory_iterator(f.path()))
    CHECK(file.path().extension() != ".tmp");
  CHECK(run_verify_file(f.path() / "out" / "race.json") == kPass);

  Json forged = race;
  forged["results"][0]["score"]["low"] = 1e6;
  write(f.path() / "forged.json", forged.dump());
  CHECK(run_verify_file(f.path() / "forged.json") == kFailed);
  CHECK(run_verify_file(f.path() / "absent.json") == kSetUpProblem);
  write(f.path() / "text.json", "not json");
  CHECK(run_verify_file(f.path() / "text.json") == kSetUpProblem);
}

TEST_CASE(
    "a student's program answers in the race, for the same entries or for some of its own, and is named" *
    doctest::skip(test::kSanitized) * test::takes_minutes()) {
  const TemporaryFolder f;
  put_entry(f.path() / "entries" / "base", "base", 1);
  put_entry(f.path() / "entries" / "other", "other", 2);
  RaceOptions o = options(f);
  o.worker = "/proc/self/exe";
  REQUIRE(run_race(o) == kPass);
  const auto names = [&] {
    const Json document = Json::parse(read(f.path() / "out" / "race.json"));
    std::vector<std::string> out;
    for (const Json& e : document.at("entries")) out.push_back(e.at("name"));
    return out;
  };
  CHECK(names() == std::vector<std::string>{"base", "other", "base-student", "other-student"});
  const Json race = Json::parse(read(f.path() / "out" / "race.json"));
  for (const Json& match : race.at("matches")) {
    const Json& c = match.at("contenders");
    REQUIRE(c.size() == 4);
    for (const size_t i : {0u, 1u}) CHECK_FALSE(c[i].contains("worker"));
    for (const size_t i : {2u, 3u}) {
      CHECK(c[i].at("worker") == "/proc/self/exe");
      CHECK(c[i].at("replaced") == Json{"tinytorch/tensor/strides.hpp"});
      CHECK(c[i].at("tier") == "T2");
      CHECK(c[i].at("credit") == c[i - 2].at("credit"));  // this very program, on the same weights
    }
  }
  CHECK(holds(race.at("notes").dump(), "other-student replaces headers of the library: "));
  CHECK(run_verify_file(f.path() / "out" / "race.json") == kPass);
  put_entry(f.path() / "mine" / "base", "base", 3);
  write(f.path() / "mine" / "broken" / "model.json", "{");
  o.student_entries = {f.path() / "mine"};
  REQUIRE(run_race(o) == kPass);
  CHECK(names() == std::vector<std::string>{"base", "other", "base-student"});
  o.worker = f.path() / "none";
  CHECK(run_race(o) == kSetUpProblem);
}

TEST_CASE("a race that cannot be run as asked says so with status 2") {
  const TemporaryFolder f;
  put_entry(f.path() / "entries" / "other", "other", 2);
  CHECK(run_race(options(f)) == kSetUpProblem);  // no entry is named "base"
  CHECK_FALSE(fs::exists(f.path() / "out" / "race.json"));
  for (const uint64_t seed : {kTrainingSeed, kValidationSeed}) {
    RaceOptions o = options(f);
    o.seed = seed;
    CHECK(run_race(o) == kSetUpProblem);
  }
}

TEST_CASE("training lowers the loss, raises accuracy on other samples, and repeats bit for bit") {
  const TrainingData data = training_data("dig", {640, 256});
  Recipe recipe{linear_spec("line"), 4, 5e-3};
  const auto run = [&](uint64_t seed) { return train(recipe, data, {.seed = seed}, [](const auto&) {}); };
  const Trained first = run(1), again = run(1), other = run(2);
  REQUIRE(first.curve.loss.size() == 4);
  CHECK(first.curve.loss[3] < 0.8 * first.curve.loss[0]);
  CHECK(first.curve.validation[3] > 0.4);
  CHECK(first.curve.loss == again.curve.loss);
  CHECK(first.curve.loss != other.curve.loss);
  const auto weights = [](const Trained& t) {
    return t.layers->state_dict().at("1.weight").to_vector<float>();
  };
  CHECK(weights(first) == weights(again));
}
