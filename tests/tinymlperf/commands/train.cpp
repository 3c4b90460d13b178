// The command `train`: entries that can be loaded again, and options that it refuses.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <support/few.hpp>
#include <tinymlperf/commands/train.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/support/temporary_folder.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;

TEST_CASE("a model that was asked for is trained and can be loaded as an entry of its benchmark" *
          test::takes_minutes()) {
  const TemporaryFolder folder;
  struct Case {
    std::string benchmark, name;
  };
  for (const Case& c : {Case{"dig", "linear"}, Case{"kws", "ds-cnn-narrow"}, Case{"ad", "autoencoder-narrow"},
                        Case{"lm", "gpt-narrow"}}) {
    CAPTURE(c.benchmark);
    TrainCommand o;
    o.benchmark = c.benchmark, o.only = c.name, o.out = folder.path() / c.benchmark;
    o.epochs = 1, o.size = TrainingSize{128, 32};
    REQUIRE(run_train(o) == kPass);
    CHECK(detail::read_entry(o.out / c.name, task_of(c.benchmark)).spec.name == c.name);
    CHECK(std::distance(std::filesystem::directory_iterator(o.out), {}) == 1);
  }
}

TEST_CASE("where training is what is timed, the recipes are written and nothing is trained") {
  const TemporaryFolder folder;
  for (const char* benchmark : {"ttq-dig", "ttq-lm"}) {
    TrainCommand o;
    o.benchmark = benchmark, o.out = folder.path() / benchmark, o.epochs = 3;
    REQUIRE(run_train(o) == kPass);
    size_t written = 0;
    for (const Recipe& r : bundled_recipes(subject_of(benchmark))) {
      const auto entry = o.out / r.spec.name;
      CHECK_FALSE(std::filesystem::exists(entry / kWeightsFile));
      const EntrySpec spec = parse_entry(detail::read_limited(entry / kModelFile, limits::kJsonBytes),
                                         task_of(subject_of(benchmark)));
      CHECK(require_training(spec).epochs == 3);
      CHECK(spec.training->learning_rate == r.learning_rate);
      CHECK(spec.training->batch == r.batch);
      ++written;
    }
    CHECK(written > 1);
  }
}

TEST_CASE("a text of one's own is learned, and nothing of what is held out") {
  const TemporaryFolder folder;
  std::string text(8000, 'a');
  text += std::string(12000, 'b');
  std::ofstream(folder.path() / "mine.txt") << text;
  TrainCommand o;
  o.benchmark = "lm", o.only = "gpt-narrow", o.out = folder.path() / "out",
  o.text = folder.path() / "mine.txt";
  o.epochs = 30, o.size = TrainingSize{128, 32};
  REQUIRE(run_train(o) == kPass);
  const TextModel model = load_text_model(o.out / "gpt-narrow");
  const tt::Tensor window = tt::full({1, kContextBytes}, int64_t{'a'}, tt::i64);
  const auto scores = model.score(window).to_vector<float>();
  CHECK(std::ranges::max_element(scores) - scores.begin() == 'a');
  CHECK(scores['b'] < scores['a'] - 1);
  o.benchmark = "dig", o.only = "";
  CHECK(run_train(o) == kSetUpProblem);
}

TEST_CASE("a training that is impossible is refused with the reason") {
  const TemporaryFolder folder;
  TrainCommand o;
  o.out = folder.path() / "out";
  o.benchmark = "tea";
  CHECK(run_train(o) == kSetUpProblem);
  o.benchmark = "kws", o.only = "lenet";
  CHECK(run_train(o) == kSetUpProblem);
  CHECK_FALSE(std::filesystem::exists(o.out));
}
