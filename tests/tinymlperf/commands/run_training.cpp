// `run-training`, and its older spelling `run --benchmark ttq`: entries that are trained against the clock in
// sandboxed processes, and what is refused. This program is the workers as well.
#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <support/few.hpp>
#include <support/sanitized.hpp>
#include <support/start_as_worker.hpp>
#include <tinymlperf/commands/run.hpp>
#include <tinymlperf/commands/verify.hpp>
#include <tinymlperf/judge/workers/training_worker.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;

namespace {

// Each class at the mean of its pictures: learned in one pass.
constexpr const char* kClassMeans = R"(
#include <tinymlperf/entries/plugin.hpp>
using namespace tinymlperf;
int main() {
  return serve([](const Query& query) -> Tensors {
    const auto x = query.inputs.at(0).values<float>(), v = query.inputs.at(2).values<float>();
    const auto y = query.inputs.at(1).values<int64_t>();
    constexpr size_t kPixels = 784;
    std::vector<float> means(10 * kPixels), scores;
    std::vector<float> count(10);
    for (size_t i = 0; i < y.size(); ++i) count[static_cast<size_t>(y[i])] += 1;
    for (size_t i = 0; i < y.size(); ++i)
      for (size_t k = 0; k < kPixels; ++k) {
        const auto c = static_cast<size_t>(y[i]);
        means[c * kPixels + k] += x[i * kPixels + k] / count[c];
      }
    for (size_t i = 0; i < v.size() / kPixels; ++i)
      for (size_t c = 0; c < 10; ++c) {
        float score = 0;
        for (size_t k = 0; k < kPixels; ++k) {
          const float m = means[c * kPixels + k];
          score += m * (2 * v[i * kPixels + k] - m);
        }
        scores.push_back(score);
      }
    query.token(make_tensor({static_cast<int64_t>(scores.size()) / 10, 10}, scores));
    return {};
  });
})";

struct Learners {
  TemporaryFolder folder;
  std::filesystem::path path(const std::string& name) const { return folder.path() / name; }
  void write(const std::string& name, const char* file, const std::string& text) const {
    std::filesystem::create_directories(path(name));
    std::ofstream(path(name) / file) << text;
  }
  void trainable(const std::string& name, const Json& layers, const Json& training) const {
    Json model{{"schema", 1}, {"name", name}, {"input", {1, 28, 28}}, {"classes", 10}, {"layers", layers}};
    if (!training.is_null()) model["training"] = training;
    write(name, kModelFile, model.dump());
  }
};

const Json kLinear = Json::parse(R"([{"type": "flatten"}, {"type": "linear", "in": 784, "out": 10}])");

Json result_of(const RunOptions& o, int (*run)(const RunOptions&) = run_match) {
  REQUIRE(run(o) == kPass);
  std::ifstream file(o.out / "run.json");
  return Json::parse(file);
}

}  // namespace

TEST_CASE("recipe and plugin are trained in turns, and the file is verified" *
          doctest::skip(test::kSanitized) * test::takes_minutes()) {
  const Learners f;
  f.trainable("line", kLinear, {{"epochs", 20}, {"learning_rate", 5e-3}, {"batch", 16}});
  f.trainable("lazy", kLinear, {{"epochs", 2}, {"learning_rate", 0}, {"schedule", "constant"}});
  f.trainable("weights-only", kLinear, Json());
  f.write("means", kPluginFile, kClassMeans);
  RunOptions o;
  o.benchmark = "ttq", o.out = f.path("out"), o.seed = 5;
  o.entries = {f.path("line"), f.path("lazy"), f.path("weights-only"), f.path("means")};
  const Json run = result_of(o);
  CHECK(run.at("schema") == "tinymlperf-run-2");
  CHECK(run.at("benchmark") == "ttq-dig");
  CHECK(run.at("scenario") == "time_to_quality");
  const Json& all = run.at("contenders");
  CHECK_MESSAGE(all[0].at("out") == "", all[0].at("out").dump());
  CHECK(all[0].at("training").size() == 10);
  CHECK(all[0].at("value") > 0);
  std::set<uint64_t> seeds;
  for (const Json& r : all[0].at("training")) {
    seeds.insert(r.at("seed").get<uint64_t>());
    CHECK(r.at("qualities").back() >= run.at("quality_floor"));
  }
  CHECK(seeds.size() == 10);
  CHECK(all[1].at("training").size() == 2);
  CHECK(all[1].at("out").get<std::string>().find("did not reach the target") != std::string::npos);
  CHECK(all[2].at("out").get<std::string>().find("how the model is to be trained") != std::string::npos);
  CHECK_MESSAGE(all[3].at("out") == "", all[3].at("out").dump());
  CHECK(all[3].at("tier") == "T2");
  for (const Json& r : all[3].at("training")) CHECK(r.at("times").size() == 1);
  CHECK_FALSE(all[3].at("times_the_baseline").is_null());
  CHECK(run_verify_file(o.out / "run.json") == kPass);
  Json forged = run;
  forged["contenders"][3]["times_the_baseline"]["low"] = 1000;
  std::ofstream(f.path("forged.json")) << forged.dump();
  CHECK(run_verify_file(f.path("forged.json")) == kFailed);
}

TEST_CASE("a model of text is trained too" * doctest::skip(test::kSanitized) * test::takes_minutes()) {
  const Learners f;
  f.write("gpt", kModelFile,
          R"({"schema": 1, "benchmark": "lm", "name": "gpt", "type": "gpt", "context": 64, "features": 8,
              "layers": 1, "heads": 1, "training": {"epochs": 4, "learning_rate": 0.02, "batch": 16}})");
  RunOptions o;
  o.benchmark = "ttq", o.out = f.path("out"), o.entries = {f.path("gpt")};
  const Json run = result_of(o, run_training_match);
  CHECK(run.at("benchmark") == "ttq-lm");
  const Json& c = run.at("contenders")[0];
  CHECK_MESSAGE(c.at("out") == "", c.at("out").dump());
  CHECK(c.at("quality").at("low") >= run.at("quality_floor"));
}

TEST_CASE("a training that is impossible is refused before anything runs") {
  const Learners f;
  f.trainable("line", kLinear, {{"epochs", 2}});
  std::filesystem::create_directory(f.path("empty"));
  RunOptions o;
  o.out = f.path("out");
  const auto refused = [&](const std::string& benchmark, const std::string& scenario, const char* entry) {
    o.benchmark = benchmark, o.scenario = scenario, o.entries = {f.path(entry)};
    CHECK(run_match(o) == kSetUpProblem);
  };
  refused("ttq", "", "empty");
  refused("ttq", "offline", "line");
  refused("ttq-kws", "", "line");
  refused("kws", "time_to_quality", "line");
  refused("ttq-ttq-dig", "", "line");
  o.run_class = "huge";
  refused("ttq", "", "line");
  CHECK_FALSE(std::filesystem::exists(o.out));
}
