// Entries answered by their worker in a process of its own: a text continued token by token, and scores of
// clips.
#include <doctest/doctest.h>

#include <support/few.hpp>
#include <support/scene.hpp>
#include <tinymlperf/benchmarks/benchmarks.hpp>
#include <tinymlperf/judge/match/match.hpp>
#include <tinymlperf/judge/scenarios/plugin_system.hpp>
#include <tinymlperf/judge/workers/training_worker.hpp>
#include <tinymlperf/training/train.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

int entry_worker(const hostile::Arguments& args) { return serve_worker(args.at(0)); }

[[gnu::constructor]] void start_as_child(int argc, char** argv) {
  hostile::maybe_perform(argc, argv, {{"entry_worker", entry_worker}});
}

// The small bundled entry of a benchmark, untrained, and a session with its worker.
struct Worker {
  std::filesystem::path folder;
  std::unique_ptr<channel::Session> session;
  // A match prepares by itself.
  Worker(const test::Scene& scene, const std::string& benchmark, bool prepared = true)
      : folder(scene.base / "entry") {
    const Recipe recipe = bundled_recipes(benchmark).back();
    tt::Generator random(3);
    save_entry(folder, recipe.spec, build_model(recipe.spec, random, 3)->state_dict());
    std::filesystem::permissions(folder, std::filesystem::perms(0755));
    for (const auto& file : std::filesystem::directory_iterator(folder))
      std::filesystem::permissions(file, std::filesystem::perms(0644));
    sandbox::Policy policy = scene.policy;
    policy.read_only.push_back(folder);
    policy.memory_bytes = int64_t{4} << 30;
    policy.wall_seconds = 120;
    policy.cpu_seconds = 120 * tinytorch::thread_count();
    session = std::make_unique<channel::Session>(scene.child({"entry_worker", folder.string()}), policy,
                                                 test::machines()[0].offers);
    if (prepared) session->prepare(benchmark, 20);
  }
  channel::Tensors answer(uint64_t id, const channel::Tensors& inputs) {
    session->ask(id, inputs);
    const channel::Event event = session->next(20);
    REQUIRE(event.frame.kind == channel::Kind::answer);
    return channel::parse_tensors(event.frame.payload);
  }
};

}  // namespace

TEST_CASE("a prompt is continued token by token, each the likeliest by the entry's own scores" *
          doctest::skip(test::kSanitized)) {
  const test::Scene scene;
  const auto benchmark = make_benchmark("lm");
  benchmark->draw(10, 77);
  const Generation& generation = *benchmark->generation();
  Worker worker(scene, "lm");
  std::vector<std::vector<channel::Tensors>> streamed(4);
  std::vector<channel::Tensors> answers(4);
  // The third prompt is the second one with a salt, and the last one begins like both.
  const auto prompt = [&](int64_t sample) -> Prompt {
    const std::string text = generation.beginning(sample == 0 ? 0 : 1);
    if (sample < 2) return {text, kGeneratedBytes};
    return {text + (sample == 3 ? "tail" : ""), kGeneratedBytes - 4, "salt"};
  };
  PluginSystem system(
      *worker.session, [&](std::span<const int64_t> samples) { return to_tensors(prompt(samples[0])); },
      [&](uint64_t id, bool last, const channel::Tensors& tensors) {
        if (last)
          answers.at(id) = tensors;
        else
          streamed.at(id).push_back(tensors);
      });
  int64_t next = 0;
  const RunRecord run = run_scenario(system, {.scenario = Scenario::generation,
                                              .seconds = 0,
                                              .queries = 4,
                                              .samples = 10,
                                              .next_samples = [&](int64_t) { return std::vector{next++}; }});
  CHECK(token_times(run).to_first.size() == 4);
  uint64_t id = 1000;
  for (size_t q = 0; q < 4; ++q) {
    const Prompt p = prompt(run.queries[q].samples[0]);
    const std::string continuation = continuation_of(p.tokens, streamed[q], answers[q]);
    REQUIRE(std::ssize(continuation) == p.tokens);
    for (const size_t place : {size_t{0}, size_t{7}, continuation.size() - 1}) {
      const auto scores = worker.answer(++id, generation.before(p.text + continuation.substr(0, place)));
      const auto values = scores.at(0).values<float>();
      CHECK(generation.likeliest({values.begin(), values.end()}, static_cast<uint8_t>(continuation[place])));
    }
  }
  CHECK(worker.session->finish(5).ending == sandbox::Ending::exited);
}

TEST_CASE("a clip's answer is the error of the entry's restorations" * doctest::skip(test::kSanitized)) {
  const test::Scene scene;
  const auto benchmark = make_benchmark("ad");
  benchmark->draw(3, 77);
  Worker worker(scene, "ad");
  const std::vector<int64_t> asked{2, 0};
  const channel::Tensors inputs = benchmark->inputs(asked);
  const channel::Tensors answer = worker.answer(1, inputs);
  REQUIRE(answer.size() == 1);
  CHECK(answer[0].shape == std::vector<int64_t>{2, 1});

  const tt::NoGrad no_grad;
  const Entry entry = load_entry(worker.folder, task_of("ad"));
  const tt::Tensor x = tensor_of(inputs[0]);
  for (int64_t clip = 0; clip < 2; ++clip) {
    const tt::Tensor windows = x.select(0, clip).contiguous();  // [12, 640]
    const auto restored = entry.network.forward(windows).to_vector<float>(),
               heard = windows.to_vector<float>();
    double sum = 0;
    for (size_t i = 0; i < heard.size(); ++i) sum += std::pow(double{restored[i]} - heard[i], 2);
    CHECK(answer[0].values<float>()[static_cast<size_t>(clip)] ==
          doctest::Approx(sum / static_cast<double>(heard.size())).epsilon(1e-4));
  }
  CHECK(worker.session->finish(5).ending == sandbox::Ending::exited);
}

TEST_CASE("a match of two entries of every benchmark" * doctest::skip(test::kSanitized) *
          test::takes_minutes()) {
  constexpr RunClass kTiny{"tiny", 0.02, 2, 6, 32};
  for (const Descriptor* about : descriptors()) {
    const auto benchmark = about->judged(), fresh = about->judged();
    CAPTURE(benchmark->id());
    benchmark->draw(kTiny.hidden, 77);
    fresh->draw(kTiny.hidden, 78);
    const test::Scene scenes[2];
    std::vector<Contender> contenders(2);
    for (size_t i = 0; i < 2; ++i) contenders[i].session = Worker(scenes[i], benchmark->id(), false).session;
    Match({*benchmark, *fresh}, Scenario::multi_stream, kTiny, 5)(contenders);
    for (const Contender& c : contenders) {
      CHECK_MESSAGE(c.record.out.empty(), c.record.out);
      CHECK(c.record.turns.size() == 12);
      REQUIRE(c.record.quality);
      CHECK(c.record.quality->estimate == contenders[0].record.quality->estimate);  // the same entry
      CHECK(c.record.quality->estimate < benchmark->floor());                       // and untrained
    }
    CHECK(times_the_baseline(Scenario::multi_stream, contenders[1].record, contenders[0].record));
  }
}
