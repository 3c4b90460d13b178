// The train command: entries that load again, and what it refuses.
#include <doctest/doctest.h>

#include <filesystem>
#include <tinymlperf/commands/train.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;

namespace {

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tinymlperf_train_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("a model that was asked for is trained and can be loaded as an entry of its benchmark") {
  const Folder folder;
  struct Case {
    std::string benchmark, name;
  };
  for (const Case& c : {Case{"dig", "linear"}, Case{"kws", "ds-cnn-narrow"}, Case{"ad", "autoencoder-narrow"},
                        Case{"lm", "gpt-narrow"}}) {
    CAPTURE(c.benchmark);
    TrainCommand o;
    o.benchmark = c.benchmark, o.only = c.name, o.out = folder.path / c.benchmark;
    o.epochs = 1, o.size = TrainingSize{128, 32};
    REQUIRE(run_train(o) == kPass);
    CHECK(detail::read_entry(o.out / c.name, task_of(c.benchmark)).spec.name == c.name);
    CHECK(std::distance(std::filesystem::directory_iterator(o.out), {}) == 1);
  }
}

TEST_CASE("what cannot be trained is said") {
  const Folder folder;
  TrainCommand o;
  o.out = folder.path / "out";
  o.benchmark = "tea";
  CHECK(run_train(o) == kSetUpProblem);
  o.benchmark = "kws", o.only = "lenet";
  CHECK(run_train(o) == kSetUpProblem);
  CHECK_FALSE(std::filesystem::exists(o.out));
}
