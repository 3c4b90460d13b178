// Scenarios with real processes: an entry's worker answers as the entry does, each query is timed, and
// failures are reported.
#include <doctest/doctest.h>

#include <support/scene.hpp>
#include <tinymlperf/entries/bundled.hpp>
#include <tinymlperf/judge/scenarios/plugin_system.hpp>
#include <tinymlperf/judge/workers/training_worker.hpp>
#include <tinytorch/data/digits.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;
using channel::Session;

namespace {

int entry_worker(const hostile::Arguments& args) { return serve_worker(args.at(0)); }

// Answers after so many milliseconds, with three tokens before.
int talker(const hostile::Arguments& args) {
  return serve([&](const Query& query) -> Tensors {
    for (int i = 0; i < 3; ++i) {
      usleep(static_cast<useconds_t>(std::stoi(args.at(0)) * 1000));
      query.token(query.inputs.at(0));
    }
    return {};
  });
}

[[gnu::constructor]] void start_as_child(int argc, char** argv) {
  hostile::maybe_perform(argc, argv, {{"entry_worker", entry_worker}, {"talker", talker}});
}

const auto& machine() { return test::machines()[0].offers; }

// An untrained entry that every user may read.
struct WrittenEntry {
  explicit WrittenEntry(const test::Scene& scene, const char* name) : folder(scene.base / "entry") {
    for (const Recipe& recipe : bundled_recipes()) {
      if (recipe.spec.name != name) continue;
      tt::Generator random(3);
      save_entry(folder, recipe.spec, build_layers(recipe.spec, random)->state_dict());
    }
    std::filesystem::permissions(folder, std::filesystem::perms(0755));
    for (const auto& file : std::filesystem::directory_iterator(folder))
      std::filesystem::permissions(file, std::filesystem::perms(0644));
  }
  std::filesystem::path folder;
};

PluginSystem::Inputs images_of(const tt::Tensor& images) {
  return [&images](std::span<const int64_t> samples) {
    std::vector<float> values;
    for (const int64_t s : samples) {
      const auto one = images.slice(0, s, s + 1).to_vector<float>();
      values.insert(values.end(), one.begin(), one.end());
    }
    return channel::Tensors{channel::make_tensor({static_cast<int64_t>(samples.size()), 1, 28, 28}, values)};
  };
}

}  // namespace

TEST_CASE("an entry gives the same answers through its worker as in this process, in every scenario") {
  const test::Scene scene;
  const WrittenEntry entry(scene, "lenet");
  const tt::Tensor images = tt::digits(30, 9).images;
  const Network network = load_entry(entry.folder).network;
  std::vector<std::vector<float>> expected;
  for (int64_t i = 0; i < images.size(0); ++i)
    expected.push_back(network.forward(images.slice(0, i, i + 1)).to_vector<float>());

  sandbox::Policy policy = scene.policy;
  policy.read_only.push_back(entry.folder);
  policy.memory_bytes = int64_t{4} << 30;
  policy.wall_seconds = 120;
  policy.cpu_seconds = 120 * tinytorch::thread_count();
  Session session(scene.child({"entry_worker", entry.folder.string()}), policy, machine());
  session.prepare("dig", 20);
  for (const Plan& plan :
       {Plan{.scenario = Scenario::single_stream, .seconds = 0, .queries = 20},
        Plan{.scenario = Scenario::multi_stream, .seconds = 0, .queries = 5, .samples_per_query = 8},
        Plan{.scenario = Scenario::offline, .queries = 3, .samples_per_query = 30},
        Plan{.scenario = Scenario::server, .seconds = 0.2, .queries = 10, .rate = 200}}) {
    CAPTURE(name_of(plan.scenario));
    Plan with_samples = plan;
    with_samples.samples = images.size(0);
    std::vector<std::vector<float>> answers;
    PluginSystem system(session, images_of(images), [&](uint64_t id, bool, const channel::Tensors& tensors) {
      answers.resize(std::max<size_t>(answers.size(), id + 1));
      const auto values = tensors.at(0).values<float>();
      answers[id].assign(values.begin(), values.end());
    });
    const RunRecord run = run_scenario(system, with_samples);
    REQUIRE(run.queries.size() >= static_cast<size_t>(plan.queries));
    for (size_t q = 0; q < run.queries.size(); ++q) {
      const QueryRecord& record = run.queries[q];
      CHECK(record.answered > record.asked);
      CHECK(record.asked >= record.due - 1e-9);
      REQUIRE(answers[q].size() == 10 * record.samples.size());
      for (size_t i = 0; i < record.samples.size(); ++i) {
        const auto& want = expected[static_cast<size_t>(record.samples[i])];
        for (size_t c = 0; c < 10; ++c)
          REQUIRE(answers[q][10 * i + c] == doctest::Approx(want[c]).epsilon(1e-4));
      }
    }
    CHECK(samples_answered(run) > 0);
  }
  CHECK(session.finish(5).ending == sandbox::Ending::exited);
}

TEST_CASE("tokens are timed one by one") {
  const test::Scene scene;
  Session session(scene.child({"talker", "20"}), scene.policy, machine());
  session.prepare("", 5);
  const tt::Tensor images = tt::digits(2, 9).images;
  PluginSystem system(session, images_of(images), {});
  const RunRecord run =
      run_scenario(system, {.scenario = Scenario::generation, .seconds = 0, .queries = 3, .samples = 2});
  const TokenTimes times = token_times(run);
  REQUIRE(times.to_first.size() == 3);
  for (const double t : times.to_first) CHECK(t >= 0.019);
  for (const double t : times.per_token) CHECK(t >= 0.019);
  session.finish(5);
}

TEST_CASE("an entry that cannot be read ends with the reader's message") {
  const test::Scene scene;
  const WrittenEntry entry(scene, "linear");
  std::ofstream(entry.folder / "model.json") << "{\"schema\": 7}";
  sandbox::Policy policy = scene.policy;
  policy.read_only.push_back(entry.folder);
  policy.memory_bytes = int64_t{4} << 30;
  policy.wall_seconds = 120;
  policy.cpu_seconds = 120 * tinytorch::thread_count();
  Session session(scene.child({"entry_worker", entry.folder.string()}), policy, machine());
  std::string text;
  try {
    session.prepare("dig", 20);
  } catch (const channel::Broken& broken) {
    CHECK(broken.why == channel::Broken::Why::gave_up);
    text = broken.what();
  }
  CHECK(text.find("model.json") != std::string::npos);
  CHECK(text.find("schema") != std::string::npos);
}
