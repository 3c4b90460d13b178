// Training to a target in a sandboxed process: an entry that learns, one that does not, and one that cannot
// be read.
#include <tinymlperf/judge/scenarios/plugin_learner.hpp>

#include <doctest/doctest.h>

#include <support/scene.hpp>
#include <tinymlperf/benchmarks/digits.hpp>
#include <tinymlperf/judge/workers/training_worker.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

int trainer(const hostile::Arguments& args) { return serve_worker(args.at(0)); }

[[gnu::constructor]] void start_as_child(int argc, char** argv) {
  hostile::maybe_perform(argc, argv, {{"trainer", trainer}});
}

Json linear_model(const Json& training) {
  Json document = Json::parse(R"({"schema": 1, "name": "line", "input": [1, 28, 28], "classes": 10,
                                  "layers": [{"type": "flatten"}, {"type": "linear", "in": 784, "out": 10}]})");
  document["training"] = training;
  return document;
}

TrainingRun run(const Json& document, double target) {
  const test::Scene scene;
  const auto folder = scene.base / "entry";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / kModelFile) << document.dump();
  std::filesystem::permissions(folder, std::filesystem::perms(0755));
  sandbox::Policy policy = scene.policy;
  policy.read_only.push_back(folder);
  policy.memory_bytes = int64_t{4} << 30;
  DigitsBenchmark validation;
  validation.draw(200, 77);
  std::vector<int64_t> all(200);
  std::iota(all.begin(), all.end(), int64_t{0});
  const auto [samples, labels] = validation.generate(640, 78);
  const auto classes = labels.to_vector<int64_t>();
  auto session = std::make_unique<channel::Session>(scene.child({"trainer", folder.string()}), policy,
                                                    test::machines()[0].offers);
  session->prepare("ttq-dig", 20);
  PluginLearner learner(
      std::move(session),
      {channel_tensor_of(samples), channel::make_tensor<int64_t>(channel::DType::i64, {640}, classes),
       validation.inputs(all)[0]},
      validation.answer_size());
  return train_to_target(learner, validation, {.target = target, .seconds = 20}, 9);
}

}  // namespace

TEST_CASE("an entry is trained until the judge's own validation reaches the target" *
          doctest::skip(test::kSanitized)) {
  for (const std::string optimizer : {"adamw", "sgd"}) {
    CAPTURE(optimizer);
    const TrainingRun r =
        run(linear_model(
                {{"epochs", 20}, {"learning_rate", 5e-3}, {"optimizer", optimizer}, {"schedule", "cosine"}}),
            0.4);
    CHECK_MESSAGE(r.seconds(), r.ended);
    CHECK(r.best() >= 0.4);
    CHECK(r.attempts() >= 1);
  }
}

TEST_CASE("one that does not learn ends without a time" * doctest::skip(test::kSanitized)) {
  const TrainingRun r =
      run(linear_model({{"epochs", 3}, {"learning_rate", 0}, {"schedule", "constant"}}), 0.9);
  CHECK_FALSE(r.seconds());
  CHECK(r.attempts() == 3);
  CHECK(r.best() < 0.5);
}

TEST_CASE("a recipe is read with suspicion" * doctest::skip(test::kSanitized)) {
  const auto reason = [](const Json& training) {
    try {
      parse_entry(linear_model(training).dump());
    } catch (const Refusal& r) {
      return r.where;
    }
    return std::string("accepted");
  };
  CHECK(reason({{"epochs", 5}}) == "accepted");
  CHECK(reason(Json::object()) == "training.epochs");
  CHECK(reason(3) == "training");
  CHECK(reason({{"epochs", 1001}}) == "training.epochs");
  CHECK(reason({{"epochs", 5}, {"batch", 1}}) == "training.batch");
  CHECK(reason({{"epochs", 5}, {"learning_rate", -1}}) == "training.learning_rate");
  CHECK(reason({{"epochs", 5}, {"weight_decay", "x"}}) == "training.weight_decay");
  CHECK(reason({{"epochs", 5}, {"optimizer", "lion"}}) == "training.optimizer");
  CHECK(reason({{"epochs", 5}, {"schedule", "cyclic"}}) == "training.schedule");
  CHECK(reason({{"epochs", 5}, {"lr", 1}}) == "training");
  const EntrySpec spec = parse_entry(linear_model({{"epochs", 5}, {"optimizer", "sgd"}}).dump());
  CHECK(spec.training->optimizer == "sgd");
  CHECK(tinymlperf::to_json(parse_entry(tinymlperf::to_json(spec).dump())) == tinymlperf::to_json(spec));
  Json none = linear_model({});
  none.erase("training");
  CHECK_THROWS_WITH_AS(run(none, 0.4), doctest::Contains("how the model is to be trained"), channel::Broken);
}
